"""The costless oracle: whole buffers of fresh samples every round, each used once, whatever they cost (paper §6.1)."""

from dataclasses import dataclass

import numpy as np

from headgate.control.policy import AdmissionPolicy
from headgate.control.retention import KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, System, View


@dataclass(frozen=True, eq=False)
class Oracle(AdmissionPolicy):
    """λ_m(t) = B_m, K = 1. It pays the price of the day, so its spend shows what it would cost."""

    def retention(self, system: System) -> Retention:
        return KStep(1)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        return AdmissionRequest(np.full(view.debt.shape, float(view.system.memory))), memory
