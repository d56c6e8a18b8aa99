"""The best of the policies that kept their limits in every run, and a sentence that
states it.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from headgate.analysis.formatting import accuracy, grouped, listed, money, plus_minus
from headgate.analysis.intervals import DECIDED, Difference, estimate, student
from headgate.analysis.runs import Runs, gaps

HELD = "headgate compare holds every policy to its limits."


def rankable(found: Sequence[Runs]) -> list[Runs]:
    """Return the policies that are no references and have a known accuracy."""
    return [one for one in found if not one.reference and one.best.size]


def best_within_limits(found: Sequence[Runs]) -> Runs | None:
    """Return the policy with the best mean accuracy that kept both limits in every run.

    It is None if no policy did.
    """
    kept = [one for one in rankable(found) if not one.broken]
    return max(
        kept,
        key=lambda one: one.best.mean(),
        default=None,
    )


def best_place(
    found: Sequence[Runs],
) -> tuple[Runs | None, dict[str, Difference | None]]:
    """Return the best policy within the limits, and its lead over each other policy.

    The leads are those over the policies that kept their limits, by label, with p after
    Holm's correction. A lead is None if the two cannot be compared.
    """
    best = best_within_limits(found)
    if best is None:
        return None, {}
    leads: dict[str, Difference | None] = {}
    for one in rankable(found):
        if one.label != best.label and not one.broken:
            apart = gaps(best, one)
            leads[one.label] = student(apart) if apart.size else None
    return best, holm(leads)


Name = TypeVar("Name", bound=Hashable)


def holm(against: Mapping[Name, Difference | None]) -> dict[Name, Difference | None]:
    """Correct the p of m tests (Holm 1979).

    The k-th smallest is multiplied by m − k + 1, and is at least the one before.
    """
    known = {name: gap for name, gap in against.items() if gap and gap.p is not None}
    corrected, least = dict(against), 0.0
    ordered = sorted(known.items(), key=lambda each: each[1].p or 0.0)
    for k, (name, gap) in enumerate(ordered):
        p = (len(ordered) - k) * (gap.p or 0.0)
        least = max(least, min(1.0, p))
        corrected[name] = replace(gap, p=least)
    return corrected


# in words


def conclusion(found: Sequence[Runs]) -> str:
    """Return a sentence or two for each data set and budget.

    It is empty if no round is complete.
    """
    several_data = len({one.data for one in found}) > 1
    several_budgets = len({one.budget for one in found}) > 1
    sentences = []
    by_offer = grouped(found, lambda one: (one.data, one.budget))
    for (data, budget), own in by_offer.items():
        names = [str(data)] if several_data else []
        if several_budgets:
            names.append(f"budget {money(budget)}")
        text = _conclusion(own)
        if text and names:
            text = f"{', '.join(names)}: {text}"
        sentences.append(text)
    return " ".join(filter(None, sentences))


def _conclusion(found: Sequence[Runs]) -> str:
    """Return the sentences on runs that share data and budget."""
    played = [one for one in found if one.complete]
    ranked = [one for one in played if not one.reference]
    if not ranked:
        return ""

    sentences = [_so_far(played) + _best(ranked)]
    broken = [
        f"{listed([one.label for one in own])} ({which})"
        for which, own in grouped(ranked, lambda one: one.broken).items()
        if which
    ]
    if broken:
        named = "; ".join(broken)
        sentences.append(f"Not ranked, because a limit was broken: {named}. {HELD}")
    if any(one.peak_excess is None for one in ranked):
        sentences.append(
            "What each client held was not recorded, so of memory nothing is known."
        )
    return " ".join(sentences)


def _so_far(played: Sequence[Runs]) -> str:
    """Return how far the runs are; nothing if all are finished."""
    if all(one.finished for one in played):
        return ""
    least = min(one.complete for one in played)
    rounds = max(one.rounds for one in played)
    begun = all(one.begun.all() for one in played)
    some = "" if begun else ", before all runs have begun"
    return f"So far, in {least} of {rounds} rounds{some}: "


def _best(ranked: Sequence[Runs]) -> str:
    """Return a sentence on the best policy, and whether it is distinguishable."""
    best, leads = best_place(ranked)
    kept = [one.label for one in ranked if not one.broken]
    if best is None and not kept:
        return "Nobody kept both limits in every run."
    if best is None:
        return f"{listed(kept)} kept both limits, no accuracy is known."

    named = {
        one.label: f"{one.label} ({accuracy(estimate(one.best))})"
        for one in ranked
        if one.best.size
    }
    first = f"Best test accuracy within the limits: {named[best.label]}"
    if not leads and len(kept) == 1 < len(ranked):
        return f"{first}, the only one that kept both limits in every run."
    if not leads:
        return f"{first}."

    behind = {name: gap for name, gap in leads.items() if gap and _is_decided(gap)}
    level = [named[name] for name in leads if name not in behind]
    if level:
        return f"{first}, not distinguishable from {listed(level)}."
    nearest = min(behind, key=lambda name: behind[name].mean)
    points = plus_minus(behind[nearest].scaled(100), 1, signs=True)
    return f"{first}, {points} points ahead of {nearest}, seed by seed."


def _is_decided(gap: Difference) -> bool:
    return gap.p is not None and gap.p <= 1 - DECIDED
