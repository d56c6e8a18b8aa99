"""Dual mirror descent (Balseiro, Lu and Mirrokni 2020): a price of money that rises with spending and falls without.

A sample is worth 1, so the whole buffer is bought while μ·c(t) ≤ 1. With μ(1) = 0 and step 1/V the
recursion is the paper's debt, μ(t) = Z(t)/V: drift-plus-penalty is this rule with the penalty as worth.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import positive, zero_or_more
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.drift.dpp import horizon_at
from headgate.control.types import Arrays, Floats, System, View


@dataclass(frozen=True, eq=False, kw_only=True)
class Pacing(BudgetedPolicy):
    """What is left out is scaled by the mean price c̄ so far: μ(1) = 1/c̄ and steps of 1/(c̄·C·√T)."""

    step: float | None = None
    initial: float | None = None
    """μ(1)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is not None:
            positive("step", self.step)
        if self.initial is not None:
            zero_or_more("initial", self.initial)

    def start(self, system: System, runs: int) -> Arrays:
        own = {name: np.zeros(runs) for name in ("mu", "spent", "sum_of_prices")}
        return {**super().start(system, runs), **own}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price, budget = view.one_price(), view.system.budget
        total = memory["sum_of_prices"] + price
        mean = np.maximum(total / view.t, np.finfo(np.float64).tiny)
        if view.t == 1:
            mu = 1 / mean if self.initial is None else np.full_like(price, self.initial)
        else:
            step = 1 / (mean * budget * np.sqrt(horizon_at(view))) if self.step is None else self.step
            mu = np.maximum(memory["mu"] - step * (budget - (view.spent - memory["spent"])), 0.0)
        share = (mu * price <= 1).astype(np.float64)
        return share, {**memory, "mu": mu, "spent": view.spent, "sum_of_prices": total}
