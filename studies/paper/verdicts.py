"""When a claim counts as kept: rules on numbers alone (rules.md), the same for every
data set and flavour.

Every judge gets `alpha`, the largest p that counts after Holm's correction over all
tests of the page (`corrected`), and says which tests it made. These do not depend on
alpha.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from headgate.analysis.formatting import interval, percent
from headgate.analysis.intervals import (
    DECIDED,
    Difference,
    Estimate,
    Floats,
    ratio,
    student,
)
from headgate.analysis.limits import holm
from studies.paper.outcomes import Control, Side

HOLDS, FAILS, UNDECIDED, UNTESTABLE, NOT_RUN = (
    "holds",
    "does not hold",
    "not decided",
    "not testable",
    "not run here",
)
DIRECTION = "holds in direction, not in size"
SIZE = "does not hold in size, direction not decided"
FAR = "not testable at the paper's accuracy"
VACUOUS = "vacuous"
ALPHA = round(1 - DECIDED, 9)
LEEWAY = 0.02
"""spend or memory so far above the limit still keeps it"""
CLOSE = 0.02
"""so far below the oracle is close, as we read it"""
GROWTH = 0.02
"""of C a round, by which a stable debt may still grow"""
SMALLEST = 0.2
"""percentage points: a smaller difference in accuracy is none"""
SMALLEST_ROUNDS = 1.0
"""a smaller difference in rounds is none"""
REACH = 0.9
"""of the paper's target, which the oracle must reach for differences in accuracy to be
judged
"""


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim in one flavour, and what follows."""

    verdict: str
    value: Estimate | None = None
    unit: str = ""
    note: str = ""
    spend: tuple[float, ...] = ()
    """expected money a round of our side, then of the other"""
    budget: float | None = None
    at_least: bool = False
    """whether the value is a lower bound"""
    tests: tuple[float, ...] = ()
    """p of each test that the verdict rests on, not corrected"""


Judge = Callable[..., Finding]
"""a finding from our side, mostly another, and what is claimed"""


def missing(what: str = "") -> Finding:
    return Finding(NOT_RUN, note=what)


def corrected(tests: Sequence[float]) -> float:
    """The largest p of these that counts at 95 % after Holm's correction.

    >>> corrected([0.001, 0.02, 0.04]), corrected([0.02, 0.03])
    (0.04, 0.03)
    """
    found = holm({place: Difference(0.0, p=p) for place, p in enumerate(tests)})
    return max(
        (
            p
            for p, one in zip(tests, found.values(), strict=True)
            if one and (one.p or 0.0) <= ALPHA
        ),
        default=0.0,
    )


def decide(value: Estimate, line: float, above: bool = True) -> str:
    """By an interval alone: all of it must lie on one side of the line; the line itself
    is on the claimed side.

    >>> decide(Estimate(3.0, 2.5, 3.5), 2.0), decide(Estimate(3.0, 1.5, 3.5), 2.0)
    ('holds', 'not decided')
    >>> decide(Estimate(3.0, 2.5, 3.5), 2.0, above=False)
    'does not hold'
    """
    if value.low is None or value.high is None:
        return UNTESTABLE
    if above:
        return HOLDS if value.low >= line else FAILS if value.high < line else UNDECIDED
    return HOLDS if value.high <= line else FAILS if value.low > line else UNDECIDED


def _below(line: Difference, alpha: float) -> str:
    """By a test: `line` is what was measured less the line, which must not be
    exceeded.
    """
    if line.p is None:
        return UNTESTABLE
    return UNDECIDED if line.p > alpha else FAILS if line.mean > 0 else HOLDS


def _above(
    least: float, found: Difference, claimed: Difference | None, alpha: float
) -> tuple[str, str, tuple[float, ...]]:
    """Whether a difference is clear and at least so large, and whether it may be as
    large as is claimed: verdict, note, tests. `claimed` is what was measured less what
    is claimed."""
    if found.p is None:
        return UNTESTABLE, "one seed has no interval", ()
    smaller = claimed.p if claimed is not None and claimed.mean < 0 else None
    tests = (found.p,) if smaller is None else (found.p, smaller)
    too_small = smaller is not None and smaller <= alpha
    if found.p <= alpha and abs(found.mean) >= least:
        if found.mean < 0:
            return FAILS, "it is the other way round", tests
        return DIRECTION if too_small else HOLDS, "", tests
    return SIZE if too_small else UNDECIDED, "", tests


def _at_most(
    value: Difference, line: Difference, unit: str, note: str, alpha: float
) -> Finding:
    """Whether a value is at most at a line; `line` is the value less that line."""
    return Finding(
        _below(line, alpha),
        value,
        unit,
        note,
        tests=() if line.p is None else (line.p,),
    )


# Learning


