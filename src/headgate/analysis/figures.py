"""Figures for paper, as SVG, PNG or PDF: rehearsals and comparisons. The report and the page save those of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from headgate.analysis.curves import COLOURS, DASHES, Curve, Gap, LineStyle, Panel, line_styles, money_panel, one_style, panels
from headgate.analysis.intervals import Floats
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.rehearsal import as_runs
from headgate.analysis.savings import Row, Saving
from headgate.control.rehearse import Rehearsal
from headgate.escaping import label
from headgate.experiment import Experiment

matplotlib.use("Agg")  # no screen is needed, and none is opened


SUFFIXES = (".svg", ".png", ".pdf")
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "svg.hashsalt": "headgate",  # same figure, same bytes
}


def check_figure(path: Path) -> None:
    check_file("figure", path, SUFFIXES)


def save_figure(figure: Any, path: Path) -> None:
    check_figure(path)
    how = {"bbox_inches": "tight", "dpi": 160, "metadata": {"Date": None} if path.suffix == ".svg" else None}
    try:
        write_whole("figure", path, lambda file: figure.savefig(file, format=path.suffix[1:], **how))
    finally:
        plt.close(figure)


def draw_rehearsal(experiment: Experiment, rehearsals: Mapping[str, Rehearsal], path: Path) -> None:
    """Draw money, memory and distinct samples over the rounds; lines are means, bands their 80 % interval."""
    policies = [as_runs(experiment, name, result) for name, result in rehearsals.items()]
    with plt.rc_context(STYLE):
        save_figure(_draw_panels(panels(policies, ("spend", "n", "N")), list(rehearsals), line_styles(policies)), path)


def _draw_panels(drawn: Sequence[Panel], names: Sequence[str], styles: Sequence[LineStyle]) -> Any:
    figure, grid = plt.subplots(1, len(drawn), figsize=(6.4 * len(drawn) ** 0.85, 3.9), squeeze=False, layout="constrained")
    for axes, panel in zip(grid.flat, drawn, strict=True):
        _draw_panel(axes, panel, names, styles)
    handles = {label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 4 * len(drawn)))
    return figure


def _draw_panel(axes: Axes, panel: Panel, names: Sequence[str], styles: Sequence[LineStyle]) -> None:
    for line in panel.curves:
        style, name = styles[line.policy], names[line.policy]
        look: Any = {"color": COLOURS[style.colour], "linestyle": DASHES[style.dash], "label": label(name), "linewidth": 1.6}
        if line.t is None:  # whole runs, a point for each budget
            axes.errorbar(line.x, line.mean, np.nan_to_num(line.half), capsize=2, marker="o", markersize=4, **look)
        else:
            axes.plot(line.x, line.mean, **look)
            axes.fill_between(line.x, *_band(panel, line), color=look["color"], alpha=0.15, linewidth=0)
    axes.set(title=label(panel.title), xlabel=label(panel.x), ylabel=panel.y)
    if panel.log:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis, axes.get_ylim())
    if panel.log_x:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, axes.get_xlim())
    for level in panel.levels:
        (axes.axhline if level.axis == "y" else axes.axvline)(level.value, color="black", linewidth=1, linestyle="--")
        place, turned = ((1, level.value), 0) if level.axis == "y" else ((level.value, 0.02), 90)
        scales: Any = ("axes fraction", "data") if level.axis == "y" else ("data", "axes fraction")
        where: Any = {"xycoords": scales, "ha": "right", "va": "bottom", "rotation": turned, "fontsize": 9}
        axes.annotate(label(level.text), place, **where)
    if panel.gap is not None:
        _draw_gap(axes, panel.gap)


def _draw_gap(axes: Axes, gap: Gap) -> None:
    """Draw an arrow from the rival's money to ours at the same accuracy, with what that is of it."""
    arrow = {"arrowstyle": "<|-|>", "linewidth": 1.6, "color": "#B00020", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (gap.money, gap.accuracy), (gap.beside, gap.accuracy), arrowprops=arrow)
    box = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    where: Any = {"textcoords": "offset points", "ha": "center", "va": "top", "color": "#B00020", "bbox": box}
    axes.annotate(label(gap.text), (float(np.sqrt(gap.money * gap.beside)), gap.accuracy), (0, -6), **where)


def _band(panel: Panel, line: Curve) -> tuple[Floats, Floats]:
    """The interval within what can be: nothing here is negative, no accuracy is above 100 %."""
    half = np.nan_to_num(line.half)
    low, high = line.mean / 10 if panel.log else 0.0, 100.0 if panel.key.startswith("accuracy") else np.inf
    return np.maximum(line.mean - half, low), np.minimum(line.mean + half, high)


def _plain_ticks(axis: Axis, ends: tuple[float, float]) -> None:
    """1, 2, 5, 10 as they are over few powers of ten, the powers alone over many."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if ends[1] < 1000 * ends[0] else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_comparison(rows: Sequence[Row], found: Sequence[Saving], path: Path, title: str = "") -> None:
    """Draw accuracy over the money really spent; bars are 80 % intervals, `found` are the savings at one budget."""
    names = list(dict.fromkeys(row["policy"] for row in rows if row["learnt"]))
    panel = money_panel(rows, names, found)
    panel = replace(panel, title=title or panel.title)
    with plt.rc_context(STYLE):
        save_figure(_draw_panels([panel], names, [one_style(i) for i in range(len(names))]), path)
