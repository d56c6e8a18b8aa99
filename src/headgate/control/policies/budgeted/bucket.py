"""A token bucket: the budget drips in, what does not fit is lost, and tokens are spent where prices are below average."""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.types import Arrays, Floats, System, View


@dataclass(frozen=True, eq=False, kw_only=True)
class Bucket(BudgetedPolicy):
    """In any w rounds it spends at most (w + depth)·C, the filling of the buffers included.

    Greedy: at or below the mean price so far it buys all the tokens allow. Above it, only what would be lost.
    """

    depth: float = 10.0
    """what the bucket holds, in rounds' budgets; it is full at the start"""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("depth", self.depth)

    def start(self, system: System, runs: int) -> Arrays:
        own = {"tokens": np.full(runs, self.depth * system.budget), "spent": np.zeros(runs), "sum_of_prices": np.zeros(runs)}
        return {**super().start(system, runs), **own}

    def spending_limit(self, view: View, memory: Arrays) -> Floats:
        return np.minimum(super().spending_limit(view, memory), view.spent + memory["tokens"])

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price, budget = view.one_price(), view.system.budget
        places = float(self.places(view.system).sum())
        total = memory["sum_of_prices"] + price
        full = self.depth * budget
        tokens = np.minimum(memory["tokens"] - (view.spent - memory["spent"]), full) + budget
        spend = np.where(price <= total / view.t, tokens, np.maximum(tokens - full, 0.0))
        share = np.divide(spend, price * places, out=np.ones_like(price), where=price > 0)
        return np.minimum(share, 1.0), {**memory, "tokens": tokens, "spent": view.spent, "sum_of_prices": total}
