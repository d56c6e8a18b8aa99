"""Where headgate saves money and where it does not: one row for each model and kind of price."""

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from headgate.analysis.formatting import DASH, percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.savings import Row, Saving, amount, needed, savings
from headgate.escaping import markdown as escape
from studies.comparisons import rows_of, title
from studies.pages import StudyContent, intervals, read_numbers, runs_of, table

BUDGETS = {
    "savings-logistic": 55.0,
    "savings-lenet": 55.0,
    "savings-cifar10": 110.0,
    "savings-imagenette": 220.0,
    "savings-ercot": 110.0,
    "savings-ercot-lenet": 110.0,
    "savings-brent": 46.0,
    "savings-brent-lenet": 46.0,
    "savings-night": 0.009,
    "savings-night-lenet": 0.009,
    "savings-tariff": 0.004,
    "savings-tariff-lenet": 0.004,
}
"""the comparisons, each a recipe better/NAME, and the budget of constant admission at which they are shown"""
SAVINGS = tuple(BUDGETS)
KINDS = {
    "uniform": "uniform from 1 to 10",
    "integer": "whole numbers from 1 to 10",
    "constant": "never move",
    "markov": "stay for a while at 1, 5 or 9",
    "seasonal": "seasons of ten rounds",
    "drift, first 3": "rise from 3 to 8",
    "drift, first 8": "fall from 8 to 3",
    "bursts": "bursts of five times the price",
    "pareto": "heavy tail (Pareto)",
}
"""what made-up prices are called"""
PRICES = {
    "savings-ercot": "electricity by the hour (ERCOT)",
    "savings-brent": "crude oil by the day (Brent)",
    "savings-night": "labelling tariff of 2025, a quarter at night",
    "savings-tariff": "labelling tariff of 2026, half off-peak",
}
"""what recorded prices and tariffs are called"""
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
    """what ours needs for each rival's accuracy, by the last models, at the budget of the study"""

    @property
    def called(self) -> str:
        recorded = (name for study, name in PRICES.items() if self.study.startswith(study))
        return next(recorded, next((name for kind, name in KINDS.items() if self.prices.startswith(kind)), self.prices))


def places(found: Mapping[str, Sequence[Row]]) -> list[PricedModel]:
    made = []
    for name, rows in found.items():
        for prices in dict.fromkeys(row["prices"] for row in rows):
            own = [row for row in rows if row["prices"] == prices]
            saved = {rival: [one for one in savings(own, rival, "last") if one.policy == OURS] for rival in RIVALS}
            main = {rival: next((one for one in saved[rival] if one.budget == BUDGETS[name]), None) for rival in RIVALS}
            made.append(PricedModel(name, prices, own, main))
    return made


def savings_content(folder: Path) -> StudyContent:
    found = places(rows_of(SAVINGS, folder))
    made = []
    for name in SAVINGS:
        numbers = read_numbers(folder / f"{name}.json")
        made.append(escape(f"{title(name)} ({name}): {runs_of(numbers)}; {'; '.join(numbers['devices'])}"))
    names = [f"{title(each.study)}: {each.called}" for each in found]
    series = {f"of {rival}'s money": [_marked(each.beside[rival]) for each in found] for rival in RIVALS}
    shows = "what headgate needs for the same accuracy (%, 95 % interval); no mark: unknown"
    draw = intervals(names, series, shows, line=100.0, most=MOST)
    return StudyContent(savings_table(found), _numbers(found), draw, made)


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
    return (
        "saves" if high < one.rival_money else "costs" if low > one.rival_money else "unknown" if one.money is None else "same"
    )


def _numbers(found: Sequence[PricedModel]) -> dict[str, Any]:
    clear = [place for place in found if judged(place.beside["constant"]) == "saves"]
    shares = [one.share.mean for place in clear if (one := place.beside["constant"]) and one.share]
    median = [judged(place.beside["median"]) for place in found]
    return {
        "rows": len(found),
        "saves": len(clear),
        "ends": f"{percent(min(shares))} to {percent(max(shares))}" if shares else DASH,
        "others": "; ".join(f"{title(one.study)}, prices: {one.called}" for one in found if one not in clear),
        "less": median.count("saves"),
        "more": median.count("costs"),
    }


def share(one: Saving | None) -> str:
    if one is None:
        return DASH
    text = needed(one)[1]
    return f"**{text}**" if judged(one) == "saves" else text


def savings_table(found: Sequence[PricedModel]) -> str:
    """Return what headgate needs of each rival's money, a line for each model and kind of price."""
    lines = []
    for place in found:
        first = place.beside["constant"]
        spent = "" if first is None else escape(amount(first.unit, first.rival_money))
        reached = DASH if first is None else f"{percent(first.accuracy, 1)} for {spent}"
        seeds, lost = max(row["seeds"] + row["diverged"] for row in place.rows), sum(row["diverged"] for row in place.rows)
        shares = [share(one) for one in place.beside.values()]
        lines.append([escape(place.called), title(place.study), str(seeds), reached, *shares, str(lost)])
    header = ["prices", "data and model", "seeds", "constant", *(f"of `{rival}`" for rival in RIVALS), "runs broken down"]
    return table(header, lines)
