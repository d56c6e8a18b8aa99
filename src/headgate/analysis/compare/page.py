"""A comparison as a page of Markdown, as JSON and as rows."""

from collections.abc import Sequence
from typing import Any

from headgate.analysis.compare.scores import (
    MEASURES,
    REFERENCES,
    Cheaper,
    Difference,
    Place,
    best_place,
    by_budget,
    cheaper,
    closed,
    limits,
    measured,
)
from headgate.analysis.markdown import DASH, interval, number, percent, table
from headgate.analysis.outcomes import Outcome, estimate

HEADER = [
    "policy",
    "seeds",
    "best (%)",
    "mean (%)",
    "closed, best",
    "closed, mean",
    "money a round",
    "dearest run",
    "peak n",
    "worst n_m − B_m",
    "N",
    "limits",
]
HOW_TO_READ = (
    "*Best* is the highest test accuracy so far at the end, *mean* the same averaged over the evaluated rounds; both with the "
    "80 % interval of the mean over seeds (Student). *Closed* is the part of the gap between `constant` and `oracle`. Limits "
    "are kept if no run spends more than C·T in all and no client ever holds more than B_m. All policies of a seed meet the "
    "same prices and samples, so differences are taken seed by seed; p is that of Student's paired test, two-sided, after "
    "Holm's correction."
)


def rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row a budget and policy: all that the page shows, and every seed."""
    return [
        _row(one, _ends(own), best)
        for own in by_budget(outcomes).values()
        for best in [{measure.key: best_place(own, measure.key).best for measure in MEASURES}]
        for one in own
    ]


def _ends(own: Sequence[Outcome]) -> tuple[Outcome, Outcome] | None:
    """Constant admission and the oracle of a budget, where both were run."""
    named = {one.policy: one for one in own if one.learnt}
    return (named["constant"], named["oracle"]) if {"constant", "oracle"} <= named.keys() else None


def _row(one: Outcome, ends: tuple[Outcome, Outcome] | None, best: dict[str, str | None]) -> dict[str, Any]:
    kept = limits(one)
    row: dict[str, Any] = {
        "budget": one.budget,
        "policy": one.policy,
        "seeds": len(one.seeds),
        "diverged": one.diverged,
        "rounds": one.rounds,
        "spend": float(one.spend.mean()),
        "worst_spend": kept.worst_spend,
        "overspent_runs": kept.overspent,
        "peak_n": one.peak,
        "worst_excess": kept.worst_excess,
        "N": float(one.distinct.mean()),
        "kept_limits": kept.kept,
    }
    for measure in MEASURES:
        values = measured(one, measure.key) if one.learnt else None
        row[measure.key] = None if values is None else list(estimate(values))
        row[f"closed_{measure.key}"] = None if ends is None or values is None else closed(one, *ends, measure.key)
        row[f"leads_{measure.key}"] = one.policy == best[measure.key]
        row[f"{measure.key}_by_seed"] = [] if values is None else [round(float(value), 6) for value in values]
    return row


def places(outcomes: Sequence[Outcome]) -> list[Place]:
    return [best_place(own, measure.key) for own in by_budget(outcomes).values() for measure in MEASURES]


def markdown(title: str, outcomes: Sequence[Outcome], command: str, figure: str, setting: str, made: str) -> str:
    parts = [f"# {title}", setting, f"Made by `{command}`{made}.", f"![Accuracy against money]({figure})", HOW_TO_READ]
    for budget, own in by_budget(outcomes).items():
        parts += [f"## Budget {budget:g} a round", table(HEADER, [_line(one, _ends(own)) for one in own])]
    parts += ["## Best where", _best_table(places(outcomes))]
    if found := cheaper(outcomes, "best"):
        parts += ["## What broke a limit, and who gets as far within them", _cheaper_table(found)]
    return "\n\n".join(parts) + "\n"


def _line(one: Outcome, ends: tuple[Outcome, Outcome] | None) -> list[str]:
    kept = limits(one)
    shares = [DASH if ends is None or not one.learnt else _share(closed(one, *ends, m.key)) for m in MEASURES]
    return [
        f"`{one.policy}`",
        f"{len(one.seeds)}" + (f", {one.diverged} diverged" if one.diverged else ""),
        *(interval(estimate(100 * measured(one, m.key)), 2) if one.learnt else DASH for m in MEASURES),
        *shares,
        f"{one.spend.mean():,.2f}",
        percent(kept.worst_spend / one.budget),
        f"{one.peak} of {one.buffers.sum()}",
        f"{kept.worst_excess:+d}".replace("-", "−"),
        number(float(one.distinct.mean())),
        _verdict(one),
    ]


def _share(value: float | None) -> str:
    return DASH if value is None else percent(value).replace("-", "−")


def _verdict(one: Outcome) -> str:
    if one.policy in REFERENCES:
        return "reference"
    kept = limits(one)
    broken = [f"money in {kept.overspent} of {kept.runs} runs"] * (kept.overspent > 0) + ["memory"] * (kept.worst_excess > 0)
    return f"✗ {', '.join(broken)}" if broken else "✓"


def _best_table(found: Sequence[Place]) -> str:
    titles = {measure.key: measure.key for measure in MEASURES}
    lines = [
        [
            f"{place.budget:g}",
            titles[place.measure],
            f"`{place.best}`" if place.best else "nobody kept both limits",
            ", ".join(f"`{name}`" for name in place.level_with) or DASH,
            "; ".join(f"`{name}` {_gap(gap)}" for name, gap in place.against.items()) or DASH,
        ]
        for place in found
    ]
    return table(["budget", "by", "best within the limits", "not told apart", "ahead of the others by (points)"], lines)


def _gap(gap: Difference) -> str:
    text = f"{100 * gap.mean:+.2f}" + (f" ± {100 * gap.half:.2f}" if gap.half is not None else "")
    return (text + (f" (p = {gap.p:.2g})" if gap.p is not None else "")).replace("-", "−")


def _cheaper_table(found: Sequence[Cheaper]) -> str:
    lines = [
        [
            f"`{one.policy}` at {one.budget:g}",
            f"{100 * one.accuracy:.2f} % for {one.spend:,.2f}",
            f"`{one.other}` at {one.other_budget:g}",
            f"{100 * one.other_accuracy:.2f} % for {one.other_spend:,.2f}",
            percent(one.share),
        ]
        for one in found
    ]
    return table(["policy and budget", "best", "reached within the limits by", "best", "of its money"], lines)
