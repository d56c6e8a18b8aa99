"""References that admit the same whatever samples cost: constant admission and the oracle."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted.purse import within_purse
from headgate.control.policies.operating_point import operating_point
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.theory.labels import paper


@paper("eq:constant-admission", "def:constant-admission")
@dataclass(frozen=True, eq=False)
class Constant(AdmissionPolicy):
    """π^CK (paper, Definition 2): Λ(t) = rate, divided in proportion to the buffers, kept for K rounds."""

    per_run: ClassVar[tuple[str, ...]] = ("K", "rate")
    rate: float | Floats | None = None
    """left out: the highest that fits both constraints"""
    K: int | Ints | None = None
    """left out: the better of Corollary 2's two"""
    capacity: Capacity | None = None
    rule: Retention | None = None
    """what clients drop instead; K and capacity are then without effect"""
    purse: bool = False
    """whether spending ends at C·T in all"""

    def __post_init__(self) -> None:
        if self.rate is not None:
            positive("rate", self.rate)
        if self.K is not None:
            KStep(self.K, capacity=self.capacity)  # refuses a bad K or capacity now

    def resolved(self, given: PolicyContext) -> Self:
        K, rate = operating_point(self.K, self.rate, given)  # type: ignore[arg-type]  # one per run has both
        return replace(self, K=K, rate=rate)

    def retention(self, system: System) -> Retention:
        return self.rule or KStep(self.required("K"), capacity=self.capacity)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.broadcast_to(np.asarray(self.required("rate"), dtype=np.float64), view.debt.shape)
        return AdmissionRequest(within_purse(view, total) if self.purse else total), memory


@dataclass(frozen=True, eq=False)
class Oracle(AdmissionPolicy):
    """The costless oracle: whole buffers of fresh samples every round, each used once, whatever they cost (paper §6.1).

    λ_m(t) = B_m, K = 1. It pays the price of the day, so its spend shows what it would cost.
    """

    def retention(self, system: System) -> Retention:
        return KStep(1)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        return AdmissionRequest(np.full(view.debt.shape, float(view.system.memory))), memory
