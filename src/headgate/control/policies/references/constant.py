"""References that admit the same whatever samples cost: constant admission, the oracle, renewal by the clock."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted.purse import within_purse
from headgate.control.policies.operating_point import operating_point
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, Fifo, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
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


@dataclass(frozen=True, eq=False)
class Periodic(AdmissionPolicy):
    """A share of the places renewed every so many rounds, at any price: to measure what accuracy depends on.

    Round 1 fills the buffers; rounds 1 + every, 1 + 2·every, … renew the oldest places.

    With share 1 every round it is the oracle, but for what streams that are served again count as distinct.
    """

    share: float = 1.0
    """of the places, that are renewed at once"""
    every: int = 1
    """rounds from one renewal to the next"""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise SettingError(f"share = {self.share}: must be above 0 and at most 1")
        if self.every < 1:
            raise SettingError(f"every = {self.every}: must be at least 1")

    def retention(self, system: System) -> Retention:
        return Fifo()

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        due = (view.t - 1) % self.every == 0
        share = 1.0 if view.t == 1 else self.share if due else 0.0
        return AdmissionRequest(np.full(view.debt.shape, share * view.system.memory)), memory
