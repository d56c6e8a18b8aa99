"""The real data sets, where they are."""

import os
from pathlib import Path

import numpy as np
import pytest

from headgate.learning.datasets import channel_statistics, load_dataset

from .said import found

REAL = os.environ.get("HEADGATE_DATA")
DATA = {
    "mnist": ((1, 28, 28), {(60_000, 10_000)}, [5, 0, 4, 1, 9], 1e-4),
    "cifar10": ((3, 32, 32), {(10_000, 5_000), (50_000, 10_000)}, None, 0.01),
    "imagenette": ((3, 64, 64), {(9_469, 3_925)}, None, 0.05),
}
"""shape, counts of training and test images, the first labels, and how far the known
mean is from theirs
"""


@pytest.mark.skipif(
    not REAL, reason="HEADGATE_DATA names no folder with the real data sets"
)
@pytest.mark.parametrize("name", DATA)
def test_a_real_data_set(name):
    entry, (shape, counts, labels, close) = found(name, Path(REAL or "")), DATA[name]
    if entry.path is None:
        pytest.skip(str(entry.problem))
    data = load_dataset(name, Path(REAL or ""))
    assert data.shape == shape
    assert (len(data.train_labels), len(data.test_labels)) in counts
    assert labels is None or data.train_labels[:5].tolist() == labels
    assert np.bincount(data.train_labels).min() > 0.85 * len(data.train_labels) / 10
    mean, std = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=close)
    assert std == pytest.approx(data.std, abs=2 * close)