def _of_learning(judge: Judge) -> Judge:
    """The same where both sides have seeds left, with the lost ones counted."""

    @wraps(judge)
    def judged(ours: Side, other: Side, *asked: Any, alpha: float = ALPHA) -> Finding:
        for side, verdict in ((ours, FAILS), (other, UNTESTABLE)):
            if not side.best:
                return Finding(
                    verdict,
                    note=f"{side.lost} of {side.lost} runs of {side.policy} diverged",
                )
        both = _common(ours, other)
        if not both:
            return Finding(UNTESTABLE, note="no seed is left on both sides")
        found = judge(ours, other, *asked, alpha=alpha)
        lost = [f"{side.lost} of {side.policy}" for side in (ours, other) if side.lost]
        count = (
            f"{len(both)} of {len(ours.best) + ours.lost} seeds: {' and '.join(lost)}"
            " diverged"
            if lost
            else ""
        )
        return replace(found, note=joined(found.note, count))

    return judged


def _common(ours: Side, other: Side) -> list[int]:
    return [seed for seed in ours.best if seed in other.best]


def _gaps(ours: Side, other: Side) -> Floats:
    """In percentage points, seed by seed."""
    return 100 * np.array(
        [ours.best[seed] - other.best[seed] for seed in _common(ours, other)]
    )


@_of_learning
def gain(
    ours: Side, other: Side, claimed: float | None, alpha: float = ALPHA
) -> Finding:
    """More accuracy at the end, in percentage points; without a number any gain will
    do.
    """
    gaps = _gaps(ours, other)
    found = student(gaps)
    verdict, note, tests = _above(
        SMALLEST, found, None if claimed is None else student(gaps - claimed), alpha
    )
    return _with_money(
        Finding(verdict, found, "points", note, tests=tests), ours, other, alpha
    )


@_of_learning
def faster(
    ours: Side, other: Side, claimed: float | None, target: float, alpha: float = ALPHA
) -> Finding:
    """Earlier at the target, as a ratio of mean first rounds."""
    return _speed(ours, other, round(100 * target), claimed, alpha)


@_of_learning
def sooner(ours: Side, other: Side, alpha: float = ALPHA) -> Finding:
    """Earlier at the highest target that every run of both reaches."""
    if ours.first is None or other.first is None:
        return missing("the rounds of single seeds are not published")
    shared = [
        at
        for at in ours.first
        if at in other.first and None not in (*ours.first[at], *other.first[at])
    ]
    if not shared or max(shared) <= 10:
        return Finding(UNTESTABLE, note="the two share no target above guessing")
    found = _speed(ours, other, max(shared), None, alpha)
    return replace(found, note=joined(f"at {max(shared)} %", found.note))


def _speed(
    ours: Side, other: Side, target: int, claimed: float | None, alpha: float
) -> Finding:
    seeds, late = _common(ours, other), float(ours.rounds + 1)
    if max(100 * side.best[seed] for side in (ours, other) for seed in seeds) < target:
        ends = " and ".join(
            f"{side.policy} ends at {percent(side.mean, 1)}" for side in (ours, other)
        )
        return Finding(
            UNTESTABLE,
            note=f"no run reaches {target} % in {ours.rounds} rounds; {ends}",
        )
    if ours.first is None or other.first is None:
        return missing("the rounds of single seeds are not published")
    reached = [side.reached(target, seeds) for side in (ours, other)]
    mine, theirs = (np.where(np.isnan(each), late, each) for each in reached)
    never = [int(np.isnan(each).sum()) for each in reached]
    found, bound = ratio(theirs, mine, DECIDED), never[1] > 0 == never[0]
    size = None if claimed is None or bound else student(theirs - claimed * mine)
    verdict, why, tests = _above(SMALLEST_ROUNDS, student(theirs - mine), size, alpha)
    sides = zip((ours, other), never, strict=True)
    missed = [
        f"{count} of {len(seeds)} runs of {side.policy} never get there"
        for side, count in sides
        if count
    ]
    note = joined(f"rounds {mine.mean():.1f} and {theirs.mean():.1f}", *missed, why)
    value = replace(found, high=None) if bound else found
    return _with_money(
        Finding(verdict, value, "×", note, at_least=bound, tests=tests),
        ours,
        other,
        alpha,
    )


@_of_learning
def never_reaches(
    ours: Side, other: Side, target: float, alpha: float = ALPHA
) -> Finding:
    """Our side reaches the target, the other does not."""
    best = 100 * np.array(list(other.best.values()))
    line, note = (
        student(best - 100 * target),
        f"{ours.policy} ends at {percent(ours.mean, 1)}",
    )
    if line.mean < 0 and ours.mean < target:
        return Finding(UNTESTABLE, student(best), "% at the end", note)
    return _with_money(
        _at_most(student(best), line, "% at the end", note, alpha), ours, other, alpha
    )


