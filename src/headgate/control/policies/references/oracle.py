"""The costless oracle: whole buffers of fresh samples every round, each used once, whatever they cost (paper §6.1)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.control.retention.windows import KStep
from headgate.control.types import AdmissionPolicy, Arrays, Ask, Retention, View


@dataclass(frozen=True, eq=False)
class Oracle(AdmissionPolicy):
    """λ_m(t) = B_m, K = 1. It pays the price of the day, so its spend shows what it would cost."""

    @cached_property
    def retention(self) -> Retention:
        return KStep(1)

    def admit(self, view: View, memory: Arrays) -> tuple[Ask, Arrays]:
        return Ask(np.full(view.debt.shape, float(view.system.memory))), memory
