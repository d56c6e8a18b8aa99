"""What clients' samples lose before they are trained on, as a server hears it: a mean for new ones and one for those held."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Bools, Floats, Ints, Losses
from headgate.simulation.learner import Learner, Models, RoundSamples


class Hearing:
    """Asks for the losses of the runs of some policies, S runs each."""

    def __init__(self, learner: Learner, asked: Sequence[bool], seeds: int, clients: int) -> None:
        self.learner, self.seeds, self.clients = learner, seeds, clients
        self.runs = np.flatnonzero(np.repeat(asked, seeds))

    def ask(self, models: Models, batch: RoundSamples) -> Any:
        """Return the losses of all samples of these runs, which `losses` waits for."""
        return self.learner.losses(models, batch, self.runs) if self.runs.size else None

    def losses(self, answer: Any, offsets: Ints, new: Bools, clients: Ints) -> dict[int, Losses]:
        """Return what was heard by the number of the policy; `new` is of all samples, `clients` (R, C) of all runs."""
        if not self.runs.size:
            return {}
        sizes = np.diff(offsets).reshape(clients.shape)
        new = new[np.repeat(np.isin(np.arange(len(clients)), self.runs), sizes.sum(axis=1))]
        heard = mean_losses(self.learner.read(answer), new, sizes[self.runs], clients[self.runs], self.clients)
        cuts = range(0, len(self.runs), self.seeds)
        return {
            int(self.runs[first]) // self.seeds: Losses(*(means[first : first + self.seeds] for means in heard))
            for first in cuts
        }


def mean_losses(losses: Floats, new: NDArray[np.bool_], sizes: Ints, clients: Ints, many: int) -> Losses:
    """Return means over samples that lie client by client: `sizes` (R, C) of them, of `clients` (R, C) among `many` in all.

    Sums are in float64 and in the order of the samples. A mean that is not finite, of a run that breaks down, is not a number.

    >>> new, sizes, clients = np.array([True, False, False]), np.array([[1, 2]]), np.array([[0, 2]])
    >>> heard = mean_losses(np.array([1.0, 3.0, 5.0]), new, sizes, clients, 3)
    >>> heard.new.tolist(), heard.held.tolist()
    ([[1.0, nan, nan]], [[nan, nan, 4.0]])
    """
    segments = np.repeat(np.arange(sizes.size), sizes.ravel())
    runs = np.arange(len(sizes))[:, None]

    def mean(chosen: NDArray[np.bool_]) -> Floats:
        own = segments[chosen]
        with np.errstate(invalid="ignore"):  # 0/0 where there are no samples
            means = np.bincount(own, losses[chosen], sizes.size) / np.bincount(own, minlength=sizes.size)
        found = np.full((len(sizes), many), np.nan)
        # rounding may leave a little less than nothing
        found[runs, clients] = np.where(np.isfinite(means), np.maximum(means, 0.0), np.nan).reshape(sizes.shape)
        return found

    return Losses(mean(new), mean(~new))
