"""The price up to which a given spend would buy.

Buying a whole place whenever the price is at most θ costs E[c; c ≤ θ] a round and place. For an empirical distribution that
is a running sum of the sorted prices, so the θ for a given spend is read off, with the share to be bought at θ itself where
a price sits on the edge. Today's price counts among the seen ones: with few of them no price is known to be low, and
the share at the edge keeps the spend at what was asked for.
"""

from typing import NamedTuple

import numpy as np

from headgate.control.types import Floats, Ints, View

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


def todays(view: View) -> Floats:
    """The prices of this round that are remembered, (R, 1), or (R, at most `SPREAD`) for a price per client."""
    return view.price[:, None] if view.price.ndim == 1 else spread(view.price, view.price)[0]


def spread(felt: Floats, price: Floats) -> tuple[Floats, Floats]:
    """What is remembered of prices as they are felt, (R, any number), and what they really are; of clients at most `SPREAD`."""
    if price.ndim == 1:
        return felt, np.broadcast_to(price[:, None], felt.shape)
    clients = price.shape[-1]
    places = np.round(np.linspace(0, clients - 1, min(clients, SPREAD))).astype(np.int64)
    chosen = np.argsort(felt, axis=-1, kind="stable")[:, places]
    return np.take_along_axis(felt, chosen, axis=-1), np.take_along_axis(price, chosen, axis=-1)


@np.errstate(over="ignore")  # at a price of next to nothing the money buys infinitely many, which is right
def share_at_edge(left: Floats, tied: Floats) -> Floats:
    """Of what costs `tied`, what `left` money buys; all of what costs nothing."""
    return np.asarray(np.clip(np.divide(left, tied, out=np.ones_like(left), where=tied > 0), 0.0, 1.0))


def edge_of(ordered: Floats, count: Ints, spend: Floats, sums: Floats | None = None) -> Edge:
    """Where to stop so that a place costs `spend` a round on average, had the prices been these.

    Sorted along each row, infinite behind the last. There are `count` of them, (R,). Where one stands for several, `sums` is
    what they cost together.
    """
    cost = np.where(np.isfinite(ordered), ordered, 0.0) if sums is None else sums
    money = spend * count
    within = ((np.cumsum(cost, axis=-1) <= money[:, None]) & np.isfinite(ordered)).sum(axis=-1)
    padded = np.concatenate([ordered, np.full((len(ordered), 1), np.inf)], axis=-1)
    price = np.take_along_axis(padded, within[:, None], axis=-1)
    left = money - (cost * (ordered < price)).sum(axis=-1)
    return Edge(price[:, 0], share_at_edge(left, (cost * (ordered == price)).sum(axis=-1)))
