"""Which samples to buy and which to keep: what each rule that looks at samples is worth
at equal spend, looks included.
"""

from collections.abc import Sequence
from pathlib import Path

from headgate.analysis.formatting import DASH, grouped, listed, percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.limits import holm
from headgate.analysis.savings import Row, paired
from headgate.experiment import load
from studies import recipe
from studies.comparisons import Found, at, clear, rows_of, said, title
from studies.pages import SAID, StudyContent, intervals, table

SELECTION = tuple(
    f"looking-{net}{drift}"
    for net in ("", "lenet-", "cifar10-")
    for drift in ("calm", "sudden")
)
NEAR = 0.2
"""points from the better of two rules that count as level with it"""
CHOOSING = (
    "choosing-digits",
    "choosing",
    "choosing-lenet",
    "choosing-cifar10",
    "choosing-imagenette",
)
"""margins, lots and the rule that finds out which of them pays"""
COMES_ROUND = "looking-cifar10-calm"
"""where clients have so few samples that they see each of them more than once"""
BUYING = ("entropy", "margin", "vessal", "coreset")
HOW_MANY = {"headgate": "", "constant": "constant-"}
"""who decides how many to buy, and how the names of its buying rules begin; `random`
draws lots, the others look
"""


def selection_content(folder: Path) -> StudyContent:
    found = rows_of(SELECTION, folder)
    data = load(recipe("better/looking-calm")).data
    lines, places, ahead = [], [], []
    series: dict[str, list[Estimate | None]] = {rule: [] for rule in BUYING}
    for name, rows in found.items():
        named = {row["policy"]: row for row in rows}
        for many, begin in HOW_MANY.items():
            tried = {
                rule: named[begin + rule] for rule in BUYING if begin + rule in named
            }
            keys = ("best" if name.endswith("calm") else "daily"), "last"
            gaps = [
                holm(
                    {
                        rule: paired(row, named[f"{begin}random"], key)
                        for rule, row in tried.items()
                    }
                )
                for key in keys
            ]
            places.append(f"{title(name)}, {many}")
            if rules := [rule for rule, one in gaps[0].items() if clear(one) > 0]:
                ahead.append(f"{title(name)} with {many} ({listed(rules)})")
            for rule in BUYING:
                series[rule].append(gaps[0].get(rule))
            for rule, row in tried.items():
                told = [said(own[rule]) for own in gaps]
                lines.append(
                    [
                        title(name),
                        many,
                        rule,
                        *told,
                        f"{bought(row):.0f}",
                        f"{row['N']:.0f}",
                    ]
                )
    numbers = {
        "window": data.window,
        "look": f"{data.look:g}",
        "seeds": found[SELECTION[0]][0]["seeds"],
        "again": {
            rule: _trained_on(rule, found.get(COMES_ROUND, ()))
            for rule in ("entropy", "random")
        },
        "ahead": "; ".join(ahead),
        **choices(rows_of(CHOOSING, folder)),
    }
    return StudyContent(
        lines, numbers, intervals(places, series, SAID["selection"]["shows"])
    )


def _trained_on(policy: str, rows: Sequence[Row]) -> str:
    """How much of what it buys is bought for the first time; nothing where it was not
    run.
    """
    return percent(at(rows, policy)["N"] / bought(at(rows, policy))) if rows else DASH


def choices(found: Found) -> dict[str, object]:
    """Return a table of margin less random and of adaptive less the better of the two,
    and how far adaptive stays behind.
    """
    lines, gaps = [], []
    for name, rows in found.items():
        for prices, own in grouped(rows, lambda row: str(row["prices"])).items():
            named = {row["policy"]: row for row in own}
            told = [title(name), prices.partition(",")[0]]
            for key in ("best", "last"):
                gain = paired(named["margin"], named["random"], key)
                gap = paired(
                    named["adaptive"],
                    named["margin" if gain.mean > 0 else "random"],
                    key,
                )
                told += [said(gain), said(gap)]
                gaps.append(gap)
            lines.append([*told, str(named["adaptive"]["seeds"])])
    made, worst = (
        table(SAID["selection"]["choices_columns"], lines),
        -min(gap.mean for gap in gaps),
    )
    far = [gap for gap in gaps if gap.mean < -NEAR]
    return {
        "choices": made,
        "worst": f"{worst:.2f}",
        "far": len(far),
        "lost": -sum(map(clear, far)),
        "cells": len(gaps),
    }


def bought(row: Row) -> float:
    """Return the labels paid for in a run: more than N where a stream comes round and a
    sample is bought again.
    """
    return float(row["spend"] * row["rounds"] / row["price_paid"])
