"""Headgate for a world that moves: it listens to new samples, and when they surprise it renews what is older than the change.

After a change the buffers hold the old world until they are renewed, and the model knows nothing of the new one. On an alarm of
the test in `surprise.py` the places that were last renewed before losses began to rise are renewed at once, at any price that
the purse can pay. Where a low price has renewed them all already, there is nothing to hurry for, and it does as headgate does.
What is bought at low prices is what it listens to; a probe in between is a setting. docs/better/drift.md has the numbers.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.buying import surprise
from headgate.control.policies.buying.headgate import Headgate
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import SettingError

OPEN = 100
"""rounds to which `false_alarms` refers where the end is open"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Alert(Headgate):
    """Where nothing is heard, as in a rehearsal, there is no alarm: it is headgate."""

    listens: ClassVar[bool] = True
    false_alarms: float = 0.3
    """how many to expect at most, in all rounds of a world that does not change; with an open end in 100 rounds"""
    reserve: float = 0.0
    """the part of a calm round's money that is kept back for alarms; what no alarm takes is spent by the end"""
    probe: float = 0.0
    """the share of the places that is bought in any round whose price is not above the mean so far, to hear of a change before
    the next low price; 0: what low prices bring is all that is heard"""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("false_alarms", self.false_alarms)
        if not 0 <= self.reserve < 1:
            raise SettingError(f"reserve = {self.reserve}: must be 0 or more and below 1")
        if not 0 <= self.probe <= 1:
            raise SettingError(f"probe = {self.probe}: must lie between 0 and 1")

    def start(self, system: System, runs: int) -> Arrays:
        none = np.zeros(runs, dtype=np.int64)
        own = {"alarms": none, "last_alarm": none, "before_rise": none, "sum_of_prices": np.zeros(runs)}
        return {**super().start(system, runs), **surprise.unheard(runs), **own}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        memory = self._listen(view, memory)
        places = self.places(view.system)
        bundle = view.price if view.price.ndim == 1 else (view.price * places).sum(axis=-1) / places.sum()
        total = memory["sum_of_prices"] + bundle
        share, memory = super().wanted(view, {**memory, "sum_of_prices": total})
        renewed = (view.admitted - memory["before_rise"]) / places.sum()
        stale = np.where(memory["last_alarm"] == view.t, self.turnover * np.clip(1.0 - renewed, 0.0, 1.0), 0.0)
        mean = total / view.t
        if view.price.ndim == 2:
            stale, mean = stale[:, None], mean[:, None]
        return np.maximum(share, np.maximum(stale, np.where(view.price <= mean, self.probe, 0.0))), memory

    def allowed(self, view: View, memory: Arrays) -> Floats:
        """Headgate's money, less the reserve."""
        return np.asarray(super().allowed(view, memory) * (1.0 - self.reserve))

    def _listen(self, view: View, memory: Arrays) -> Arrays:
        """The memory with what was heard: whether it rings, and how many samples had been admitted before losses rose."""
        calm = memory["evidence"] == 0
        before = np.where(calm, memory["heard_until"], memory["before_rise"])
        memory = surprise.observe(view, {**memory, "before_rise": before})
        rings = memory["evidence"] > max(np.log((view.system.horizon or OPEN) / self.false_alarms), 0.0)
        alarms, last = memory["alarms"] + rings, np.where(rings, view.t, memory["last_alarm"])
        return {**surprise.forgotten(memory, rings), "alarms": alarms, "last_alarm": last}
