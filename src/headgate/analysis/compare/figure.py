"""Accuracy against the money really spent, a line for each policy over its budgets."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from headgate.analysis.curves import COLOURS, DASHES
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.intervals import means
from headgate.analysis.limits import limits
from headgate.analysis.runs import MEASURES, Runs, measures
from headgate.escaping import label


def draw(outcomes: Sequence[Runs], path: Path) -> None:
    """Full marks kept both limits in every run and round; crosses broke one. Bars are 80 % intervals of means over seeds."""
    names = list(dict.fromkeys(one.policy for one in outcomes if not one.reference and one.learnt))
    look = {name: (COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]) for i, name in enumerate(names)}
    with plt.rc_context(STYLE):
        known = measures(outcomes)
        figure, grid = plt.subplots(1, len(known), figsize=(1.5 + 4.5 * len(known), 4.6), layout="constrained")
        for axes, measure in zip(grid.flat, known, strict=True):
            for name in names:
                _draw_policy(axes, [one for one in outcomes if one.policy == name and one.learnt], measure, *look[name])
            _draw_references(axes, outcomes, measure)
            axes.set(title=MEASURES[measure].capitalize(), xlabel="money really spent a round", ylabel="test accuracy (%)")
        handles = dict(zip(*reversed(grid.flat[0].get_legend_handles_labels()), strict=True))
        broke = Line2D([], [], color="grey", marker="X", markersize=9, markeredgecolor="white", linestyle="none")
        handles["broke a limit"] = broke
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 5))
        save_figure(figure, path)


def _draw_policy(axes: Axes, own: Sequence[Runs], measure: str, colour: str, dash: str) -> None:
    own = sorted(own, key=lambda one: one.spend.mean())
    spend = [float(one.spend.mean()) for one in own]
    mean, half = np.array([[float(value) for value in means(100 * one.measure(measure))] for one in own]).T
    bars = {"color": colour, "linestyle": dash, "linewidth": 1.5, "capsize": 2}
    axes.errorbar(spend, mean, np.nan_to_num(half), label=label(own[0].policy), **bars)  # type: ignore[arg-type]
    for x, y, one in zip(spend, mean, own, strict=True):
        kept = limits(one).kept
        axes.plot(x, y, "o" if kept else "X", color=colour, markersize=5 if kept else 9, markeredgecolor="white")


def _draw_references(axes: Axes, outcomes: Sequence[Runs], measure: str) -> None:
    """One line: they take no notice of the budget."""
    for name in dict.fromkeys(one.policy for one in outcomes if one.reference):
        own = [one for one in outcomes if one.policy == name and one.learnt]
        if own:
            level = float(np.mean([100 * one.measure(measure).mean() for one in own]))
            axes.axhline(level, color="black", linewidth=1, linestyle="--")
            spend = np.mean([one.spend.mean() for one in own])
            text = f"{name}, {spend:,.0f} a round"
            axes.annotate(text, (0.02, level), xycoords=("axes fraction", "data"), va="top", fontsize=9)
