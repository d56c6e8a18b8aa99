"""The paper's baselines, which admit the same whatever samples cost: constant admission, the hybrid and the oracle."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.policies.budgeted.purse import within_purse
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
from headgate.theory.comparison import optimal_K
from headgate.theory.labels import paper

FILLS = ("first", "gradual", "none")


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
        K = given.better_K() if self.K is None else self.K
        rate = given.highest_rate(K) if self.rate is None else self.rate  # type: ignore[arg-type]  # one per run has both
        return replace(self, K=K, rate=rate)

    def retention(self, system: System) -> Retention:
        return self.rule or KStep(self.required("K"), capacity=self.capacity)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.broadcast_to(np.asarray(self.required("rate"), dtype=np.float64), view.debt.shape)
        return AdmissionRequest(within_purse(view, total) if self.purse else total), memory


@dataclass(frozen=True, eq=False)
class Hybrid(AdmissionPolicy):
    """Some clients live on stale samples, the others admit at a constant rate (paper §7).

    The paper says neither how stale clients get their samples nor who pays: both are settings.
    """

    per_run: ClassVar[tuple[str, ...]] = ("rate",)
    rate: float | Floats | None = None
    """Λ̄ of the admitting clients together; left out: the highest that fits"""
    K: int | None = None
    """left out: Corollary 2's for the admitting clients"""
    stale: tuple[int, ...] | None = None
    """which clients are stale, by number; left out: the second half"""
    fill: Literal["first", "gradual", "none"] = "first"
    """"first": whole buffers in round 1; "gradual": over the first K rounds; "none": they never hold a sample"""
    paid: bool = False
    """whether the stale clients' samples are paid for"""

    def __post_init__(self) -> None:
        if self.rate is not None:
            positive("rate", self.rate)
        if self.fill not in FILLS:
            raise SettingError(f'fill = "{self.fill}": must be one of {", ".join(FILLS)}')
        if self.K is not None:
            KStep(self.K)  # refuses a bad K now

    def resolved(self, given: PolicyContext) -> Self:
        clients = given.system.clients
        stale = tuple(range((clients + 1) // 2, clients)) if self.stale is None else self.stale
        fresh = given.system.buffer[~replace(self, stale=stale).mask(given.system)]
        K = optimal_K(given.mean_price, fresh, given.system.budget)[0].K if self.K is None else self.K
        return replace(self, stale=stale, K=K, rate=given.highest_rate(K, fresh) if self.rate is None else self.rate)

    def mask(self, system: System) -> NDArray[np.bool_]:
        """Which clients are stale, (M,)."""
        stale = self.required("stale")
        for client in stale:
            if not 0 <= client < system.clients:
                numbered = f"they are numbered 0 to {system.clients - 1}"
                raise SettingError(f"stale = {list(stale)}: there is no client {client}; {numbered}")
        mask = np.isin(np.arange(system.clients), stale)
        if mask.all():
            raise SettingError(f"stale = {list(stale)}: names every client, so nobody is left to admit")
        return mask

    def retention(self, system: System) -> Retention:
        self.mask(system)  # refuses what is wrong
        return KStep(self.required("K"), forever=self.required("stale"))

    def shares(self, system: System) -> NDArray[np.int64]:
        return np.where(self.mask(system), 0, system.buffer)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.broadcast_to(np.asarray(self.required("rate"), dtype=np.float64), view.debt.shape)
        if self.fill == "none":
            return AdmissionRequest(total), memory
        rounds = 1 if self.fill == "first" else self.required("K")
        done, before = (np.minimum(t, rounds) * view.system.buffer // rounds for t in (view.t, view.t - 1))
        fill = np.broadcast_to(np.where(self.mask(view.system), done - before, 0), view.kept_by_client.shape)
        return (AdmissionRequest(total, given=fill) if self.paid else AdmissionRequest(total, free=fill)), memory


@dataclass(frozen=True, eq=False)
class Oracle(AdmissionPolicy):
    """The costless oracle: whole buffers of fresh samples every round, each used once, whatever they cost (paper §6.1).

    λ_m(t) = B_m, K = 1. It pays the price of the day, so its spend shows what it would cost.
    """

    def retention(self, system: System) -> Retention:
        return KStep(1)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        return AdmissionRequest(np.full(view.debt.shape, float(view.system.memory))), memory
