"""A memory of all prices ever seen, in bounded space: a histogram whose bins are as
narrow as the space allows.

A bin holds the number of its prices and their sum. At first every price has its own
bin. When `BINS` bins are full, each bin becomes twice as wide, in steps of the float's
bits, and neighbours are merged. Only whole bins are merged, so no error adds up. Sums
of the prices below a bin's edge are exact; prices within one bin count as the same
price.
"""

import numpy as np
from numpy.typing import NDArray

from headgate.control.policies.budgeted.price_limit import edge_of, share_at_edge
from headgate.control.types import Arrays, Floats, Ints

BINS = 512
NAMES = ("price_bins", "price_sums", "price_counts", "price_bits")
NONE = np.array(np.inf).view(np.int64)[()]
"""value of an empty bin, larger than that of any other bin"""


def unseen(runs: int) -> Arrays:
    """Return the memory before the first price."""
    bins, bits = (
        np.full((runs, BINS), NONE, dtype=np.int64),
        np.zeros(runs, dtype=np.int64),
    )
    return dict(
        zip(
            NAMES,
            (bins, np.zeros((runs, BINS)), np.zeros_like(bins), bits),
            strict=True,
        )
    )


def remember(memory: Arrays, prices: Floats, costs: Floats | None = None) -> Arrays:
    """Return the memory with `prices` added, (R, any number). If these are felt prices,
    `costs` are the real prices.
    """
    bins, sums, counts, bits = own = [memory[name].copy() for name in NAMES]
    for price, cost in zip(
        prices.T, (prices if costs is None else costs).T, strict=True
    ):
        free = (bins == bin_of(price, bits)[:, None]) | (bins == NONE)
        for run in np.flatnonzero(~free.any(axis=-1)).tolist():
            _widen(bins, sums, counts, bits, run)
            free[run] = (bins[run] == bin_of(price[run], bits[run])) | (
                bins[run] == NONE
            )
        # full bins come first, so this is the price's own bin if it exists
        at = np.arange(len(bins)), free.argmax(axis=-1)
        bins[at] = bin_of(price, bits)
        sums[at] += cost
        counts[at] += 1
    return {**memory, **dict(zip(NAMES, own, strict=True))}


def bin_of(price: Floats, bits: Ints) -> Ints:
    """Return the lower edge of a price's bin as the float's bits, which have the same
    order as the prices.
    """
    return (np.asarray(price + 0.0).view(np.int64) >> bits) << bits


def _widen(bins: Ints, sums: Floats, counts: Ints, bits: Ints, run: int) -> None:
    """Double the width of a run's bins in place until at least one bin is empty."""
    joined = bins[run]
    while joined.size == BINS:
        bits[run] += 1
        joined, places = np.unique(
            (bins[run] >> bits[run]) << bits[run], return_inverse=True
        )
    joined_sums, joined_counts = (
        np.bincount(places, each[run], BINS) for each in (sums, counts)
    )
    bins[run], sums[run], counts[run] = NONE, joined_sums, joined_counts
    bins[run, : joined.size] = joined


def holds(memory: Arrays, price: Floats) -> NDArray[np.bool_]:
    """Return whether the bin of `price`, (R,), holds a remembered price."""
    return np.asarray(
        (memory["price_bins"] == bin_of(price, memory["price_bits"])[:, None]).any(
            axis=-1
        )
    )


def deserved(memory: Arrays, price: Floats, spend: Floats) -> Floats:
    """Return the share of the places to renew at the current `price`, (R,) or (R, M),
    if a place may cost `spend` per round.

    The current prices must be among the remembered ones. A single price needs only
    comparisons, no sorting.
    """
    (bins, sums, _, bits), count = (
        (memory[name] for name in NAMES),
        memory["price_counts"].sum(axis=-1),
    )
    if price.ndim == 1:
        today = bin_of(price, bits)[:, None]
        left = spend * count - np.where(bins < today, sums, 0.0).sum(axis=-1)
        return share_at_edge(left, np.where(bins == today, sums, 0.0).sum(axis=-1))
    order = np.argsort(bins, axis=-1)
    lows, costs = (
        np.take_along_axis(each, order, axis=-1)
        for each in (bins.view(np.float64), sums)
    )
    return edge_of(lows, count, spend, costs).wanted(
        bin_of(price, bits[:, None]).view(np.float64)
    )
