"""Headgate for a world that moves: it keeps money back, listens to new samples, and buys soon when they surprise.

After a change the buffers hold the old world until they are renewed, and the model knows nothing of the new one: samples are
worth more than they were. So in calm rounds a part of the pace is kept back. On an alarm of the test in `surprise.py` the
pace, and with it the price limit, rises at once and falls back over the next rounds. What is bought at low prices is what it
listens to; a probe in between is a setting, and a dear one. docs/better/drift.md has the numbers: it is not ahead of headgate.
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
    """Where nothing is heard, as in a rehearsal, there is no alarm: it is headgate with a reserve."""

    listens: ClassVar[bool] = True
    false_alarms: float = 0.3
    """how many to expect at most, in all rounds of a world that does not change; with an open end in 100 rounds"""
    reserve: float = 0.1
    """the part of a calm round's money that is kept back; what no alarm takes is spent by the end"""
    haste: float = 4.0
    """times the even pace: what a round may cost just after an alarm"""
    soon: int = 7
    """rounds after which the pace is as before"""
    probe: float = 0.0
    """the share of the places that is bought in any round whose price is not above the mean so far, to hear of a change before
    the next low price; 0: what low prices bring is all that is heard"""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("false_alarms", self.false_alarms)
        if not 0 <= self.reserve < 1:
            raise SettingError(f"reserve = {self.reserve}: must be 0 or more and below 1")
        if not 1 <= self.haste < np.inf:
            raise SettingError(f"haste = {self.haste}: must be 1 or more")
        if self.soon < 1:
            raise SettingError(f"soon = {self.soon}: must be rounds, 1 or more")
        if not 0 <= self.probe <= 1:
            raise SettingError(f"probe = {self.probe}: must lie between 0 and 1")

    def start(self, system: System, runs: int) -> Arrays:
        none = np.zeros(runs, dtype=np.int64)
        own = {"alarms": none, "last_alarm": none, "sum_of_prices": np.zeros(runs)}
        return {**super().start(system, runs), **surprise.unheard(runs), **own}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        memory = self._listen(view, memory)
        places = self.places(view.system)
        bundle = view.price if view.price.ndim == 1 else (view.price * places).sum(axis=-1) / places.sum()
        total = memory["sum_of_prices"] + bundle
        share, memory = super().wanted(view, {**memory, "sum_of_prices": total})
        mean = total / view.t
        least = np.where(view.price <= (mean if view.price.ndim == 1 else mean[:, None]), self.probe, 0.0)
        return np.maximum(share, least), memory

    def allowed(self, view: View, memory: Arrays) -> Floats:
        """Headgate's money, less the reserve; after an alarm more, and ever less more."""
        since = view.t - memory["last_alarm"]
        hurry = 1.0 + (self.haste - 1.0) * (1.0 - since / self.soon)
        alarmed = (memory["last_alarm"] > 0) & (since < self.soon)
        return np.asarray(super().allowed(view, memory) * np.where(alarmed, hurry, 1.0 - self.reserve))

    def _listen(self, view: View, memory: Arrays) -> Arrays:
        memory = surprise.observe(view, memory)
        rings = memory["evidence"] > max(np.log((view.system.horizon or OPEN) / self.false_alarms), 0.0)
        alarms, last = memory["alarms"] + rings, np.where(rings, view.t, memory["last_alarm"])
        return {**surprise.forgotten(memory, rings), "alarms": alarms, "last_alarm": last}
