"""Since when each place of very many windows is taken, after a round: all are looked at, block by block."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Born, Ints

BLOCK = 2**13
"""clients, of all runs, that are looked at together: what is worked out for them stays near the processor"""
MANY = 2**14
"""places of all clients, from which it is worth it"""


class Windows(NamedTuple):
    """Samples begin ≤ i < end of each client's stream, at most a buffer of them, (R, M)."""

    begin: Ints
    end: Ints


class Renewed(NamedTuple):
    """The places after a round, and what happened to them."""

    born: Born
    left: Ints
    """how many left, (R,)"""
    since: Ints
    """the sum over them of the rounds in which they had come, (R,)"""
    unused: Ints
    """how many came and went in the same round, (R,)"""


Renew = Callable[[Born, int, Ints, Windows, Windows], Renewed]


def kind_of(t: int) -> type[np.signedinteger[Any]]:
    """The narrowest type that holds rounds up to t: of a million clients' places nothing takes longer than to move them."""
    return next(each for each in (np.int8, np.int16, np.int32, np.int64) if t <= np.iinfo(each).max)


def by_place(born: Born) -> Born:
    """The same with the places first, (B, R, M), one after the other in memory."""
    return np.ascontiguousarray(np.moveaxis(born, -1, 0))


def by_client(born: Born) -> Born:
    """The same seen as it is known to others, (R, M, B)."""
    return np.moveaxis(born, 0, -1)


def renewed(born: Born, t: int, limit: Ints, held: Windows, holds: Windows) -> Renewed:
    """`born` (R, M, B) after round t, in which what clients `held` became what each `holds` now.

    Sample i sits in place i mod its client's limit.
    """
    before = by_place(born)
    places, runs, clients = before.shape
    kind, place = kind_of(t), np.arange(places, dtype=_unsigned(places))[:, None, None]
    after, now, most = np.empty(before.shape, dtype=kind), kind(t), limit.astype(place.dtype)
    left, since, unused = np.zeros((3, runs), dtype=np.int64)
    for some, own in _blocks(runs, clients):
        was, room = before[:, some, own].astype(kind, copy=False), most[own]
        (old, end), (first, last) = (Windows(*(each[some, own] for each in windows)) for windows in (held, holds))
        begin = np.maximum(end, first)
        gone, come = (each.astype(place.dtype) for each in (np.minimum(end, first) - old, last - begin))
        leaves, many = _within(place, old, gone, room).view(np.int8), gone.sum(axis=1, dtype=np.int64)
        left[some] += many
        unused[some] += (begin - end).sum(axis=1)
        if np.array_equal(gone, come) and not ((gone > 0) & (end - old != room)).any():
            # Who is full takes the places of those that leave. Products are quicker than choices.
            ages = (now - was) * leaves
            since[some] += t * many - _total(ages, t)
        else:
            since[some] += _total(was * leaves, t)
            ages = (now - was) * _within(place, begin, come, room).view(np.int8)
        np.add(was, ages, out=after[:, some, own])
    return Renewed(by_client(after), left, since, unused)


def _blocks(runs: int, clients: int) -> Iterator[tuple[slice, slice]]:
    """Of whole runs, or of clients of one."""
    together = max(1, BLOCK // max(clients, 1))
    for r in range(0, runs, together):
        for start in range(0, clients, BLOCK):
            yield slice(r, r + together), slice(start, start + BLOCK)


def _unsigned(places: int) -> Any:
    """The narrowest type that holds twice as many places."""
    return next(each for each in (np.uint8, np.uint16, np.uint32) if 2 * places <= np.iinfo(each).max + 1)


def _within(place: NDArray[Any], begin: Ints, count: NDArray[Any], most: NDArray[Any]) -> NDArray[np.bool_]:
    """Which places (B, 1, 1) are those of the samples from `begin` on. Below zero is far above every count: it is unsigned."""
    near = begin.max() < 2**32  # of shorter numbers remainders are quicker
    first = (begin.astype(np.uint32) % most.astype(np.uint32) if near else begin % most).astype(place.dtype)
    after = place - first
    return np.asarray((after < np.minimum(count, most - first)) | (after + most < count))


def _total(rounds: NDArray[Any], t: int) -> Ints:
    """Their sum for each run, place by place at first, in the narrowest type that cannot overflow."""
    return np.asarray(rounds.sum(axis=0, dtype=kind_of(len(rounds) * t)).sum(axis=1, dtype=np.int64))
