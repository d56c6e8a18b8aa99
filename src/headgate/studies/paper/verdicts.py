"""When a claim counts as kept: rules on numbers alone (rules.md), the same for every data set and flavour."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from hashlib import sha256
from math import floor
from typing import Any, NamedTuple

from headgate.analysis.formatting import interval, percent
from headgate.analysis.intervals import Estimate, Floats, estimate
from headgate.analysis.pages import beside
from headgate.analysis.runs import Runs, difference, paired
from headgate.studies.paper.outcomes import speed_up

HOLDS, FAILS, UNDECIDED, UNTESTABLE, NOT_RUN = "holds", "does not hold", "not decided", "not testable", "not run here"
DIRECTION = "holds in direction, not in size"
VACUOUS = "vacuous"
LEEWAY = 0.02
"""spend or memory so far above the limit still keeps it"""
CLOSE = 0.02
"""so far below the oracle is close, as we read it"""
GROWTH = 0.02
"""of C a round, by which a stable debt may still grow"""
STEPS = 20
"""targets that both sides reach are multiples of 1/20"""
SHARE = 0.9
"""of a side's final accuracy, as the second target"""
RULES = beside(__file__, "rules.md").strip()


def rules_id() -> str:
    """Changes whenever the rules do, so that verdicts of different rules are never put into one table unmarked."""
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
    verdict, note = above(found, 0.0, claimed)
    return _with_spend(Finding(verdict, found, "points", note), ours, other)


@_of_learning
def faster(ours: Runs, other: Runs, claimed: float | None, target: float) -> Finding:
    """Earlier at the target, as a ratio of first rounds."""
    ours, other = paired(ours, other)
    if ours.first_round(target) is None:
        theirs = other.first_round(target)
        if theirs is None:
            return Finding(UNTESTABLE, note=f"neither reaches {percent(target)} in {ours.rounds} rounds; {_ends(ours, other)}")
        note = f"{ours.policy} never reaches {percent(target)} in {ours.rounds} rounds, {other.policy} does in round {theirs}"
        return _with_spend(Finding(FAILS, speed_up(ours, other, target), "×", note), ours, other)
    return _with_spend(_speed(ours, other, target, claimed), ours, other)


def _speed(ours: Runs, other: Runs, target: float, claimed: float | None) -> Finding:
    found, first, theirs = speed_up(ours, other, target), ours.first_round(target), other.first_round(target)
    rounds = f"rounds {first} and {'never' if theirs is None else theirs}"
    bound = theirs is None
    found = replace(found, high=None) if bound else found
    verdict, why = above(found, 1.0, claimed)
    if bound and verdict != HOLDS:
        verdict, why = UNTESTABLE, f"the horizon of {ours.rounds} rounds is too short" if found.low is not None else why
    return Finding(verdict, found, "×", _joined(rounds, "a lower bound" if bound else "", why), at_least=bound)


@_of_learning
def sooner(ours: Runs, other: Runs) -> Finding:
    """Earlier at targets of our choice: the highest multiple of 5 % that both reach, and 90 % of the weaker one's best."""
    ours, other = paired(ours, other)
    targets = common_target(ours, other), SHARE * min(_reached(ours), _reached(other))
    if targets[0] <= 2 / STEPS:
        return Finding(UNTESTABLE, note="the two share no target above guessing")
    first, second = (_speed(ours, other, each, None) for each in targets)
    note = f"at {percent(targets[0])}: {first.note}; at {percent(targets[1], 1)}: {interval(second.value, 2)} ×, {second.note}"
    same = first.verdict == second.verdict
    found = replace(first, verdict=first.verdict if same else UNDECIDED, note=note + ("" if same else ": the two disagree"))
    return _with_spend(found, ours, other)


def _ends(*sides: Runs) -> str:
    return " and ".join(f"{side.policy} ends at {percent(_reached(side), 1)}" for side in sides)


def _reached(outcome: Runs) -> float:
    return float(outcome.curve.mean(axis=0).max())


def common_target(ours: Runs, other: Runs) -> float:
    """The highest multiple of 5 % that the mean running best of both reaches."""
    return round(floor(min(_reached(ours), _reached(other)) * STEPS + 1e-9) / STEPS, 2)


@_of_learning
def never_reaches(ours: Runs, other: Runs, target: float) -> Finding:
    """Our side reaches the target, the other does not."""
    ours, other = paired(ours, other)
    best = estimate(100 * other.best)
    first, theirs = ours.first_round(target), other.first_round(target)
    if theirs is not None:
        mine = "does not" if first is None else f"in round {first}"
        return Finding(FAILS, best, "% at the end", f"{other.policy} reaches it in round {theirs}, {ours.policy} {mine}")
    if first is None:
        note = f"neither reaches {percent(target)} in {ours.rounds} rounds; {_ends(ours, other)}"
        return _with_spend(Finding(UNTESTABLE, best, "% at the end", note), ours, other)
    verdict = decide(best, 100 * target, above=False)
    return _with_spend(Finding(verdict, best, "% at the end", f"{ours.policy} in round {first}"), ours, other)


