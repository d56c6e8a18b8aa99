"""What helps all policies alike: the mean of the server's models, and images that are moved."""

import numpy as np
import pytest
import torch

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.averaging import newest_share
from headgate.learning.datasets import load_dataset
from headgate.learning.shift import moves, shifted
from headgate.simulation.engine import Simulation

SMALL = ["run.rounds=6", "run.seeds=2", 'run.policies=["headgate", "constant"]', "training.dtype=float64"]


def simulation(*settings):
    return Simulation(load("digits", [*SMALL, *settings]), load_dataset("digits"), torch.device("cpu"), "reference")


def test_the_mean_model_is_judged_and_never_trained_on():
    plain, averaged = simulation(), simulation("training.average=3")
    mean = torch.zeros_like(plain.theta)
    for t in range(1, 7):
        plain.step()
        metrics = averaged.step().metrics
        assert torch.equal(plain.theta, averaged.theta)
        mean += newest_share(t, 3.0) * (plain.theta - mean)
        accuracy, loss = (values.numpy() for values in averaged.evaluate(mean))
        assert [row["test_accuracy"] for row in metrics] == pytest.approx(accuracy.tolist())
        assert [row["test_loss"] for row in metrics] == pytest.approx(loss.tolist())


@pytest.mark.parametrize("settings", [["training.average=8"], ["training.average=8", "training.shift=1"]])
def test_a_run_taken_up_again_goes_on_to_the_same_bits(settings):
    whole, first, second = (simulation(*settings) for _ in range(3))
    rows = [whole.step().metrics for _ in range(6)]
    for _ in range(3):
        first.step()
    second.restore(first.t, first.tensors(), first.ledgers)
    assert [second.step().metrics for _ in range(3)] == rows[3:]
    assert torch.equal(whole.theta, second.theta)
    assert torch.equal(whole.mean, second.mean)


def test_every_sample_is_moved_by_its_own_move_of_the_round(monkeypatch):
    moved = simulation("training.shift=1")
    seen = []
    advance = moved.executor.advance
    monkeypatch.setattr(
        moved.executor, "advance", lambda theta, packed, *rest: seen.append(packed) or advance(theta, packed, *rest)
    )
    now = moved._prepare(1, moved.ledgers)
    moved.step()
    move = moves(1, np.array(moved.run_seeds)[now.runs], 1, now.samples)
    plain = moved.images[torch.from_numpy(now.rows)]
    assert torch.equal(seen[0].images, shifted(plain, torch.from_numpy(move), 1))
    assert not torch.equal(seen[0].images, plain)


@pytest.mark.parametrize(
    ("setting", "named"), [("training.shift=8", "training.shift = 8"), ("training.average=-1", "training.average = -1")]
)
def test_what_cannot_help_is_refused(setting, named):
    with pytest.raises(SettingError, match=named):
        simulation(setting)
