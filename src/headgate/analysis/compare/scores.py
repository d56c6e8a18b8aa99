"""What a policy learnt for what it took: how much of the gap to the oracle, and what the same costs within the limits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headgate.analysis.intervals import LEVEL, Estimate
from headgate.analysis.limits import limits, rankable
from headgate.analysis.runs import Runs
from headgate.errors import DataError

RESAMPLES = 2_000
"""of the seeds, for the interval of what is closed"""


def closed(one: Runs, constant: Runs, oracle: Runs, measure: str) -> Estimate | None:
    """The part of the gap between constant admission and the oracle, of means over the seeds that all three have learnt;
    None where there is no gap. The interval is that of a bootstrap over these seeds, the same for all three."""
    ends = (one, constant, oracle)
    seeds = [seed for seed in one.learnt if seed in constant.learnt and seed in oracle.learnt]
    if not seeds:
        return None
    ours, low, high = (end.of_seeds(seeds).measure(measure) for end in ends)
    if high.mean() <= low.mean():
        return None
    share = float((ours.mean() - low.mean()) / (high.mean() - low.mean()))
    if len(seeds) == 1 or one is constant or one is oracle:
        return Estimate(share, runs=len(seeds))
    drawn = np.random.default_rng(0).integers(len(seeds), size=(RESAMPLES, len(seeds)))
    again = [values[drawn].mean(axis=1) for values in (ours, low, high)]
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without a gap says nothing
        shares = (again[0] - again[1]) / (again[2] - again[1])
    least, most = np.quantile(shares[np.isfinite(shares)], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(share, float(least), float(most), len(seeds))


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
