"""Budgeted policies with one simple rule each: a fixed price limit, and a quantile of
the latest prices.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from headgate.control.checks import a_share, zero_or_more
from headgate.control.policies.budgeted import latest_prices
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import Edge, edge_of
from headgate.control.policies.budgeted.purse import pace
from headgate.control.policy import PolicyContext
from headgate.control.prices import PriceProcess
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import require
from headgate.theory.reuse import quotient

DRAWS = 1 << 17
"""number of prices from which a distribution is estimated"""
OTHERS = 1 << 31
"""first seed of these prices, outside the seeds of runs: a policy may know the
distribution but not its run's prices
"""


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Threshold(BudgetedPolicy):
    """A fixed price limit from a known price distribution: buy all places below the
    limit and none above it.

    `limit` is the highest price at which to buy; `share` is the part of the places
    bought at exactly this price.

    If `limit` is left out, both are set so that the expected spend is C·T.

    Parameters
    ----------
    limit : float, optional
        The highest price at which to buy; left out, `limit` and `share` are set so that
        the expected spend is C·T.
    share : float, default 1.0
        Part of the places that is bought at exactly this price.
    """

    limit: float | None = field(
        default=None,
        metadata={"infinite": True},
    )
    share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None:
            zero_or_more("limit", self.limit if self.limit != np.inf else 0.0)
        a_share("share", self.share)

    def resolved(self, given: PolicyContext) -> Self:
        if self.limit is not None:
            return self
        fill = self.money_to_fill(given.system)
        limit, share = known_edge(given.prices, given.system, given.rounds, fill)
        return replace(
            self,
            limit=limit,
            share=share,
        )

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        runs = view.debt.shape
        limit = np.full(runs, self.required("limit"))
        edge = Edge(limit, np.full(runs, self.share))
        return edge.wanted(view.price), memory

    def price_limit(self, view: View, memory: Arrays) -> Floats | None:
        return np.full(view.debt.shape, self.required("limit"))


def known_edge(
    prices: PriceProcess,
    system: System,
    rounds: int,
    fill: float = 0.0,
) -> tuple[float, float]:
    """Return the limit and the share at which the expected spend of all rounds is C·T.

    At most `fill` money is spent in round 1.
    """
    seeds = OTHERS + np.arange(max(1, DRAWS // rounds), dtype=np.int64)
    seen = np.sort(prices.path(seeds, 1, rounds + 1).ravel())[None]
    places = float(system.all_places)
    spend = system.budget / places
    if fill and rounds > 1:
        filling = min(places * prices.mean(rounds), fill)
        spend = (system.budget * rounds - filling) / (rounds - 1) / places
    limit, share = edge_of(seen, np.array([seen.size]), np.array([spend]))
    return float(limit[0]), float(share[0])


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Below(BudgetedPolicy):
    """Buy if the price is at most a quantile of the last 256 prices.

    The money left is spent evenly over such rounds.

    With `quantile` = 0.5 a round at or below the running median spends twice the money
    left, divided by the rounds left. With 1 every round spends the same money at any
    price. With a price per client, the mean of the prices is compared.

    Parameters
    ----------
    quantile : float, default 0.5
        Quantile of the remembered prices, above 0 and at most 1.
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            0 < self.quantile <= 1, "quantile", self.quantile, "above 0 and at most 1"
        )

    def start(self, system: System, runs: int) -> Arrays:
        return {**super().start(system, runs), **latest_prices.unseen(runs)}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        by_client = view.price.ndim == 2
        price = view.price.mean(axis=-1) if by_client else view.price
        memory = latest_prices.remember(memory, price[:, None])
        limit = self.price_limit(view, memory)

        each = view.price if by_client else price[:, None]
        cost = (each * self.places(view.system)).sum(axis=-1)
        money = pace(view, self.overdraft) / self.quantile
        share = quotient(money, cost, cost > money, 1.0)
        share = np.where(price <= limit, share, 0.0)
        if by_client:
            share = np.broadcast_to(share[:, None], view.price.shape)
        return share, memory

    def price_limit(self, view: View, memory: Arrays) -> Floats:
        number = np.ceil(self.quantile * latest_prices.remembered(memory))
        place = number.astype(np.int64)[:, None] - 1
        ordered = np.sort(latest_prices.seen_prices(memory), axis=-1)
        return np.take_along_axis(ordered, place, axis=-1)[:, 0]
