"""Where only some clients train: what is the same for all, what moves the model, and
that many clients fit.
"""

import numpy as np
import pytest

from headgate.learning.server import draw_cohort
from headgate.records.reader import RunFolder

from .digits import DATA, TWO, played

SMALL = (*TWO, "run.rounds=12", "data.partition.per_class=12")
MANY = [
    "system.clients=20000",
    "system.budget=110000",
    "bound.pdim=20000",
    "training.cohort=40",
]
MANY += ["run.rounds=6", "run.seeds=2", "training.steps=2"]


def test_control_is_the_same_with_any_cohort_and_a_cohort_of_all_is_no_cohort():
    whole, rounds = played(*SMALL)
    everybody, same = played(*SMALL, "training.cohort=10")
    cohort, some = played(*SMALL, "training.cohort=3")
    assert same == rounds
    assert np.array_equal(everybody.theta, whole.theta)
    assert not np.array_equal(cohort.theta, whole.theta)
    for ours, theirs in zip(some, rounds, strict=True):
        assert ours.clients == theirs.clients
        for one, other in zip(ours.metrics, theirs.metrics, strict=True):
            assert all(
                one[key] == other[key] for key in ("n", "admitted", "spend", "debt")
            )
            assert one["N"] < other["N"] or (one["t"] > 1 and one["N"] == other["N"])


def test_only_the_cohort_moves_the_model():
    """One local step, aggregated by memory, is one step on all samples of the cohort
    together.
    """
    one = ["run.rounds=1", "training.steps=1", "run.seeds=1"]
    simulation, _ = played('run.policies=["constant"]', *one, "training.cohort=3")
    ledger, stream = simulation.ledgers["constant"], simulation.streams[0]
    cohort = draw_cohort(0, 1, 10, 3)
    held = ledger.admitted[0, cohort]
    rows = stream.at(
        np.repeat(cohort, held), np.concatenate([*map(np.arange, held)])
    ).rows
    x = (
        (DATA.train_images[rows].reshape(len(rows), -1) / 255.0) - DATA.mean[0]
    ) / DATA.std[0]
    error = 0.1 - np.eye(10)[DATA.train_labels[rows]]
    step = -simulation.experiment.training.lr * error.T @ x / len(rows)
    assert simulation.theta[0, :640].reshape(10, 64) == pytest.approx(
        step, rel=1e-4, abs=1e-6
    )


def test_many_clients_learn_under_every_policy():
    policies = '["acdpp", "constant", "oracle", "hybrid", "headgate", "dpp"]'
    simulation, rounds = played(*MANY, f"run.policies={policies}", recipe="million")
    last = rounds[-1].metrics
    assert len(last) == 12
    assert all(
        each.clients == [] for each in rounds
    )  # one number for each of so many clients is too much
    for row in last:
        assert row["test_accuracy"] > 0.5
        assert (
            row["n"]
            == simulation.ledgers[row["policy"]].occupancy[row["seed"]].sum()
            > 10_000
        )
        assert row["N"] <= 6 * 40 * simulation.experiment.system.buffer.max()
        assert np.isfinite(row["bound"])
    keys, _ = simulation.uses.table()
    assert keys.size == sum(row["N"] for row in last)


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
    ledger = next(
        (folder / "checkpoints").glob(f"*/ledger-{run.policies.index('acdpp')}.npz")
    )
    assert (
        ledger.stat().st_size < 20_000 * 2 * 20
    )  # clients, seeds, bytes: eight for each number would take over 200
