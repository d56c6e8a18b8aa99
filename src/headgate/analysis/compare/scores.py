"""What a policy learnt for what it took, seed by seed, and whether it kept its limits in every run and round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headgate.analysis.intervals import Floats, p_value, t_quantile
from headgate.analysis.outcomes import Outcome, paired
from headgate.errors import DataError

REFERENCES = ("oracle",)
"""bound to no budget: drawn, never ranked"""
LEVEL = 0.95
ROUNDING = 1e-9


class Measure(NamedTuple):
    """A number to rank by, from 0 to 1 for each seed."""

    key: str
    title: str


MEASURES = (
    Measure("best", "highest accuracy so far, at the end"),
    Measure("mean", "highest accuracy so far, mean over rounds"),
)


def measured(one: Outcome, key: str) -> Floats:
    """(seeds,): the running best at the end, or its mean over the evaluated rounds."""
    return one.final if key == "best" else one.best.mean(axis=1)


@dataclass(frozen=True)
class Limits:
    """How far a policy stayed within its money and its buffers, over all its runs, those that diverged too."""

    runs: int
    overspent: int
    """runs that spent more than C·T in all"""
    worst_spend: float
    """of any run, a round"""
    worst_excess: int
    """the largest n_m(t) − B_m of any client, round and run"""

    @property
    def kept(self) -> bool:
        return self.overspent == 0 and self.worst_excess <= 0


def limits(one: Outcome) -> Limits:
    return Limits(
        runs=len(one.all_seeds),
        overspent=int((one.spend > one.budget * (1 + ROUNDING)).sum()),
        worst_spend=float(one.spend.max()),
        worst_excess=int((one.occupancy - one.buffers).max()),
    )


class Difference(NamedTuple):
    """Seed by seed, ours less the other's: mean, 95 % interval and two-sided p of Student's paired test; None with one seed."""

    mean: float
    half: float | None
    p: float | None


def paired_difference(ours: Outcome, other: Outcome, key: str) -> Difference:
    mine, theirs = paired(ours, other)
    gaps = measured(mine, key) - measured(theirs, key)
    mean = float(gaps.mean())
    if gaps.size < 2:
        return Difference(mean, None, None)
    error = float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    p = p_value(mean / error, gaps.size - 1) if error > 0 else float(mean == 0)
    return Difference(mean, t_quantile(gaps.size - 1, LEVEL) * error, p)


def closed(one: Outcome, constant: Outcome, oracle: Outcome, key: str) -> float | None:
    """The part of the gap between constant admission and the oracle, of means over seeds; None where there is no gap."""
    low, high = (measured(end, key).mean() for end in (constant, oracle))
    return float((measured(one, key).mean() - low) / (high - low)) if high > low else None


@dataclass(frozen=True)
class Place:
    """Which policy is best at a budget, and which cannot be told from it."""

    budget: float
    measure: str
    best: str | None
    """of those that kept both limits in every run and round; None: nobody did"""
    against: Mapping[str, Difference]
    """by policy that kept them, too: the best less it; p after Holm's correction"""

    @property
    def level_with(self) -> list[str]:
        return [name for name, gap in self.against.items() if gap.p is None or gap.p > 1 - LEVEL]


def best_place(outcomes: Sequence[Outcome], key: str) -> Place:
    """The policies of one budget, ranked by the mean over seeds."""
    budget = outcomes[0].budget
    fair = [one for one in outcomes if one.policy not in REFERENCES and one.learnt and limits(one).kept]
    if not fair:
        return Place(budget, key, None, {})
    best = max(fair, key=lambda one: measured(one, key).mean())
    return Place(budget, key, best.policy, _holm({o.policy: paired_difference(best, o, key) for o in fair if o is not best}))


def _holm(against: Mapping[str, Difference]) -> dict[str, Difference]:
    """p of several tests at once (Holm 1979): the k-th smallest of m times m − k + 1, never below the ones before."""
    tested = sorted((gap.p, name) for name, gap in against.items() if gap.p is not None)
    corrected, least = dict(against), 0.0
    for k, (p, name) in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - k) * p))
        corrected[name] = against[name]._replace(p=least)
    return corrected


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


def cheaper(outcomes: Sequence[Outcome], key: str) -> list[Cheaper]:
    """For every policy that broke a limit: the least spend, of all that were run, with which another gets as far."""
    ranked = [one for one in outcomes if one.policy not in REFERENCES and one.learnt]
    fair = sorted((one for one in ranked if limits(one).kept), key=lambda one: one.spend.mean())
    found = []
    for one in (one for one in ranked if not limits(one).kept):
        reached = measured(one, key).mean()
        for other in fair:
            if measured(other, key).mean() >= reached:
                own, its = ((o.budget, float(measured(o, key).mean()), float(o.spend.mean())) for o in (one, other))
                found.append(Cheaper(one.policy, *own, other.policy, *its))
                break
    return found


def by_budget(outcomes: Sequence[Outcome]) -> dict[float, list[Outcome]]:
    """In order of the budgets; refused where runs cannot be compared."""
    if not outcomes:
        raise DataError("compare: there is no run to compare")
    found: dict[float, list[Outcome]] = {}
    for one in sorted(outcomes, key=lambda one: one.budget):
        found.setdefault(one.budget, []).append(one)
    return found
