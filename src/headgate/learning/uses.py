"""How often every run has trained on every sample: N and the sums behind N_eff, in integers."""

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Ints

MOST_WRITTEN_OUT = 1 << 24
"""counts for which there is a place whether they are used or not: 64 MiB"""


class UseCounts:
    """The counts of all runs: one place for each sample of each run, or, if these are too many, for those ever used.

    What counts is training: a sample that lies in memory while its client sits a round out is not used in that round, and
    one that is in memory twice is used twice. An image that leaves a client's memory and returns with a later pass of its
    stream is the same sample and goes on with its old count, so a sample once used is remembered for good. A table of those
    ever used therefore grows with N, at most to the images that the clients own, and by no more than a cohort's samples a
    round.
    """

    def __init__(self, runs: int, samples: int) -> None:
        self.runs, self.samples = runs, samples
        written_out = runs * samples <= MOST_WRITTEN_OUT
        self._keys: Ints | None = None if written_out else np.array([-1])
        """run·samples + sample for each place, ascending, from one that is nobody's; None: the place is the key"""
        self._counts = np.zeros(runs * samples if written_out else 1, dtype=np.int32)
        self.distinct, self.total, self.squares = (np.zeros(runs, dtype=np.int64) for _ in range(3))

    def use(self, runs: Ints, samples: Ints) -> None:
        """One more use of samples[i] by runs[i], for every i."""
        keys, times = np.unique(runs * self.samples + samples, return_counts=True)
        self._add(keys, times)

    def table(self) -> tuple[Ints, NDArray[np.int32]]:
        """(run·samples + sample, count) of all that were ever used: what `restored` needs."""
        places = np.flatnonzero(self._counts)
        return (places if self._keys is None else self._keys[places]), self._counts[places]

    @classmethod
    def restored(cls, runs: int, samples: int, keys: Ints, counts: NDArray[np.int32]) -> "UseCounts":
        """From a saved table; the sums follow from it."""
        uses = cls(runs, samples)
        uses._add(keys, counts.astype(np.int64))
        return uses

    def _add(self, keys: Ints, times: Ints) -> None:
        places = self._places(keys)
        before = self._counts[places].astype(np.int64)
        self._counts[places] += times.astype(np.int32)
        edges = np.searchsorted(keys, np.arange(self.runs + 1) * self.samples)
        for sums, terms in ((self.distinct, before == 0), (self.total, times), (self.squares, times * (2 * before + times))):
            sums += np.diff(np.concatenate([[0], np.cumsum(terms, dtype=np.int64)])[edges])

    def _places(self, keys: Ints) -> Ints:
        """Where the counts of these keys are, which ascend; places are made for those that have none yet."""
        if self._keys is None:
            return keys
        places = np.asarray(np.searchsorted(self._keys, keys))
        new = self._keys.take(places, mode="clip") != keys
        if new.any():
            self._keys, self._counts = np.insert(self._keys, places[new], keys[new]), np.insert(self._counts, places[new], 0)
            places += np.cumsum(new) - new  # each moved by those put in before it
        return places
