"""The hybrid baseline: some clients live on stale samples, the others admit at a constant rate (paper §7)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.retention.windows import KStep
from headgate.control.types import AdmissionPolicy, Arrays, Ask, Floats, Retention, System, View
from headgate.errors import SettingError

FILLS = ("first", "gradual", "none")


@dataclass(frozen=True, eq=False)
class Hybrid(AdmissionPolicy):
    """The paper says neither how stale clients get their samples nor who pays: both are settings."""

    rate: float | Floats
    """Λ̄ of the admitting clients together"""
    K: int
    stale: NDArray[np.bool_]
    """which clients are stale, (M,)"""
    fill: str = "first"
    """"first": whole buffers in round 1; "gradual": over the first K rounds; "none": they never hold a sample"""
    paid: bool = False
    """whether the stale clients' samples are paid for"""

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        if self.fill not in FILLS:
            raise SettingError(f'fill = "{self.fill}": must be one of {", ".join(FILLS)}')
        if self.stale.all():
            raise SettingError("stale: names every client, so nobody is left to admit")
        self.retention  # noqa: B018  # refuses a bad K now

    @cached_property
    def retention(self) -> Retention:
        return KStep(self.K, forever=self.stale)

    def shares(self, system: System) -> NDArray[np.int64]:
        if self.stale.shape != (system.clients,):
            raise SettingError(f"stale has {self.stale.size} entries for {system.clients} clients")
        return np.where(self.stale, 0, system.buffer)

    def admit(self, view: View, memory: Arrays) -> tuple[Ask, Arrays]:
        total = np.broadcast_to(np.asarray(self.rate, dtype=np.float64), view.debt.shape)
        if self.fill == "none":
            return Ask(total), memory
        rounds = 1 if self.fill == "first" else self.K
        done, before = (np.minimum(t, rounds) * view.system.buffer // rounds for t in (view.t, view.t - 1))
        fill = np.broadcast_to(np.where(self.stale, done - before, 0), view.kept_by_client.shape)
        return (Ask(total, given=fill) if self.paid else Ask(total, free=fill)), memory
