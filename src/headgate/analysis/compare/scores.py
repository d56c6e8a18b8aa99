"""What a policy learnt for what it took: how much of the gap to the oracle, and what the same costs within the limits."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.analysis.limits import limits, rankable
from headgate.analysis.runs import Runs
from headgate.errors import DataError


class Measure(NamedTuple):
    """A number to rank by, from 0 to 1 for each seed."""

    key: str
    title: str


MEASURES = (
    Measure("best", "highest accuracy so far, at the end"),
    Measure("mean", "highest accuracy so far, mean over rounds"),
)


def closed(one: Runs, constant: Runs, oracle: Runs, measure: str) -> float | None:
    """The part of the gap between constant admission and the oracle, of means over seeds; None where there is no gap."""
    low, high = (end.measure(measure).mean() for end in (constant, oracle))
    return float((one.measure(measure).mean() - low) / (high - low)) if high > low else None


class Cheaper(NamedTuple):
    """What a policy that broke its limits reached, and where one that kept them gets as far for less."""

    policy: str
    budget: float
    accuracy: float
    spend: float
    other: str
    other_budget: float
    other_accuracy: float
    other_spend: float

    @property
    def share(self) -> float:
        return self.other_spend / self.spend


def cheaper(found: Sequence[Runs], measure: str) -> list[Cheaper]:
    """For every policy that broke a limit: the least spend, of all that were run, with which another gets as far."""
    ranked = rankable(found)
    fair = sorted((one for one in ranked if limits(one).kept), key=lambda one: one.spend.mean())
    pairs = []
    for one in (one for one in ranked if not limits(one).kept):
        reached = one.measure(measure).mean()
        other = next((other for other in fair if other.measure(measure).mean() >= reached), None)
        if other is not None:
            own, its = ((o.budget, float(o.measure(measure).mean()), float(o.spend.mean())) for o in (one, other))
            pairs.append(Cheaper(one.policy, *own, other.policy, *its))
    return pairs


def by_budget(found: Sequence[Runs]) -> dict[float, list[Runs]]:
    """In order of the budgets; refused where runs cannot be compared."""
    if not found:
        raise DataError("compare: there is no run to compare")
    kinds = sorted({str(one.data) for one in found})
    if len(kinds) > 1:
        raise DataError(f"compare: runs of {' and '.join(kinds)} cannot be compared")
    budgets: dict[float, list[Runs]] = {}
    for one in sorted(found, key=lambda one: one.budget):
        budgets.setdefault(one.budget, []).append(one)
    return budgets
