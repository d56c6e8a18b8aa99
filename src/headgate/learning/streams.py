"""The endless stream of each client: which of the client's own images stands at which
position.

A sample is identified by its number among all images of all clients. An image that
appears a second time therefore counts as the same sample, and counts of distinct
samples are correct.
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
"""the most positions of passes that a stream keeps in memory; beyond it, all that the
current call does not need are dropped
"""


@dataclass(frozen=True)
class Reshuffle:
    """The stream repeats a client's images, each time in a new order."""

    ends = False
    """whether the stream ends after one pass"""
    passing = 0
    """samples that pass by in each round, bought or not; 0: the stream advances only
    when the client buys
    """

    def orders(
        self,
        seed: int,
        clients: Ints,
        first: Ints,
        length: int,
        classes: Callable[[int], Ints],
    ) -> Iterator[tuple[slice, Ints]]:
        """Yield (slice of `clients`, orders of their `length` images) for the passes
        that begin at the positions `first`.
        """
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
    """The next sample mostly has the class of the last one; each pass contains every
    image of the client once.

    Each class is shuffled and cut into sequences, which are put in a random order: a
    finite Markov chain that keeps its class with probability 1 − 1/`mixing` and
    otherwise draws one by the client's shares. With `mixing` = 1 it equals `reshuffle`.
    """

    mixing: float
    """mean length of a sequence of one class, in samples; a class with fewer images
    forms one sequence
    """
    passing: int = 0

    def __post_init__(self) -> None:
        require(self.mixing >= 1, "mixing", self.mixing, "at least 1 sample")
        whole("passing", self.passing, 0, WINDOW)

    def orders(
        self,
        seed: int,
        clients: Ints,
        first: Ints,
        length: int,
        classes: Callable[[int], Ints],
    ) -> Iterator[tuple[slice, Ints]]:
        places = zip(clients.tolist(), first.tolist(), strict=True)
        for place, (client, begin) in enumerate(places):
            at = begin + np.arange(length)
            order = self._order(seed, client, at, classes(client))
            yield slice(place, place + 1), order[None]

    def _order(
        self,
        seed: int,
        client: int,
        at: Ints,
        label: Ints,
    ) -> Ints:
        """Return the order of a client's images in the pass at these positions."""
        address = np.stack([2 * at, 2 * at + 1])
        cut, inside = uniform(seed, Purpose.STREAM_RUN, address, client)
        begins = cut * self.mixing < 1
        # The least draw of each class starts a sequence, which no other precedes.
        by_class = np.lexsort((cut, label))
        least = by_class[np.flatnonzero(np.diff(label[by_class], prepend=-1))]
        begins[least] = True
        inside[least] = -1.0

        order = np.lexsort((inside, label))
        begins = begins[order]
        sequence = np.cumsum(begins) - 1
        drawn = uniform(seed, Purpose.STREAM, at[order[begins]], client)
        return order[np.argsort(drawn[sequence], kind="stable")]


STREAM = Slot(
    "stream",
    Reshuffle,
    {
        "reshuffle": Reshuffle,
        "replacement": Replacement,
        "stop": Stop,
        "markov": MarkovStream,
    },
)
RESHUFFLE, NONE = Reshuffle(), np.empty(0, np.int64)


class StreamRows(NamedTuple):
    """The samples at some positions, one entry for each position."""

    samples: Ints
    """sample numbers"""
    rows: Ints
    """rows of the training set"""


class Stream:
    """The endless streams of all clients for one seed; rules that go by class need
    `labels`, those of the training set.
    """

    def __init__(
        self,
        owned: Owners | Sequence[Ints],
        seed: int,
        rule: Reshuffle = RESHUFFLE,
        labels: Ints = NONE,
    ) -> None:
        self.seed, self.rule, self.labels = seed, rule, labels
        self.owners: Owners = (
            OwnerTable(owned) if isinstance(owned, Sequence) else owned
        )
        self.lengths = self.owners.lengths
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        """the first sample number of each client, then the number of all samples, (M +
        1,)
        """
        self.samples = int(self.starts[-1])
        self._orders: dict[int, NDArray[np.int32]] = {}
        """the order of each pass that is kept, by a key that holds the client and the
        number of the pass
        """

    def at(
        self,
        clients: Ints,
        positions: Ints,
        concepts: Ints | None = None,
    ) -> StreamRows:
        """Return the sample at positions[i] of the stream of clients[i], for every i;
        `concepts` has no effect here.

        Consecutive calls need nearly the same passes, so the orders of these passes are
        kept for the next call.
        """
        lengths = self.lengths[clients]
        if isinstance(self.rule, Replacement):
            drawn = uniform(self.seed, Purpose.STREAM, positions, clients)
            own = (drawn * lengths).astype(np.int64)
        else:
            own = self._place(clients, positions, lengths)
        rows = self.owners.rows(clients, own)
        return StreamRows(self.starts[clients] + own, rows)

    def _place(
        self,
        clients: Ints,
        positions: Ints,
        lengths: Ints,
    ) -> Ints:
        """Return the number of each image among its client's own."""
        nth, place = np.divmod(positions, lengths)
        if self.rule.ends and nth.any():
            late = np.flatnonzero(nth)[0]
            raise SettingError(
                f"data.stream = stop: the stream of client {clients[late]} ends after"
                f" {lengths[late]} samples"
            )
        passes = clients << _NTH_BITS | nth
        wanted, which = np.unique(passes, return_inverse=True)
        self._draw(wanted)
        orders = [self._orders[key] for key in wanted.tolist()]
        starts = np.cumsum([0, *map(len, orders)])
        return np.asarray(np.concatenate([NONE, *orders])[starts[which] + place])

    def _draw(self, wanted: Ints) -> None:
        """Draw the orders of the passes that are not kept."""
        new = [key for key in wanted.tolist() if key not in self._orders]
        if not new:
            return
        keys = np.array(new, dtype=np.int64)
        clients = keys >> _NTH_BITS
        passes = keys & (1 << _NTH_BITS) - 1
        size = self.lengths[clients]
        if sum(map(len, self._orders.values())) + size.sum() > KEPT:
            old = np.setdiff1d(wanted, keys).tolist()
            self._orders = {key: self._orders[key] for key in old}
        for length in np.unique(size).tolist():
            alike = np.flatnonzero(size == length)
            first = passes[alike] * length
            for some, drawn in self.rule.orders(
                self.seed, clients[alike], first, length, self._classes
            ):
                those = keys[alike[some]].tolist()
                self._orders |= zip(those, drawn.astype(np.int32), strict=True)

    def _classes(self, client: int) -> Ints:
        own = np.arange(self.lengths[client])
        return self.labels[self.owners.rows(np.full_like(own, client), own)]


_NTH_BITS = 32


def spans(starts: Ints, lengths: Ints) -> Ints:
    """Return lengths[0] consecutive numbers from starts[0] on, then lengths[1] from
    starts[1] on, and so forth.

    >>> spans(np.array([5, 20]), np.array([3, 2])).tolist()
    [5, 6, 7, 20, 21]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())
