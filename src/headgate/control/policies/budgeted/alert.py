"""Headgate for a world that moves: it listens to new samples, and when they surprise it renews what is older than the change.

After a change the buffers hold the old world until they are renewed, and the model knows nothing of the new one. On an alarm of
the test in `surprise.py` the places that were last renewed before losses began to rise are renewed at once, at any price that
the purse can pay. Where a low price has renewed them all already, there is nothing to hurry for, and it does as headgate does.
It listens to what low prices bring, and where they stay away to a few samples bought to hear. From an alarm on, until the model
has learnt the new world, what samples lose is not taken for the usual. docs/studies/drift.md has the numbers.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted import surprise
from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import SettingError

OPEN = 100
"""rounds to which `false_alarms` refers where the end is open"""
QUIET = 4
"""rounds without a purchase, after which a probe is bought"""
CLOSER = 20.0
"""times a probe are bought after samples that lost `surprise.RISE` times the usual, where that was no alarm"""
ENOUGH, LONGEST = 20.0, 10
"""an alarm is on until so many new samples in a row lose less than `surprise.RISE` times the usual, at most so many rounds"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Alert(Headgate):
    """Where nothing is heard, as in a rehearsal, there is no alarm: it is headgate with its probes."""

    listens: ClassVar[bool] = True
    false_alarms: float = 0.3
    """how many to expect at most, in all rounds of a world that does not change; with an open end in 100 rounds"""
    reserve: float = 0.0
    """the part of a calm round's money that is kept back for alarms; what no alarm takes is spent by the end"""
    probe: float = 0.02
    """the share of the places that is bought after four rounds without a purchase, to hear of a change before the next low
    price, and 20 times as much after samples that lost three times the usual; 0: what low prices bring is all that is heard"""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("false_alarms", self.false_alarms)
        if not 0 <= self.reserve < 1:
            raise SettingError(f"reserve = {self.reserve}: must be 0 or more and below 1")
        if not 0 <= self.probe <= 1:
            raise SettingError(f"probe = {self.probe}: must lie between 0 and 1")

    def start(self, system: System, runs: int) -> Arrays:
        none, nothing = np.zeros(runs, dtype=np.int64), np.zeros(runs)
        counts = {"alarms": none, "last_alarm": none, "before_rise": none, "quiet": none - 1}
        on = {"on": none > 0, "on_samples": nothing, "on_losses": nothing}
        return {**super().start(system, runs), **surprise.unheard(runs), **counts, **on}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        quiet = np.where(view.admitted > memory["heard_until"], 0, memory["quiet"] + 1)
        memory, louder = self._listen(view, {**memory, "quiet": quiet})
        share, memory = super().wanted(view, memory)
        renewed = (view.admitted - memory["before_rise"]) / self.places(view.system).sum()
        stale = np.where(memory["last_alarm"] == view.t, np.clip(1.0 - renewed, 0.0, 1.0), 0.0)
        closer = ~memory["on"] & (louder > surprise.RISE)
        probe = np.where(closer, CLOSER * self.probe, np.where(quiet >= QUIET, self.probe, 0.0))
        least = np.minimum(np.maximum(stale, probe), 1.0) * self.turnover
        return np.maximum(share, least if view.price.ndim == 1 else least[:, None]), memory

    def allowed(self, view: View, memory: Arrays) -> Floats:
        """Headgate's money, less the reserve."""
        return np.asarray(super().allowed(view, memory) * (1.0 - self.reserve))

    def _listen(self, view: View, memory: Arrays) -> tuple[Arrays, Floats]:
        """The memory with what was heard: whether it rings, whether an alarm is on, and how many samples had been admitted
        before losses rose. And by how much the last ones exceeded the usual."""
        calm, on = memory["evidence"] == 0, memory["on"]
        before = np.where(calm, memory["heard_until"], memory["before_rise"])
        memory, louder, samples = surprise.observe(view, {**memory, "before_rise": before}, ~on)
        rings = memory["evidence"] > max(np.log((view.system.horizon or OPEN) / self.false_alarms), 0.0)
        last = np.where(rings, view.t, memory["last_alarm"])
        # While an alarm is on: what the new samples lost, of `ENOUGH` of them at a time.
        samples = np.where(on, memory["on_samples"] + samples, 0.0)
        losses = np.where(on, memory["on_losses"] + louder * (samples - memory["on_samples"]), 0.0)
        full = samples >= ENOUGH
        learnt = on & full & (losses < surprise.RISE * samples)
        given_up = on & ~learnt & (view.t - last >= LONGEST)
        memory = surprise.forgotten(memory, given_up)
        memory = {
            **memory,
            "evidence": np.where(rings, 0.0, memory["evidence"]),
            "alarms": memory["alarms"] + rings,
            "last_alarm": last,
            "on": rings | (on & ~learnt & ~given_up),
            "on_samples": np.where(full, 0.0, samples),
            "on_losses": np.where(full, 0.0, losses),
        }
        return memory, louder
