"""Where headgate saves money and where it does not: one row for each model and kind of price."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt

from headgate.analysis.comparison import rows as compared_rows
from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.formatting import DASH, percent
from headgate.analysis.pages import beside, bullets, facts_of, figure, filled, machine, read_numbers, runs_of, table, write
from headgate.analysis.runs import read_finished
from headgate.analysis.savings import Row, Saving, amount, needed, savings
from headgate.escaping import markdown as escape
from headgate.records.reader import RunFolder
from studies.better.seed_by_seed import rows_of_all
from studies.better.studies import title

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
OPENING = "Who has prices that move saves money with `headgate`; who has a price that stands still does not."
OURS, PAGE, FIGURE = "headgate", "savings.md", "savings.svg"
KEPT = ("prices", "unit", "budget", "policy", "reference", "seeds", "diverged", "learnt", "rounds", "spend", "worst_spend")
KEPT_ALSO = (
    "price_paid",
    "price_offered",
    "overspent_runs",
    "worst_excess",
    "N",
    "kept_limits",
    "last_by_seed",
    "best_by_seed",
)


def conclude_runs(folders: Sequence[Path], pages: Path, name: str, command: str, quick: bool) -> list[Path]:
    """NAME.json: what the page needs of each policy at each budget, seed by seed."""
    facts = facts_of(command, [machine(RunFolder.open(each)) for each in folders], quick)
    found: list[dict[str, Any]] = [
        {key: row[key] for key in (*KEPT, *KEPT_ALSO)} for row in compared_rows(read_finished(folders))
    ]
    return write(pages, {f"{name}.json": compact({**facts, "rows": found})})


def compact(numbers: dict[str, Any]) -> str:
    """JSON with a line for each row."""
    rows = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in numbers["rows"])
    head = json.dumps({key: value for key, value in numbers.items() if key != "rows"}, ensure_ascii=False, allow_nan=False)
    return f'{head[:-1]}, "rows": [\n{rows}\n]}}\n'


@dataclass(frozen=True, eq=False)
class PricedModel:
    """A model under one kind of price."""

    study: str
    prices: str
    rows: Sequence[Row]

    @property
    def called(self) -> str:
        recorded = (name for study, name in PRICES.items() if self.study.startswith(study))
        return next(recorded, next((name for kind, name in KINDS.items() if self.prices.startswith(kind)), self.prices))

    @property
    def broken_down(self) -> int:
        return sum(row["diverged"] for row in self.rows)

    @property
    def seeds(self) -> int:
        return int(max(row["seeds"] + row["diverged"] for row in self.rows))

    def saved(self, rival: str, measure: str = "last") -> list[Saving]:
        """What ours needs for the rival's accuracy at each of its budgets."""
        return _saved(self, rival, measure)

    def at_main_budget(self, rival: str, measure: str = "last") -> Saving | None:
        return next((one for one in self.saved(rival, measure) if one.budget == BUDGETS[self.study]), None)


@cache
def _saved(place: PricedModel, rival: str, measure: str) -> list[Saving]:
    return [one for one in savings(place.rows, rival, measure) if one.policy == OURS]


def places(found: Mapping[str, Sequence[Row]]) -> list[PricedModel]:
    return [
        PricedModel(name, prices, [row for row in rows if row["prices"] == prices])
        for name, rows in found.items()
        for prices in dict.fromkeys(row["prices"] for row in rows)
    ]


def conclude_savings(folder: Path, quick: bool) -> list[Path]:
    """savings.md and its figure from the numbers beside it."""
    found = places(rows_of_all(SAVINGS, folder))
    draw(found, folder / FIGURE, quick)
    made = [
        f"{title(name)} ({name}): {runs_of(numbers)}; {'; '.join(numbers['devices'])}" for name, numbers in _numbers(folder)
    ]
    text = filled(
        beside(__file__, PAGE),
        quick,
        opening="\n\n".join(fill(each, 118) for each in _opening(found)),
        figure=figure("What headgate needs of the money of three rivals, by model and kind of price", FIGURE),
        budgets="five or six",
        table=_table(found, "last"),
        best=_table(found, "best"),
        all=_all(found),
        made=bullets(escape(each) for each in made),
    )
    return write(folder, {PAGE: text})


def _numbers(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(name, read_numbers(folder / f"{name}.json")) for name in SAVINGS]


