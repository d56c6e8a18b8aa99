"""Position i of client m's stream, for ever: which of its own images comes there.

A sample is known by its number among all images of all clients, so that an image that comes by a second
time counts as the same sample: "distinct" stays honest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, permutations, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError
from headgate.learning.partition import Owners, OwnerTable

KINDS = ("reshuffle", "replacement", "stop")
KEPT = 1 << 14
"""places of passes that nobody asked for last, kept in case somebody will; when there are more, they all go"""


class StreamRows(NamedTuple):
    """What comes at some positions, one entry for each."""

    samples: Ints
    """sample numbers"""
    rows: Ints
    """rows of the training set"""


class Stream:
    """The endless stream of every client for one seed.

    `reshuffle` passes over the client's images again and again, each time in a new order;
    `replacement` draws each position independently; `stop` ends after one pass.
    """

    def __init__(self, owned: Owners | Sequence[Ints], seed: int, kind: str) -> None:
        if kind not in KINDS:
            raise SettingError(f"data.stream = {kind}: must be one of {', '.join(KINDS)}")
        self.seed, self.kind = seed, kind
        self.owners: Owners = OwnerTable(owned) if isinstance(owned, Sequence) else owned
        self.lengths = self.owners.lengths
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        """the first sample number of each client, and after the last one how many there are"""
        self._passes = Passes(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32))

    @property
    def samples(self) -> int:
        """How many there are of all clients."""
        return int(self.starts[-1])

    def at(self, clients: Ints, positions: Ints, concepts: Ints | None = None) -> StreamRows:
        """Return what comes at positions[i] of the stream of clients[i], for every i, in whatever concept.

        Windows move slowly, so the orders of the passes asked for are kept for the next call.
        """
        own = self._own(clients, positions)
        return StreamRows(self.starts[clients] + own, self.owners.rows(clients, own))

    def _own(self, clients: Ints, positions: Ints) -> Ints:
        """Which of its own images."""
        lengths = self.lengths[clients]
        if self.kind == "replacement":
            return (uniform(self.seed, Purpose.STREAM, positions, clients) * lengths).astype(np.int64)
        nth, place = np.divmod(positions, lengths)
        if self.kind == "stop" and nth.any():
            late = np.flatnonzero(nth)[0]
            raise SettingError(f"data.stream = stop: the stream of client {clients[late]} ends after {lengths[late]} samples")
        wanted, which = np.unique(clients << _NTH_BITS | nth, return_inverse=True)
        if not self._passes.hold(wanted):
            every = np.union1d(self._passes.keys, wanted)
            few = self.lengths[every >> _NTH_BITS].sum() <= KEPT
            self._passes = self._shuffled(every if few else wanted)
        starts = self._passes.starts[np.searchsorted(self._passes.keys, wanted)]
        own: Ints = self._passes.orders[starts[which] + place].astype(np.int64)
        return own

    def _shuffled(self, wanted: Ints) -> "Passes":
        """The wanted passes: those that are there already, and the others drawn."""
        clients, nth = wanted >> _NTH_BITS, wanted & (1 << _NTH_BITS) - 1
        lengths = self.lengths[clients]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        orders = np.empty(starts[-1], dtype=np.int32)
        _, there, here = np.intersect1d(self._passes.keys, wanted, assume_unique=True, return_indices=True)
        orders[spans(starts[here], lengths[here])] = self._passes.orders[spans(self._passes.starts[there], lengths[here])]
        new = np.setdiff1d(np.arange(wanted.size), here, assume_unique=True)
        for length in np.unique(lengths[new]):
            alike, places = new[lengths[new] == length], np.arange(length)
            for some, drawn in permutations(self.seed, Purpose.STREAM, places, clients[alike], nth[alike] * length):
                orders[starts[alike[some], None] + places] = drawn
        return Passes(wanted, starts, orders)


_NTH_BITS = 32


class Passes(NamedTuple):
    """The orders of some passes over clients' images."""

    keys: Ints
    """client and number of the pass in one number, ascending"""
    starts: Ints
    """where each begins in `orders`"""
    orders: NDArray[np.int32]

    def hold(self, wanted: Ints) -> bool:
        if self.keys.size == 0:
            return wanted.size == 0
        return bool((self.keys.take(np.searchsorted(self.keys, wanted), mode="clip") == wanted).all())


def spans(starts: Ints, lengths: Ints) -> Ints:
    """starts[0], starts[0] + 1, … lengths[0] of them, then the same for the next one.

    >>> spans(np.array([5, 20]), np.array([3, 2])).tolist()
    [5, 6, 7, 20, 21]
    """
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
