"""The latest prices and no others: for prices that drift, where older ones say little about today's."""

import numpy as np
from numpy.typing import NDArray

from headgate.control.policies.budgeted.price_limit import edge_of, share_at_edge
from headgate.control.types import Arrays, Floats, Ints

WINDOW = 256
"""prices that are remembered by default"""


def unseen(runs: int, window: int = WINDOW, costs: bool = False) -> Arrays:
    """No price seen yet; `costs` where prices are remembered as they are felt."""
    own = {"price_costs": np.zeros((runs, window))} if costs else {}
    return {"prices": np.zeros((runs, window)), "prices_seen": np.zeros(runs, dtype=np.int64), **own}


def remember(memory: Arrays, prices: Floats, costs: Floats | None = None) -> Arrays:
    """The memory with these prices, (R, any number), in place of the oldest; `costs` are the real ones of prices as felt."""
    seen, window = memory["prices_seen"], memory["prices"].shape[-1]
    places = (seen[:, None] + np.arange(prices.shape[-1])) % window
    new = {"prices": prices} if costs is None else {"prices": prices, "price_costs": costs}
    kept = {name: memory[name].copy() for name in new}
    for name, values in new.items():
        np.put_along_axis(kept[name], places, values, axis=-1)
    return {**memory, **kept, "prices_seen": seen + prices.shape[-1]}


def remembered(memory: Arrays) -> Ints:
    """How many prices are in memory, (R,)."""
    return np.minimum(memory["prices_seen"], memory["prices"].shape[-1])


def seen_prices(memory: Arrays) -> Floats:
    """The remembered prices, (R, window); infinite where there is none yet."""
    prices = memory["prices"]
    return np.where(np.arange(prices.shape[-1]) < remembered(memory)[:, None], prices, np.inf)


def holds(memory: Arrays, price: Floats) -> NDArray[np.bool_]:
    """Whether this price, (R,), is among the remembered ones."""
    return np.asarray((seen_prices(memory) == price[:, None]).any(axis=-1))


def deserved(memory: Arrays, price: Floats, spend: Floats) -> Floats:
    """The share of the places that today's prices deserve, (R,) or (R, M), if a place may cost `spend` a round on average.

    Today's prices are among the remembered ones. Where there is one it need only be compared, not put in order.
    """
    count, prices = remembered(memory), seen_prices(memory)
    costs = memory.get("price_costs", prices)
    if price.ndim > 1:
        order = np.argsort(prices, axis=-1)
        ordered, sums = (np.take_along_axis(each, order, axis=-1) for each in (prices, costs))
        return edge_of(ordered, count, spend, np.where(np.isfinite(ordered), sums, 0.0)).wanted(price)
    today = price[:, None]
    left = spend * count - np.where(prices < today, costs, 0.0).sum(axis=-1)
    tied = prices == today
    return share_at_edge(left, price * tied.sum(axis=-1) if costs is prices else np.where(tied, costs, 0.0).sum(axis=-1))
