"""Prices as a policy learns them: the latest ones, and the price up to which a given spend would buy.

Buying a whole place whenever the price is at most θ costs E[c; c ≤ θ] a round and place. For the
empirical distribution of the latest prices that is a running sum of the sorted prices, so the θ for
a given spend is read off, with the share to be bought at θ itself where a price sits on the edge.
Today's price counts among the seen ones: with few of them nobody can say that a price is low, and
the share at the edge keeps the spend at what was asked for.
"""

from typing import NamedTuple

import numpy as np

from headgate.control.types import Arrays, Floats, Ints, View

WINDOW = 256
"""prices that are remembered; older ones say little about today's where prices drift"""
SPREAD = 5
"""where every client has a price of its own: how many of a round's are remembered, from the lowest to the highest"""


class Edge(NamedTuple):
    """Buy everything below `price`, nothing above it, and `share` of the places at exactly this price."""

    price: Floats
    share: Floats

    def wanted(self, today: Floats) -> Floats:
        """The share of its places that each price deserves; prices are (R,) or (R, M)."""
        price, share = (x if today.ndim == 1 else x[:, None] for x in self)
        return np.where(today < price, 1.0, np.where(today == price, share, 0.0))


def unseen(runs: int) -> Arrays:
    """No price seen yet."""
    return {"prices": np.zeros((runs, WINDOW)), "prices_seen": np.zeros(runs, dtype=np.int64)}


def observe(memory: Arrays, view: View) -> Arrays:
    """The memory with this round's price in it, in the place of the oldest."""
    today = view.price[:, None] if view.price.ndim == 1 else _spread(view.price)
    seen = memory["prices_seen"]
    prices = memory["prices"].copy()
    places = (seen[:, None] + np.arange(today.shape[-1])) % WINDOW
    np.put_along_axis(prices, places, today, axis=-1)
    return {**memory, "prices": prices, "prices_seen": seen + today.shape[-1]}


def _spread(price: Floats) -> Floats:
    slots = min(price.shape[-1], SPREAD)
    places = np.round(np.linspace(0, price.shape[-1] - 1, slots)).astype(np.int64)
    return np.asarray(np.sort(price, axis=-1)[:, places])


def remembered(memory: Arrays) -> Ints:
    """How many prices are in memory, (R,)."""
    return np.minimum(memory["prices_seen"], WINDOW)


def mean_price(memory: Arrays) -> Floats:
    return np.asarray(memory["prices"].sum(axis=-1) / np.maximum(remembered(memory), 1))


def seen_prices(memory: Arrays) -> Floats:
    """The remembered prices, (R, WINDOW); infinite where there is none yet."""
    return np.where(np.arange(WINDOW) < remembered(memory)[:, None], memory["prices"], np.inf)


def deserved(memory: Arrays, price: Floats, spend: Floats) -> Floats:
    """The share of the places that today's prices deserve, (R,) or (R, M), if a place may cost `spend` a round on average.

    Today's prices are among the remembered ones. Where there is one it need only be compared, not put in order.
    """
    if price.ndim > 1:
        return edge(memory, spend).wanted(price)
    count, prices, today = remembered(memory), seen_prices(memory), price[:, None]
    left = spend * count - np.where(prices < today, prices, 0.0).sum(axis=-1)
    tied = price * (prices == today).sum(axis=-1)
    return np.asarray(np.clip(np.divide(left, tied, out=np.ones_like(left), where=tied > 0), 0.0, 1.0))


def edge(memory: Arrays, spend: Floats) -> Edge:
    """Where to stop so that a place costs `spend` a round on average, had the prices been the remembered ones."""
    return edge_of(np.sort(seen_prices(memory), axis=-1), remembered(memory), spend)


def edge_of(ordered: Floats, count: Ints, spend: Floats) -> Edge:
    """`edge` for prices sorted along each row, of which the first `count` are finite."""
    finite = np.where(np.isfinite(ordered), ordered, 0.0)
    total = np.cumsum(finite, axis=-1)
    money = spend * count
    within = (total <= money[:, None]).sum(axis=-1)
    at = np.minimum(within, ordered.shape[-1] - 1)[:, None]
    price = np.where(within < count, np.take_along_axis(ordered, at, axis=-1)[:, 0], np.inf)
    left = money - (finite * (ordered < price[:, None])).sum(axis=-1)
    tied = (finite * (ordered == price[:, None])).sum(axis=-1)
    share = np.divide(left, tied, out=np.ones_like(left), where=tied > 0)
    return Edge(price, np.clip(share, 0.0, 1.0))
