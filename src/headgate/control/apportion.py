"""Round a real number of samples to whole samples per client without losing any in the
long run.
"""

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Floats, Ints

FEW = 64
"""number of clients up to which all of them are sorted"""
ROUNDING = 2.0**-30
"""tolerance in samples: ten rounds of 0.1 count as one sample, although their
floating-point sum is 0.9999999999999999
"""


def whole_total(
    asked: Floats, carry: Floats, most: Ints | None = None, lot: int = 1
) -> tuple[Ints, Floats, Floats]:
    """Return (whole samples now, remainder to carry, real number of samples after the
    limit), each (R,).

    The remainder stays below one lot. Samples beyond `most` are not owed later.
    """
    if most is not None:
        asked = np.minimum(asked, np.maximum(most - carry, 0.0))
    due = asked + carry
    total = lot * np.floor((due + ROUNDING) / lot)
    return total.astype(np.int64), due - total, asked


def apportion(
    total: Ints,
    credit: Ints,
    shares: Ints,
    room: Ints | None = None,
    whole: int | None = None,
) -> tuple[Ints, Ints]:
    """Divide `total` (R,) among the clients in proportion to `shares` (M,). Return
    (whole samples (R, M), new credit (R, M)).

    A client's credit is the samples that it is entitled to but has not received, times
    Σ shares, so it is an integer. Whole credits are served first; each remaining sample
    goes to the entitled client whose next sample is due earliest. For fixed shares this
    is proportionate-fair scheduling on one processor (Baruah et al. 1996), where
    earliest deadline first keeps every client within one sample of its exact share at
    all times. `room` (R, M) limits what a client may get; the caller ensures that the
    total fits. `whole` is the sum of the shares of all clients; absent clients have 0
    in `shares`: they gain no entitlement while they are absent, and keep their credit.
    """
    if not total.any():
        return np.zeros_like(credit), credit
    own = int(shares.sum())
    whole = whole or own
    owed = (
        total[:, None] * shares
        if whole == own
        else _entitled(total * whole, shares, own)
    )
    owed += credit
    if room is not None:
        places = room if shares.all() else np.where(shares != 0, room, 0)
        if np.array_equal(
            total, places.sum(axis=-1)
        ):  # every client gets all that it has room for
            return np.array(places), owed - places * whole
    given = owed // whole
    np.maximum(given, 0, out=given)
    if room is not None:
        np.minimum(given, room, out=given)
    left = total - given.sum(axis=-1)
    if (
        left < 0
    ).any():  # only after `room` has limited a client: others are ahead and stay ahead
        given = _largest_first(given, owed, total)
        left = np.maximum(left, 0)
    if room is not None and (left > 0).any():
        spare = np.where(shares > 0, room - given, 0)
        if (left >= (spare > 0).sum(axis=-1)).any():
            given, left = _fill_up(given, left, spare)
    rest = owed - given * whole
    if (left > 0).any():
        open_to_more = shares > 0 if room is None else (shares > 0) & (given < room)
        entitled = open_to_more & (rest > 0)
        short = left > np.count_nonzero(
            entitled, axis=-1
        )  # only after `room` has limited a client
        if short.any():
            entitled |= open_to_more & short[:, None]
        served = _smallest(
            np.where(entitled, (whole - rest) / np.maximum(shares, 1), np.inf), left
        )
        given += served
        rest -= served * whole
    return given, rest


def _entitled(parts: Ints, shares: Ints, whole: int) -> Ints:
    """Divide `parts` (R,) of samples in proportion to `shares`, (R, M). The first
    clients get the indivisible rest.
    """
    each, rest = np.divmod(parts, whole)
    owed = each[:, None] * shares + rest[:, None] * shares // whole
    left = parts - owed.sum(axis=-1)
    nth = np.cumsum(shares > 0)
    return np.asarray(owed + ((shares > 0) & (nth <= left[:, None])))


def _fill_up(given: Ints, left: Ints, spare: Ints) -> tuple[Ints, Ints]:
    """Give every client with spare room one more sample, as often as the samples left
    suffice. Return (given, left).
    """
    low, high = np.zeros_like(left), spare.max(axis=-1)
    while (
        low < high
    ).any():  # bisection for the highest level that `left` suffices for
        level = (low + high + 1) // 2
        fits = np.minimum(spare, level[:, None]).sum(axis=-1) <= left
        low, high = np.where(fits, level, low), np.where(fits, high, level - 1)
    more = np.minimum(spare, low[:, None])
    return given + more, left - more.sum(axis=-1)


def _smallest(values: Floats, count: Ints) -> NDArray[np.bool_]:
    """Return a mask of the `count[r]` smallest finite values of each row; among equal
    values the first ones count.
    """
    if (
        values.shape[-1] <= FEW
    ):  # for few clients a sort is faster than np.partition, for many it is slower
        rank = np.empty(values.shape, dtype=np.int64)
        rank[
            np.arange(len(values))[:, None], values.argsort(axis=-1, kind="stable")
        ] = np.arange(values.shape[-1])
        return np.asarray((rank < count[:, None]) & (values < np.inf))
    chosen = np.zeros(values.shape, dtype=np.bool_)
    for own, row, wanted in zip(chosen, values, count, strict=True):
        if places := min(int(wanted), int(np.count_nonzero(row < np.inf))):
            edge = np.partition(row, places - 1)[places - 1]
            np.less(row, edge, out=own)
            own[np.flatnonzero(row == edge)[: places - np.count_nonzero(own)]] = True
    return chosen


def _largest_first(given: Ints, owed: Ints, total: Ints) -> Ints:
    """Return `given`, reduced so that no row exceeds its total; clients with the
    largest credits are served first.
    """
    order = np.argsort(-owed, axis=-1, kind="stable")
    served = np.take_along_axis(given, order, axis=-1)
    before = np.cumsum(served, axis=-1) - served
    served = np.clip(total[:, None] - before, 0, served)
    cut: Ints = np.empty_like(given)
    np.put_along_axis(cut, order, served, axis=-1)
    return cut
