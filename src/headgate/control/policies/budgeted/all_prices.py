"""A memory of all prices ever seen, in bounded space.

It is a histogram whose bins are as narrow as the space allows. A bin holds the number
of its prices and their sum. At first every price has its own bin. When `BINS` bins are
full, each bin becomes twice as wide, in steps of the float's bits, and neighbours are
merged. Only whole bins are merged, so no error adds up. Sums of the prices below a
bin's edge are exact; prices within one bin count as the same price.
"""

import numpy as np

from headgate.control.policies.budgeted.price_limit import Edge, edge_of, share_at_edge
from headgate.control.types import Arrays, Bools, Floats, Ints

BINS = 512
NAMES = ("price_bins", "price_sums", "price_counts", "price_bits")
NONE = np.array(np.inf).view(np.int64)[()]
"""value of an empty bin, larger than that of any other bin"""


def unseen(runs: int) -> Arrays:
    """Return the memory before the first price."""
    bins = np.full((runs, BINS), NONE, dtype=np.int64)
    return {
        "price_bins": bins,
        "price_sums": np.zeros((runs, BINS)),
        "price_counts": np.zeros_like(bins),
        "price_bits": np.zeros(runs, dtype=np.int64),
    }


def remember(
    memory: Arrays,
    prices: Floats,
    costs: Floats | None = None,
) -> Arrays:
    """Return the memory with `prices` added, (R, any number).

    If these are felt prices, `costs` are the real prices.
    """
    own = {name: memory[name].copy() for name in NAMES}
    bins, sums, counts, bits = own.values()
    costs = prices if costs is None else costs
    rows = np.arange(len(bins))
    for price, cost in zip(prices.T, costs.T, strict=True):
        free = _free(bins, bin_of(price, bits)[:, None])
        for run in np.flatnonzero(~free.any(axis=-1)).tolist():
            _widen(bins, sums, counts, bits, run)
            free[run] = _free(bins[run], bin_of(price[run], bits[run]))
        # Full bins come first, so this is the price's own bin if it exists.
        at = rows, free.argmax(axis=-1)
        bins[at] = bin_of(price, bits)
        sums[at] += cost
        counts[at] += 1
    return {**memory, **own}


def _free(bins: Ints, own: Ints) -> Bools:
    """Return which bins can take a price: its own bin and the empty ones."""
    return np.asarray((bins == own) | (bins == NONE))


def bin_of(price: Floats, bits: Ints) -> Ints:
    """Return the lower edge of a price's bin as the float's bits.

    The bits have the same order as the prices.
    """
    return (np.asarray(price + 0.0).view(np.int64) >> bits) << bits


def _widen(
    bins: Ints,
    sums: Floats,
    counts: Ints,
    bits: Ints,
    run: int,
) -> None:
    """Double the width of a run's bins in place until at least one bin is empty."""
    joined = bins[run]
    while joined.size == BINS:
        bits[run] += 1
        wider = (bins[run] >> bits[run]) << bits[run]
        joined, places = np.unique(wider, return_inverse=True)
    sums[run] = np.bincount(places, sums[run], BINS)
    counts[run] = np.bincount(places, counts[run], BINS)
    bins[run] = NONE
    bins[run, : joined.size] = joined


def holds(memory: Arrays, price: Floats) -> Bools:
    """Return whether the bin of `price`, (R,), holds a remembered price."""
    own = bin_of(price, memory["price_bits"])[:, None]
    return np.asarray((memory["price_bins"] == own).any(axis=-1))


def deserved(
    memory: Arrays,
    price: Floats,
    spend: Floats,
) -> Floats:
    """Return the share of the places to renew at the current `price`, (R,) or (R, M).

    A place may cost `spend` per round. The current prices must be among the remembered
    ones. A single price needs only comparisons, no sorting.
    """
    bins, sums, counts, bits = (memory[name] for name in NAMES)
    count = counts.sum(axis=-1)
    if price.ndim == 1:
        own = bin_of(price, bits)[:, None]
        left = spend * count - np.where(bins < own, sums, 0.0).sum(axis=-1)
        tied = np.where(bins == own, sums, 0.0).sum(axis=-1)
        return share_at_edge(left, tied)
    today = bin_of(price, bits[:, None]).view(np.float64)
    return _edge(memory, spend).wanted(today)


def limit(memory: Arrays, spend: Floats) -> Floats:
    """Return the price, (R,), up to which a place may cost `spend` per round."""
    return _edge(memory, spend).price


def _edge(memory: Arrays, spend: Floats) -> Edge:
    bins, sums, counts, _ = (memory[name] for name in NAMES)
    order = np.argsort(bins, axis=-1)
    lows = np.take_along_axis(bins.view(np.float64), order, axis=-1)
    costs = np.take_along_axis(sums, order, axis=-1)
    return edge_of(lows, counts.sum(axis=-1), spend, costs)
