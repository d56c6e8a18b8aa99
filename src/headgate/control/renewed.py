"""Places of very many windows that change hands in a round: all are looked at, which is quicker than to find some of them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Ints

BLOCK = 2**13
"""clients that are looked at together: what is worked out for them stays near the processor"""
MANY = 2**14
"""places of all clients, from which it may be worth it"""
PART = 8
"""and of which at least one in so many changes hands"""


class Spans(NamedTuple):
    """Samples begin ≤ i < begin + size of each client's stream, at most a buffer of them, (R, M)."""

    begin: Ints
    size: Ints


def worth_it(moved: int, places: int) -> bool:
    """Whether so many come or go that looking at every place of every client is quicker."""
    return places >= MANY and PART * moved >= places


def by_place(born: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same with the places first, (B, R, M), one after the other in memory."""
    return np.ascontiguousarray(np.moveaxis(born, -1, 0))


def by_client(born: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same seen as it is known to others, (R, M, B)."""
    return np.moveaxis(born, 0, -1)


def renewed(born: NDArray[np.int32], t: int, limit: Ints, gone: Spans, come: Spans | None) -> tuple[NDArray[np.int32], Ints]:
    """`born` (R, M, B) after round t, and the sum over those that left of the rounds in which they had come, (R,).

    Sample i sits in place i mod its client's limit. None: those that come take the places of those that left.
    """
    before = by_place(born)
    after, (places, runs, clients) = np.empty_like(before), before.shape
    kind = next(each for each in ("u1", "u2", "u4") if 2 * places <= np.iinfo(each).max + 1)
    place, now = np.arange(places, dtype=kind)[:, None], np.int32(t)
    since = np.zeros(runs, dtype=np.int64)
    for r in range(runs):
        for start in range(0, clients, BLOCK):
            own = slice(start, start + BLOCK)
            held, room = before[:, r, own], limit[own]
            left = _within(place, gone.begin[r, own], gone.size[r, own], room)
            if come is None:
                ages = (now - held) * left  # products are quicker than choices
                since[r] += t * gone.size[r, own].sum() - ages.sum(dtype=np.int64)
                np.add(held, ages, out=after[:, r, own])
            else:
                since[r] += (held * left).sum(dtype=np.int64)
                taken = _within(place, come.begin[r, own], come.size[r, own], room)
                np.add(held, (now - held) * taken, out=after[:, r, own])
    return by_client(after), since


def _within(place: NDArray[Any], begin: Ints, count: Ints, room: Ints) -> NDArray[np.bool_]:
    """Which places (B, 1) are those of the samples from `begin` on. Below zero is far above every count: it is unsigned."""
    kind = place.dtype
    first = (begin - np.floor(begin / room) * room).astype(kind)  # exact below 2^53, and quicker than a remainder
    many, most, after = count.astype(kind), room.astype(kind), place - first
    return np.asarray((after < np.minimum(many, most - first)) | (after + most < many))
