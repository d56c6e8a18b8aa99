"""A comparison as a page of Markdown, as JSON and as rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headgate.analysis.compare.scores import Offer, by_offer, closed
from headgate.analysis.dips import Dips, dips_by_seed, summary_of_dips
from headgate.analysis.formatting import (
    DASH,
    by_column,
    in_unit,
    interval,
    money,
    money_in,
    number,
    percent,
    plus_minus,
    signed,
)
from headgate.analysis.intervals import Difference, Estimate, estimate
from headgate.analysis.limits import Place, best_place, best_within_limits, limits
from headgate.analysis.markdown import table
from headgate.analysis.pages import figure, page, words
from headgate.analysis.provenance import how_made
from headgate.analysis.runs import Runs, measures
from headgate.analysis.savings import Saving, needed, sentence
from headgate.escaping import code
from headgate.escaping import markdown as escape


def rows(found: Sequence[Runs]) -> list[dict[str, Any]]:
    """One row a budget and policy: all that the page shows, and every seed."""
    return [
        _row(one, _ends(own), {measure: best_within_limits(own, measure) for measure in measures(found)})
        for own in by_offer(found).values()
        for one in own
    ]


def _ends(own: Sequence[Runs]) -> tuple[Runs, Runs] | None:
    """Constant admission and the oracle of a budget, where both were run."""
    named = {one.policy: one for one in own if one.learnt}
    return (named["constant"], named["oracle"]) if {"constant", "oracle"} <= named.keys() else None


def _row(one: Runs, ends: tuple[Runs, Runs] | None, best: dict[str, Runs | None]) -> dict[str, Any]:
    kept = limits(one)
    row: dict[str, Any] = {
        "prices": one.prices,
        "unit": one.unit,
        "budget": one.budget,
        "policy": one.policy,
        "reference": one.reference,
        "seeds": len(one.learnt),
        "diverged": one.lost_runs,
        "learnt": list(one.learnt),
        "rounds": one.rounds,
        "spend": float(one.spend.mean()),
        "worst_spend": float(one.spend.max()),
        "paid": float(one.spent_in_all.mean()),
        "price_paid": one.price_paid,
        "price_offered": one.price_offered,
        "overspent_runs": kept.runs_over_budget,
        "peak_n": one.peak_n,
        "worst_excess": kept.excess,
        "N": float(one.distinct.mean()),
        "kept_limits": kept.kept,
    }
    for measure, leader in best.items():
        values = one.measure(measure)
        share = None if ends is None or not one.learnt else closed(one, *ends, measure)
        row[measure] = estimate(values).three if one.learnt else None
        row[f"closed_{measure}"] = None if share is None else share.three
        row[f"leads_{measure}"] = one is leader
        row[f"{measure}_by_seed"] = [round(float(value), 6) for value in values]
    if (dips := summary_of_dips(one)) is not None:
        row |= {name: getattr(dips, name).three for name in ("daily", "depth", "length", "money")}
        row |= {"dips": dips.count, "dips_recovered": dips.recovered}
        by_seed = dips_by_seed(one)
        row |= {f"{name}_by_seed": [_rounded(value) for value in values] for name, values in by_seed.items()}
    return row


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 6)


def places(found: Sequence[Runs]) -> dict[Offer, list[Place]]:
    """Within a budget a policy's name says which runs are meant."""
    known = measures(found)
    named = {offer: [replace(one, label=one.policy) for one in own] for offer, own in by_offer(found).items()}
    return {offer: [best_place(own, measure) for measure in known] for offer, own in named.items()}


def markdown(name: str, found: Sequence[Runs], setting: str, facts: dict[str, Any], saved: Sequence[Saving]) -> str:
    """The page NAME.md, with NAME.svg beside it where that was drawn; `facts` say how the runs were made."""
    offers = by_offer(found)
    said = words(__file__)
    drawn = figure("Accuracy against money", f"{name}.svg") if one_price(found) else ""
    opening = [escape(opened(saved)), drawn, savings_table(saved)] if saved else [drawn]
    parts = [said["purpose"], *opening, setting, how_made(facts), said["how_to_read"]]
    for offer, own in offers.items():
        parts += [f"## Budget {escape(offer.said(offers))}", _offered(own[0]), _table(own, measures(found))]
        if changing := [one for one in own if summary_of_dips(one) is not None]:
            parts += [said["how_to_read_dips"], dips_table(changing)]
    parts += ["## Best where", _best_table(places(found))]
    return page(f"{name}: policies at equal spend", *parts, quick=facts["quick"])


def opened(saved: Sequence[Saving]) -> str:
    """The sentence of the page, beginning with a capital."""
    text = sentence(saved)
    return text[:1].upper() + text[1:]


def savings_table(saved: Sequence[Saving]) -> str:
    """What each policy needs for the rival's accuracy, with the 95 % interval."""
    lines = [[code(one.policy), *map(escape, needed(one))] for one in saved]
    first = saved[0]
    return table(["policy", f"a round for {percent(first.accuracy, 1)}", f"of what {code(first.rival)} spends"], lines)