@_of_learning
def below_oracle(ours: Runs, oracle: Runs, constant: Runs | None = None) -> Finding:
    """How far, and how much of the way from constant admission to the oracle is made; the paper draws no line."""
    gap = difference(oracle, ours).scaled(100)
    notes = ["the paper gives no number"]
    if constant is not None and constant.learnt:
        way, made = difference(oracle, constant).mean, difference(ours, constant).mean
        notes.append(f"{percent(made / way)} of the way from constant admission to the oracle" if way > 0 else "no way to go")
    return _with_spend(Finding(UNTESTABLE, gap, "points below", _joined(*notes)), ours, oracle)


@_of_learning
def close_to_oracle(ours: Runs, oracle: Runs) -> Finding:
    """Close as we read it."""
    gap = difference(oracle, ours).scaled(100)
    found = Finding(decide(gap, 100 * CLOSE, above=False), gap, "points below")
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
    return replace(finding, note=_joined(finding.note, count))


# Constraints


def keeps_budget(ours: Runs, longer: Runs | None = None) -> Finding:
    """Money really spent; `longer`: the same policy over more rounds, to see what hangs on the horizon."""
    share = estimate(100 * ours.spend / ours.budget)
    notes = [f"{ours.rounds} rounds"]
    if longer is not None:
        notes.append(f"{interval(estimate(100 * longer.spend / longer.budget))} % over {longer.rounds}")
    return spent_share(share, ours.budget, *notes)


def spent_share(share: Estimate, budget: float, *notes: str) -> Finding:
    """Of the budget, in per cent."""
    verdict = decide(share, 100 * (1 + LEEWAY), above=False)
    growth = "how the violation grows with T is judged under theory" if verdict == FAILS else ""
    return Finding(verdict, share, "% of the budget", _joined(*notes, growth), (share.mean * budget / 100,), budget)


def keeps_buffers(ours: Runs) -> Finding:
    """On average over rounds, of the client that is fullest on average over seeds: the constraint is on expectations."""
    shares = 100 * ours.held_shares.mean(axis=1)
    value = estimate(shares[:, shares.mean(axis=0).argmax()])
    return Finding(decide(value, 100 * (1 + LEEWAY), above=False), value, "% of B_m, mean over rounds, fullest client")


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
    growth = estimate(100 * (last - before) / quarter / ours.budget)
    note = f"debt {before.mean():.0f} in the third quarter, {last.mean():.0f} in the last"
    return Finding(decide(growth, 100 * GROWTH, above=False), growth, "% of C a round, growth", note)


# What they share


def above(found: Estimate, nothing: float, claimed: float | None) -> tuple[str, str]:
    """Whether a number is above no difference, and whether it may be as large as is claimed."""
    if found.low is None:
        return UNTESTABLE, "one seed has no interval"
    smaller = claimed is not None and found.high is not None and found.high < claimed
    if found.low > nothing:
        return (DIRECTION, "") if smaller else (HOLDS, "")
    if found.high is not None and found.high < nothing:
        return FAILS, "it is the other way round"
    if smaller:
        return FAILS, "no difference lies within the interval, what is claimed above it"
    return UNDECIDED, "no difference lies within the interval"


class Money(NamedTuple):
    """What a policy spent a round, over seeds."""

    policy: str
    spend: Estimate
    budget: float

    def keeps(self, allowed: float) -> str:
        share = self.spend.scaled(1 / allowed)
        if share.low is None:  # one seed: its number has to do
            return HOLDS if share.mean <= 1 + LEEWAY else FAILS
        return decide(share, 1 + LEEWAY, above=False)


def _with_spend(finding: Finding, ours: Runs, other: Runs, compare: float | None = None) -> Finding:
    mine, theirs = (Money(one.policy, estimate(one.spend), one.budget) for one in (ours, other))
    return with_money(finding, mine, theirs, compare)


def with_money(finding: Finding, ours: Money, other: Money, compare: float | None = None) -> Finding:
    """The same with the money of both sides; what holds only for more money than allowed is said to."""
    mine, theirs, budget = ours.spend.mean, other.spend.mean, ours.budget
    said = replace(finding, spend=(mine, theirs), budget=budget)
    if finding.verdict not in (HOLDS, DIRECTION):
        return said
    shares = percent(mine / budget), percent(theirs / budget)
    allowed = max(budget, theirs) if compare is None else compare
    within = ours.keeps(budget)
    if within == HOLDS:
        over = compare is None and other.keeps(budget) == FAILS
        return replace(said, note=_joined(said.note, f"{other.policy} spends {shares[1]} of the budget" if over else ""))
    if within == UNDECIDED:
        return replace(said, note=_joined(said.note, f"whether the budget is kept is not decided ({shares[0]})"))
    if ours.keeps(allowed) == FAILS:
        how = " only" if finding.verdict == HOLDS else ", only"
        return replace(said, verdict=f"{finding.verdict}{how} with overspend of {percent(mine / allowed - 1)}")
    return replace(said, verdict=f"{finding.verdict}, both over budget ({shares[0]} and {shares[1]})")


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
