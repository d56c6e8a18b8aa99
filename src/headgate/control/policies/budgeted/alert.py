"""Headgate for data that change: on an alarm it renews old samples.

It compares the losses of new samples with the usual loss. The test is Page's CUSUM
(1954): a sum, never below 0, of log-likelihood ratios of `RISE` times the usual loss to
the usual, by gamma densities of the mean loss of a round's new samples. A ratio has a
mean of at most 1 while losses do not rise, so the Shiryaev-Roberts sum of ratios grows
by at most 1 a round on average and is at least T/a when the CUSUM exceeds log(T/a): at
most a alarms are expected in T rounds without change (rule:
contributing/headgate.md; results: studies/findings/drift.md).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.control.checks import a_share, positive
from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.types import Arrays, Bools, Floats, System, View
from headgate.theory.reuse import quotient

OPEN = 100
"""number of rounds to which `false_alarms` refers with an open end"""
QUIET = 4
"""number of rounds without a purchase after which a probe is bought"""
CLOSER = 20.0
"""factor on the size of a probe after new samples with more than `RISE` times the usual
loss and no alarm
"""
ENOUGH, LONGEST = 20.0, 10
"""an alarm ends when `ENOUGH` new samples have a mean loss below `RISE` times the
usual, or after `LONGEST` rounds
"""
RISE = 3.0
"""change to detect, as a multiple of the usual loss"""
SCATTER = 5.0
"""initial relative variance of a single sample's loss; it has the weight of `LEARNT`
rounds
"""
LEARNT = 8.0
MANY = 60.0
"""number of samples per round above which more add little evidence, because models
differ from round to round
"""
LASTING = 150.0
"""number of new samples after which the weight of earlier ones in the usual loss has
fallen by a factor of e
"""
FIRST = 30.0
"""number of samples with a reported loss that an alarm needs first"""
LOUDEST = 1e6
"""upper limit of a loss, because clients may report any number"""
NAMES = ("usual", "usual_samples", "scatter", "scatter_rounds", "evidence")


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Alert(Headgate):
    """Headgate with alarms and probes.

    Without reported losses, as in a rehearsal, there are probes but no alarms.

    Parameters
    ----------
    false_alarms : float, default 0.3
        The most alarms to expect in all rounds, or in 100 rounds with an open end, if
        the data do not change.
    probe : float, default 0.02
        Share of the places renewed after four rounds without a purchase, to detect a
        change before the next low price; 20 times as much after new samples with more
        than three times the usual loss. 0: no probes.
    """

    listens: ClassVar[bool] = True
    false_alarms: float = 0.3
    probe: float = 0.02

    above_limit = "to keep up with even spending, or to hear whether the world changes"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("false_alarms", self.false_alarms)
        a_share("probe", self.probe)

    def start(self, system: System, runs: int) -> Arrays:
        count, number = np.zeros(runs, dtype=np.int64), np.zeros(runs)
        return {
            **super().start(system, runs),
            **dict.fromkeys(NAMES, number),
            "heard_until": count,
            "alarms": count,
            "last_alarm": count,
            "before_rise": count,
            "quiet": count - 1,
            "on": count > 0,
            "on_samples": number,
            "on_losses": number,
        }

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        quiet = np.where(view.admitted > memory["heard_until"], 0, memory["quiet"] + 1)
        memory, louder = self._listen(view, {**memory, "quiet": quiet})
        share, memory = super().wanted(view, memory)

        since = view.admitted - memory["before_rise"]
        renewed = since / self.places(view.system).sum()
        rings = memory["last_alarm"] == view.t
        stale = np.where(rings, np.clip(1.0 - renewed, 0.0, 1.0), 0.0)
        probe = np.where(quiet >= QUIET, self.probe, 0.0)
        closer = ~memory["on"] & (louder > RISE)
        probe = np.where(closer, CLOSER * self.probe, probe)
        least = np.minimum(np.maximum(stale, probe), 1.0) * self.turnover
        if view.price.ndim == 2:
            least = least[:, None]
        return np.maximum(share, least), memory

    def _listen(self, view: View, memory: Arrays) -> tuple[Arrays, Floats]:
        """Return the memory after the last report, and its loss relative to the usual.

        The memory holds the alarms and how many samples had been admitted before losses
        rose. The ratio is that of the last loss to the usual one, (R,).
        """
        calm, on = memory["evidence"] == 0, memory["on"]
        before = np.where(calm, memory["heard_until"], memory["before_rise"])
        memory, louder, samples = observe(view, {**memory, "before_rise": before}, ~on)
        ratio = (view.system.horizon or OPEN) / self.false_alarms
        rings = memory["evidence"] > max(np.log(ratio), 0.0)
        last = np.where(rings, view.t, memory["last_alarm"])

        # While an alarm is on, sum the losses of the new samples, `ENOUGH` of them at a
        # time.
        samples = np.where(on, memory["on_samples"] + samples, 0.0)
        more = louder * (samples - memory["on_samples"])
        losses = np.where(on, memory["on_losses"] + more, 0.0)
        full = samples >= ENOUGH
        learnt = on & full & (losses < RISE * samples)
        given_up = on & ~learnt & (view.t - last >= LONGEST)
        kept = {name: np.where(given_up, 0.0, memory[name]) for name in NAMES}
        memory = {
            **memory,
            **kept,
            "evidence": np.where(rings, 0.0, kept["evidence"]),
            "alarms": memory["alarms"] + rings,
            "last_alarm": last,
            "on": rings | (on & ~learnt & ~given_up),
            "on_samples": np.where(full, 0.0, samples),
            "on_losses": np.where(full, 0.0, losses),
        }
        return memory, louder


def heard(view: View, memory: Arrays) -> tuple[Floats, Floats, Arrays]:
    """Return the mean loss of the previous round's new samples, their number, and
    memory.

    Loss and number are (R,), and 0 without a report. Clients are weighted by their
    buffers, as in the division of a purchase.
    """
    after = {**memory, "heard_until": view.admitted}
    if view.losses is None:
        return np.zeros(view.debt.shape), np.zeros(view.debt.shape), after
    new, places = view.losses.new, view.system.buffer
    reported = ~np.isnan(new)
    weight = (reported * places).sum(axis=-1)
    losses = np.where(reported, np.minimum(new, LOUDEST), 0.0)
    loss = (losses * places).sum(axis=-1) / np.maximum(weight, 1)
    count = np.minimum(view.admitted - memory["heard_until"], weight)
    return loss, count.astype(np.float64), after


def observe(
    view: View,
    memory: Arrays,
    settled: Bools,
) -> tuple[Arrays, Floats, Floats]:
    """Return the memory after the previous round's losses, their ratio, and their
    number.

    The ratio is that to the usual loss, 1 if either is unknown; ratio and number of
    samples are (R,). Runs that are not `settled` learn nothing.
    """
    loss, count, memory = heard(view, memory)
    usual, samples = memory["usual"], memory["usual_samples"]
    known = (samples >= FIRST) & (usual > 0) & (count > 0)
    ratio = quotient(loss, usual, known, 1.0)
    heard_of = np.where(known, count, 0.0)
    count, known = np.where(settled, count, 0.0), known & settled

    counted = count * MANY / (count + MANY)
    scatter = LEARNT * SCATTER + memory["scatter"]
    scatter = scatter / (LEARNT + memory["scatter_rounds"])
    likelihood = ratio * (1 - 1 / RISE) - np.log(RISE)
    evidence = np.where(known, counted / scatter * likelihood, 0.0)
    off = counted * (np.minimum(ratio, RISE) - 1) ** 2

    kept = samples * np.exp(-counted / LASTING)
    weight = kept + counted
    total = usual * kept + loss * counted
    mean = quotient(total, weight, weight > 0)
    learnt = {
        "evidence": np.maximum(memory["evidence"] + evidence, 0.0),
        "scatter": memory["scatter"] + np.where(known, off, 0.0),
        "scatter_rounds": memory["scatter_rounds"] + known,
        "usual": mean,
        "usual_samples": weight,
    }
    return {**memory, **learnt}, ratio, heard_of
