"""Held-out training images: nobody trains on them, every learner judges by them, and the test set stays what it is."""

import numpy as np
import pytest

from headgate.experiment import load
from headgate.learning.datasets import hold_out, load_dataset
from headgate.simulation.engine import Simulation

HELD = ["data.validation=0.2", "run.rounds=3", "run.seeds=2", "training.evaluate_every=2"]


@pytest.mark.parametrize("executor", ["gram", "reference"])
def test_models_are_judged_by_both_sets(executor):
    experiment, digits = load("digits", [*HELD, "run.policies=['headgate','constant']"]), load_dataset("digits")
    simulation = Simulation(experiment, digits, executor=executor)
    rounds = [simulation.step().metrics for _ in range(3)]
    assert [row["validation_accuracy"] for row in rounds[0]] == pytest.approx([np.nan] * 4, nan_ok=True)
    split = hold_out(digits, 0.2)
    for row, model in zip(rounds[2], simulation.theta, strict=True):
        weight, bias = model[:-10].reshape(10, -1), model[-10:]
        for name, (images, labels) in zip(("test_accuracy", "validation_accuracy"), split.judged, strict=True):
            x = (images.reshape(len(images), -1) / 255 - split.mean[0]) / split.std[0]
            assert row[name] == pytest.approx(((x @ weight.T + bias).argmax(axis=1) == labels).mean(), abs=1.5 / len(labels))


def test_without_held_out_images_the_column_is_empty():
    experiment = load("digits", ["run.rounds=1", "run.seeds=1", "run.policies=['constant']"])
    (row,) = Simulation(experiment, load_dataset("digits")).step().metrics
    assert row["validation_accuracy"] is None
    assert np.isfinite(row["test_accuracy"])
