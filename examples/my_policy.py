"""A policy of one's own: buy while the price is below what has been paid so far on average."""

from dataclasses import dataclass

import numpy as np

from headgate.control import AdmissionPolicy, Ask, KStep, System, View
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.testing import check_policy


@dataclass(frozen=True, eq=False)
class BelowAverage(AdmissionPolicy):
    """Twice the affordable rate while the price is below its average so far, nothing otherwise."""

    rate: float
    retention = KStep(10)

    def start(self, system, runs):
        return {"prices": np.zeros(runs)}

    def admit(self, view: View, memory):
        seen = memory["prices"] + view.price
        cheap = view.price <= seen / view.t
        return Ask(np.where(cheap, 2 * self.rate, 0.0)), {"prices": seen}


if __name__ == "__main__":
    policy = BelowAverage(rate=10.0)
    check_policy(policy)
    system = System(np.array([8, 9, 10, 11, 12] * 2), budget=55.0, horizon=100)
    result = rehearse(system, policy, Uniform(1.0, 10.0), seeds=np.arange(10), rounds=100)
    spend, distinct = result.spend.mean(), result.N[:, -1].mean()
    print(f"{spend:.1f} a round of {system.budget:g}, {distinct:.0f} distinct samples, peak n {result.n.max()}")
