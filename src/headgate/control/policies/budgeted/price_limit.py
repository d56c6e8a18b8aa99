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

SPREAD = 5
"""number of prices remembered per round with a price per client, evenly spaced from the
lowest to the highest
"""


class Edge(NamedTuple):
    """A limit: buy all places below `price`, none above it, and `share` of them at
    exactly this price.

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
        """Return the share of the places to buy at the prices `today`, (R,) or (R,
        M).
        """
        price, share = (x if today.ndim == 1 else x[:, None] for x in self)
        return np.where(today < price, 1.0, np.where(today == price, share, 0.0))


def spread(price: Floats, felt: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the felt prices to remember, (R, any number), and their real prices; with
    a price per client at most `SPREAD`.

    Without `felt` both are the real prices.
    """
    felt = price.reshape(len(price), -1) if felt is None else felt
    if price.ndim == 1:
        return felt, np.broadcast_to(price[:, None], felt.shape)
    clients = price.shape[-1]
    places = np.round(np.linspace(0, clients - 1, min(clients, SPREAD))).astype(
        np.int64
    )
    chosen = np.argsort(felt, axis=-1, kind="stable")[:, places]
    return np.take_along_axis(felt, chosen, axis=-1), np.take_along_axis(
        price, chosen, axis=-1
    )


@np.errstate(
    over="ignore"
)  # at a price near zero the money buys infinitely many, which is right
def share_at_edge(left: Floats, tied: Floats) -> Floats:
    """Return the share that the money `left` buys of places that cost `tied` together;
    1 if they cost nothing.
    """
    return np.asarray(
        np.clip(np.divide(left, tied, out=np.ones_like(left), where=tied > 0), 0.0, 1.0)
    )


def edge_of(
    ordered: Floats, count: Ints, spend: Floats, sums: Floats | None = None
) -> Edge:
    """Return the limit at which a place costs `spend` per round on average under these
    prices.

    `ordered` holds the prices, sorted in each row and padded with infinity; `count` is
    their number, (R,). If an entry stands for several prices, `sums` is their sum.
    """
    cost = np.where(np.isfinite(ordered), ordered, 0.0) if sums is None else sums
    money = spend * count
    within = ((np.cumsum(cost, axis=-1) <= money[:, None]) & np.isfinite(ordered)).sum(
        axis=-1
    )
    padded = np.concatenate([ordered, np.full((len(ordered), 1), np.inf)], axis=-1)
    price = np.take_along_axis(padded, within[:, None], axis=-1)
    left = money - (cost * (ordered < price)).sum(axis=-1)
    return Edge(
        price[:, 0], share_at_edge(left, (cost * (ordered == price)).sum(axis=-1))
    )
