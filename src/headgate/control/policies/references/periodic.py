"""A share of the places renewed every so many rounds, at any price: to measure what a model's accuracy depends on."""

from dataclasses import dataclass

import numpy as np

from headgate.control.policy import AdmissionPolicy
from headgate.control.retention import Fifo, Retention
from headgate.control.types import AdmissionRequest, Arrays, System, View
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False)
class Periodic(AdmissionPolicy):
    """Round 1 fills the buffers; rounds 1 + every, 1 + 2·every, … renew the oldest places.

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
