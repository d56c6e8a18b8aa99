"""Position i of client m's stream, for ever: which of its own images comes there.

A sample is known by its number among all images of its client, so that an image that comes by a second
time counts as the same sample: "distinct" stays honest.
"""

from collections.abc import Sequence

import numpy as np

from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError

KINDS = ("reshuffle", "replacement", "stop")


class Stream:
    """The endless stream of every client for one seed.

    `reshuffle` passes over the client's images again and again, each time in a new order;
    `replacement` draws each position anew; `stop` ends after one pass.
    """

    def __init__(self, owned: Sequence[Ints], seed: int, kind: str) -> None:
        if kind not in KINDS:
            raise SettingError(f"data.stream = {kind}: must be one of {', '.join(KINDS)}")
        self.seed, self.kind = seed, kind
        self.lengths = np.array([rows.size for rows in owned], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        """where each client's images begin in `rows`"""
        self.rows = np.concatenate(owned)
        """row of the training set for every sample number"""
        self._served: list[Ints] = [np.empty(0, dtype=np.int64) for _ in owned]

    def samples(self, client: int, first: int, last: int) -> Ints:
        """The sample numbers at positions first ≤ i < last of a client's stream."""
        while self._served[client].size < last:
            self._served[client] = np.concatenate([self._served[client], self._next_pass(client)])
        return self._served[client][first:last]

    def _next_pass(self, client: int) -> Ints:
        served, length = self._served[client].size, int(self.lengths[client])
        if self.kind == "stop" and served:
            raise SettingError(f"client {client}: its stream ends after {length} samples")
        draws = uniform(self.seed, Purpose.STREAM, np.arange(served, served + length), client)
        own = np.argsort(draws, kind="stable") if self.kind != "replacement" else (draws * length).astype(np.int64)
        return np.asarray(self.starts[client] + own)


class UseCounts:
    """How often every run has trained on every sample: N and the sums behind N_eff, in integers."""

    def __init__(self, runs: int, samples: int) -> None:
        self.counts = np.zeros((runs, samples), dtype=np.int32)
        self.distinct, self.total, self.squares = (np.zeros(runs, dtype=np.int64) for _ in range(3))

    def use(self, run: int, samples: Ints) -> None:
        """One more use of each of these samples; a sample that is in memory twice is used twice."""
        numbers, times = np.unique(samples, return_counts=True)
        before = self.counts[run, numbers].astype(np.int64)
        self.distinct[run] += np.count_nonzero(before == 0)
        self.total[run] += samples.size
        self.squares[run] += int((times * (2 * before + times)).sum())
        self.counts[run, numbers] += times.astype(np.int32)

    @classmethod
    def restored(cls, counts: np.ndarray) -> "UseCounts":
        """From saved counts; the sums follow from them."""
        uses = cls(*counts.shape)
        uses.counts[...] = counts
        wide = counts.astype(np.int64)
        uses.distinct, uses.total, uses.squares = (wide > 0).sum(axis=1), wide.sum(axis=1), (wide**2).sum(axis=1)
        return uses
