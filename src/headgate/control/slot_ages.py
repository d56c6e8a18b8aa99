"""Since when each place of all windows is taken, after a round."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Born, Ints


class Windows(NamedTuple):
    """Samples begin ≤ i < end of each client's stream, at most a buffer of them, (R, M)."""

    begin: Ints
    end: Ints


class SlotAges(NamedTuple):
    """The places after a round, and what happened to them."""

    born: Born
    left: Ints
    """how many left, (R,)"""
    since: Ints
    """the sum over them of the rounds in which they had come, (R,)"""
    unused: Ints
    """how many came and went in the same round, (R,)"""


def kind_of(t: int) -> type[np.signedinteger[Any]]:
    """The narrowest type that holds rounds up to t: of a million clients' places nothing takes longer than to move them."""
    return next(each for each in (np.int8, np.int16, np.int32, np.int64) if t <= np.iinfo(each).max)


def by_place(born: Born) -> Born:
    """The same with the places first, (B, R, M), one after the other in memory."""
    return np.ascontiguousarray(np.moveaxis(born, -1, 0))


def by_client(born: Born) -> Born:
    """The same seen as it is known to others, (R, M, B)."""
    return np.moveaxis(born, 0, -1)


def renewed(born: Born, t: int, limit: Ints, held: Windows, holds: Windows) -> SlotAges:
    """`born` (R, M, B) after round t, in which what clients `held` became what each `holds` now.

    Sample i sits in place i mod its client's limit.
    """
    before = by_place(born).astype(kind_of(t), copy=False)
    begin, gone = np.maximum(held.end, holds.begin), np.minimum(held.end, holds.begin) - held.begin
    leaves = within(len(before), held.begin, gone, limit)
    comes = within(len(before), begin, holds.end - begin, limit)
    since = (before * leaves).sum(axis=0, dtype=kind_of(len(before) * t)).sum(axis=-1, dtype=np.int64)
    after = np.where(comes, before.dtype.type(t), before)
    return SlotAges(by_client(after), gone.sum(axis=-1), since, (begin - held.end).sum(axis=-1))


def within(places: int, begin: Ints, count: Ints, limit: Ints) -> NDArray[np.bool_]:
    """Which places (B, R, M) are those of the samples from `begin` on, at most `limit` of them."""
    kind = kind_of(2 * places)
    first, many, most = (each.astype(kind) for each in (begin % limit, count, limit))
    after = np.arange(places, dtype=kind)[:, None, None] - first
    return np.asarray(((after >= 0) & (after < np.minimum(many, most - first))) | (after + most < many))
