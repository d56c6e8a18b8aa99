"""The real data sets, where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from headgate.learning.datasets import (
    Dataset,
    channel_statistics,
    load_dataset,
)

from .said import CIFAR_CLASSES, found

REAL = os.environ.get("HEADGATE_DATA")
needs_data = pytest.mark.skipif(not REAL, reason="HEADGATE_DATA names no folder with the real data sets")


def real(name: str) -> Dataset:
    """A real data set, or a skip which says what is missing."""
    folder = Path(REAL or "")
    entry = found(name, folder)
    if entry.path is None:
        pytest.skip(str(entry.problem))
    data = load_dataset(name, folder)
    assert (entry.train, entry.test, entry.problem) == (len(data.train_labels), len(data.test_labels), None)
    return data


@needs_data
def test_real_mnist() -> None:
    data = real("mnist")
    assert data.train_images.shape == (60_000, 1, 28, 28)
    assert data.test_images.shape == (10_000, 1, 28, 28)
    assert data.train_labels[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert data.test_labels[:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    mean, std = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=1e-4)
    assert std == pytest.approx(data.std, abs=1e-4)


@needs_data
def test_real_cifar10() -> None:
    data = real("cifar10")
    assert (len(data.train_labels), len(data.test_labels)) in {(10_000, 5_000), (50_000, 10_000)}
    assert data.shape == (3, 32, 32)
    assert data.classes == tuple(CIFAR_CLASSES)
    for labels in (data.train_labels, data.test_labels):
        assert np.bincount(labels).tolist() == [len(labels) // 10] * 10
    mean, std = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=0.01)
    assert std == pytest.approx(data.std, abs=0.01)


@needs_data
def test_real_imagenette() -> None:
    data = real("imagenette")
    assert (len(data.train_labels), len(data.test_labels)) == (9_469, 3_925)
    assert data.shape == (3, 64, 64)
    assert data.classes[:2] == ("tench", "English springer")
    assert np.bincount(data.train_labels).min() > 850
    mean, _ = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=0.05)
