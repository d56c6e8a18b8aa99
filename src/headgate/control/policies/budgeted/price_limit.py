"""The price limit up to which a given spend buys.

Buying a whole place whenever the price is at most θ costs E[c; c ≤ θ] per round and
place. For an empirical distribution this is a running sum of the sorted prices, which
gives the θ for a given spend and the share to buy at exactly θ. The current price
counts as a seen price. With few seen prices, none is known to be low, and the share at
the limit keeps the spend at the given amount.
"""

from typing import NamedTuple

import numpy as np

from headgate.control.types import Floats, Ints
from headgate.theory.reuse import quotient

SPREAD = 5
"""number of prices remembered per round with a price per client, evenly spaced from the
lowest to the highest
"""


class Edge(NamedTuple):
    """A limit: buy all places below a price, none above it, and a share at it.

    Parameters
    ----------
    price : array of float
        The limit, (R,).
    share : array of float
        Share of the places to buy at exactly the limit, (R,).
    """

    price: Floats
    share: Floats

    def wanted(self, today: Floats) -> Floats:
        """Return the share of the places to buy at today's prices, (R,) or (R, M)."""
        price, share = self.price, self.share
        if today.ndim == 2:
            price, share = price[:, None], share[:, None]
        at_limit = np.where(today == price, share, 0.0)
        return np.where(today < price, 1.0, at_limit)


def spread(price: Floats, felt: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the felt prices to remember, (R, any number), and their real prices.

    With a price per client at most `SPREAD` are remembered. Without `felt` the felt
    prices are the real ones.
    """
    if felt is None:
        felt = price.reshape(len(price), -1)
    if price.ndim == 1:
        return felt, np.broadcast_to(price[:, None], felt.shape)
    clients = price.shape[-1]
    evenly = np.linspace(0, clients - 1, min(clients, SPREAD))
    places = np.round(evenly).astype(np.int64)
    chosen = np.argsort(
        felt,
        axis=-1,
        kind="stable",
    )[:, places]
    felt = np.take_along_axis(felt, chosen, axis=-1)
    return felt, np.take_along_axis(price, chosen, axis=-1)


# At a price near zero the money buys infinitely many, which is right.
@np.errstate(over="ignore")
def share_at_edge(left: Floats, tied: Floats) -> Floats:
    """Return the share that the money `left` buys of places that cost `tied` together.

    The share is 1 if they cost nothing.
    """
    share = quotient(left, tied, tied > 0, 1.0)
    return np.clip(share, 0.0, 1.0)


def edge_of(
    ordered: Floats,
    count: Ints,
    spend: Floats,
    sums: Floats | None = None,
) -> Edge:
    """Return the limit at which a place costs `spend` per round on average.

    `ordered` holds the prices, sorted in each row and padded with infinity; `count` is
    their number, (R,). If an entry stands for several prices, `sums` is their sum.
    """
    known = np.isfinite(ordered)
    cost = np.where(known, ordered, 0.0) if sums is None else sums
    money = spend * count
    below = np.cumsum(cost, axis=-1) <= money[:, None]
    number = (below & known).sum(axis=-1)
    end = np.full((len(ordered), 1), np.inf)
    padded = np.concatenate([ordered, end], axis=-1)
    price = np.take_along_axis(padded, number[:, None], axis=-1)
    left = money - (cost * (ordered < price)).sum(axis=-1)
    tied = (cost * (ordered == price)).sum(axis=-1)
    return Edge(price[:, 0], share_at_edge(left, tied))
