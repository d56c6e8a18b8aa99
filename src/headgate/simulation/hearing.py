"""What clients' samples lose before they are trained on, as a server hears it: a mean for new ones and one for those held."""

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Floats, Ints, Losses


def heard(losses: Floats, new: NDArray[np.bool_], sizes: Ints, clients: Ints, many: int) -> Losses:
    """Means over samples that lie client by client: `sizes` (R, C) says how many, `clients` (R, C) whose, of `many` in all.

    Sums are in float64 and in the order of the samples. What is not finite, of a run that breaks down, is not a number.

    >>> told = heard(np.array([1.0, 3.0, 5.0]), np.array([True, False, False]), np.array([[1, 2]]), np.array([[0, 2]]), 3)
    >>> told.new.tolist(), told.held.tolist()
    ([[1.0, nan, nan]], [[nan, nan, 4.0]])
    """
    segments = np.repeat(np.arange(sizes.size), sizes.ravel())
    runs = np.arange(len(sizes))[:, None]

    def mean(chosen: NDArray[np.bool_]) -> Floats:
        own = segments[chosen]
        with np.errstate(invalid="ignore"):  # 0/0 where there are no samples
            means = np.bincount(own, losses[chosen], sizes.size) / np.bincount(own, minlength=sizes.size)
        told = np.full((len(sizes), many), np.nan)
        # rounding may leave a little less than nothing
        told[runs, clients] = np.where(np.isfinite(means), np.maximum(means, 0.0), np.nan).reshape(sizes.shape)
        return told

    return Losses(mean(new), mean(~new))
