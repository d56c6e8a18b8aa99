"""k-centre: a core set by greedy farthest points.

Source: Sener and Savarese, *Active Learning for Convolutional Neural Networks: A
Core-Set Approach* (ICLR 2018), algorithm 1 (k-Center-Greedy): the sample goes first
that is farthest from its nearest neighbour among what has a label, by Euclidean
distance of what goes into the last layer. It is at most twice as far off as the best
choice.

Assumes that near samples are worth the same, so that a cover of what comes by is what
matters; the model's answers do not.

Ours: what has a label is what the client holds when the order comes, not all that it
ever bought, for it no longer has the rest. A client that holds nothing begins with the
sample that came first. Among equals the first come goes first.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.ranking import Candidates
from headgate.control.selection import Selection
from headgate.control.types import Bools, Floats


@dataclass(frozen=True, eq=False)
class KCentre(Selection):
    """The samples that lie farthest from what the client holds and from those chosen
    before them.
    """

    scores = ("features",)
    beside_held = True

    def rank(self, candidates: Candidates) -> Bools:
        assert candidates.scores is not None
        assert candidates.scores.features is not None
        features, there = candidates.scores.features, candidates.there
        takes, clients = np.zeros(there.shape, dtype=bool), np.arange(len(there))
        nearest = np.full(there.shape, np.inf)
        if candidates.held is not None and candidates.held_there is not None:
            for place in range(candidates.held.shape[1]):
                away = _distance(features, candidates.held[:, place])
                nearest = np.where(
                    candidates.held_there[:, place, None],
                    np.minimum(nearest, away),
                    nearest,
                )
        for nth in range(int(candidates.room.max(initial=0))):
            open_to = there & ~takes
            far = np.where(open_to, nearest, -1.0).argmax(axis=1)
            wanted = nth < candidates.room[:, 0]
            takes[clients, far] |= wanted
            nearest = np.where(
                wanted[:, None],
                np.minimum(nearest, _distance(features, features[clients, far])),
                nearest,
            )
        return ~takes


def _distance(samples: Floats, centre: Floats) -> Floats:
    """Squared, of each client's samples to its centre, (C, W)."""
    return np.asarray(((samples - centre[:, None]) ** 2).sum(axis=-1))
