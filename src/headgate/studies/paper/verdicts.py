"""When a claim counts as kept: rules on numbers alone (rules.md), the same for every data set and flavour."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from hashlib import sha256
from math import floor
from typing import Any

import numpy as np

from headgate.analysis.formatting import interval, percent
from headgate.analysis.intervals import Estimate, Floats, estimate
from headgate.analysis.pages import beside
from headgate.analysis.runs import Runs, difference, paired
from headgate.studies.paper.outcomes import speed_up

HOLDS, FAILS, UNDECIDED, UNTESTABLE, NOT_RUN = "holds", "does not hold", "not decided", "not testable", "not run here"
LEEWAY = 0.02
"""spend or memory so far above the limit still keeps it"""
CLOSE = 0.02
"""so far below the oracle is close"""
GROWTH = 0.02
"""of C a round, by which a stable debt may still grow"""
STEPS = 20
"""targets that both sides reach are multiples of 1/20"""
SHARE = 0.9
"""of a side's final accuracy, as the second target"""
RULES = beside(__file__, "rules.md").strip()


def rules_id() -> str:
    """Changes whenever the rules do, so that verdicts of different rules are never put into one table."""
    return sha256(f"{RULES}{LEEWAY}{CLOSE}{GROWTH}{STEPS}{SHARE}".encode()).hexdigest()[:12]


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
    at_least: bool = False
    """whether the value is a lower bound"""


Judge = Callable[..., Finding]
"""a finding from our side, mostly another, and what is claimed"""


def missing(what: str = "") -> Finding:
    return Finding(NOT_RUN, note=what)


def decide(value: Estimate, line: float, above: bool = True) -> str:
    """The one rule: the whole interval must lie on one side of the line; the line itself is on the claimed side.

    >>> decide(Estimate(3.0, 2.5, 3.5), 2.0), decide(Estimate(3.0, 1.5, 3.5), 2.0)
    ('holds', 'not decided')
    >>> decide(Estimate(3.0, 2.5, 3.5), 2.0, above=False)
    'does not hold'
    """
    if value.low is None and value.high is None:
        return UNTESTABLE
    low = value.low if value.low is not None else float("-inf")
    high = value.high if value.high is not None else float("inf")
    if above:
        return HOLDS if low >= line else FAILS if high < line else UNDECIDED
    return HOLDS if high <= line else FAILS if low > line else UNDECIDED


# Learning


def _of_learning(judge: Judge) -> Judge:
    """The same where both sides have seeds left, with the lost ones counted."""

    @wraps(judge)
    def judged(ours: Runs, other: Runs, *asked: Any) -> Finding:
        return _lost(ours, other) or _counted(judge(ours, other, *asked), ours, other)

    return judged


@_of_learning
def gain(ours: Runs, other: Runs, claimed: float | None) -> Finding:
    """More accuracy at the end, in percentage points; without a number any gain will do."""
    found = difference(ours, other).scaled(100)
    verdict, note = _above(found, 0.0, claimed)
    return _with_spend(Finding(verdict, found, "points", note), ours, other)


@_of_learning
def faster(ours: Runs, other: Runs, claimed: float | None, target: float) -> Finding:
    """Earlier at the target, as a ratio of first rounds."""
    ours, other = paired(ours, other)
    first, theirs = ours.first_round(target), other.first_round(target)
    if first is not None:
        return _with_spend(_speed(ours, other, target, claimed), ours, other)
    if theirs is None:
        return _with_spend(_at_replaced_targets(ours, other, target, claimed), ours, other)
    note = f"never reaches {percent(target)} in {ours.rounds} rounds, {other.policy} does in round {theirs}"
    return _with_spend(Finding(FAILS, speed_up(ours, other, target), "×", f"{ours.policy} {note}"), ours, other)


def _speed(ours: Runs, other: Runs, target: float, claimed: float | None) -> Finding:
    found, first, theirs = speed_up(ours, other, target), ours.first_round(target), other.first_round(target)
    rounds = f"rounds {first} and {'never' if theirs is None else theirs}"
    if theirs is not None:
        verdict, why = _above(found, 1.0, claimed)
        return Finding(verdict, found, "×", f"{rounds}; {why}" if why else rounds)
    found = replace(found, high=None)
    verdict, why = _above(found, 1.0, claimed)
    if verdict != HOLDS:
        verdict = UNTESTABLE
        why = f"the horizon of {ours.rounds} rounds is too short" if found.low is not None else why
    return Finding(verdict, found, "×", "; ".join(filter(None, (rounds, "a lower bound", why))), at_least=True)


