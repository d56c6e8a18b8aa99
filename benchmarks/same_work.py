"""The work that headgate and Flower both do: whose samples, which round, where the
model starts. Numpy alone.

Ten clients, 100 samples a round in all and at least one each, drawn anew every round
from images of 28x28: a pattern for each of ten classes, and noise. Every number follows
from (round, client), so that no side has to be told by the other.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CLIENTS, SAMPLES, SHAPE, CLASSES, MEAN, STD = 10, 100, (1, 28, 28), 10, 0.1307, 0.3081
STEPS = 10
POOL = 2000
"""images of a client"""
PARAMETERS = {"logistic": 7_850, "lenet": 61_706}
LR = {"logistic": 0.05, "lenet": 0.02}


class Images(NamedTuple):
    pixels: NDArray[np.uint8]
    """(CLIENTS·POOL, 1, 28, 28)"""
    labels: NDArray[np.int64]


def images() -> Images:
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 128, (CLASSES, *SHAPE), dtype=np.uint8)
    labels = rng.integers(0, CLASSES, CLIENTS * POOL)
    return Images(
        patterns[labels] + rng.integers(0, 128, (len(labels), *SHAPE), dtype=np.uint8),
        labels,
    )


@cache
def sizes(t: int) -> NDArray[np.int64]:
    """How many samples each client trains on in round t."""
    rng = np.random.default_rng([1, t])
    return np.asarray(
        1 + rng.multinomial(SAMPLES - CLIENTS, rng.dirichlet(np.ones(CLIENTS))),
        dtype=np.int64,
    )


def rows(t: int, client: int) -> NDArray[np.int64]:
    """Which images client `client` trains on in round t."""
    own = np.random.default_rng([2, t, client]).choice(
        POOL, int(sizes(t)[client]), replace=False
    )
    return np.asarray(client * POOL + own, dtype=np.int64)


def start(model: str) -> NDArray[np.float32]:
    """The model before the first round, as one vector."""
    return (
        np.random.default_rng(3).normal(0, 0.05, PARAMETERS[model]).astype(np.float32)
    )
