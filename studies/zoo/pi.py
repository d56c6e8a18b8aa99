"""A proportional-integral controller that moves the price limit until the spend is the budget."""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import positive, zero_or_more
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.types import Arrays, Floats, System, View


@dataclass(frozen=True, eq=False, kw_only=True)
class PI(BudgetedPolicy):
    """limit = c̄·exp(P·e + I), where e is the smoothed shortfall of the spend and I its sum times the integral gain.

    Anti-windup: I is held within ±`windup`, so that a long stretch of dear or cheap prices, in which no
    limit could have spent the budget, leaves little to work off.
    """

    proportional: float = 0.2
    integral: float = 0.05
    windup: float = 2.0
    smoothing: float = 10.0
    """rounds over which the shortfall is smoothed"""

    def __post_init__(self) -> None:
        super().__post_init__()
        zero_or_more("proportional", self.proportional)
        for name in ("integral", "windup", "smoothing"):
            positive(name, getattr(self, name))

    def start(self, system: System, runs: int) -> Arrays:
        names = ("error", "sum_of_errors", "spent", "sum_of_prices")
        return {**super().start(system, runs), **{name: np.zeros(runs) for name in names}}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price, budget = view.one_price(), view.system.budget
        total = memory["sum_of_prices"] + price
        error, windup = memory["error"], memory["sum_of_errors"]
        if view.t > 1:
            short = 1.0 - (view.spent - memory["spent"]) / budget
            error = error + (short - error) / max(self.smoothing, 1.0)
            windup = np.clip(windup + self.integral * error, -self.windup, self.windup)
        limit = total / view.t * np.exp(self.proportional * error + windup)
        share = (price <= limit).astype(np.float64)
        state = {"error": error, "sum_of_errors": windup, "spent": view.spent, "sum_of_prices": total}
        return share, {**memory, **state}
