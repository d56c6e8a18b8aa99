"""Money left over rounds left, solved again in every round for the price limit that just spends it."""

from dataclasses import dataclass

from headgate.control.policies.budgeted.all_prices import deserved, observe, unseen
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.purse import pace
from headgate.control.types import Arrays, Floats, System, View


@dataclass(frozen=True, eq=False, kw_only=True)
class Resolving(BudgetedPolicy):
    """Certainty equivalence with the prices seen so far (Jasin and Kumar 2012; Balseiro, Besbes and Pizarro 2024)."""

    def start(self, system: System, runs: int) -> Arrays:
        return {**super().start(system, runs), **unseen(runs)}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        memory = observe(memory, view)
        spend = pace(view, self.overdraft) / self.places(view.system).sum()
        return deserved(memory, view.price, spend), memory