def several_budgets(found: Sequence[Runs]) -> bool:
    """Whether finished runs of the same data and prices differ in their budgets: then money can be compared."""
    same = len({(str(one.data), one.prices) for one in found}) == 1
    return same and len({one.budget for one in found}) > 1 and all(one.finished for one in found)


def one_price(found: Sequence[Runs]) -> bool:
    """Whether money means the same for all of them."""
    return len({one.prices for one in found}) == 1


def _offered(one: Runs) -> str:
    """What a sample cost, bought or not."""
    if one.price_offered is None or not one.prices:
        return ""
    return f"Prices: {escape(one.prices)}; {money_in(one.unit, one.price_offered)} a sample, mean over rounds and seeds."


def _paid(one: Runs) -> str:
    """What a sample cost that was bought, and that as a share of what was offered."""
    if one.price_paid is None or not one.price_offered:
        return DASH
    return f"{money(one.price_paid)}, {percent(one.price_paid / one.price_offered)}"


def _table(own: Sequence[Runs], known: Sequence[str]) -> str:
    ends = _ends(own)

    def learnt(measure: str) -> Callable[[Runs], str]:
        return lambda one: interval(estimate(100 * one.measure(measure)), 2) if one.learnt else DASH

    def gap(measure: str) -> Callable[[Runs], str]:
        return lambda one: DASH if ends is None or not one.learnt else share(closed(one, *ends, measure))

    columns = by_column(
        own,
        ("policy", lambda one: code(one.policy)),
        ("seeds", lambda one: f"{len(one.learnt)}" + (f", {one.lost_runs} diverged" if one.lost_runs else "")),
        *((f"{measure} (%)", learnt(measure)) for measure in known),
        *((f"closed, {measure}", gap(measure)) for measure in known),
        ("money a round", lambda one: money(float(one.spend.mean()))),
        (in_unit("paid in all", own[0].unit), lambda one: money(float(one.spent_in_all.mean()))),
        (in_unit("paid a sample", own[0].unit), _paid),
        ("over budget", lambda one: f"{limits(one).runs_over_budget} of {limits(one).runs}, {percent(limits(one).dearest)}"),
        ("peak n", lambda one: f"{one.peak_n} of {one.buffers.sum()}"),
        ("worst n_m − B_m", lambda one: signed(limits(one).excess)),
        ("N", lambda one: number(float(one.distinct.mean()))),
        ("limits", _verdict),
    )
    return table(*columns)


def dips_table(own: Sequence[Runs]) -> str:
    found = {one.policy: summary_of_dips(one) for one in own}

    def told(text: Callable[[Dips], str]) -> Callable[[Runs], str]:
        return lambda one: DASH if (dips := found[one.policy]) is None else text(dips)

    columns = by_column(
        own,
        ("policy", lambda one: code(one.policy)),
        ("daily (%)", told(lambda dips: interval(dips.daily.scaled(100), 2))),
        ("dip (points)", told(lambda dips: interval(dips.depth.scaled(100), 2))),
        ("lasts (rounds)", told(lambda dips: interval(dips.length, 1))),
        ("recovered", told(lambda dips: f"{dips.recovered} of {dips.count}")),
        ("costs", told(lambda dips: interval(dips.money, 0))),
    )
    return table(*columns)


def share(closed: Estimate | None) -> str:
    """What is closed of a gap, in percent with its interval; constant admission and the oracle have none.

    >>> share(Estimate(0.4, 0.3, 0.5)), share(Estimate(0.4)), share(Estimate(1.0))
    ('40 (30 … 50) %', '40 (– … –) %', '100 %')
    """
    if closed is None:
        return DASH
    ends = " (– … –)" if closed.low is None and closed.mean not in (0.0, 1.0) else ""
    return f"{interval(closed.scaled(100), 0)}{ends} %"


def _verdict(one: Runs) -> str:
    if one.reference:
        return "reference"
    broken = limits(one).which
    return f"✗ {broken.replace(' and ', ', ')}" if broken else "✓"


def _best_table(found: dict[Offer, list[Place]]) -> str:
    lines = [
        [
            escape(offer.said(found)),
            place.measure,
            code(place.best.policy) if place.best else "nobody kept both limits",
            ", ".join(map(code, place.level_with)) or DASH,
            "; ".join(f"{code(name)} {_gap(gap)}" for name, gap in place.against.items()) or DASH,
        ]
        for offer, own in found.items()
        for place in own
    ]
    return table(["budget", "by", "best within the limits", "not told apart", "ahead of the others by (points)"], lines)


def _gap(gap: Difference | None) -> str:
    if gap is None:
        return DASH
    return plus_minus(gap.scaled(100), 2, signs=True) + (f" (p = {gap.p:.2g})".replace("-", "−") if gap.p is not None else "")
