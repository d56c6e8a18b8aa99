"""π^CK: the same rate every round (paper, Definition 2)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.buying.purse import within_purse
from headgate.control.retention.windows import KStep, KStepFifo
from headgate.control.types import AdmissionPolicy, Arrays, Ask, Floats, Ints, Retention, View
from headgate.theory.labels import paper


@paper("eq:constant-admission", "def:constant-admission")
@dataclass(frozen=True, eq=False)
class Constant(AdmissionPolicy):
    """Λ(t) = rate, divided in proportion to the buffers, kept for K rounds."""

    rate: float | Floats
    K: int | Ints
    capacity: Ints | None = None
    rule: Retention | None = None
    """what clients drop instead; K and capacity are then without effect"""
    purse: bool = False
    """whether spending ends at C·T in all"""

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        self.retention  # noqa: B018  # refuses a bad K or capacity now

    @cached_property
    def retention(self) -> Retention:
        if self.rule is not None:
            return self.rule
        return KStep(self.K) if self.capacity is None else KStepFifo(self.K, self.capacity)

    def admit(self, view: View, memory: Arrays) -> tuple[Ask, Arrays]:
        total = np.broadcast_to(np.asarray(self.rate, dtype=np.float64), view.debt.shape)
        return Ask(within_purse(view, total) if self.purse else total), memory
