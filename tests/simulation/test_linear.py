"""Linear models are judged class by class and on bytes: by the definition, whatever is
beside them and however it is cut.
"""

import numpy as np
import pytest

from headgate.learning.datasets import BYTE
from headgate.simulation import linear
from headgate.simulation.executors.gram import LinearTask, one_thread
from headgate.simulation.linear import Judged

SHAPE, CLASSES, RUNS = (2, 5, 6), 4, 7


def plain(task, images, labels, theta):
    """Accuracy and loss as they are defined, in float64; of several largest the first
    is the answer.
    """
    mean, std = (np.array(values)[:, None, None] for values in (task.mean, task.std))
    x = ((images / task.unit - mean) / std).reshape(len(images), -1)
    weight, bias = np.split(theta.astype(np.float64), [CLASSES * x.shape[1]], axis=1)
    logits = (
        x @ weight.reshape(len(theta), CLASSES, -1).transpose(0, 2, 1) + bias[:, None]
    )
    losses = (
        np.logaddexp.reduce(logits, axis=2) - logits[:, np.arange(len(labels)), labels]
    )
    return (logits.argmax(axis=2) == labels).mean(axis=1), losses.mean(axis=1)


def case(dtype, unit=BYTE):
    """Some numbers are 0 in all images of a class, and one class has no image."""
    rng = np.random.default_rng(1)
    labels = rng.choice([0, 1, 3], 300)
    images = rng.integers(0, 256, (300, *SHAPE), dtype=np.uint8)
    if unit != BYTE:  # features
        images = rng.normal(0, 1, images.shape).astype(np.float32)
    images = images * (rng.random((CLASSES, *SHAPE)) < 0.6)[labels]
    task = LinearTask(
        SHAPE, CLASSES, (0.1, 0.4), (0.3, 0.2), np.dtype(dtype), unit=unit
    )
    theta = rng.normal(0, 0.2, (RUNS, task.size)).astype(dtype)
    theta[0] = 0  # all answers are as good
    theta[1] = np.concatenate([np.tile(theta[1, :60], CLASSES), np.zeros(CLASSES)])
    theta[2, -CLASSES:] = [5e4, 0, 0, 5e4]  # of which no exponential is a number
    return Judged(task, images, labels), theta


@pytest.mark.parametrize("unit", [BYTE, 1.0], ids=["bytes", "features"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "cut",
    [
        {},
        {"EVALUATED": 17},
        {"ALIKE": 9},
        {"ALIKE": 9, "TOGETHER": 150},
        {"ALIKE": 9, "DEEP": 7, "ALONE": 4},
        {"KEPT": 0},
        {"KEPT": 0, "EVALUATED": 17},
    ],
)
def test_models_are_judged_as_defined(dtype, cut, unit, monkeypatch):
    for name, value in cut.items():
        monkeypatch.setattr(linear, name, value)
    judged, theta = case(dtype, unit)
    expected = plain(judged.task, judged.images, judged.labels, theta)
    for _ in range(2):
        accuracy, loss = judged(theta)
        np.testing.assert_array_equal(accuracy, expected[0])
        np.testing.assert_allclose(
            loss, expected[1], rtol=2e-6 if dtype == "float32" else 1e-12
        )
        assert accuracy[0] == accuracy[1] == (judged.labels == 0).mean()
        (alone,) = judged(theta[3:4])[1]
        assert alone == pytest.approx(loss[3], rel=1e-6)


def test_a_model_is_judged_to_the_same_bits_whatever_is_beside_it():
    """Where images are large, too: a BLAS may take another way where there is less to
    do.
    """
    rng = np.random.default_rng(2)
    task = LinearTask((1, 20, 30), 10, (0.1,), (0.3,), np.dtype("float32"))
    large = Judged(
        task, rng.integers(0, 256, (160, *task.shape), dtype=np.uint8), np.full(160, 3)
    )
    for judged, theta in (
        case("float32"),
        (large, rng.normal(0, 0.2, (RUNS, task.size)).astype("float32")),
    ):
        with one_thread():
            together = judged(theta)
            for r in range(RUNS):
                for all_runs, own in zip(
                    together, judged(theta[r : r + 1]), strict=True
                ):
                    assert all_runs[r] == own[0]
