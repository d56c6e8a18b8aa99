"""What helps all policies alike: the mean of the server's models, and images that are moved."""

import numpy as np
import pytest

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.learning.local import moves, shifted
from headgate.learning.server import newest_share
from headgate.simulation.engine import Simulation

SMALL = ["run.rounds=6", "run.seeds=2", 'run.policies=["headgate", "constant"]', "training.dtype=float64"]


def simulation(*settings, executor="reference"):
    return Simulation(load("digits", [*SMALL, *settings]), load_dataset("digits"), "cpu", executor)


@pytest.mark.parametrize("executor", ["flat", "gram"])
def test_the_mean_model_is_judged_and_never_trained_on(executor):
    plain, averaged = simulation(executor=executor), simulation("training.average=3", executor=executor)
    mean = np.zeros_like(plain.theta)
    for t in range(1, 7):
        plain.step()
        metrics = averaged.step().metrics
        assert np.array_equal(plain.theta, averaged.theta)
        mean += newest_share(t, 3.0) * (plain.theta - mean)
        learner = averaged.learner
        accuracy, loss = map(learner.read, learner.judges[0](learner._put(mean)))
        assert [row["test_accuracy"] for row in metrics] == pytest.approx(accuracy.tolist())
        assert [row["test_loss"] for row in metrics] == pytest.approx(loss.tolist())


@pytest.mark.parametrize("executor", ["reference", "gram"])
def test_every_sample_is_moved_by_its_own_move_of_the_round(monkeypatch, executor):
    moved = simulation("training.shift=1", executor=executor)
    seen, made = [], moved.learner.executor
    advance = made.advance
    monkeypatch.setattr(made, "advance", lambda theta, packed, *rest: seen.append(packed) or advance(theta, packed, *rest))
    now = moved._prepare(1, moved.ledgers, moved.purchases)
    moved.step()
    move = moves(1, np.array(moved.run_seeds)[now.runs], 1, now.samples)
    plain = load_dataset("digits").train_images[now.batch.rows]
    assert np.array_equal(seen[0].images, shifted(plain, move, 1))
    assert not np.array_equal(seen[0].images, plain)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("training.shift=8", "training.shift = 8"),
        ("training.shift=-1", "training.shift = -1"),
        ("training.average=-1", "training.average = -1"),
    ],
)
def test_what_cannot_help_is_refused(setting, named):
    with pytest.raises(SettingError, match=named):
        simulation(setting)
