"""SEA concepts (Street and Kim, KDD 2001): three features from 0 to 10, of which two decide and one means nothing.

A feature is a byte, b/25.5, so that samples are kept and packed as images are: one row of three pixels.
"""

from typing import TYPE_CHECKING

import numpy as np

from headgate.control.randomness import Purpose, uniform

if TYPE_CHECKING:  # polars, which reads some of the formats, is not needed to plan
    from headgate.learning.formats import Labels, Pixels

THRESHOLD = 8.0
"""of the first of the paper's four concepts; then come 9, 7 and 9.5"""
PER_BYTE = 25.5


def features(count: int) -> "Pixels":
    """Each of the 256 values of a feature equally likely, (count, 1, 1, 3)."""
    draws = uniform(0, Purpose.GENERATED, np.arange(3 * count))
    return (256 * draws).astype(np.uint8).reshape(count, 1, 1, 3)


def above(samples: "Pixels", threshold: float) -> "Labels":
    """Class 1 where the first two features add up to more than the threshold, else class 0.

    >>> above(np.array([[[[102, 102, 0]]], [[[102, 103, 9]]]], np.uint8), 8.0).tolist()
    [0, 1]
    """
    deciding = samples.reshape(len(samples), 3)[:, :2].sum(axis=1, dtype=np.int64)
    return np.asarray(deciding > threshold * PER_BYTE, dtype=np.int64)
