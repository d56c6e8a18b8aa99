"""Round a real number of samples to whole samples per client without losing any in the
long run.
"""

import numpy as np

from headgate.control.types import Bools, Floats, Ints

MOST_SORTED = 64
"""number of clients up to which all of them are sorted, which is faster than
np.partition for few clients and slower for many
"""
PART_OF_SAMPLE = 2.0**-30
"""tolerance in samples: ten rounds of 0.1 count as one sample, although their
floating-point sum is 0.9999999999999999
"""


def whole_total(
    asked: Floats,
    carry: Floats,
    most: Ints | None = None,
    lot: int = 1,
) -> tuple[Ints, Floats, Floats]:
    """Return the whole samples now, the remainder to carry, and the limited request.

    The request is a real number of samples; all results are (R,). The remainder stays
    below one lot. Samples beyond `most` are not owed later.
    """
    if most is not None:
        asked = np.minimum(asked, np.maximum(most - carry, 0.0))
    due = asked + carry
    total = lot * np.floor((due + PART_OF_SAMPLE) / lot)
    return total.astype(np.int64), due - total, asked


def apportion(
    total: Ints,
    credit: Ints,
    shares: Ints,
    room: Ints | None = None,
    whole: int | None = None,
) -> tuple[Ints, Ints]:
    """Divide a total among the clients in proportion to `shares`.

    A client's credit is the samples that it is entitled to but has not received, times
    Σ shares, so it is an integer. Whole credits are served first; each remaining sample
    goes to the entitled client whose next sample is due earliest. For fixed shares this
    is proportionate-fair scheduling on one processor (Baruah et al. 1996), where
    earliest deadline first keeps every client within one sample of its exact share at
    all times.

    Parameters
    ----------
    total : array of int
        Samples of all clients, (R,).
    credit : array of int
        Credit of each client, (R, M).
    shares : array of int
        Share of each client, (M,). Absent clients have 0: they gain no entitlement
        while they are absent, and keep their credit.
    room : array of int, optional
        The most samples of each client, (R, M). The caller ensures that the total fits.
    whole : int, optional
        Sum of the shares of all clients; left out: of those in `shares`.

    Returns
    -------
    samples, credit : tuple of array of int
        Whole samples and the new credit, (R, M).
    """
    if not total.any():
        return np.zeros_like(credit), credit
    present = int(shares.sum())
    whole = whole or present
    if whole == present:
        owed = total[:, None] * shares
    else:
        owed = _entitled(total * whole, shares, present)
    owed += credit
    if not shares.all():
        # Absent clients get nothing, however much they are owed.
        most = total[:, None] if room is None else room
        room = np.where(shares != 0, most, 0)
    # The usual case with full buffers: every client gets all that it has room for.
    if room is not None and np.array_equal(total, room.sum(axis=-1)):
        return np.array(room), owed - room * whole

    given, left = _whole_credits(owed, whole, total, room)
    rest = owed - given * whole
    if (left > 0).any():
        served = _earliest_due(given, left, rest, whole, shares, room)
        given += served
        rest -= served * whole
    return given, rest


def _whole_credits(
    owed: Ints,
    whole: int,
    total: Ints,
    room: Ints | None,
) -> tuple[Ints, Ints]:
    """Return the whole samples that clients are owed, (R, M), and those left, (R,)."""
    given = owed // whole
    np.maximum(given, 0, out=given)
    if room is not None:
        np.minimum(given, room, out=given)
    left = total - given.sum(axis=-1)
    # Only after `room` or absence has limited a client: others are ahead and stay so.
    if (left < 0).any():
        given = _largest_first(given, owed, total)
        left = np.maximum(left, 0)
    if room is not None and (left > 0).any():
        spare = room - given
        if (left >= (spare > 0).sum(axis=-1)).any():
            return _fill_up(given, left, spare)
    return given, left


def _earliest_due(
    given: Ints,
    left: Ints,
    rest: Ints,
    whole: int,
    shares: Ints,
    room: Ints | None,
) -> Bools:
    """Return which clients get one of the samples left, (R, M)."""
    has_room = np.ones_like(given, dtype=np.bool_) if room is None else given < room
    entitled = has_room & (rest > 0)
    # Only after `room` or absence has limited a client: the entitled cannot take all.
    short = left > np.count_nonzero(entitled, axis=-1)
    if short.any():
        entitled |= has_room & short[:, None]
    due = (whole - rest) / np.maximum(shares, 1)
    return _smallest(np.where(entitled, due, np.inf), left)


def _entitled(
    parts: Ints,
    shares: Ints,
    whole: int,
) -> Ints:
    """Divide `parts` of samples, (R,), in proportion to `shares`, (R, M).

    The first clients get the indivisible rest.
    """
    each, rest = np.divmod(parts, whole)
    owed = each[:, None] * shares + rest[:, None] * shares // whole
    left = parts - owed.sum(axis=-1)
    nth = np.cumsum(shares > 0)
    return np.asarray(owed + ((shares > 0) & (nth <= left[:, None])))


def _fill_up(
    given: Ints,
    left: Ints,
    spare: Ints,
) -> tuple[Ints, Ints]:
    """Give every client with spare room the same number of samples.

    The number is the largest that the samples left suffice for. The result is what is
    given, (R, M), and what is left, (R,).
    """
    low = np.zeros_like(left)
    high = spare.max(axis=-1)
    while (low < high).any():
        level = (low + high + 1) // 2
        fits = np.minimum(spare, level[:, None]).sum(axis=-1) <= left
        low = np.where(fits, level, low)
        high = np.where(fits, high, level - 1)
    more = np.minimum(spare, low[:, None])
    return given + more, left - more.sum(axis=-1)


def _smallest(values: Floats, count: Ints) -> Bools:
    """Return a mask of the `count[r]` smallest finite values of each row.

    Among equal values the first ones count.
    """
    if values.shape[-1] <= MOST_SORTED:
        order = values.argsort(
            axis=-1,
            kind="stable",
        )
        rank = np.empty(values.shape, dtype=np.int64)
        np.put_along_axis(rank, order, np.arange(values.shape[-1])[None], axis=-1)
        return (rank < count[:, None]) & (values < np.inf)

    chosen = np.zeros(values.shape, dtype=np.bool_)
    for own, row, wanted in zip(chosen, values, count, strict=True):
        most = min(int(wanted), int(np.count_nonzero(row < np.inf)))
        if most:
            edge = np.partition(row, most - 1)[most - 1]
            np.less(row, edge, out=own)
            ties = np.flatnonzero(row == edge)
            own[ties[: most - np.count_nonzero(own)]] = True
    return chosen


def _largest_first(
    given: Ints,
    owed: Ints,
    total: Ints,
) -> Ints:
    """Return `given`, reduced so that no row exceeds its total.

    Clients with the largest credits are served first.
    """
    order = np.argsort(
        -owed,
        axis=-1,
        kind="stable",
    )
    served = np.take_along_axis(given, order, axis=-1)
    before = np.cumsum(served, axis=-1) - served
    served = np.clip(total[:, None] - before, 0, served)
    cut: Ints = np.empty_like(given)
    np.put_along_axis(cut, order, served, axis=-1)
    return cut
