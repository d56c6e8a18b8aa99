"""A policy of one's own that never overspends: the base class has the purse, this class
says how much to renew.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.policies import BudgetedPolicy


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoSteps(BudgetedPolicy):
    """Renew all places at prices up to `low`, and half of them up to `high`."""

    low: float = 2.0
    high: float = 5.0

    def wanted(self, view, memory):
        share = np.where(
            view.price <= self.low, 1.0, np.where(view.price <= self.high, 0.5, 0.0)
        )
        return share, memory
