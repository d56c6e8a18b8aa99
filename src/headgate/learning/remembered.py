"""A number for every sample that clients have admitted and may still hold, by which of a client's admissions it was."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Ints, Ledger
from headgate.limits import check_memory


class Remembered:
    """Numbers of the samples from each client's `begin`-th admission on; it is replaced, not changed."""

    what = "numbers"
    kind: type[np.integer[Any]] = np.int64

    def __init__(self, begin: Ints, value: NDArray[Any]) -> None:
        self.begin, self.value = begin, value
        """the first admission that is known, (R, M), and the numbers from there on, (R, M, admissions)"""

    @classmethod
    def nothing(cls, runs: int, clients: int) -> Self:
        return cls(np.zeros((runs, clients), np.int64), np.zeros((runs, clients, 0), cls.kind))

    def at(self, runs: Ints, clients: Ints, admissions: Ints) -> Ints:
        return np.asarray(self.value[runs, clients, admissions - self.begin[runs, clients]], dtype=np.int64)

    def restored(self, begin: Ints, value: NDArray[Any]) -> Self:
        """From what was saved; refused where it is not of as many runs and clients."""
        if begin.shape != self.begin.shape or value.shape[:-1] != begin.shape:
            raise ValueError(f"{self.what}: of {begin.shape} and {value.shape}, must be of {self.begin.shape}")
        return type(self)(begin.astype(np.int64), value.astype(self.kind))

    def with_new(self, least: Ints, before: Ints, last: Ints, values: NDArray[Any]) -> Self:
        """After samples before..last−1 of every client were admitted, with these numbers, client by client; `least` is the
        oldest that anybody will ask for; all but the numbers (R, M)."""
        begin, value = self.begin, self.value.copy()
        if int((last - begin).max(initial=0)) > value.shape[-1]:
            begin, value = self._moved_up(np.minimum(least, before), last)
        count = (last - before).ravel()
        owner = np.repeat(np.arange(count.size), count)
        place = np.arange(owner.size) + ((before - begin).ravel() - (np.cumsum(count) - count))[owner]
        value.reshape(count.size, -1)[owner, place] = values
        return type(self)(begin, value)

    def _moved_up(self, begin: Ints, last: Ints) -> tuple[Ints, NDArray[Any]]:
        """With room for as many again, and without what nobody will ask for."""
        room, known = 2 * int((last - begin).max()), self.value.shape[-1]
        size = float(begin.size * room * np.dtype(self.kind).itemsize)
        check_memory(f"{self.what} of each of {room:,} samples of every client takes", size)
        value = np.zeros((*begin.shape, room), self.kind)
        if known:
            place = np.minimum(np.arange(min(room, known)) + (begin - self.begin)[..., None], known - 1)
            value[..., : place.shape[-1]] = np.take_along_axis(self.value, place, axis=-1)
        return begin, value


def oldest_held(ledgers: Sequence[Ledger]) -> Ints:
    """Of each client the first of its admissions that it still holds, or the next one where it holds none, (R, M)."""
    return np.concatenate(
        [
            own.dropped if (held := own.places) is None else np.where(held < 0, own.admitted[..., None], held).min(axis=-1)
            for own in ledgers
        ]
    )
