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
    """Return the policy with the best mean accuracy among those that kept both limits
    in every run; None if none did.
    """
    return max(
        (one for one in rankable(found) if not one.broken),
        key=lambda one: one.best.mean(),
        default=None,
    )


def best_place(
    found: Sequence[Runs],
) -> tuple[Runs | None, dict[str, Difference | None]]:
    """Return the best policy within the limits, and its lead over each other policy
    that kept them, by label, with p after Holm's correction; a lead is None if the two
    cannot be compared."""
    best = best_within_limits(found)
    others = (
        [one for one in rankable(found) if one is not best and not one.broken]
        if best
        else []
    )
    apart = {one.label: gaps(best, one) for one in others} if best else {}
    return best, holm(
        {name: student(gap) if gap.size else None for name, gap in apart.items()}
    )


Name = TypeVar("Name", bound=Hashable)


def holm(against: Mapping[Name, Difference | None]) -> dict[Name, Difference | None]:
    """Correct the p of m tests (Holm 1979): multiply the k-th smallest by m − k + 1,
    and keep it at least the one before.
    """
    tested = sorted(
        (gap.p, place, name)
        for place, (name, gap) in enumerate(against.items())
        if gap and gap.p is not None
    )
    corrected, least = dict(against), 0.0
    for k, (p, _, name) in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - k) * p))
        corrected[name] = replace(against[name], p=least)  # type: ignore[type-var]
    return corrected


# in words


def conclusion(found: Sequence[Runs]) -> str:
    """Return a conclusion of a sentence or two for each data set and budget; empty if
    no round is complete.
    """
    by_data, by_budget = (
        len({getattr(one, key) for one in found}) > 1 for key in ("data", "budget")
    )
    sentences = []
    for (data, budget), own in grouped(
        found, lambda one: (one.data, one.budget)
    ).items():
        name = ", ".join(
            [str(data)] * by_data + [f"budget {money(budget)}"] * by_budget
        )
        sentences += [
            f"{name}: {text}" if name else text for text in [_conclusion(own)] if text
        ]
    return " ".join(sentences)


def _conclusion(found: Sequence[Runs]) -> str:
    played = [one for one in found if one.complete]
    ranked = [one for one in played if not one.reference]
    if not ranked:
        return ""
    so_far = ""
    if not all(one.finished for one in played):
        some = (
            ""
            if all(one.begun.all() for one in played)
            else ", before all runs have begun"
        )
        so_far = (
            f"So far, in {min(one.complete for one in played)} of"
            f" {max(one.rounds for one in played)} rounds{some}: "
        )
    sentences = [so_far + _best(ranked)]
    broken = grouped(ranked, lambda one: one.broken)
    named = [
        f"{listed([one.label for one in own])} ({which})"
        for which, own in broken.items()
        if which
    ]
    sentences += [
        f"Not ranked, because a limit was broken: {'; '.join(named)}. {HELD}"
    ] * bool(named)
    if any(one.peak_excess is None for one in ranked):
        sentences.append(
            "What each client held was not recorded, so of memory nothing is known."
        )
    return " ".join(sentences)


def _best(ranked: Sequence[Runs]) -> str:
    (best, against), kept = (
        best_place(ranked),
        [one.label for one in ranked if not one.broken],
    )
    if best is None:
        return (
            f"{listed(kept)} kept both limits, no accuracy is known."
            if kept
            else "Nobody kept both limits in every run."
        )
    named = {
        one.label: f"{one.label} ({accuracy(estimate(one.best))})"
        for one in ranked
        if one.best.size
    }
    first = f"Best test accuracy within the limits: {named[best.label]}"
    if not against:
        others = (
            ", the only one that kept both limits in every run"
            if len(kept) == 1 < len(ranked)
            else ""
        )
        return f"{first}{others}."
    level = [
        named[name]
        for name, gap in against.items()
        if gap is None or gap.p is None or gap.p > 1 - DECIDED
    ]
    if level:
        return f"{first}, not distinguishable from {listed(level)}."
    nearest, gap = min(
        ((name, gap) for name, gap in against.items() if gap),
        key=lambda each: each[1].mean,
    )
    return (
        f"{first}, {plus_minus(gap.scaled(100), 1, signs=True)} points ahead of"
        f" {nearest}, seed by seed."
    )
