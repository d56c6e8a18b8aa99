"""A memory of the latest prices only.

It is for prices that drift, because older ones predict little about the current price.
"""

import numpy as np

from headgate.control.policies.budgeted.price_limit import Edge, edge_of, share_at_edge
from headgate.control.types import Arrays, Bools, Floats, Ints


def unseen(
    runs: int,
    window: int = 256,
    costs: bool = False,
) -> Arrays:
    """Return the memory before the first price.

    `costs` adds the real prices if the felt prices are remembered.
    """
    memory = {
        "prices": np.zeros((runs, window)),
        "prices_seen": np.zeros(runs, dtype=np.int64),
    }
    if costs:
        memory["price_costs"] = np.zeros((runs, window))
    return memory


def remember(
    memory: Arrays,
    prices: Floats,
    costs: Floats | None = None,
) -> Arrays:
    """Return the memory with `prices`, (R, any number), in place of the oldest.

    If these are felt prices, `costs` are the real prices.
    """
    seen, window = memory["prices_seen"], memory["prices"].shape[-1]
    places = (seen[:, None] + np.arange(prices.shape[-1])) % window
    new = {"prices": prices}
    if costs is not None:
        new["price_costs"] = costs
    kept = {name: memory[name].copy() for name in new}
    for name, values in new.items():
        np.put_along_axis(kept[name], places, values, axis=-1)
    return {**memory, **kept, "prices_seen": seen + prices.shape[-1]}


def remembered(memory: Arrays) -> Ints:
    """Return how many prices are in memory, (R,)."""
    return np.minimum(memory["prices_seen"], memory["prices"].shape[-1])


def seen_prices(memory: Arrays) -> Floats:
    """Return the remembered prices, (R, window), and infinity for each empty place."""
    prices = memory["prices"]
    known = np.arange(prices.shape[-1]) < remembered(memory)[:, None]
    return np.where(known, prices, np.inf)


def holds(memory: Arrays, price: Floats) -> Bools:
    """Return whether `price`, (R,), is among the remembered prices."""
    return np.asarray((seen_prices(memory) == price[:, None]).any(axis=-1))


def deserved(
    memory: Arrays,
    price: Floats,
    spend: Floats,
) -> Floats:
    """Return the share of the places to renew at the current `price`, (R,) or (R, M).

    A place may cost `spend` per round. The current prices must be among the remembered
    ones. A single price needs only comparisons, no sorting.
    """
    count, prices = remembered(memory), seen_prices(memory)
    costs = memory.get("price_costs")
    if price.ndim > 1:
        return _edge(memory, spend).wanted(price)

    today = price[:, None]
    tied = prices == today
    if costs is None:
        at_today = price * tied.sum(axis=-1)
        below = np.where(prices < today, prices, 0.0)
    else:
        at_today = np.where(tied, costs, 0.0).sum(axis=-1)
        below = np.where(prices < today, costs, 0.0)
    return share_at_edge(spend * count - below.sum(axis=-1), at_today)


def limit(memory: Arrays, spend: Floats) -> Floats:
    """Return the price, (R,), up to which a place may cost `spend` per round."""
    return _edge(memory, spend).price


def _edge(memory: Arrays, spend: Floats) -> Edge:
    prices, costs = seen_prices(memory), memory.get("price_costs")
    order = np.argsort(prices, axis=-1)
    ordered = np.take_along_axis(prices, order, axis=-1)
    sums = None
    if costs is not None:
        known = np.take_along_axis(costs, order, axis=-1)
        sums = np.where(np.isfinite(ordered), known, 0.0)
    return edge_of(ordered, remembered(memory), spend, sums)
