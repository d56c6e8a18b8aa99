"""Where headgate saves money and where it does not: one row for each model and kind of
price.
"""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from headgate.analysis.formatting import DASH, grouped, percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.savings import Row, Saving, amount, needed, savings
from headgate.escaping import markdown as escape
from studies.comparisons import budget, rows_of, title
from studies.pages import SAID, StudyContent, intervals

_BOTH = [
    f"{prices}{net}"
    for prices in ("ercot", "brent", "night", "tariff")
    for net in ("", "-lenet")
]
SAVINGS = tuple(
    f"savings-{each}" for each in ("logistic", "lenet", "cifar10", "imagenette", *_BOTH)
)
"""the comparisons, each a recipe better/NAME; they are shown at the recipe's own budget
of constant admission
"""
RIVALS = ("constant", "even", "median")
MOST = 170.0
"""percent at which the figure ends"""
OURS = "headgate"


class PricedModel(NamedTuple):
    """A model under one kind of price."""

    study: str
    prices: str
    rows: Sequence[Row]
    beside: Mapping[str, Saving | None]
    """what ours needs for each rival's accuracy, by the last models, at the budget of
    the study
    """

    @property
    def called(self) -> str:
        known = SAID["savings"]["prices"].items()
        return next(
            (
                name
                for kind, name in known
                if self.study.startswith(kind) or self.prices.startswith(kind)
            ),
            self.prices,
        )


def places(found: Mapping[str, Sequence[Row]]) -> list[PricedModel]:
    made = []
    for name, rows in found.items():
        wanted = OURS, budget(name)
        for prices, own in grouped(rows, lambda row: str(row["prices"])).items():
            saved = {
                rival: [
                    one
                    for one in savings(own, rival)
                    if (one.policy, one.budget) == wanted
                ]
                for rival in RIVALS
            }
            made.append(
                PricedModel(
                    name,
                    prices,
                    own,
                    {rival: next(iter(found), None) for rival, found in saved.items()},
                )
            )
    return made


def savings_content(folder: Path) -> StudyContent:
    found = places(rows_of(SAVINGS, folder))
    names = [f"{title(each.study)}: {each.called}" for each in found]
    series = {
        f"of {rival}'s money": [_marked(each.beside[rival]) for each in found]
        for rival in RIVALS
    }
    draw = intervals(names, series, SAID["savings"]["shows"], line=100.0, most=MOST)
    return StudyContent(_lines(found), _numbers(found), draw)


def _marked(one: Saving | None) -> Estimate | None:
    if one is None:
        return None
    low, high = (100 * end / one.rival_money for end in one.ends)
    return Estimate(nan if one.share is None else 100 * one.share.mean, low, high)


def judged(one: Saving | None) -> str:
    """Whether the interval lies below the rival's money, above it, or around it."""
    if one is None:
        return "unknown"
    low, high = one.ends
    if low <= one.rival_money <= high:
        return "unknown" if one.money is None else "same"
    return "saves" if high < one.rival_money else "costs"


def _numbers(found: Sequence[PricedModel]) -> dict[str, Any]:
    clear = [place for place in found if judged(place.beside["constant"]) == "saves"]
    shares = [
        one.share.mean
        for place in clear
        if (one := place.beside["constant"]) and one.share
    ]
    median = [judged(place.beside["median"]) for place in found]
    return {
        "rows": len(found),
        "saves": len(clear),
        "ends": f"{percent(min(shares))} to {percent(max(shares))}" if shares else DASH,
        "others": "; ".join(
            f"{title(one.study)}, prices: {one.called}"
            for one in found
            if one not in clear
        ),
        "less": median.count("saves"),
        "more": median.count("costs"),
    }


def share(one: Saving | None) -> str:
    if one is None:
        return DASH
    text = needed(one)[1]
    return f"**{text}**" if judged(one) == "saves" else text


def _lines(found: Sequence[PricedModel]) -> list[list[str]]:
    """Return what headgate needs of each rival's money, a line for each model and kind
    of price.
    """
    lines = []
    for place in found:
        first = place.beside["constant"]
        spent = "" if first is None else escape(amount(first.unit, first.rival_money))
        reached = DASH if first is None else f"{percent(first.accuracy, 1)} for {spent}"
        seeds, lost = (
            max(row["seeds"] + row["diverged"] for row in place.rows),
            sum(row["diverged"] for row in place.rows),
        )
        shares = [share(one) for one in place.beside.values()]
        lines.append(
            [
                escape(place.called),
                title(place.study),
                str(seeds),
                reached,
                *shares,
                str(lost),
            ]
        )
    return lines
