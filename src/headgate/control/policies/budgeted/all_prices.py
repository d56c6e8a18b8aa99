"""All prices ever seen, in bounded memory: as a histogram whose bins are as narrow as there is room for.

A bin holds the number of its prices and their sum. At first every price is a bin of its own. When `BINS` are taken, each bin
becomes twice as wide, in the float's own steps, and neighbours are put together: whole bins, so no error adds up. What is said
of the prices below a bin's edge is exact, and prices within one bin count as the same price.
"""

import numpy as np
from numpy.typing import NDArray

from headgate.control.policies.budgeted.price_limit import edge_of, share_at_edge
from headgate.control.types import Arrays, Floats, Ints

BINS = 512
NAMES = ("price_bins", "price_sums", "price_counts", "price_bits")
NONE = np.array(np.inf).view(np.int64)[()]
"""in place of a bin that is not taken: behind all others"""


def unseen(runs: int) -> Arrays:
    """No price seen yet."""
    bins, bits = np.full((runs, BINS), NONE, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    return dict(zip(NAMES, (bins, np.zeros((runs, BINS)), np.zeros_like(bins), bits), strict=True))


def remember(memory: Arrays, prices: Floats, costs: Floats | None = None) -> Arrays:
    """The memory with these prices in it, (R, any number). Where they are prices as felt, `costs` are the real ones."""
    bins, sums, counts, bits = own = [memory[name].copy() for name in NAMES]
    for price, cost in zip(prices.T, (prices if costs is None else costs).T, strict=True):
        free = (bins == bin_of(price, bits)[:, None]) | (bins == NONE)
        for run in np.flatnonzero(~free.any(axis=-1)).tolist():
            _widen(bins, sums, counts, bits, run)
            free[run] = (bins[run] == bin_of(price[run], bits[run])) | (bins[run] == NONE)
        # taken bins come first, so this is the price's own where there is one
        at = np.arange(len(bins)), free.argmax(axis=-1)
        bins[at] = bin_of(price, bits)
        sums[at] += cost
        counts[at] += 1
    return {**memory, **dict(zip(NAMES, own, strict=True))}


def bin_of(price: Floats, bits: Ints) -> Ints:
    """The lower edge of a price's bin, as the float's bits: they are in the order of the prices."""
    return (np.asarray(price + 0.0).view(np.int64) >> bits) << bits


def _widen(bins: Ints, sums: Floats, counts: Ints, bits: Ints, run: int) -> None:
    """Until there is room in the bins of this run."""
    joined = bins[run]
    while joined.size == BINS:
        bits[run] += 1
        joined, places = np.unique((bins[run] >> bits[run]) << bits[run], return_inverse=True)
    joined_sums, joined_counts = (np.bincount(places, each[run], BINS) for each in (sums, counts))
    bins[run], sums[run], counts[run] = NONE, joined_sums, joined_counts
    bins[run, : joined.size] = joined


def holds(memory: Arrays, price: Floats) -> NDArray[np.bool_]:
    """Whether this price, (R,), is among the remembered ones."""
    return np.asarray((memory["price_bins"] == bin_of(price, memory["price_bits"])[:, None]).any(axis=-1))


def deserved(memory: Arrays, price: Floats, spend: Floats) -> Floats:
    """The share of the places that today's prices deserve, (R,) or (R, M), if a place may cost `spend` a round on average.

    Today's prices are among the remembered ones. Where there is one it need only be compared, not put in order.
    """
    (bins, sums, _, bits), count = (memory[name] for name in NAMES), memory["price_counts"].sum(axis=-1)
    if price.ndim == 1:
        today = bin_of(price, bits)[:, None]
        left = spend * count - np.where(bins < today, sums, 0.0).sum(axis=-1)
        return share_at_edge(left, np.where(bins == today, sums, 0.0).sum(axis=-1))
    order = np.argsort(bins, axis=-1)
    lows, costs = (np.take_along_axis(each, order, axis=-1) for each in (bins.view(np.float64), sums))
    return edge_of(lows, count, spend, costs).wanted(bin_of(price, bits[:, None]).view(np.float64))
