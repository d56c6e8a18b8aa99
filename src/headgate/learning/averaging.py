"""The server's mean of its own models, which wavers less than any one of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def newest_share(t: int, eta: float) -> float:
    """How much the model of round t counts in the mean after it: polynomial-decay averaging (Shamir and Zhang 2013).

    The mean reaches back about t/(η + 1) rounds: a short way while much is learnt, a long one when little is. η = 0 is
    the plain mean of all models so far.

    >>> [newest_share(t, 0.0) for t in (1, 2, 4)], newest_share(1, 8.0), newest_share(28, 8.0)
    ([1.0, 0.5, 0.25], 1.0, 0.25)
    """
    return (eta + 1) / (t + eta)


def between(old: NDArray[Any], new: NDArray[Any], share: float) -> NDArray[Any]:
    """old + share·(new − old). As torch.lerp, which multiplies and adds in one: so does float64, for float32."""
    part = old.dtype.type(share)
    base, part = (old, part) if part < 0.5 else (new, part - 1)
    return np.asarray(base + np.float64(part) * (new - old)).astype(old.dtype)
