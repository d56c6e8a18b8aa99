"""What a policy learnt for what it took: how much of the gap to the oracle, and what the same costs within the limits."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.analysis.limits import limits, rankable
from headgate.analysis.runs import Runs
from headgate.errors import DataError

MEASURES = {"best": "highest accuracy so far, at the end", "mean": "highest accuracy so far, mean over rounds"}
"""numbers to rank by, from 0 to 1 for each seed"""


def closed(one: Runs, constant: Runs, oracle: Runs, measure: str) -> float | None:
    """The part of the gap between constant admission and the oracle, of means over seeds; None where there is no gap."""
    low, high = (end.measure(measure).mean() for end in (constant, oracle))
    return float((one.measure(measure).mean() - low) / (high - low)) if high > low else None


class Cheaper(NamedTuple):
    """A policy that broke its limits, and one that kept them and gets as far for less."""

    one: Runs
    other: Runs

    @property
    def share(self) -> float:
        return float(self.other.spend.mean() / self.one.spend.mean())


def cheaper(found: Sequence[Runs]) -> list[Cheaper]:
    """For every policy that broke a limit: the least spend, of all that were run, with which another's best is as high."""
    ranked = rankable(found)
    fair = sorted((one for one in ranked if limits(one).kept), key=lambda one: one.spend.mean())
    broke = [one for one in ranked if not limits(one).kept]
    others = [next((other for other in fair if other.best.mean() >= one.best.mean()), None) for one in broke]
    return [Cheaper(one, other) for one, other in zip(broke, others, strict=True) if other is not None]


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
