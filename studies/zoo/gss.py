"""GSS-greedy: samples whose gradients point in other directions than those in memory.

Source: Aljundi, Lin, Goujaud and Bengio, *Gradient based sample selection for online
continual learning* (NeurIPS 2019), and aimagelab/mammoth (MIT), `utils/gss_buffer.py`.
Assumes that a gradient tells what a sample can teach, and that what pulls as another
does teaches little more.

What is ours: the gradient is that of the last layer; and every score is of the model
that the server sent in this round, also of samples held, whose scores the source keeps
from when they came. So there is nothing to remember.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import whole_numbers
from headgate.control.ranking import Candidates, places_in
from headgate.control.retention import Retention
from headgate.control.types import Bools, Floats, Ints, System
from headgate.errors import SettingError
from headgate.limits import SAMPLES, check_memory

FIRST = 0.1
"""the score of a sample that is compared with none"""
BY_PAIR = 48
"""bytes at most for every pair of samples of a client"""


@dataclass(frozen=True, eq=False)
class GSS(Retention):
    """One that comes takes a place only if its gradient points away from all of a
    random `batch` of those in memory.

    A sample's score is 1 + the largest cosine between its gradient and theirs. One that
    comes with a score below 1 challenges one in memory, drawn in proportion to the
    scores s, and takes its place with probability s/(s + its own). Samples come one
    after the other. Without a model lots decide, as in `reservoir`.
    """

    batch: int = 10
    scores = ("error", "features")

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.batch) or whole_numbers("batch", self.batch, SAMPLES) < 1:
            raise SettingError(f"batch = {self.batch}: must be at least one sample")

    def limit(self, system: System) -> Ints | None:
        room = super().limit(system)
        if (
            room is not None
            # a run at a time: all that each client holds and has admitted, each with
            # each
        ):
            most = int(room.max())
            pairs = system.clients * (2.0 * most) ** 2
            check_memory(
                f"capacity = {most}: the cosines of so many samples take",
                BY_PAIR * pairs,
            )
        return room

    def rank(self, candidates: Candidates) -> Bools | Floats:
        if candidates.scores is None:
            return candidates.draw()
        cosine = gradient_cosines(candidates.scores.error, candidates.scores.features)
        inside, comes = (
            candidates.there & ~candidates.new,
            np.flatnonzero((candidates.there & candidates.new).any(axis=0)),
        )
        at = candidates.position[:, comes]
        challenged, duel = candidates.draw(at), candidates.draw(at, again=1)
        lots = candidates.draw(
            candidates.position[:, None],
            np.concatenate([2 * candidates.end + 1, 2 * at + 2], axis=1)[..., None],
        )
        among = self._batch(inside, lots[:, 0])
        score = _scores(cosine, among[:, None] & ~np.eye(inside.shape[1], dtype=bool))
        for nth, j in enumerate(comes):
            score[:, j] = own = _scores(
                cosine[:, j], self._batch(inside, lots[:, nth + 1])
            )
            free = inside.sum(axis=1) < candidates.room[:, 0]
            victim = _drawn(
                np.where(inside, score, 0.0), inside, challenged[:, nth : nth + 1]
            )
            theirs = score[np.arange(len(victim)), victim]
            wins = duel[:, nth] * (theirs + own) < theirs
            enters = (
                candidates.there[:, j]
                & candidates.new[:, j]
                & (free | ((own < 1) & wins))
            )
            leaves = np.flatnonzero(enters & ~free)
            inside[leaves, victim[leaves]] = False
            inside[enters, j] = True
        return ~inside

    def _batch(self, inside: Bools, lot: Floats) -> Bools:
        """Some of those in memory, by lot; all where they are no more than a batch."""
        order = np.argsort(np.where(inside, lot, np.inf), axis=1, kind="stable")
        return inside & (places_in(order) < self.batch)


def gradient_cosines(error: Floats | None, features: Floats | None) -> Floats:
    """Return the cosines of the gradients, error ⊗ features, of each client's samples,
    (C, W, W); 0 with one of no length.
    """
    assert error is not None
    assert features is not None
    products = (error @ error.transpose(0, 2, 1)) * (
        features @ features.transpose(0, 2, 1)
    )
    squared = np.diagonal(products, axis1=1, axis2=2)
    lengths = np.sqrt(squared[:, :, None] * squared[:, None])
    return np.clip(
        np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0),
        -1.0,
        1.0,
    )


def _scores(cosine: Floats, among: Bools) -> Floats:
    """1 + the largest cosine to those `among`, over the last axis."""
    most = np.where(among, cosine, -1.0).max(axis=-1, initial=-1.0)
    return np.asarray(np.where(among.any(axis=-1), 1 + most, FIRST))


def _drawn(weights: Floats, inside: Bools, draw: Floats) -> Ints:
    """One of those inside for each client, in proportion to its weight; each is as
    likely where no weight is above 0.
    """
    weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, inside)
    sums = np.cumsum(weights, axis=1)
    total = sums[:, -1:]
    return np.asarray(
        np.argmax(sums > np.minimum(draw * total, np.nextafter(total, 0.0)), axis=1)
    )
