"""Rules for full clients where neither age nor order decides: lots, classes, or how much is new.

A sample may be dropped in the round in which it arrives. It was admitted and paid for but never trained on, and is counted
in `Ledger.unused`, not in N.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from headgate.control.retention.rule import NOBODY, Bools, Candidates, Capacity, Retention, rank_within
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False)
class Reservoir(Retention):
    """At any time an equally likely choice among all samples ever admitted.

    In law Vitter's algorithm R (1985): the i-th sample enters with probability B/i and an equally likely one leaves. It is
    done with one random key a sample, of which the smallest stay (Fan, Muller and Rezucha 1962), so the choice does not
    depend on how the samples were spread over rounds.
    """

    capacity: Capacity = "buffer"

    def keeps(self, given: Candidates) -> Bools:
        return given.by_lot()


@dataclass(frozen=True, eq=False)
class ClassBalanced(Retention):
    """What is too much leaves the client's most numerous class, again and again: at random, but new samples last.

    The greedy balancing of Prabhu, Torr and Dokania (2020) for a round's samples at once. Among classes of the same size
    lots decide. Without labels all samples are one class, and old ones leave at random.
    """

    capacity: Capacity = "buffer"
    by_class = True

    def keeps(self, given: Candidates) -> Bools:
        draw = given.draw(given.position, again=given.end)
        group = np.where(given.there, 0 if given.label is None else given.label.astype(np.int64), NOBODY)
        return given.lowest(rank_within(group, np.where(given.new, 0, 1), draw), draw)


@dataclass(frozen=True, eq=False)
class Ratio(Retention):
    """A client takes a certain number of the new samples, at random, in place of as many old ones, at random.

    Free places are always filled. After the static and dynamic ratio selective replacement (SRSR, DRSR) of Wang, Bian and
    Xu (2023), arXiv 2303.16340. From its abstract we have the names, the limited cache and the aim, a cache that is like the
    client's data in the long run; what the ratio is of, both choices at random and the rounding are ours.
    """

    capacity: Capacity = "buffer"

    @abstractmethod
    def wanted(self, given: Candidates) -> Floats:
        """How many new samples to take, a real number, (C, 1)."""

    def keeps(self, given: Candidates) -> Bools:
        end = given.end
        draw = given.draw(given.position, again=end)
        taken = np.floor(self.wanted(given) + given.draw(end, again=end)).astype(np.int64)  # right on average
        group = np.where(given.there, given.new, 2)
        place = rank_within(group, np.zeros_like(group), draw)
        beyond = place >= np.where(given.new, taken, given.room - taken)  # they stay only where places are free
        return given.lowest(beyond.astype(np.int64), draw)


@dataclass(frozen=True, eq=False)
class StaticRatio(Ratio):
    """The same share `ratio` of the places is for new samples in every round that brings as many."""

    ratio: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ratio <= 1:
            raise SettingError(f"ratio = {self.ratio}: must be above 0 and at most 1")

    def wanted(self, given: Candidates) -> Floats:
        return np.asarray(np.minimum(self.ratio * given.room, _new(given)))


@dataclass(frozen=True, eq=False)
class DynamicRatio(Ratio):
    """New samples get the share of the places that they have of all samples ever admitted.

    So every sample ever admitted is in memory with the same probability, as under `Reservoir`, but how many of the round's
    samples are taken is not left to chance.
    """

    def wanted(self, given: Candidates) -> Floats:
        return np.asarray(given.room * (_new(given) / given.end))


def _new(given: Candidates) -> Ints:
    """How many of the candidates are new, (C, 1)."""
    return np.asarray((given.there & given.new).sum(axis=-1, keepdims=True))
