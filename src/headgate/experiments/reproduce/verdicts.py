"""When a claim counts as kept: rules on numbers alone, the same for every data set and flavour.

- A gain or a speed-up holds if its whole 80 % interval is on the claimed side of zero (or of one) and it is at least half as
  large as claimed. It holds *only with overspend* if the policy spent more than 2 % above both its budget and what the other
  side spent.
- "Close to the oracle" means at most two percentage points below it at the end.
- The cost constraint is kept if the mean spend is at most 2 % above the budget; the buffer constraint if no client holds, in
  the mean over rounds and seeds, more than 2 % above its B_m (the paper's constraint); the peak is a row of its own.
- The debt is stable if in the last quarter of the rounds it is at most 5 % higher than in the quarter before.
- A target that neither side reaches is replaced by the highest multiple of 5 % that both reach.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor

import numpy as np

from headgate.experiments.intervals import Floats
from headgate.experiments.reproduce.outcomes import Estimate, Outcome, difference, estimate, speed_up
from headgate.experiments.reproduce.text import percent

HOLDS, FAILS, UNTESTABLE, NOT_RUN = "holds", "does not hold", "not testable", "not run here"
LEEWAY = 0.02
"""spend or memory so far above the limit still keeps it"""
CLOSE = 0.02
"""so far below the oracle is close"""
STABLE = 1.05
STEP = 0.05
"""targets that both sides reach are multiples of this"""


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim in one flavour, and what follows."""

    verdict: str
    value: Estimate | None = None
    unit: str = ""
    note: str = ""
    spend: tuple[float, ...] = ()
    """money a round of our side, then of the other"""
    budget: float | None = None


Judge = Callable[[Outcome, Outcome], Finding]
"""a finding from our side and the other"""


def missing(what: str = "") -> Finding:
    return Finding(NOT_RUN, note=what)


def gain(claimed: float | None) -> Judge:
    """More accuracy at the end, in percentage points; without a number any gain will do."""

    def judge(ours: Outcome, other: Outcome) -> Finding:
        found = difference(ours, other).scaled(100)
        verdict, note = _above(found, 0.0, claimed)
        return _with_spend(Finding(verdict, found, "points", note), ours, other)

    return judge


def faster(claimed: float | None, target: float) -> Judge:
    """Earlier at the target, as a ratio of first rounds."""

    def judge(ours: Outcome, other: Outcome) -> Finding:
        first, theirs = ours.first_round(target), other.first_round(target)
        if first is None and theirs is not None:
            note = (
                f"{ours.policy} never reaches {percent(target)} in {ours.rounds} rounds, {other.policy} does in round {theirs}"
            )
            return _with_spend(Finding(FAILS, None, "×", note), ours, other)
        at, notes = target, []
        if first is None:
            at = common_target(ours, other)
            if at <= 2 * STEP:
                return Finding(UNTESTABLE, note=f"neither side reaches {percent(target)}, nor any target above guessing")
            notes.append(f"neither reaches {percent(target)} in {ours.rounds} rounds: compared at {percent(at)}")
        elif theirs is None:
            notes.append(f"{other.policy} never reaches {percent(target)} in {ours.rounds} rounds: a lower bound")
        found = speed_up(ours, other, at)
        verdict, why = _above(found, 1.0, claimed)
        rounds = " and ".join("never" if t is None else str(t) for t in (ours.first_round(at), other.first_round(at)))
        notes = [*notes, f"rounds {rounds}", *([why] if why else [])]
        return _with_spend(Finding(verdict, found, "×", "; ".join(notes)), ours, other)

    return judge


def common_target(ours: Outcome, other: Outcome) -> float:
    """The highest multiple of 5 % that the mean running best of both reaches."""
    reached = min(float(outcome.best.mean(axis=0).max()) for outcome in (ours, other))
    return floor(reached / STEP + 1e-9) * STEP


def never_reaches(target: float) -> Judge:
    """Our side reaches the target, the other does not."""

    def judge(ours: Outcome, other: Outcome) -> Finding:
        best = estimate(100 * other.final)
        if ours.first_round(target) is None:
            return Finding(
                UNTESTABLE,
                best,
                "% at the end",
                f"{ours.policy} does not reach {percent(target)} in {ours.rounds} rounds either",
            )
        reached = other.first_round(target)
        note = "" if reached is None else f"reached in round {reached}"
        return _with_spend(Finding(HOLDS if reached is None else FAILS, best, "% at the end", note), ours, other)

    return judge


