"""Control's loops over very many clients, compiled by numba when first called. Importing this needs numba.

Each goes once over arrays that do not fit into the processor's caches, where numpy goes over them once an operation: a round in
which a million clients renew part of their buffers takes a quarter of the time. Outcomes are those of `control.apportion` and
`control.renewed`, to the last bit; what is rare is left to them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from headgate.control.apportion import apportion
from headgate.control.loops import Loops
from headgate.control.renewed import Renewed, Windows, by_client, by_place, kind_of, renewed
from headgate.control.types import Born, Floats, Ints
from headgate.simulation.executors.kernel_cache import keep

BLOCK = 2**16
"""clients whose places are looked at together"""
MOST_PLACES = 128
"""of a client, so that sums of two of them fit into a byte"""
SAMPLE = 8192
"""values by which the others are divided into below, between and above"""
AROUND = 256
"""values of the sample to either side of the place: five times as far off as that of a random sample usually is"""
_SOURCES = Path(__file__).read_bytes()


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return keep(njit(nogil=True, error_model="numpy")(function), _SOURCES)


# apportioning


def apportion_many(total: Ints, credit: Ints, shares: Ints, room: Ints | None = None) -> tuple[Ints, Ints]:
    """As `apportion`, which does it where room keeps so many back that others get more than they are owed."""
    if not total.any():
        return np.zeros_like(credit), credit
    given, rest, whole, due = np.empty_like(credit), np.empty_like(credit), int(shares.sum()), np.empty(credit.shape[-1])
    for r, own in enumerate(total.tolist()):
        one, limit = slice(r, r + 1), None if room is None else _read_only(room[r])
        asked = own, whole, _read_only(credit[r]), _read_only(shares), limit
        handed, entitled = _dues(*asked, due)
        left = own - handed
        if 0 <= left <= entitled:
            edge, ties = _edge(due, left)
            _hand_out(*asked, due, edge, _until(due, edge, ties), given[r], rest[r])
        else:
            given[one], rest[one] = apportion(total[one], credit[one], shares, None if room is None else room[one])
    return given, rest


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """numba makes a version for what may be written, and one for what may not."""
    seen = np.ascontiguousarray(array).view()
    seen.flags.writeable = False
    return seen


@_compiled
def _dues(total: int, whole: int, credit: Ints, shares: Ints, room: Ints | None, due: Floats) -> tuple[int, int]:
    """When part of a sample falls due to each, never to who is not entitled to it. (Whole credits, how many are entitled)."""
    handed, entitled, inverse = 0, 0, 1.0 / whole
    for m in range(credit.size):
        owed = total * shares[m] + credit[m]
        given = int(np.floor(owed * inverse))
        rest = owed - given * whole
        if rest < 0:  # the product was rounded
            given, rest = given - 1, rest + whole
        if rest >= whole:
            given, rest = given + 1, rest - whole
        fits, more = max(given, 0), shares[m] > 0
        if room is not None:
            fits = min(fits, room[m])
            more &= fits < room[m]
        rest += (given - fits) * whole
        more &= rest > 0
        handed += fits
        entitled += more
        due[m] = (whole - rest) / shares[m] if more else np.inf
    return handed, entitled


@_compiled
def _hand_out(
    total: int,
    whole: int,
    credit: Ints,
    shares: Ints,
    room: Ints | None,
    due: Floats,
    edge: float,
    until: int,
    given: Ints,
    rest: Ints,
) -> None:
    """Whole credits, and one more to whom it falls due before the edge; of those at the edge to who is before `until`."""
    inverse = 1.0 / whole
    for m in range(credit.size):
        owed = total * shares[m] + credit[m]
        fits = int(np.floor(owed * inverse))
        over = owed - fits * whole
        if over < 0:
            fits -= 1
        if over >= whole:
            fits += 1
        fits = max(fits, 0)
        if room is not None:
            fits = min(fits, room[m])
        fits += (due[m] < edge) | ((due[m] == edge) & (m < until))
        given[m] = fits
        rest[m] = owed - fits * whole


def _edge(due: Floats, left: int) -> tuple[float, int]:
    """When the last of so many samples falls due, and how many of them then: it lies between two of a sample, most likely."""
    if left == 0:
        return -np.inf, 0
    sample = np.sort(due[:: due.size // SAMPLE | 1])
    place = left * sample.size // due.size
    low, high = sample[max(place - AROUND, 0)], sample[min(place + AROUND, sample.size - 1)]
    below, at_low, inside, at_high = _counted(due, low, high)
    wanted = left - below
    if 0 < wanted <= at_low:
        return float(low), wanted
    if 0 < wanted - at_low - inside <= at_high:
        return float(high), wanted - at_low - inside
    near, wanted = (
        (due, left) if wanted <= 0 or wanted > at_low + inside else (_inside(due, low, high, inside), wanted - at_low)
    )
    edge = np.partition(near, wanted - 1)[wanted - 1]
    return float(edge), wanted - int(np.count_nonzero(near < edge))


@_compiled
def _counted(due: Floats, low: float, high: float) -> tuple[int, int, int, int]:
    """How many are below the lower edge, at it, between both, and at the higher one."""
    below, at_low, inside, at_high = 0, 0, 0, 0
    for m in range(due.size):
        below += due[m] < low
        at_low += due[m] == low
        inside += (due[m] > low) & (due[m] < high)
        at_high += (due[m] == high) & (low < high)
    return below, at_low, inside, at_high


@_compiled
def _inside(due: Floats, low: float, high: float, count: int) -> Floats:
    """Those between both edges."""
    found, n = np.empty(count), 0
    for m in range(due.size):
        if low < due[m] < high:
            found[n] = due[m]
            n += 1
    return found


@_compiled
def _until(due: Floats, edge: float, ties: int) -> int:
    """The client before whom so many are due at the edge."""
    m = 0
    while ties > 0:
        ties -= due[m] == edge
        m += 1
    return m


# places


def renewed_many(born: Born, t: int, limit: Ints, held: Windows, holds: Windows) -> Renewed:
    """As `renewed`, which does it where clients have very many places."""
    before = by_place(born)
    if len(before) > MOST_PLACES:
        return renewed(born, t, limit, held, holds)
    after, (places, runs, clients) = np.empty(before.shape, dtype=kind_of(t)), before.shape
    left, since, unused = np.zeros((3, runs), dtype=np.int64)
    now, spans = after.dtype.type(t), np.empty((6, min(BLOCK, clients)), dtype=np.uint8)
    windows = [_read_only(each) for each in (*held, *holds)]
    limit, before = _read_only(limit), _read_only(before)
    for r in range(runs):
        for start in range(0, clients, BLOCK):
            own = slice(start, start + BLOCK)
            here = spans[:, : len(limit[own])]
            gone, passed = _spans(limit[own], *(each[r, own] for each in windows), *here[:5])
            left[r], unused[r] = left[r] + gone, unused[r] + passed
            for p in range(places):
                since[r] += _one_place(np.uint8(p), *here, before[p, r, own], now, after[p, r, own])
    return Renewed(by_client(after), left, since, unused)


@_compiled
def _spans(
    limit: Ints, old: Ints, end: Ints, first: Ints, last: Ints, room: Any, leave: Any, gone: Any, enter: Any, come: Any
) -> tuple[int, int]:
    """Where the places of those that leave and of those that come begin, and how many they are, (M,) each. (How many leave,
    how many came and went)."""
    left, passed = 0, 0
    for m in range(limit.size):
        begin, many, most = max(end[m], first[m]), min(end[m], first[m]) - old[m], limit[m]
        inverse = 1.0 / most  # remainders by products, as divisions of whole numbers are no vectors
        away = old[m] - int(np.floor(old[m] * inverse)) * most
        near = begin - int(np.floor(begin * inverse)) * most
        room[m], gone[m], come[m] = most, many, last[m] - begin
        leave[m] = away + most if away < 0 else away - most if away >= most else away  # the product was rounded
        enter[m] = near + most if near < 0 else near - most if near >= most else near
        left += many
        passed += begin - end[m]
    return left, passed


@_compiled
def _one_place(
    place: Any, room: Any, leave: Any, gone: Any, enter: Any, come: Any, hit: Any, was: Born, t: Any, now: Born
) -> int:
    """Fills in who is there now; the sum of the rounds in which those that leave had come. Numbers below zero are far above
    every count, as they are unsigned. Three loops become vectors of bytes, where one would not."""
    since, same = 0, True
    for m in range(was.size):
        away = np.uint8(place - leave[m])
        hit[m] = (min(away, np.uint8(away + room[m])) < gone[m]) & (place < room[m])
        same &= (leave[m] == enter[m]) & (gone[m] == come[m])
    for m in range(was.size):
        since += was[m] * hit[m]
    if not same:
        for m in range(was.size):
            near = np.uint8(place - enter[m])
            hit[m] = (min(near, np.uint8(near + room[m])) < come[m]) & (place < room[m])
    for m in range(was.size):
        now[m] = t if hit[m] else was[m]
    return since


LOOPS = Loops(apportion_many, renewed_many)
