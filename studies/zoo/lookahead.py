"""Model-predictive: plan for as many rounds as a sample is kept, do the first, plan again."""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.latest_prices import mean_price, observe, remembered, seen_prices, unseen
from headgate.control.policies.budgeted.purse import pace
from headgate.control.types import Arrays, Floats, System, View

SHORTEST, LONGEST = 2, 64
MOMENTS = ("last", "sum", "squares", "products")


@dataclass(frozen=True, eq=False, kw_only=True)
class Lookahead(BudgetedPolicy):
    """The next H − 1 prices are taken as the remembered ones, drawn towards today's as far as prices are persistent.

    Inside the window all samples are worth the same, so the plan is exact: the cheapest places first, as
    far as the window's money goes. Today's order is what that plan gives to today.
    """

    window: float | None = None
    """H; left out: c̄·B̄/C, the rounds in which the budget renews the buffers once"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None:
            positive("window", self.window)

    def start(self, system: System, runs: int) -> Arrays:
        return {**super().start(system, runs), **unseen(runs), **{name: np.zeros(runs) for name in MOMENTS}}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price, places = view.one_price(), float(self.places(view.system).sum())
        memory = self._follow(observe(memory, view), price, view.t)
        rounds = mean_price(memory) * places / view.system.budget if self.window is None else np.full_like(price, self.window)
        later = np.clip(rounds, SHORTEST, LONGEST) - 1
        money = pace(view, self.overdraft) / places * (later + 1)
        pull = self._persistence(memory, view.t, later)
        seen, today = seen_prices(memory), price[:, None]
        each = (later / remembered(memory))[:, None]
        expected = np.where(np.isfinite(seen), pull[:, None] * today + (1 - pull[:, None]) * seen, 0.0)
        cheaper = (each * expected * (seen < today)).sum(axis=-1)
        equal = price + (each * expected * (seen == today)).sum(axis=-1)
        share = np.divide(money - cheaper, equal, out=np.ones_like(price), where=equal > 0)
        return np.clip(share, 0.0, 1.0), memory

    @staticmethod
    def _follow(memory: Arrays, price: Floats, t: int) -> Arrays:
        products = memory["products"] + (memory["last"] * price if t > 1 else 0.0)
        moments = {"last": price, "sum": memory["sum"] + price, "squares": memory["squares"] + price**2, "products": products}
        return {**memory, **moments}

    @staticmethod
    def _persistence(memory: Arrays, t: int, later: Floats) -> Floats:
        """How far, on average over the window, a price stays where today's is: the mean of r, r², …, r^(H−1)."""
        mean = memory["sum"] / t
        variance = memory["squares"] / t - mean**2
        covariance = memory["products"] / max(t - 1, 1) - mean**2
        apart = variance > 1e-12 * mean**2
        r = np.clip(np.divide(covariance, variance, out=np.zeros_like(mean), where=apart), 0.0, 0.99)
        return np.asarray(r * (1 - r**later) / (1 - r) / later)
