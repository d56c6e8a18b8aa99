"""The comparison of policies at equal spend: rows of numbers, and tables for the
terminal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from rich.console import RenderableType

from headgate.analysis.curves import rounded
from headgate.analysis.display import StackedTable
from headgate.analysis.formatting import (
    DASH,
    accuracy,
    counted,
    grouped,
    listed,
    percent,
    plus_minus,
)
from headgate.analysis.intervals import DECIDED, Estimate, Floats, estimate, ratio
from headgate.analysis.limits import conclusion, holm
from headgate.analysis.runs import MEASURES, Runs, summary_of_dips
from headgate.analysis.savings import (
    Row,
    Saving,
    amount,
    chosen_budget,
    needed,
    paired,
    savings,
    sentence,
)
from headgate.analysis.summary import DIPS, policy_table, summarise
from headgate.errors import DataError

RIVAL = "constant"
"""the policy that all others are tested against"""
LAST = (
    "last: test accuracy in the last tenth of the rounds, mean over seeds ± 80 %"
    " interval"
)
STAR = (
    "; *: differs from constant (paired test over seeds, p ≤ 0.05 after Holm's"
    " correction); intervals of money are 95 %"
)
KEPT = "Every policy kept its money and its buffers in every run."


def closed(one: Runs, constant: Runs, oracle: Runs, measure: str) -> Estimate | None:
    """Return the share of the gap between constant admission and the oracle that a
    policy closes, from means over the seeds that all three have learnt; None if there
    is no gap. The Fieller interval has no ends if the gap may be zero."""
    seeds = [
        seed for seed in one.learnt if seed in constant.learnt and seed in oracle.learnt
    ]
    ours, low, high = (
        end.of_seeds(seeds).measure(measure) for end in (one, constant, oracle)
    )
    return (
        closed_share(ours, low, high, known=one is constant or one is oracle)
        if seeds
        else None
    )


def closed_share(
    ours: Floats, low: Floats, high: Floats, known: bool = False
) -> Estimate | None:
    """Return the closed share from arrays, (seeds,); `known` if it is 0 or 1 by
    definition and so has no interval.
    """
    if high.mean() <= low.mean():
        return None
    share = ratio(ours - low, high - low)
    return Estimate(share.mean, runs=share.runs) if known else share


class Offer(NamedTuple):
    """The prices and the budget that are the same for all policies of one
    comparison.
    """

    prices: str
    budget: float

    def text(self, offers: Iterable["Offer"]) -> str:
        """Return the budget as text, with the prices if the offers differ in them."""
        prices = f", {self.prices}" if len({each.prices for each in offers}) > 1 else ""
        return f"{self.budget:g} a round{prices}"


def by_offer(found: Sequence[Runs]) -> dict[Offer, list[Runs]]:
    """Return the runs by offer, ordered by budget, or as run if prices differ; raise
    DataError if they cannot be compared.
    """
    if not found:
        raise DataError("compare: there is no run to compare")
    kinds = sorted({str(one.data) for one in found})
    if len(kinds) > 1:
        raise DataError(f"compare: runs of {' and '.join(kinds)} cannot be compared")
    named = [
        replace(one, label=one.policy) for one in found
    ]  # the policy identifies runs within a budget
    ordered = sorted(named, key=lambda one: one.budget) if one_price(found) else named
    return grouped(ordered, lambda one: Offer(one.prices, one.budget))


def rows(found: Sequence[Runs]) -> list[dict[str, Any]]:
    """Return one row for each budget and policy, with all that the page shows and the
    values of every seed.
    """
    made = []
    for own in by_offer(found).values():
        named = {one.policy: one for one in own if one.learnt}
        ends = (
            (named["constant"], named["oracle"])
            if {"constant", "oracle"} <= named.keys()
            else None
        )
        made += [_row(one, ends) for one in own]
    return made


def _row(one: Runs, ends: tuple[Runs, Runs] | None) -> dict[str, Any]:
    known = summarise(one)
    row: dict[str, Any] = {
        **{
            name: getattr(one, name)
            for name in ("prices", "unit", "budget", "policy", "reference", "rounds")
        },
        **{
            name: getattr(known, name)
            for name in (
                "price_paid",
                "price_offered",
                "peak_n",
                "paid",
                "N",
                "kept_limits",
            )
        },
        "seeds": len(one.learnt),
        "diverged": known.lost,
        "learnt": list(one.learnt),
        "spend": known.spend_per_round,
        "worst_spend": float(one.spend.max()),
        "overspent_runs": known.runs_over_budget,
        "worst_excess": known.peak_excess,
    }
    for measure in MEASURES:
        values = one.measure(measure)
        share = None if ends is None or not one.learnt else closed(one, *ends, measure)
        row[measure] = estimate(values).three if one.learnt else None
        row[f"closed_{measure}"] = None if share is None else share.three
        row[f"{measure}_by_seed"] = [round(float(value), 6) for value in values]
    if (dips := summary_of_dips(one)) is not None:
        row |= {name: estimate(values).three for name, values in dips.by_seed.items()}
        row |= {"dips": dips.count, "dips_recovered": dips.recovered}
        row |= {
            f"{name}_by_seed": rounded(np.round(values, 6), 17)
            for name, values in dips.by_seed.items()
        }
    return row


def several_budgets(found: Sequence[Runs]) -> bool:
    """Return whether the runs are finished, share data and prices, and differ in
    budget, so that money can be compared.
    """
    same = len({(str(one.data), one.prices) for one in found}) == 1
    return (
        same
        and len({one.budget for one in found}) > 1
        and all(one.finished for one in found)
    )


def one_price(found: Sequence[Runs]) -> bool:
    """Return whether all runs have the same prices, so that their money can be
    compared.
    """
    return len({one.prices for one in found}) == 1


def opened(saved: Sequence[Saving]) -> str:
    """Return the sentence of the page on savings, beginning with a capital letter."""
    text = sentence(saved)
    return text[:1].upper() + text[1:]


# tables


def comparison_tables(
    found: Sequence[Runs], rows: Sequence[Row], budget: float | None = None
) -> list[RenderableType]:
    """Return the sentence and a table of the policies at one budget for each kind of
    price, then notes on the columns. If the world changes, tables of what the changes
    cost at each budget precede the notes."""
    things: list[RenderableType] = []
    for prices in dict.fromkeys(row["prices"] for row in rows):
        own = [row for row in rows if row["prices"] == prices]
        saved = chosen_budget(savings(own, RIVAL), budget)
        at = (
            saved[0].budget
            if saved
            else (
                budget
                if budget in {row["budget"] for row in own}
                else own[-1]["budget"]
            )
        )
        called = f", {prices}" if len({row["prices"] for row in rows}) > 1 else ""
        table = _at_budget([row for row in own if row["budget"] == at], saved, called)
        things += [*[f"{opened(saved)}\n"] * bool(saved), table]
    if any("dips" in row for row in rows):
        things += _summaries(by_offer(found), DIPS)
    return [*things, _notes(rows)]


def wide_tables(found: Sequence[Runs]) -> list[RenderableType]:
    """Return all columns of the summary for each budget and kind of price, and the
    conclusion.
    """
    return [*_summaries(by_offer(found)), conclusion(found)]


def _summaries(
    offers: Mapping[Offer, Sequence[Runs]], only: Sequence[str] = ()
) -> list[StackedTable]:
    return [
        policy_table(f"Budget {offer.text(offers)}", [*map(summarise, own)], only=only)
        for offer, own in offers.items()
    ]


def _at_budget(
    own: Sequence[Row], saved: Sequence[Saving], called: str
) -> RenderableType:
    """Return a table of all policies at one budget, in columns that fit 80
    characters.
    """
    rival = next((row for row in own if row["policy"] == RIVAL and row["learnt"]), None)
    others = [
        row for row in own if row is not rival and rival is not None and row["learnt"]
    ]
    gaps = holm(
        {
            row["policy"]: paired(row, rival, "last")
            for row in others
            if not row["reference"]
        }
    )  # type: ignore[arg-type]
    needs = {one.policy: needed(one) for one in saved}
    header = ["policy", "last (%)", *[f"less {RIVAL}"] * bool(gaps)]
    header += (
        [f"for {percent(saved[0].accuracy, 1)}", f"of {RIVAL}'s"]
        if saved
        else ["spent a round"]
    )
    lines = []
    for row in own:
        spent = amount(row.get("unit") or "", row["spend"])
        without = (
            spent,
            "reference" if row["reference"] else "100 %" if row is rival else DASH,
        )
        last = accuracy(
            None if row["last"] is None else Estimate(*row["last"])
        ).removesuffix(" %")
        gap = gaps.get(row["policy"])
        star = (
            "*"
            if gap is not None and gap.p is not None and gap.p <= 1 - DECIDED
            else " "
        )
        less = [DASH if gap is None else plus_minus(gap, 1, signs=True) + star] * bool(
            gaps
        )
        lines.append(
            [
                row["policy"],
                last,
                *less,
                *(needs.get(row["policy"], without) if saved else (spent,)),
            ]
        )
    first = own[0]
    size = (
        f"{counted(first['rounds'], 'round')},"
        f" {counted(first['seeds'] + first['diverged'], 'seed')}"
    )
    return StackedTable(
        f"at {amount(first.get('unit') or '', first['budget'])} a round{called},"
        f" {size}",
        header,
        lines,
    )


def _notes(rows: Sequence[Row]) -> str:
    """Return a note on what the columns mean and which policies kept to the money and
    the buffers.
    """
    broken = list(
        dict.fromkeys(
            row["policy"]
            for row in rows
            if not row["kept_limits"] and not row["reference"]
        )
    )
    references = list(dict.fromkeys(row["policy"] for row in rows if row["reference"]))
    beyond = (
        f" {listed(references)} is no policy to use: it spends or knows what nobody"
        " has."
        if references
        else ""
    )
    kept = (
        f"Over its money or its buffers in some run: {listed(broken)}."
        if broken
        else KEPT
    )
    star = STAR if any(row["policy"] == RIVAL for row in rows) else ""
    return f"{LAST}{star}. {kept}{beyond}"