@_of_learning
def below_oracle(
    ours: Side, oracle: Side, constant: Side | None = None, alpha: float = ALPHA
) -> Finding:
    """How far, and how much of the way from constant admission to the oracle is made;
    the paper draws no line.
    """
    notes = ["the paper gives no number"]
    seeds = [
        seed
        for seed in _common(ours, oracle)
        if constant is not None and seed in constant.best
    ]
    if constant is not None and len(seeds) > 1:
        mine, low, high = (
            np.array([side.best[seed] for seed in seeds])
            for side in (ours, constant, oracle)
        )
        made = ratio(mine - low, high - low, DECIDED).scaled(100)
        sure = made if made.low is not None else None
        notes.append(
            f"{interval(sure, 0)} % of the way from constant admission to the oracle"
        )
    return _with_money(
        Finding(
            UNTESTABLE, student(_gaps(oracle, ours)), "points below", joined(*notes)
        ),
        ours,
        oracle,
        alpha,
    )


@_of_learning
def close_to_oracle(ours: Side, oracle: Side, alpha: float = ALPHA) -> Finding:
    """Close as we read it."""
    gap = _gaps(oracle, ours)
    found = _at_most(
        student(gap), student(gap - 100 * CLOSE), "points below", "", alpha
    )
    return _with_money(
        found,
        ours,
        oracle,
        alpha,
        compare=ours.control[0].budget if ours.control else None,
    )


# Constraints, on rehearsed runs


def _limit(
    one: Control,
    name: str,
    scale: float,
    line: float,
    unit: str,
    note: str,
    alpha: float,
) -> Finding:
    """Whether a mean in % is at most at the line."""
    return _at_most(
        one.above(name, scale=scale), one.above(name, line, scale), unit, note, alpha
    )


def keeps_budget(found: Sequence[Control], alpha: float = ALPHA) -> Finding:
    """Money as expected; longer horizons are shown beside."""
    one, *longer = found
    share = 100 / one.budget
    notes = [
        f"T = {one.rounds}",
        *(
            f"{interval(each.above('spend', scale=share))} % at T = {each.rounds}"
            for each in longer
        ),
    ]
    told = _limit(
        one,
        "spend",
        share,
        100 * (1 + LEEWAY),
        "% of the budget",
        joined(*notes),
        alpha,
    )
    return replace(told, spend=(one.spend[0],), budget=one.budget)


def keeps_buffers(found: Sequence[Control], alpha: float = ALPHA) -> Finding:
    """On average over rounds, of the client that is fullest on average: the constraint
    is on expectations.
    """
    return _limit(
        found[0],
        "fullest",
        100.0,
        100 * (1 + LEEWAY),
        "% of B_m, mean over rounds, fullest client",
        "",
        alpha,
    )


def never_above_buffers(found: Sequence[Control], alpha: float = ALPHA) -> Finding:
    """A single round above B_m breaks it, so here the largest number decides, not a
    test.
    """
    one = found[0]
    note = f"largest of {one.runs} runs; peak n {one.peak_n} of {one.memory}"
    return Finding(
        HOLDS if one.peak_share <= 1 else FAILS,
        Estimate(100 * one.peak_share),
        "% of B_m at the peak",
        note,
    )


def debt_is_stable(found: Sequence[Control], alpha: float = ALPHA) -> Finding:
    one = found[0]
    if one.growth is None:
        return Finding(UNTESTABLE, note=f"{one.rounds} rounds are too few")
    note = (
        f"debt {one.debts[0]:.0f} in the third quarter, {one.debts[1]:.0f} in the last"
    )
    return _limit(
        one,
        "growth",
        100 / one.budget,
        100 * GROWTH,
        "% of C a round, growth",
        note,
        alpha,
    )


# Money beside learning


def _with_money(
    finding: Finding,
    ours: Side,
    other: Side,
    alpha: float,
    compare: float | None = None,
) -> Finding:
    """The same with the money that both sides are expected to spend; the verdict names
    an overspend.
    """
    if not ours.control or not other.control:
        return finding
    mine, theirs = ours.control[0], other.control[0]
    budget, spend = mine.budget, (mine.spend[0], theirs.spend[0])
    said = replace(finding, spend=spend, budget=budget)
    if finding.verdict not in (HOLDS, DIRECTION) or not _over(mine, budget, alpha):
        return said
    allowed = max(budget, spend[1]) if compare is None else compare
    if _over(mine, allowed, alpha):
        how = " only" if finding.verdict == HOLDS else ", only"
        return replace(
            said,
            verdict=(
                f"{finding.verdict}{how} with overspend of"
                f" {percent(spend[0] / allowed - 1)}"
            ),
        )
    shares = (percent(each / budget) for each in spend)
    return replace(
        said, verdict=f"{finding.verdict}, both over budget ({' and '.join(shares)})"
    )


def _over(one: Control, allowed: float, alpha: float) -> bool:
    return _below(one.above("spend", (1 + LEEWAY) * allowed), alpha) == FAILS


def joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
