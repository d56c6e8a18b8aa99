"""Budgeted policies with one simple rule each that others are compared with: the money
left over the rounds left, a price of money, and chance.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from headgate.control.checks import a_share, positive, zero_or_more
from headgate.control.policies.budgeted import all_prices
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import spread
from headgate.control.policies.budgeted.purse import pace
from headgate.control.policies.dpp import horizon_at
from headgate.control.policy import PolicyContext
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Arrays, Floats, System, View


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
