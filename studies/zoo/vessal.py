"""VeSSAL: volume sampling over a stream.

Source: Saran, Yousefi, Krishnamurthy, Langford and Ash, *Streaming Active Learning with
Deep Neural Networks* (ICML 2023), algorithm 1. Sample i of n, with the gradient
embedding x of the last layer for the class that the model predicts, is bought with
probability p = ζ·xᵀΣ⁻¹x, where Σ = λI + Σ xxᵀ over what was bought, λ = 0.01, and ζ =
[(k − bought)/(n − i)]/tr(Σ⁻¹C) with C the mean of xxᵀ over the samples up to this one.
Used for federated learning in arXiv 2408.17108.

Assumes that samples come in no order that matters: each is decided on as it comes, by
those before it.

Ours: exactly k are bought, so a client that would come to be short takes all that are
left, and none buys more than k. A window begins with an empty Σ, as each query does in
the source. And the arithmetic: tr(Σ⁻¹C) is the mean of xᵀΣ⁻¹x over the samples up to
this one, so A = XᵀΣ⁻¹X among the samples of a window says all; it begins as XᵀX/λ,
whose entries are (guess·guess)(features·features), and a purchase s takes aₛaₛᵀ/(1 +
Aₛₛ) from it (Sherman and Morrison). No embedding is built.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import positive
from headgate.control.ranking import Candidates
from headgate.control.selection import Selection
from headgate.control.types import Bools, Floats

AT_ONCE = 1 << 22
"""inner products of so many pairs of samples"""


@dataclass(frozen=True, eq=False)
class VeSSAL(Selection):
    """Each sample as it comes, with a probability that grows with how little those
    bought before it have in common with it.
    """

    ridge: float = 0.01
    """λ"""

    scores = ("guess", "features")

    def __post_init__(self) -> None:
        positive("ridge", self.ridge)

    def rank(self, candidates: Candidates) -> Bools:
        takes, draw = np.zeros(candidates.position.shape, dtype=bool), candidates.draw()
        step = max(1, AT_ONCE // max(candidates.position.shape[1], 1) ** 2)
        for begin in range(0, len(takes), step):
            own = slice(begin, begin + step)
            takes[own] = self._of_some(candidates, own, draw[own])
        return ~takes

    def _of_some(self, candidates: Candidates, own: slice, draw: Floats) -> Bools:
        """Client by client alike: sample by sample, in the order of the stream."""
        assert candidates.scores is not None
        assert candidates.scores.guess is not None
        assert candidates.scores.features is not None
        there, count = candidates.there[own], candidates.room[own, 0]
        a = (
            _inner(candidates.scores.guess[own])
            * _inner(candidates.scores.features[own])
            / self.ridge
        )
        takes = np.zeros(there.shape, dtype=bool)
        left, bought, seen = (
            there.sum(axis=1),
            np.zeros(len(there), np.int64),
            np.zeros(len(there), np.int64),
        )
        for i in range(there.shape[1]):
            here = there[:, i]
            seen += here
            own_share = a[:, i, i]
            so_far = np.where(
                there[:, : i + 1], np.diagonal(a, axis1=1, axis2=2)[:, : i + 1], 0.0
            )
            mean = so_far.sum(axis=1) / np.maximum(seen, 1)
            rate = (count - bought) / np.maximum(left, 1)
            chance = np.where(
                mean > 0, rate * own_share / np.where(mean > 0, mean, 1.0), rate
            )
            take = (
                here
                & (bought < count)
                & ((draw[:, i] < chance) | (count - bought >= left))
            )
            takes[:, i] = take
            bought += take
            left -= here
            column = a[:, :, i] * take[:, None]
            a -= column[:, :, None] * (column / (1.0 + own_share)[:, None])[:, None, :]
        return takes


def _inner(values: Floats) -> Floats:
    """Inner products of all pairs of a client's samples, (C, W, W)."""
    return np.asarray(np.matmul(values, values.transpose(0, 2, 1)))