def close_to_oracle(ours: Outcome, oracle: Outcome) -> Finding:
    gap = difference(oracle, ours).scaled(100)
    verdict = HOLDS if gap.mean <= 100 * CLOSE else FAILS
    note = f"close is at most {100 * CLOSE:g} points"
    return _with_spend(Finding(verdict, gap, "points below", note), ours, oracle, compare=ours.budget)


def keeps_budget(ours: Outcome, _: Outcome) -> Finding:
    spend = estimate(100 * ours.spend / ours.budget)
    kept = spend.mean <= 100 * (1 + LEEWAY)
    note = "" if kept else f"{ours.rounds} rounds; how the violation grows with T is judged under theory"
    return Finding(HOLDS if kept else FAILS, spend, "% of the budget", note, (float(ours.spend.mean()),), ours.budget)


def keeps_buffers(ours: Outcome, _: Outcome) -> Finding:
    by_seed = 100 * (ours.occupancy.mean(axis=1) / ours.buffers).max(axis=-1)
    note = f"fullest client in the mean over seeds: {percent(ours.fullest)} of its B_m"
    kept = ours.fullest <= 1 + LEEWAY
    return Finding(HOLDS if kept else FAILS, estimate(by_seed), "% of B_m, mean over rounds", note)


def never_above_buffers(ours: Outcome, _: Outcome) -> Finding:
    by_seed: Floats = 100 * (ours.occupancy / ours.buffers).max(axis=(1, 2))
    note = f"peak n {ours.peak} of {ours.buffers.sum()}"
    return Finding(HOLDS if ours.peak_over <= 1 else FAILS, estimate(by_seed), "% of B_m at the peak", note)


def debt_is_stable(ours: Outcome, _: Outcome) -> Finding:
    quarter = ours.rounds // 4
    if quarter < 2:
        return Finding(UNTESTABLE, note=f"{ours.rounds} rounds are too few")
    before, last = (ours.debt[:, -k * quarter : (-(k - 1) * quarter) or None].mean(axis=1) for k in (2, 1))
    ratio = float(last.mean() / before.mean()) if before.mean() > 0 else (1.0 if last.mean() == 0 else float("inf"))
    note = f"debt {before.mean():.0f} in the third quarter, {last.mean():.0f} in the last"
    return Finding(
        HOLDS if ratio <= STABLE else FAILS, Estimate(ratio, *_ratio_interval(last, before)), "× from quarter to quarter", note
    )


def _ratio_interval(above: Floats, below: Floats) -> tuple[float | None, float | None]:
    """From drawing the seeds anew."""
    if len(above) < 2 or not below.mean() > 0:
        return None, None
    picks = np.random.default_rng(0).integers(len(above), size=(2000, len(above)))
    totals = below[picks].sum(axis=1)
    ratios = above[picks].sum(axis=1)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(ratios, [0.1, 0.9])
    return float(low), float(high)


def _above(found: Estimate, nothing: float, claimed: float | None) -> tuple[str, str]:
    """Whether a number is surely above `nothing`, and by at least half of what is claimed."""
    if found.low is None:
        return UNTESTABLE, "one seed has no interval"
    if found.low <= nothing:
        beyond = found.high is not None and found.high < nothing
        return FAILS, "it is the other way round" if beyond else "the interval holds no difference as well"
    if claimed is not None and found.mean - nothing < (claimed - nothing) / 2:
        return FAILS, "better, but by less than half of what is claimed"
    return HOLDS, ""


def _with_spend(finding: Finding, ours: Outcome, other: Outcome, compare: float | None = None) -> Finding:
    """The same with the money of both sides; what holds only for more money than the other had is said to."""
    spend = float(ours.spend.mean()), float(other.spend.mean())
    allowed = max(ours.budget, spend[1]) if compare is None else compare
    verdict = finding.verdict
    if verdict == HOLDS and spend[0] > (1 + LEEWAY) * allowed:
        verdict = f"holds only with overspend of {percent(spend[0] / allowed - 1)}"
    return Finding(verdict, finding.value, finding.unit, finding.note, spend, ours.budget)