def _at_replaced_targets(ours: Runs, other: Runs, target: float, claimed: float | None) -> Finding:
    weaker = min(_reached(ours), _reached(other))
    targets = (common_target(ours, other), SHARE * weaker)
    said = f"neither reaches {percent(target)} in {ours.rounds} rounds"
    if targets[0] <= 2 / STEPS:
        return Finding(UNTESTABLE, note=f"{said}, nor both any target above guessing")
    first, second = (_speed(ours, other, each, claimed) for each in targets)
    times = f"{'≥ ' if second.at_least else ''}{interval(second.value, 2)} ×"
    note = f"{said}; at {percent(targets[0])} {first.note}; at {percent(targets[1], 1)} {times}, {second.note}"
    verdict = first.verdict if first.verdict == second.verdict else UNDECIDED
    return replace(first, verdict=verdict, note=note + ("" if first.verdict == second.verdict else ": the two disagree"))


def _reached(outcome: Runs) -> float:
    return float(outcome.curve.mean(axis=0).max())


def _multiple(reached: float) -> float:
    """The highest multiple of 5 % up to it.

    >>> _multiple(0.35), _multiple(0.349)
    (0.35, 0.3)
    """
    return round(floor(reached * STEPS + 1e-9) / STEPS, 2)


def common_target(ours: Runs, other: Runs) -> float:
    """The highest multiple of 5 % that the mean running best of both reaches."""
    return _multiple(min(_reached(ours), _reached(other)))


@_of_learning
def never_reaches(ours: Runs, other: Runs, target: float) -> Finding:
    """Our side reaches the target, the other does not."""
    ours, other = paired(ours, other)
    best = estimate(100 * other.best)
    first, theirs = ours.first_round(target), other.first_round(target)
    if theirs is not None:
        mine = "does not" if first is None else f"in round {first}"
        return Finding(FAILS, best, "% at the end", f"{other.policy} reaches it in round {theirs}, {ours.policy} {mine}")
    if first is not None:
        verdict = decide(best, 100 * target, above=False)
        return _with_spend(Finding(verdict, best, "% at the end", f"{ours.policy} in round {first}"), ours, other)
    targets = (_multiple(_reached(ours)), SHARE * _reached(ours))
    said = f"neither reaches {percent(target)} in {ours.rounds} rounds"
    if targets[0] <= 2 / STEPS:
        return Finding(UNTESTABLE, best, "% at the end", f"{said}, nor {ours.policy} any target above guessing")
    verdicts = [decide(best, 100 * each, above=False) for each in targets]
    own = f"{ours.policy} ends at {percent(_reached(ours), 1)}"
    asked = f"asked at {percent(targets[0])} ({verdicts[0]}) and {percent(targets[1], 1)} ({verdicts[1]})"
    verdict = verdicts[0] if verdicts[0] == verdicts[1] else UNDECIDED
    return _with_spend(Finding(verdict, best, "% at the end", f"{said}; {own}; {asked}"), ours, other)


@_of_learning
def close_to_oracle(ours: Runs, oracle: Runs, constant: Runs | None = None) -> Finding:
    """With constant admission at hand it is also said how much of the way from it to the oracle is made."""
    gap = difference(oracle, ours).scaled(100)
    notes = [f"close is at most {100 * CLOSE:g} points, our choice"]
    if constant is not None and constant.learnt:
        way, made = difference(oracle, constant).mean, difference(ours, constant).mean
        notes.append(f"{percent(made / way)} of the way from constant admission to the oracle" if way > 0 else "no way to go")
    found = Finding(decide(gap, 100 * CLOSE, above=False), gap, "points below", "; ".join(notes))
    return _with_spend(found, ours, oracle, compare=ours.budget)


def _lost(ours: Runs, other: Runs) -> Finding | None:
    for side, verdict in ((ours, FAILS), (other, UNTESTABLE)):
        if not side.learnt:
            return Finding(verdict, note=f"{side.lost_runs} of {len(side.seeds)} runs of {side.policy} diverged")
    return None if set(ours.learnt) & set(other.learnt) else Finding(UNTESTABLE, note="no seed is left on both sides")


def _counted(finding: Finding, ours: Runs, other: Runs) -> Finding:
    lost = [f"{side.lost_runs} of {side.policy}" for side in (ours, other) if side.lost_runs]
    if not lost:
        return finding
    both = len(set(ours.learnt) & set(other.learnt))
    count = f"{both} of {len(ours.seeds)} seeds: {' and '.join(lost)} diverged"
    return replace(finding, note="; ".join(filter(None, (finding.note, count))))


# Constraints


def keeps_budget(ours: Runs) -> Finding:
    share = estimate(100 * ours.expected_spend / ours.budget)
    notes = [f"{percent(ours.spend.mean() / ours.budget)} really spent, with the luck of the prices"]
    verdict = decide(share, 100 * (1 + LEEWAY), above=False)
    if verdict == FAILS:
        notes.append(f"{ours.rounds} rounds; how the violation grows with T is judged under theory")
    return Finding(verdict, share, "% of the budget", "; ".join(notes), (float(ours.spend.mean()),), ours.budget)


