import json

import numpy as np
import pytest

from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.records.sums import read_sealed
from headgate.simulation.schedule import perform
from studies.paper.outcomes import read_outcomes

SMALL = ["run.rounds=4", "run.seeds=3", 'run.policies=["acdpp", "constant"]', "training.evaluate_every=2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    perform(load("digits", SMALL), folder / "digits" / "written", processes=1)
    return folder


def test_outcomes_are_what_the_metrics_say(runs):
    import polars as pl

    found = read_outcomes([runs / "digits" / "written"])
    assert list(found) == [("written", "acdpp"), ("written", "constant")]
    metrics = pl.read_parquet(runs / "digits" / "written" / "metrics.parquet")
    for (_, policy), one in found.items():
        own = metrics.filter(pl.col("policy") == policy).sort("seed", "t")
        assert one.t.tolist() == [2, 4]
        assert one.seeds == (0, 1, 2)
        accuracy = own["test_accuracy"].drop_nulls().to_numpy().reshape(3, 2)
        assert np.array_equal(one.curve, np.maximum.accumulate(accuracy, axis=1))
        np.testing.assert_allclose(one.spend * 4, own.group_by("seed", maintain_order=True).agg(pl.col("spend").sum())["spend"])
        assert np.array_equal(one.held.sum(axis=-1), one.column("n"))
        assert one.peak_n == own["n"].max()
    assert np.array_equal(found["written", "acdpp"].buffers, load("digits").system.buffer)


def test_a_policy_that_lost_all_its_runs_is_still_told_of(runs, tmp_path):
    import shutil

    folder = tmp_path / "digits" / "written"
    shutil.copytree(runs / "digits" / "written", folder)
    state = read_sealed(folder / "state.json")
    state["diverged"] = [{"policy": "acdpp", "seed": seed, "t": 2} for seed in range(3)]
    state["guessing"] = [{"policy": "constant", "seed": 1}]
    (folder / "state.json").write_text(json.dumps(state))
    found = read_outcomes([tmp_path / "digits" / "written"])
    gone, guessed = found["written", "acdpp"], found["written", "constant"]
    assert (gone.learnt, gone.seeds, gone.lost_runs) == ((), (0, 1, 2), 3)
    assert gone.spend.shape == (3,)  # money was spent all the same
    assert (guessed.guessing, guessed.lost_runs) == (1, 0)


def test_the_validation_split_reaches_the_run(tmp_path):
    """Accuracy on them comes in steps of one of them, that on the test set in steps of one test image."""
    split = load("digits", [*SMALL, "data.validation=0.1"])
    perform(split, tmp_path / "digits" / "split", processes=1)
    one = read_outcomes([tmp_path / "digits" / "split"])["split", "constant"]
    held = sum(int(0.1 * count) for count in np.bincount(load_dataset("digits").train_labels))
    assert np.allclose(one.held_out * held, np.round(one.held_out * held))
    assert not np.allclose(one.held_out * 355, np.round(one.held_out * 355))
    assert np.allclose(one.curve * 355, np.round(one.curve * 355))
