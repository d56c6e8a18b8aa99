"""The latest prices and no others: for prices that drift, where older ones say little about today's."""

import numpy as np

from headgate.control.policies.buying.price_limit import edge_of, share_at_edge, todays
from headgate.control.types import Arrays, Floats, Ints, View

WINDOW = 256
"""prices that are remembered where nobody says how many"""


def unseen(runs: int, window: int = WINDOW) -> Arrays:
    """No price seen yet."""
    return {"prices": np.zeros((runs, window)), "prices_seen": np.zeros(runs, dtype=np.int64)}


def observe(memory: Arrays, view: View) -> Arrays:
    """The memory with this round's price in it, in the place of the oldest."""
    today, seen, prices = todays(view), memory["prices_seen"], memory["prices"].copy()
    places = (seen[:, None] + np.arange(today.shape[-1])) % prices.shape[-1]
    np.put_along_axis(prices, places, today, axis=-1)
    return {**memory, "prices": prices, "prices_seen": seen + today.shape[-1]}


def remembered(memory: Arrays) -> Ints:
    """How many prices are in memory, (R,)."""
    return np.minimum(memory["prices_seen"], memory["prices"].shape[-1])


def mean_price(memory: Arrays) -> Floats:
    return np.asarray(memory["prices"].sum(axis=-1) / np.maximum(remembered(memory), 1))


def seen_prices(memory: Arrays) -> Floats:
    """The remembered prices, (R, window); infinite where there is none yet."""
    prices = memory["prices"]
    return np.where(np.arange(prices.shape[-1]) < remembered(memory)[:, None], prices, np.inf)


def deserved(memory: Arrays, price: Floats, spend: Floats) -> Floats:
    """The share of the places that today's prices deserve, (R,) or (R, M), if a place may cost `spend` a round on average.

    Today's prices are among the remembered ones. Where there is one it need only be compared, not put in order.
    """
    count, prices = remembered(memory), seen_prices(memory)
    if price.ndim > 1:
        return edge_of(np.sort(prices, axis=-1), count, spend).wanted(price)
    today = price[:, None]
    left = spend * count - np.where(prices < today, prices, 0.0).sum(axis=-1)
    return share_at_edge(left, price * (prices == today).sum(axis=-1))