def keeps_buffers(ours: Runs) -> Finding:
    by_seed = 100 * ours.held_shares.mean(axis=1).max(axis=-1)
    value = estimate(by_seed)
    note = f"fullest client in the mean over seeds: {percent(ours.fullest)} of its B_m"
    return Finding(decide(value, 100 * (1 + LEEWAY), above=False), value, "% of B_m, mean over rounds", note)


def never_above_buffers(ours: Runs) -> Finding:
    """A single round above B_m breaks it, so here the largest number decides, not an interval."""
    by_seed: Floats = 100 * ours.held_shares.max(axis=(1, 2))
    note = f"peak n {ours.peak_n} of {ours.buffers.sum()}"
    return Finding(HOLDS if ours.peak_share <= 1 else FAILS, estimate(by_seed), "% of B_m at the peak", note)


def debt_is_stable(ours: Runs) -> Finding:
    quarter = ours.rounds // 4
    if quarter < 2:
        return Finding(UNTESTABLE, note=f"{ours.rounds} rounds are too few")
    before, last = (ours.column("debt")[:, -k * quarter : (-(k - 1) * quarter) or None].mean(axis=1) for k in (2, 1))
    growth = estimate(100 * (last - before - _debt_luck(ours, quarter)) / quarter / ours.budget)
    note = f"debt {before.mean():.0f} in the third quarter, {last.mean():.0f} in the last"
    return Finding(decide(growth, 100 * GROWTH, above=False), growth, "% of C a round, growth", note)


def _debt_luck(ours: Runs, quarter: int) -> Floats:
    """How much of the growth is the luck of the prices, (all seeds,): nothing where the debt was ever paid off meanwhile,
    because a queue at zero does not remember. An increment counts in as many rounds of a quarter as come after it."""
    t = np.arange(1, ours.rounds + 1)
    third, fourth = (np.clip(ours.rounds - (k - 1) * quarter - t, 0, quarter) / quarter for k in (2, 1))
    luck = ours.bought * ((fourth - third) * ours.price_luck).sum(axis=1)
    return np.where((ours.column("debt")[:, -2 * quarter :] > 0).all(axis=1), luck, 0.0)


# What they share


def _above(found: Estimate, nothing: float, claimed: float | None) -> tuple[str, str]:
    """Whether a number is above half of what is claimed, and if not, what it is."""
    line = nothing if claimed is None else nothing + (claimed - nothing) / 2
    if found.low is None:
        return UNTESTABLE, "one seed has no interval"
    verdict = decide(found, line)
    if verdict == HOLDS and claimed is None and found.low <= nothing:
        verdict = UNDECIDED
    if verdict == HOLDS:
        return verdict, ""
    if found.high is not None and found.high < nothing:
        return verdict, "it is the other way round"
    if found.low <= nothing:
        return verdict, "no difference lies within the interval"
    half = "by less than half of what is claimed" if verdict == FAILS else "half of what is claimed lies in the interval"
    return verdict, f"better, but {half}"


def _with_spend(finding: Finding, ours: Runs, other: Runs, compare: float | None = None) -> Finding:
    """The same with the money of both sides; what holds only for more money than allowed is said to."""
    said = replace(finding, spend=(float(ours.spend.mean()), float(other.spend.mean())), budget=ours.budget)
    if finding.verdict != HOLDS:
        return said
    mine, theirs = float(ours.expected_spend.mean()), float(other.expected_spend.mean())
    shares = percent(mine / ours.budget), percent(theirs / ours.budget)
    allowed = max(ours.budget, theirs) if compare is None else compare
    within = _keeps(ours, ours.budget)
    if within == HOLDS:
        other_over = compare is None and _keeps(other, other.budget) == FAILS
        return (
            replace(said, note=_joined(said.note, f"{other.policy} spends {shares[1]} of the budget")) if other_over else said
        )
    if within == UNDECIDED:
        note = f"whether the budget is kept is not decided ({shares[0]})"
        return replace(said, verdict=UNDECIDED, note=_joined(said.note, note))
    if _keeps(ours, allowed) == FAILS:
        return replace(said, verdict=f"holds only with overspend of {percent(mine / allowed - 1)}")
    return replace(said, verdict=f"holds, both over budget ({shares[0]} and {shares[1]})")


def _keeps(side: Runs, allowed: float) -> str:
    share = estimate(side.expected_spend / allowed)
    if share.low is None:  # one seed: its number has to do
        return HOLDS if share.mean <= 1 + LEEWAY else FAILS
    return decide(share, 1 + LEEWAY, above=False)


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
