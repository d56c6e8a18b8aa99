"""Headgate for a world that moves: it listens to new samples, and when they surprise it renews what is older than the change.

The test for a change is Page's CUSUM (1954): the sum, never below 0, of how much better the mean loss of a round's new samples
fits `RISE` times the usual, by gamma densities. A likelihood ratio has a mean of at most 1 while losses do not rise, so the
Shiryaev-Roberts sum of ratios grows by at most 1 a round on average and is not below T/a when the CUSUM exceeds log(T/a):
at most a alarms are expected in T calm rounds. docs/understand/headgate.md has the rule, docs/studies/drift.md the numbers.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.control.checks import a_share, positive
from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.types import Arrays, Bools, Floats, System, View

OPEN = 100
"""rounds to which `false_alarms` refers where the end is open"""
QUIET = 4
"""rounds without a purchase, after which a probe is bought"""
CLOSER = 20.0
"""times a probe are bought after samples that lost `RISE` times the usual, where that was no alarm"""
ENOUGH, LONGEST = 20.0, 10
"""an alarm is on until so many new samples in a row lose less than `RISE` times the usual, at most so many rounds"""
RISE = 3.0
"""times the usual loss: the change that is looked for"""
SCATTER = 5.0
"""relative variance of a single sample's loss, until it is learnt; it counts as much as `LEARNT` rounds"""
LEARNT = 8.0
MANY = 60.0
"""samples: a round of more tells little more, because models differ from round to round"""
LASTING = 150.0
"""samples: after so many more, those heard before count by a factor e less for the usual loss"""
FIRST = 30.0
"""samples that must have been heard before anything can surprise"""
LOUDEST = 1e6
"""a loss above it counts as this much: clients may be strangers"""
NAMES = ("usual", "usual_samples", "scatter", "scatter_rounds", "evidence")


@dataclass(frozen=True, eq=False, kw_only=True)
class Alert(Headgate):
    """Where nothing is heard, as in a rehearsal, there is no alarm: it is headgate with its probes."""

    listens: ClassVar[bool] = True
    false_alarms: float = 0.3
    """how many to expect at most, in all rounds of a world that does not change; with an open end in 100 rounds"""
    probe: float = 0.02
    """the share of the places that is bought after four rounds without a purchase, to hear of a change before the next low
    price, and 20 times as much after samples that lost three times the usual; 0: what low prices bring is all that is heard"""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("false_alarms", self.false_alarms)
        a_share("probe", self.probe)

    def start(self, system: System, runs: int) -> Arrays:
        none, nothing = np.zeros(runs, dtype=np.int64), np.zeros(runs)
        counts = {"alarms": none, "last_alarm": none, "before_rise": none, "quiet": none - 1}
        on = {"on": none > 0, "on_samples": nothing, "on_losses": nothing}
        unheard = {**dict.fromkeys(NAMES, nothing), "heard_until": none}
        return {**super().start(system, runs), **unheard, **counts, **on}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        quiet = np.where(view.admitted > memory["heard_until"], 0, memory["quiet"] + 1)
        memory, louder = self._listen(view, {**memory, "quiet": quiet})
        share, memory = super().wanted(view, memory)
        renewed = (view.admitted - memory["before_rise"]) / self.places(view.system).sum()
        stale = np.where(memory["last_alarm"] == view.t, np.clip(1.0 - renewed, 0.0, 1.0), 0.0)
        closer = ~memory["on"] & (louder > RISE)
        probe = np.where(closer, CLOSER * self.probe, np.where(quiet >= QUIET, self.probe, 0.0))
        least = np.minimum(np.maximum(stale, probe), 1.0) * self.turnover
        return np.maximum(share, least if view.price.ndim == 1 else least[:, None]), memory

    def _listen(self, view: View, memory: Arrays) -> tuple[Arrays, Floats]:
        """The memory with what was heard: whether it rings, whether an alarm is on, and how many samples had been admitted
        before losses rose. And by how much the last ones exceeded the usual."""
        calm, on = memory["evidence"] == 0, memory["on"]
        before = np.where(calm, memory["heard_until"], memory["before_rise"])
        memory, louder, samples = observe(view, {**memory, "before_rise": before}, ~on)
        rings = memory["evidence"] > max(np.log((view.system.horizon or OPEN) / self.false_alarms), 0.0)
        last = np.where(rings, view.t, memory["last_alarm"])
        # While an alarm is on: what the new samples lost, of `ENOUGH` of them at a time.
        samples = np.where(on, memory["on_samples"] + samples, 0.0)
        losses = np.where(on, memory["on_losses"] + louder * (samples - memory["on_samples"]), 0.0)
        full = samples >= ENOUGH
        learnt = on & full & (losses < RISE * samples)
        given_up = on & ~learnt & (view.t - last >= LONGEST)
        memory = {**memory, **{name: np.where(given_up, 0.0, memory[name]) for name in NAMES}}
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


def heard(view: View, memory: Arrays) -> tuple[Floats, Floats, Arrays]:
    """Mean loss of the new samples of the round before and their number, (R,), 0 without a report, and the memory for the
    next round. Clients count by their buffers, as they do when a purchase is shared out."""
    after = {**memory, "heard_until": view.admitted}
    if view.losses is None:
        return np.zeros(view.debt.shape), np.zeros(view.debt.shape), after
    new, places = view.losses.new, view.system.buffer
    told = ~np.isnan(new)
    weight = (told * places).sum(axis=-1)
    loss = (np.where(told, np.minimum(new, LOUDEST), 0.0) * places).sum(axis=-1) / np.maximum(weight, 1)
    return loss, np.minimum(view.admitted - memory["heard_until"], weight).astype(np.float64), after


def observe(view: View, memory: Arrays, settled: Bools) -> tuple[Arrays, Floats, Floats]:
    """The memory with what was heard of the round before, and by how much it exceeds the usual: times it, 1 where nothing was
    heard or nothing is usual yet, and of how many samples, (R,). Where a run is not `settled` nothing is learnt of it."""
    loss, count, memory = heard(view, memory)
    usual, samples = memory["usual"], memory["usual_samples"]
    known = (samples >= FIRST) & (usual > 0) & (count > 0)
    ratio = np.divide(loss, usual, out=np.ones_like(loss), where=known)
    heard_of = np.where(known, count, 0.0)
    count, known = np.where(settled, count, 0.0), known & settled
    told = count * MANY / (count + MANY)
    scatter = (LEARNT * SCATTER + memory["scatter"]) / (LEARNT + memory["scatter_rounds"])
    evidence = memory["evidence"] + np.where(known, told / scatter * (ratio * (1 - 1 / RISE) - np.log(RISE)), 0.0)
    off = told * (np.minimum(ratio, RISE) - 1) ** 2
    kept = samples * np.exp(-told / LASTING)
    learnt = {
        "evidence": np.maximum(evidence, 0.0),
        "scatter": memory["scatter"] + np.where(known, off, 0.0),
        "scatter_rounds": memory["scatter_rounds"] + known,
        "usual": np.divide(usual * kept + loss * told, kept + told, out=np.zeros_like(usual), where=kept + told > 0),
        "usual_samples": kept + told,
    }
    return {**memory, **learnt}, ratio, heard_of
