"""Where only some clients train: who, on what, what is counted, and that many clients fit."""

from collections import Counter

import numpy as np
import pytest

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.learning.server import draw_cohort
from headgate.records.reader import RunFolder
from headgate.simulation.engine import Simulation

DATA = load_dataset("digits")
CPU = "cpu"
MANY = [
    "system.clients=20000",
    "system.budget=110000",
    "bound.pdim=20000",
    "training.cohort=40",
    "run.rounds=6",
    "run.seeds=2",
    "training.steps=2",
]


def played(recipe, *settings):
    e = load(recipe, list(settings))
    simulation = Simulation(e, DATA, CPU)
    return e, simulation, [simulation.step() for _ in range(e.rounds)]


SMALL = ("run.rounds=12", "run.seeds=2", "data.partition.per_class=12", "training.dtype=float64")


def test_a_cohort_of_all_is_no_cohort():
    _, whole, rounds = played("digits", *SMALL)
    _, cohort, same = played("digits", *SMALL, "training.cohort=10")
    assert same == rounds
    assert np.array_equal(cohort.theta, whole.theta)


def test_control_is_for_all_clients_whoever_trains():
    _, whole, rounds = played("digits", *SMALL)
    _, cohort, some = played("digits", *SMALL, "training.cohort=3")
    for ours, theirs in zip(some, rounds, strict=True):
        assert ours.clients == theirs.clients
        for one, other in zip(ours.metrics, theirs.metrics, strict=True):
            assert {key: one[key] for key in ("n", "admitted", "spend", "debt")} == {
                key: other[key] for key in ("n", "admitted", "spend", "debt")
            }
            assert one["N"] < other["N"] or (one["t"] > 1 and one["N"] == other["N"])
    assert not np.array_equal(cohort.theta, whole.theta)


@pytest.mark.parametrize("stream", ["reshuffle", "replacement"])
def test_what_is_counted_is_what_the_cohort_trained_on(stream):
    """Sample by sample: streams of 24 images, which the oracle passes over several times."""
    e, simulation, _ = played("digits", *SMALL, "training.cohort=4", "run.rounds=1", f"data.stream={stream}")
    uses = [Counter() for _ in simulation.run_seeds]
    simulation = Simulation(load("digits", [*SMALL, "training.cohort=4", f"data.stream={stream}"]), DATA, CPU)
    for t in range(1, 13):
        metrics = simulation.step().metrics
        for r, row in enumerate(metrics):
            s = r % len(e.seeds)
            ledger, served = simulation.ledgers[row["policy"]], simulation.streams[s]
            for m in draw_cohort(int(e.seeds[s]), t, 10, 4).tolist():
                window = np.arange(ledger.dropped[s, m], ledger.admitted[s, m])
                uses[r].update(served.at(np.full_like(window, m), window).samples.tolist())
            assert row["N"] == len(uses[r])
            total, squares = sum(uses[r].values()), sum(count**2 for count in uses[r].values())
            assert row["n_eff"] == pytest.approx(total**2 / squares if squares else 0.0)
    assert max(max(each.values()) for each in uses) > 3


def test_only_the_cohort_moves_the_model():
    """One local step, aggregated by memory, is one step on all samples of the cohort together."""
    e, simulation, _ = played(
        "digits", 'run.policies=["constant"]', "run.rounds=1", "training.steps=1", "run.seeds=1", "training.cohort=3"
    )
    ledger, stream = simulation.ledgers["constant"], simulation.streams[0]
    cohort = draw_cohort(0, 1, 10, 3)
    held = ledger.admitted[0, cohort]
    rows = stream.at(np.repeat(cohort, held), np.concatenate([*map(np.arange, held)])).rows
    x = ((DATA.train_images[rows].reshape(len(rows), -1) / 255.0) - DATA.mean[0]) / DATA.std[0]
    error = np.full((len(rows), 10), 0.1)
    error[np.arange(len(rows)), DATA.train_labels[rows]] -= 1
    step = -e.training.lr * error.T @ x / len(rows)
    assert simulation.theta[0, :640].reshape(10, 64) == pytest.approx(step, rel=1e-4, abs=1e-6)


def test_many_clients_learn_under_every_policy():
    policies = '["acdpp", "constant", "oracle", "hybrid", "released", "dpp"]'
    e, simulation, rounds = played("million", *MANY, f"run.policies={policies}")
    last = rounds[-1].metrics
    assert len(last) == 12
    assert all(row["test_accuracy"] > 0.5 for row in last)
    assert all(each.clients == [] for each in rounds)  # one number for each of so many clients is too much
    for row in last:
        ledger = simulation.ledgers[row["policy"]]
        assert row["n"] == ledger.occupancy[row["seed"]].sum() > 10_000
        assert row["N"] <= 6 * 40 * e.system.buffer.max()
        assert np.isfinite(row["bound"])
    keys, _ = simulation.uses.table()
    assert keys.size == sum(row["N"] for row in last)


def test_images_dealt_out_do_not_suffice_for_everybody():
    for partition in ("iid", "dirichlet"):
        with pytest.raises(SettingError, match=rf"data.partition = {partition}: client \d+ would have no data"):
            played("million", *MANY, f"data.partition={partition}")


def test_a_folder_without_rows_of_clients_is_whole(headgate, tmp_path):
    """As a user types it: a run, its folder and a page."""
    folder, page = tmp_path / "many", tmp_path / "page.html"
    settings = [word for setting in MANY for word in ("--set", setting)]
    headgate("run", "million", *settings, "--out", folder, "--progress", "none")
    headgate("report", folder, "--out", page)
    run = RunFolder.open(folder)
    assert run.status == "finished"
    assert run.clients().is_empty()
    assert run.metrics().height == 6 * 2 * 3  # rounds, seeds, policies
    assert page.stat().st_size > 10_000
    ledger = next((folder / "checkpoints").glob(f"*/ledger-{run.policies.index('acdpp')}.npz"))
    assert ledger.stat().st_size < 20_000 * 2 * 20  # clients, seeds, bytes: eight for each number would take over 200
