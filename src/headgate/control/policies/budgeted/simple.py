"""Budgeted policies with one simple rule each.

The rules are a fixed price limit, an even pace, a quantile of the prices and chance.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from headgate.control.checks import a_share, positive, zero_or_more
from headgate.control.policies.budgeted import all_prices, latest_prices
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import Edge, edge_of, spread
from headgate.control.policies.budgeted.purse import pace
from headgate.control.policies.dpp import horizon_at
from headgate.control.policy import PolicyContext
from headgate.control.prices import PriceProcess
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import require

DRAWS = 1 << 17
"""number of prices from which a distribution is estimated"""
OTHERS = 1 << 31
"""first seed of these prices, outside the seeds of runs: a policy may know the
distribution but not its run's prices
"""


@dataclass(frozen=True, eq=False, kw_only=True)
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

    limit: float | None = field(default=None, metadata={"infinite": True})
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
        return replace(self, limit=limit, share=share)

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        runs = view.debt.shape
        limit = np.full(runs, self.required("limit"))
        edge = Edge(limit, np.full(runs, self.share))
        return edge.wanted(view.price), memory


def known_edge(
    prices: PriceProcess, system: System, rounds: int, fill: float = 0.0
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Resolving(BudgetedPolicy):
    """Set the limit at which the money left would be spent in the rounds left.

    This is certainty equivalence with the prices seen so far (Jasin and Kumar 2012;
    Balseiro, Besbes and Pizarro 2024).
    """

    def start(self, system: System, runs: int) -> Arrays:
        return {**super().start(system, runs), **all_prices.unseen(runs)}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        memory = all_prices.remember(memory, spread(view.price)[0])
        spend = pace(view, self.overdraft) / self.places(view.system).sum()
        return all_prices.deserved(memory, view.price, spend), memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Pacing(BudgetedPolicy):
    """Dual mirror descent (Balseiro, Lu and Mirrokni 2020).

    μ, the price of money, rises with spending and falls without it. A sample is worth
    1, so the whole buffer is bought while μ·c(t) ≤ 1. With μ(1) = 0 and step 1/V the
    recursion is the paper's debt, μ(t) = Z(t)/V; drift-plus-penalty is this rule with
    the penalty as the worth. Values that are left out use the mean price c̄ so far:
    μ(1) = 1/c̄ and steps of 1/(c̄·C·√T).

    Parameters
    ----------
    step : float, optional
        Step by which the price of money changes; left out: 1/(c̄·C·√T) with the mean
        price c̄ so far.
    initial : float, optional
        Initial price of money, μ(1).
    """

    step: float | None = None
    initial: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("step", self.step, optional=True)
        zero_or_more("initial", self.initial, optional=True)

    def start(self, system: System, runs: int) -> Arrays:
        own = {name: np.zeros(runs) for name in ("mu", "spent", "sum_of_prices")}
        return {**super().start(system, runs), **own}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price = view.one_price()
        total = memory["sum_of_prices"] + price
        mean = np.maximum(total / view.t, np.finfo(np.float64).tiny)
        if view.t > 1:
            mu = self._price_of_money(view, memory, mean)
        elif self.initial is None:
            mu = 1 / mean
        else:
            mu = np.full_like(price, self.initial)
        share = (mu * price <= 1).astype(np.float64)
        return share, {**memory, "mu": mu, "spent": view.spent, "sum_of_prices": total}

    def _price_of_money(self, view: View, memory: Arrays, mean: Floats) -> Floats:
        """Return μ after the purchases of the previous round, (R,)."""
        budget, step = view.system.budget, self.step
        steps: Floats | float
        if step is None:
            steps = 1 / (mean * budget * np.sqrt(horizon_at(view)))
        else:
            steps = step
        unspent = budget - (view.spent - memory["spent"])
        return np.asarray(np.maximum(memory["mu"] - steps * unspent, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
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
        number = np.ceil(self.quantile * latest_prices.remembered(memory))
        place = number.astype(np.int64)[:, None] - 1
        ordered = np.sort(latest_prices.seen_prices(memory), axis=-1)
        limit = np.take_along_axis(ordered, place, axis=-1)[:, 0]

        each = view.price if by_client else price[:, None]
        cost = (each * self.places(view.system)).sum(axis=-1)
        money = pace(view, self.overdraft) / self.quantile
        share = np.divide(money, cost, out=np.ones_like(money), where=cost > money)
        share = np.where(price <= limit, share, 0.0)
        if by_client:
            share = np.broadcast_to(share[:, None], view.price.shape)
        return share, memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Random(BudgetedPolicy):
    """Buy whole buffers in random rounds, at any price.

    This is the baseline that every other policy should beat.

    In each round all places are bought with probability `chance`. C/(c̄·B̄) spends the
    budget on average.

    The draws depend on seed, round and the bits of the price, so runs with different
    prices have different draws, and a run has the same draws in every batch.

    Parameters
    ----------
    chance : float, optional
        Probability of a purchase in a round; left out: the one that spends the budget
        on average.
    seed : int, default 0
        Seed of the draws.
    """

    chance: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        a_share("chance", self.chance, optional=True)

    def resolved(self, given: PolicyContext) -> Self:
        if self.chance is not None:
            return self
        buffers = given.mean_price * given.system.all_places
        return replace(self, chance=min(1.0, given.system.budget / buffers))

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        bits = view.one_price().view(np.uint64)
        folded = ((bits >> np.uint64(32)) ^ bits) & np.uint64(0xFFFFFFFF)
        coin = uniform(self.seed, Purpose.ADMISSION, view.t, folded.astype(np.int64))
        return (coin < self.required("chance")).astype(np.float64), memory
