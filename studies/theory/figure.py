"""Measured excess risk, the bound, and what the surrogate makes of the policies, in one picture."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, save_figure
from studies.theory.judge import SURROGATE, rankings
from studies.theory.measure import BASIC
from studies.theory.outcome import RELEASED, ExcessRisk, Stage

MARKS = {0.5: "v", 1.0: "o", 2.0: "^"}
"""by budget, as a factor of the recipe's"""


def draw(outcomes: Sequence[ExcessRisk], path: Path) -> None:
    """A column for each data set: curves over rounds above, the surrogate against the measured risk below."""
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, len(outcomes), figsize=(6.2 * len(outcomes), 8.4), squeeze=False, layout="constrained")
        for (above, below), outcome in zip(grid.T, outcomes, strict=True):
            _curves(above, outcome)
            _scatter(below, outcome.stages[0], outcome)
        handles = {label: handle for axes in grid[1] for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        if any(outcome.quick for outcome in outcomes):
            figure.suptitle("trial run: these numbers mean nothing", color="#B00020")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(BASIC) + 1, fontsize=9)
        save_figure(figure, path)


def _colour(policy: str) -> str:
    return COLOURS[BASIC.index(policy.split("-")[0])]


def _curves(axes: Axes, outcome: ExcessRisk) -> None:
    stage = outcome.stages[0]
    t = np.arange(1, outcome.rounds + 1)
    shown = [point for point in stage.points if point.budget == stage.points[0].budget and point.policy in BASIC]
    for point in shown:
        axes.plot(t, np.cumsum(point.excess, axis=1).mean(axis=0), color=_colour(point.policy), linewidth=1.6)
    middle = shown[1]
    released = np.cumsum(middle.bound(RELEASED), axis=1).mean(axis=0)
    full = np.cumsum(middle.bound(stage.estimated.bound), axis=1).mean(axis=0)
    bare = np.cumsum(middle.bound(stage.few().without_C2()), axis=1).mean(axis=0)
    for values, dash, text in (
        (full, "-.", f"Theorem 1, estimated constants, Pdim = {stage.estimated.bound.pdim:,.0f}"),
        (released, ":", "Theorem 1, released constants"),
        (bare, "--", f"Theorem 1, Pdim = {RELEASED.pdim:g}, C₂ = 0"),
        (t * stage.estimated.bound.loss, (0, (1, 3)), "T·B: no loss is larger"),
        (t * outcome.idle / outcome.rounds, (0, (5, 1)), "never learning"),
    ):
        axes.plot(t, values, linestyle=dash, color="black", linewidth=1)
        lower = values is released and released[-1] < full[-1] < 5 * released[-1]  # the two lie too close for two labels
        shift, side = ((0, -3), "top") if lower else ((0, 2), "bottom")
        axes.annotate(text, (t[-1], values[-1]), shift, textcoords="offset points", ha="right", va=side, fontsize=8)
    axes.set(yscale="log", xlabel="round", ylabel="cumulative excess risk")
    axes.set_title(f"{outcome.name}, η = {stage.lr:g}: measured (colours) and bounds (black)", fontsize=10)


def _scatter(axes: Axes, stage: Stage, outcome: ExcessRisk) -> None:
    base = stage.points[0].budget
    for point in stage.points:
        factor = point.budget / base
        x, y = point.penalty(RELEASED).sum(axis=1).mean(), point.measured.mean()
        label = point.policy if point.policy in BASIC and factor == 1.0 else None
        axes.scatter(x, y, color=_colour(point.policy), marker=MARKS[factor], s=42, label=label)
        if "-" in point.policy:
            axes.annotate(point.policy.split("-")[1], (x, y), xytext=(4, 3), textcoords="offset points", fontsize=8)
    found = rankings(stage, stage.points)[SURROGATE]
    text = f"Spearman {found.spearman:.2f} ({found.spearman_low:.2f} to {found.spearman_high:.2f})\nKendall {found.kendall:.2f}"
    axes.annotate(text, (0.03, 0.97), xycoords="axes fraction", va="top", fontsize=9)
    axes.set(xlabel="Σp, released constants", ylabel="measured cumulative excess risk")
    axes.set_title(f"{outcome.name}: surrogate against measured (▼ half, ● whole, ▲ twice the budget)", fontsize=10)
