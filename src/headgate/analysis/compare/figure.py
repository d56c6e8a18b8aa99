"""Accuracy over the money really spent: a line for each policy over its budgets, and what one saves against the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from headgate.analysis.curves import COLOURS, DASHES
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.intervals import means
from headgate.analysis.runs import MEASURES
from headgate.analysis.savings import Row, Saving, amount
from headgate.escaping import label

OURS, FEW = "headgate", 7
"""the policy whose saving is drawn; as many policies as are named beside their lines"""


def draw(rows: Sequence[Row], found: Sequence[Saving], path: Path, measure: str = "last", title: str = "") -> None:
    """Write the figure. Bars are 80 % intervals of means over seeds; `found` are the savings at one budget of the rival."""
    own = [row for row in rows if row["learnt"]]
    names = list(dict.fromkeys(row["policy"] for row in own if not row["reference"]))
    with plt.rc_context(STYLE):
        many = len(names) > FEW
        figure, axes = plt.subplots(figsize=(7.2, 4.4 + many * 0.12 * len(names)), layout="constrained")
        for i, name in enumerate(names):
            colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
            _line(axes, [row for row in own if row["policy"] == name], measure, colour, dash)
        axes.set_xscale("log")
        spends = sorted({row["budget"] for row in own})
        axes.set_xticks(spends)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        _references(axes, [row for row in own if row["reference"]], measure)
        _gap(axes, found)
        unit = str(own[0].get("unit") or "") if own else ""
        axes.set_xlabel(label(f"money really spent a round{f' ({unit})' if unit else ''}, logarithmic"))
        axes.set_ylabel("test accuracy (%)")
        axes.set_title(label(title or MEASURES[measure].capitalize()), fontsize=11)
        if many:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
        else:
            axes.legend(loc="lower right")
        save_figure(figure, path)


def _line(axes: Axes, own: Sequence[Row], measure: str, colour: str, dash: str) -> None:
    own = sorted(own, key=lambda row: row["spend"])
    mean, half = np.array([[float(each) for each in means(100 * np.array(row[f"{measure}_by_seed"]))] for row in own]).T
    spend, wide = [row["spend"] for row in own], 2.4 if own[0]["policy"] == OURS else 1.5
    bars = {"color": colour, "linestyle": dash, "linewidth": wide, "capsize": 2, "marker": "o", "markersize": 4}
    axes.errorbar(spend, mean, np.nan_to_num(half), label=label(own[0]["policy"]), **bars)  # type: ignore[arg-type]


def _references(axes: Axes, own: Sequence[Row], measure: str) -> None:
    """One line each: they take no notice of the budget."""
    for name in dict.fromkeys(row["policy"] for row in own):
        level = 100 * float(np.mean([row[f"{measure}_by_seed"] for row in own if row["policy"] == name]))
        spend = float(np.mean([row["spend"] for row in own if row["policy"] == name]))
        axes.axhline(level, color="black", linewidth=1, linestyle="--")
        text = label(f"{name}: {amount(own[0].get('unit') or '', spend)} a round")
        axes.annotate(text, (0.02, level), xycoords=("axes fraction", "data"), va="bottom", fontsize=9)


def _gap(axes: Axes, found: Sequence[Saving]) -> None:
    """An arrow from the rival's money to ours at the same accuracy, with what that is of it."""
    one = next((one for one in found if one.policy == OURS and one.money is not None), None)
    if one is None or one.money is None or one.share is None:
        return
    level = 100 * one.accuracy
    how = {"arrowstyle": "<|-|>", "linewidth": 1.6, "color": "#B00020", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (one.money.mean, level), (one.rival_money, level), arrowprops=how)
    text = label(f"{100 * one.share.mean:.0f} % of the money")
    middle = float(np.sqrt(one.money.mean * one.rival_money))
    box = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    where: Any = {"textcoords": "offset points", "ha": "center", "va": "top", "color": "#B00020", "bbox": box}
    axes.annotate(text, (middle, level), (0, -6), **where)
