"""Every run is in exactly one chunk, a chunk is an experiment by itself, and what fits
into memory is counted.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.experiment import load
from headgate.simulation import cut as cutting
from headgate.simulation import schedule
from headgate.simulation.cut import (
    SHARE,
    Footprint,
    cut,
    footprint,
    most_runs,
    runs_of,
    work,
)
from headgate.simulation.pools import Pool
from headgate.simulation.slices import Slices

KINDS = ["oracle", "acdpp", "dpp", "constant", "hybrid", "headgate"]


def experiment(policies=3, seeds=4, *more):
    listed = ", ".join(f'"{name}"' for name in KINDS[:policies])
    return load(
        "digits",
        [f"run.seeds={seeds}", "run.first_seed=5", f"run.policies=[{listed}]", *more],
    )


@given(st.integers(1, 6), st.integers(1, 25), st.integers(1, 200))
def test_every_run_is_in_exactly_one_chunk_and_none_is_too_large(policies, seeds, most):
    whole = experiment(policies, seeds)
    chunks = cut(whole, most)
    runs = [
        (name, int(seed))
        for chunk in chunks
        for name in chunk.policies
        for seed in chunk.seeds
    ]
    assert runs == [
        (name, int(seed)) for name in whole.policies for seed in whole.seeds
    ]
    sizes = [runs_of(chunk) for chunk in chunks]
    assert max(sizes) <= most
    assert len(chunks) == 1 or most < runs_of(whole)
    for chunk in chunks:
        assert np.array_equal(
            chunk.seeds, np.arange(chunk.seeds[0], chunk.seeds[0] + len(chunk.seeds))
        )


def test_light_work_stays_together_and_heavy_work_is_cut(monkeypatch):
    light, heavy = (
        experiment(3, 4, "run.rounds=10"),
        experiment(3, 20, "run.rounds=10000"),
    )
    assert work(light) < cutting.LIGHT < work(heavy)
    assert most_runs(light, "gram") == 12
    assert most_runs(heavy, "gram") == 40
    assert most_runs(heavy, "compiled") == 2
    assert most_runs(light, "batched", fit=7) == most_runs(heavy, "batched", fit=7) == 7
    assert most_runs(heavy, "triton", fit=1000) == cutting.MOST_NETS


@pytest.mark.parametrize(
    ("key", "less", "more"),
    [("run.rounds", 10, 20), ("run.seeds", 2, 4), ("training.evaluate_every", 9, 1)],
)
def test_more_work_is_estimated_as_more(key, less, more):
    assert work(experiment(2, 4, f"{key}={less}")) < work(
        experiment(2, 4, f"{key}={more}")
    )


@given(st.integers(0, 10**10), st.integers(0, 10**9), st.integers(0, 10**12))
def test_as_many_runs_as_fit_and_at_least_one(once, run, free):
    need = Footprint(once, run)
    fit = need.fit(free)
    assert fit >= 1
    assert fit == 1 or need.bytes(fit) <= SHARE * free
    assert need.bytes(fit + 1) > int(SHARE * free) or run == 0


def test_a_footprint_grows_with_what_lies_on_the_device():
    size = {
        "images": 70_000,
        "pixels": 784,
        "pixel": 1,
        "parameters": 44_000,
        "clients": 10,
        "itemsize": 4,
        "evaluated": 2_000,
    }
    need = footprint(**size, working=None)
    assert need.once > 70_000 * 784
    assert need.run > 10 * 44_000 * 4
    for key in size:
        larger = footprint(**{**size, key: 2 * size[key]}, working=None)
        assert larger.bytes(5) > need.bytes(5), key
    bounded = footprint(**size, working=1 << 33)
    assert bounded.run < need.run
    assert bounded.bytes(1) > 1 << 33
    told = footprint(**size, working=1 << 33, run=1 << 20)
    assert told.run == bounded.run + (1 << 20)
    assert told.bytes(1) < 1 << 33


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_on_gpus_is_cut_for_all_workers_as_if_they_shared_one(workers):
    """24 runs of one byte each fit, of three workers each has room for 20."""
    with ThreadPoolExecutor(workers) as executor:
        pool = Slices(Pool(executor), print)
        for free, most in ((1000, 24 // workers), (75, 60 // workers)):
            facts = {
                "free": free,
                "footprint": (0, 1),
                "environment": {"executor": "x"},
            }
            chunks = schedule._divided(experiment(4, 6), facts, pool)
            assert max(map(runs_of, chunks)) <= most
            assert sum(map(runs_of, chunks)) == 24
            assert len(chunks) >= workers
