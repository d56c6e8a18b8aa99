"""A memory of the latest prices only, for prices that drift, because older ones predict
little about the current price.
"""

import numpy as np
from numpy.typing import NDArray

from headgate.control.policies.budgeted.price_limit import edge_of, share_at_edge
from headgate.control.types import Arrays, Floats, Ints


def unseen(runs: int, window: int = 256, costs: bool = False) -> Arrays:
    """Return the memory before the first price; `costs` adds the real prices if the
    felt prices are remembered.
    """
    own = {"price_costs": np.zeros((runs, window))} if costs else {}
    return {
        "prices": np.zeros((runs, window)),
        "prices_seen": np.zeros(runs, dtype=np.int64),
        **own,
    }


def remember(memory: Arrays, prices: Floats, costs: Floats | None = None) -> Arrays:
    """Return the memory with `prices`, (R, any number), in place of the oldest; `costs`
    are the real prices of felt ones.
    """
    seen, window = memory["prices_seen"], memory["prices"].shape[-1]
    places = (seen[:, None] + np.arange(prices.shape[-1])) % window
    new = (
        {"prices": prices}
        if costs is None
        else {"prices": prices, "price_costs": costs}
    )
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
    return np.where(
        np.arange(prices.shape[-1]) < remembered(memory)[:, None], prices, np.inf
    )


def holds(memory: Arrays, price: Floats) -> NDArray[np.bool_]:
    """Return whether `price`, (R,), is among the remembered prices."""
    return np.asarray((seen_prices(memory) == price[:, None]).any(axis=-1))


def deserved(memory: Arrays, price: Floats, spend: Floats) -> Floats:
    """Return the share of the places to renew at the current `price`, (R,) or (R, M),
    if a place may cost `spend` per round.

    The current prices must be among the remembered ones. A single price needs only
    comparisons, no sorting.
    """
    count, prices = remembered(memory), seen_prices(memory)
    costs = memory.get("price_costs", prices)
    if price.ndim > 1:
        order = np.argsort(prices, axis=-1)
        ordered, sums = (
            np.take_along_axis(each, order, axis=-1) for each in (prices, costs)
        )
        return edge_of(
            ordered, count, spend, np.where(np.isfinite(ordered), sums, 0.0)
        ).wanted(price)
    today = price[:, None]
    left = spend * count - np.where(prices < today, costs, 0.0).sum(axis=-1)
    tied = prices == today
    return share_at_edge(
        left,
        (
            price * tied.sum(axis=-1)
            if costs is prices
            else np.where(tied, costs, 0.0).sum(axis=-1)
        ),
    )
