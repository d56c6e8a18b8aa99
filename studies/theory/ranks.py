"""Do two quantities order things alike? Spearman's coefficient, with its interval over seeds."""

from typing import NamedTuple

import numpy as np

from headgate.analysis.intervals import LEVEL
from headgate.control.types import Floats

DRAWS = 1000


def ranks(values: Floats) -> Floats:
    """1 for the smallest on the last axis; equal values share the mean of their ranks.

    >>> ranks(np.array([30.0, 10.0, 10.0])).tolist()
    [3.0, 1.5, 1.5]
    """
    below = (values[..., :, None] > values[..., None, :]).sum(axis=-1)
    equal = (values[..., :, None] == values[..., None, :]).sum(axis=-1)
    return np.asarray(below + (equal + 1) / 2)


def spearman(a: Floats, b: Floats) -> Floats:
    """Correlation of the ranks on the last axis; nan where one side is all equal."""
    x, y = (ranks(each) - (a.shape[-1] + 1) / 2 for each in (a, b))
    size = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray((x * y).sum(axis=-1) / size)


class Agreement(NamedTuple):
    """The coefficient of the means over seeds, with its interval."""

    spearman: float
    spearman_low: float
    spearman_high: float


def agreement(predicted: Floats, measured: Floats, draws: int = DRAWS) -> Agreement:
    """Of two tables (points, seeds); the interval is the middle 80 % over seeds drawn again with replacement."""
    points, seeds = measured.shape
    generator = np.random.Generator(np.random.Philox(key=points))
    drawn = generator.integers(0, seeds, (draws, seeds))
    tables = [each[:, drawn].mean(axis=-1).T for each in (predicted, measured)]
    centre = [each.mean(axis=1) for each in (predicted, measured)]
    low, high = np.quantile(spearman(*tables), ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return Agreement(float(spearman(*centre)), low, high)
