"""A policy of one's own: buy while the price is below what it has been on average."""

from dataclasses import dataclass

import numpy as np

from headgate.control import AdmissionPolicy, AdmissionRequest


@dataclass(frozen=True, eq=False)
class BelowAverage(AdmissionPolicy):
    """Buy at twice the rate while the price is at most its average so far."""

    rate: float = 10.0

    def start(self, system, runs):
        return {"prices": np.zeros(runs)}

    def admit(self, view, memory):
        seen = memory["prices"] + view.price
        cheap = view.price <= seen / view.t
        return AdmissionRequest(np.where(cheap, 2 * self.rate, 0.0)), {"prices": seen}
