"""Whether policies kept their limits, in every run; which of those that did is best; and a sentence that says so."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.analysis.formatting import accuracy, grouped, listed, money, plus_minus
from headgate.analysis.intervals import DECIDED, Difference, estimate, student
from headgate.analysis.runs import Runs, gaps

HELD = "headgate compare holds every policy to its limits."
ROUNDING = 1e-9
"""relative; so much above C·T is rounding"""


@dataclass(frozen=True)
class Limits:
    """How far a policy stayed within its money and its buffers, over all its runs, those whose model was lost too."""

    runs: int
    runs_over_budget: int
    """runs that spent more than C·T in all, T the rounds asked for"""
    dearest: float | None
    """the largest spend of a run in all, as a share of C·T; None without a budget"""
    excess: int | None
    """the largest n_m(t) − B_m of any client, round and run; None where it was not recorded"""

    @property
    def kept(self) -> bool:
        return self.runs_over_budget == 0 and (self.excess is None or self.excess <= 0)

    @property
    def which(self) -> str:
        """Which limit was broken: "money", "memory" or both; empty where none was."""
        return broken_limits(self.runs_over_budget, self.excess)


def broken_limits(runs_over_budget: int, excess: int | None) -> str:
    """Return which limits were broken: "money", "memory" or both; empty where none was.

    >>> broken_limits(2, 1), broken_limits(0, None)
    ('money and memory', '')
    """
    return " and ".join(["money"] * (runs_over_budget > 0) + ["memory"] * ((excess or 0) > 0))


def limits(one: Runs) -> Limits:
    spent, allowed = one.spent_in_all, one.budget * one.rounds
    dearest = float(spent.max(initial=0.0)) / allowed if allowed > 0 else None
    return Limits(len(spent), int((spent > allowed * (1 + ROUNDING)).sum()), dearest, one.peak_excess)


# who is best


def rankable(found: Sequence[Runs]) -> list[Runs]:
    """References are not, nor who has learnt nothing that could be measured."""
    return [one for one in found if not one.reference and one.best.size]


def best_within_limits(found: Sequence[Runs]) -> Runs | None:
    """Of those that kept both limits in every run and round, by the mean over runs."""
    return max((one for one in rankable(found) if limits(one).kept), key=lambda one: one.best.mean(), default=None)


def best_place(found: Sequence[Runs]) -> tuple[Runs | None, dict[str, Difference | None]]:
    """Return the best within the limits, and by label of the others that kept them the best less it, p after Holm's correction;
    None: they cannot be compared."""
    best = best_within_limits(found)
    others = [one for one in rankable(found) if one is not best and limits(one).kept] if best else []
    apart = {one.label: gaps(best, one) for one in others} if best else {}
    return best, holm({name: student(gap) if gap.size else None for name, gap in apart.items()})


Name = TypeVar("Name", bound=Hashable)


def holm(against: Mapping[Name, Difference | None]) -> dict[Name, Difference | None]:
    """p of several tests at once (Holm 1979): the k-th smallest of m times m − k + 1, never below the ones before."""
    tested = sorted((gap.p, place, name) for place, (name, gap) in enumerate(against.items()) if gap and gap.p is not None)
    corrected, least = dict(against), 0.0
    for k, (p, _, name) in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - k) * p))
        corrected[name] = replace(against[name], p=least)  # type: ignore[type-var]
    return corrected


# in words


def groups(found: Sequence[Runs]) -> dict[str, list[Runs]]:
    """Runs that may be ranked together: of the same data and the same budget; by what tells the groups apart."""
    by_key = grouped(found, lambda one: (one.data, one.budget))
    kinds, budgets = ({key[i] for key in by_key} for i in (0, 1))
    return {
        ", ".join([str(data)] * (len(kinds) > 1) + [f"budget {money(budget)}"] * (len(budgets) > 1)): own
        for (data, budget), own in by_key.items()
    }


def conclusion(found: Sequence[Runs]) -> str:
    """What to take from these runs, in a sentence or two for each data set and budget; empty if there is no round."""
    return " ".join(f"{name}: {said}" if name else said for name, own in groups(found).items() if (said := _conclusion(own)))


def _conclusion(found: Sequence[Runs]) -> str:
    played = [one for one in found if one.complete]
    ranked = [one for one in played if not one.reference]
    if not ranked:
        return ""
    so_far = ""
    if not all(one.finished for one in played):
        some = "" if all(one.begun.all() for one in played) else ", before all runs have begun"
        so_far = f"So far, in {min(one.complete for one in played)} of {max(one.rounds for one in played)} rounds{some}: "
    said = [so_far + _best(ranked)]
    broken = grouped(ranked, lambda one: limits(one).which)
    named = [f"{listed([one.label for one in own])} ({which})" for which, own in broken.items() if which]
    said += [f"Not ranked, because a limit was broken: {'; '.join(named)}. {HELD}"] * bool(named)
    if any(one.peak_excess is None for one in ranked):
        said.append("What each client held was not recorded, so of memory nothing is known.")
    return " ".join(said)


def _best(ranked: Sequence[Runs]) -> str:
    (best, against), kept = best_place(ranked), [one.label for one in ranked if limits(one).kept]
    if best is None:
        return f"{listed(kept)} kept both limits, no accuracy is known." if kept else "Nobody kept both limits in every run."
    first = f"Best test accuracy within the limits: {best.label} ({accuracy(estimate(best.best))})"
    if not against:
        others = ", the only one that kept both limits in every run" if len(kept) == 1 < len(ranked) else ""
        return f"{first}{others}."
    named = {one.label: f"{one.label} ({accuracy(estimate(one.best))})" for one in ranked if one.best.size}
    level = [named[name] for name, gap in against.items() if gap is None or gap.p is None or gap.p > 1 - DECIDED]
    if level:
        return f"{first}, not distinguishable from {listed(level)}."
    nearest, gap = min(((name, gap) for name, gap in against.items() if gap), key=lambda each: each[1].mean)
    return f"{first}, {plus_minus(gap.scaled(100), 1, signs=True)} points ahead of {nearest}, seed by seed."