def judged(one: Saving | None) -> str:
    """Whether the interval lies below the rival's money, above it, or around it."""
    if one is None:
        return "unknown"
    low, high = one.ends
    return (
        "saves" if high < one.rival_money else "costs" if low > one.rival_money else "unknown" if one.money is None else "same"
    )


def _named(found: Sequence[PricedModel]) -> str:
    return "; ".join(f"{title(one.study)}, prices: {one.called}" for one in found)


def _opening(found: Sequence[PricedModel]) -> list[str]:
    """Who saves, who does not, and what is left beside a rule without theory."""
    by = {place: judged(place.at_main_budget("constant")) for place in found}
    clear = [place for place, said in by.items() if said == "saves"]
    shares = [one.share.mean for place in clear if (one := place.at_main_budget("constant")) and one.share]
    ends = f"{percent(min(shares))} to {percent(max(shares))}" if shares else DASH
    needs = f"Beside constant admission it needs {ends} of the money in {len(clear)} of {len(found)} rows."
    others = [place for place in by if place not in clear]
    return [f"{OPENING} {needs}", f"No saving is shown in the others: {_named(others)}.", _beside_median(found)]


def _beside_median(found: Sequence[PricedModel]) -> str:
    by = [judged(place.at_main_budget("median")) for place in found]
    less, more = by.count("saves"), by.count("costs")
    return (
        "Part of the saving needs no theory: `median` buys below the running median of the prices, with the same purse and the "
        f"same first round as `headgate`. Beside it `headgate` clearly needs less money in {less} of {len(found)} rows and "
        f"clearly more in {more}; in the others the two cannot be distinguished."
    )


def _share(one: Saving | None) -> str:
    if one is None:
        return DASH
    share = needed(one)[1]
    return f"**{share}**" if judged(one) == "saves" else share


def _table(found: Sequence[PricedModel], measure: str) -> str:
    lines = []
    for place in found:
        first = place.at_main_budget("constant", measure)
        spent = "" if first is None else escape(amount(first.unit, first.rival_money))
        reached = DASH if first is None else f"{percent(first.accuracy, 1)} for {spent}"
        shares = [_share(place.at_main_budget(rival, measure)) for rival in RIVALS]
        lines.append([escape(place.called), title(place.study), str(place.seeds), reached, *shares, str(place.broken_down)])
    header = ["prices", "data and model", "seeds", "constant", *(f"of `{rival}`" for rival in RIVALS), "runs broken down"]
    return table(header, lines)


def _all(found: Sequence[PricedModel]) -> str:
    lines = []
    for place in found:
        said = [f"{escape(amount(one.unit, one.budget))}: {_share(one)}" for one in place.saved("constant")]
        lines.append([escape(place.called), title(place.study), "; ".join(said)])
    return table(["prices", "data and model", "constant's budget: of its money"], lines)


def draw(found: Sequence[PricedModel], path: Path, quick: bool = False) -> None:
    """A line for each model and kind of price, a mark with its interval for each rival."""
    with plt.rc_context(STYLE):
        picture, axes = plt.subplots(figsize=(10.5, 0.34 * len(found) + 1.6), layout="constrained")
        for i, rival in enumerate(RIVALS):
            for place, one in enumerate(each.at_main_budget(rival) for each in found):
                share = None if one is None else one.share
                y = place + 0.22 * (i - 1)
                if one is not None:
                    low, high = (min(100 * end / one.rival_money, MOST) for end in one.ends)
                    axes.plot([low, high], [y, y], color=COLOURS[i], linewidth=1.5 if share else 0.8)
                if share is not None:
                    axes.plot(100 * share.mean, y, "o", color=COLOURS[i], markersize=5)
            axes.plot([], [], "o", color=COLOURS[i], label=f"of {rival}'s money")
        axes.axvline(100, color="black", linewidth=1, linestyle="--")
        names = [f"{title(each.study)}: {each.called}" for each in found]
        axes.set_yticks(range(len(found)), names, fontsize=9)
        axes.invert_yaxis()
        axes.set_xlim(0, MOST)
        axes.set_xlabel("what headgate needs for the same accuracy (%, 95 % interval); no mark: cannot be told")
        if quick:
            picture.suptitle("trial run: these numbers mean nothing", color="#B00020")
        picture.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        save_figure(picture, path)
