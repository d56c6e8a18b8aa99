"""Position i of client m's endless stream: which of its own images is there.

A sample is known by its number among all images of all clients, so that an image that comes by a second
time counts as the same sample: "distinct" stays honest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import whole
from headgate.control.randomness import Purpose, permutations, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError, require
from headgate.learning.partition import Owners, OwnerTable
from headgate.limits import WINDOW
from headgate.registry import Slot

KEPT = 1 << 14
"""places of passes that are kept although the last call did not ask for them; when there are more, all are dropped"""


@dataclass(frozen=True)
class Reshuffle:
    """A client's images pass by again and again, each time in a new order."""

    ends = False
    """whether there is one pass only"""
    passing = 0
    """samples that come by in each round, bought or not; 0: the stream waits for the buyer"""

    def orders(
        self, seed: int, clients: Ints, first: Ints, length: int, classes: Callable[[int], Ints]
    ) -> Iterator[tuple[slice, Ints]]:
        """Yield (which clients, orders of their `length` images) of the passes that begin at the positions `first`."""
        return permutations(seed, Purpose.STREAM, np.arange(length), clients, first)


@dataclass(frozen=True)
class Replacement(Reshuffle):
    """Each position is an independent draw among the client's images."""


@dataclass(frozen=True)
class Stop(Reshuffle):
    """The stream ends after one pass."""

    ends = True


@dataclass(frozen=True)
class MarkovStream(Reshuffle):
    """The next sample is mostly of the same class as the last one; in each pass every image of the client comes by once.

    Each class is shuffled and cut into runs, and the runs come in a random order: the finite form of a chain that keeps its
    class with probability 1 − 1/`mixing` and else draws one by the client's shares. With `mixing` = 1 it is `reshuffle`.
    """

    mixing: float
    """mean length of a run, in samples; a class that has fewer images comes in one run"""
    passing: int = 0

    def __post_init__(self) -> None:
        require(self.mixing >= 1, "mixing", self.mixing, "at least 1 sample")
        whole("passing", self.passing, 0, WINDOW)

    def orders(
        self, seed: int, clients: Ints, first: Ints, length: int, classes: Callable[[int], Ints]
    ) -> Iterator[tuple[slice, Ints]]:
        for place, (client, begin) in enumerate(zip(clients.tolist(), first.tolist(), strict=True)):
            at, label = begin + np.arange(length), classes(client)
            cut, inside = uniform(seed, Purpose.STREAM_RUN, np.stack([2 * at, 2 * at + 1]), client)
            by_class = np.lexsort((cut, label))
            least = by_class[np.flatnonzero(np.diff(label[by_class], prepend=-1))]  # a class begins where its draw is least
            begins, inside[least] = cut * self.mixing < 1, -1.0
            begins[least] = True
            order = np.lexsort((inside, label))
            drawn = uniform(seed, Purpose.STREAM, at[order[begins[order]]], client)[np.cumsum(begins[order]) - 1]
            yield slice(place, place + 1), order[np.argsort(drawn, kind="stable")][None]


STREAM = Slot("stream", Reshuffle, {"reshuffle": Reshuffle, "replacement": Replacement, "stop": Stop, "markov": MarkovStream})
RESHUFFLE, NONE = Reshuffle(), np.empty(0, np.int64)


class StreamRows(NamedTuple):
    """What comes at some positions, one entry for each."""

    samples: Ints
    """sample numbers"""
    rows: Ints
    """rows of the training set"""


class Stream:
    """The endless stream of every client for one seed; `labels`, of the training set, are for rules by class."""

    def __init__(self, owned: Owners | Sequence[Ints], seed: int, rule: Reshuffle = RESHUFFLE, labels: Ints = NONE) -> None:
        self.seed, self.rule, self.labels = seed, rule, labels
        self.owners: Owners = OwnerTable(owned) if isinstance(owned, Sequence) else owned
        self.lengths = self.owners.lengths
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        """the first sample number of each client, and after the last one how many there are"""
        self.samples = int(self.starts[-1])
        self._orders: dict[int, NDArray[np.int32]] = {}
        """of passes, by client and number of the pass in one number"""

    def at(self, clients: Ints, positions: Ints, concepts: Ints | None = None) -> StreamRows:
        """Return what comes at positions[i] of the stream of clients[i], for every i, in any concept.

        Windows move slowly, so the orders of the passes asked for are kept for the next call.
        """
        lengths = self.lengths[clients]
        if isinstance(self.rule, Replacement):
            own = (uniform(self.seed, Purpose.STREAM, positions, clients) * lengths).astype(np.int64)
            return StreamRows(self.starts[clients] + own, self.owners.rows(clients, own))
        nth, place = np.divmod(positions, lengths)
        if self.rule.ends and nth.any():
            late = np.flatnonzero(nth)[0]
            raise SettingError(f"data.stream = stop: the stream of client {clients[late]} ends after {lengths[late]} samples")
        wanted, which = np.unique(clients << _NTH_BITS | nth, return_inverse=True)
        new = np.array([key for key in wanted.tolist() if key not in self._orders], dtype=np.int64)
        whose, passes = new >> _NTH_BITS, new & (1 << _NTH_BITS) - 1
        size = self.lengths[whose]
        if new.size and sum(map(len, self._orders.values())) + size.sum() > KEPT:
            self._orders = {key: self._orders[key] for key in np.setdiff1d(wanted, new).tolist()}
        for length in np.unique(size).tolist():
            alike = np.flatnonzero(size == length)
            for some, drawn in self.rule.orders(self.seed, whose[alike], passes[alike] * length, length, self._classes):
                self._orders |= zip(new[alike[some]].tolist(), drawn.astype(np.int32), strict=True)
        orders = [self._orders[key] for key in wanted.tolist()]
        starts = np.cumsum([0, *map(len, orders)])
        own = np.concatenate([NONE, *orders])[starts[which] + place]
        return StreamRows(self.starts[clients] + own, self.owners.rows(clients, own))

    def _classes(self, client: int) -> Ints:
        own = np.arange(self.lengths[client])
        return np.asarray(self.labels[self.owners.rows(np.full_like(own, client), own)])


_NTH_BITS = 32


def spans(starts: Ints, lengths: Ints) -> Ints:
    """starts[0], starts[0] + 1, … lengths[0] of them, then the same for the next one.

    >>> spans(np.array([5, 20]), np.array([3, 2])).tolist()
    [5, 6, 7, 20, 21]
    """
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
