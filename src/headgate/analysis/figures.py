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

from headgate.analysis.curves import COLOURS, Curve, Gap, Level, Panel, money_panel, thinned
from headgate.analysis.intervals import Floats, means
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.rehearsal import as_runs
from headgate.analysis.savings import Row, Saving
from headgate.control.rehearse import Rehearsal
from headgate.escaping import label
from headgate.experiment import Experiment

matplotlib.use("Agg")  # no screen is needed, and none is opened


DASHES = ("-", "--", ":", "-.")
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
    found, system = [as_runs(experiment, name, result) for name, result in rehearsals.items()], experiment.system
    budget = Level(system.budget, f"budget {system.budget:,.6g}")
    memory = Level(system.memory, f"all buffers {system.memory:,}")
    spent = [one.spent / np.arange(1, one.complete + 1) for one in found]
    drawn = [
        _over_rounds("Money spent per round, so far", "Money per round, mean so far", spent, [budget]),
        _over_rounds("Samples in memory, n", "Samples, all clients", [one.column("n") for one in found], [memory]),
        _over_rounds("Distinct samples so far, N", "Samples, all clients", [one.column("N") for one in found], []),
    ]
    _save_panels(drawn, list(rehearsals), path)


def _over_rounds(title: str, y: str, values: Sequence[Floats], levels: list[Level]) -> Panel:
    curves = []
    for policy, own in enumerate(values):
        mean, half = means(own)
        at = thinned(mean.size)
        curves.append(Curve(policy, (at + 1.0).tolist(), mean[at].tolist(), half[at].tolist()))
    return Panel(title, "Round", y, curves, levels)


def _save_panels(drawn: Sequence[Panel], names: Sequence[str], path: Path) -> None:
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(1, len(drawn), figsize=(6.4 * len(drawn) ** 0.85, 3.9), squeeze=False, layout="constrained")
        for axes, panel in zip(grid.flat, drawn, strict=True):
            _draw_panel(axes, panel, names)
        handles = {text: handle for axes in grid.flat for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 4 * len(drawn)))
        save_figure(figure, path)


def _draw_panel(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    """Over rounds, or of whole runs, a point for each budget. The scale is logarithmic for money, and where else one far-off
    value would press everything flat."""
    by_round, lines = panel.x == "Round", [np.array(curve[1:]) for curve in panel.curves]
    every = np.concatenate([mean for _, mean, _ in lines]) if lines else np.zeros(1)
    log = bool(every.min() > 0 and every.max() > 8 * np.median([mean[-1] for _, mean, _ in lines]))
    for curve, (x, mean, half) in zip(panel.curves, lines, strict=True):
        colour, dash = COLOURS[curve.policy % len(COLOURS)], DASHES[curve.policy // len(COLOURS) % len(DASHES)]
        look: Any = {"color": colour, "linestyle": dash, "label": label(names[curve.policy]), "linewidth": 1.6}
        half = np.nan_to_num(half)
        if by_round:  # nothing here is negative
            axes.plot(x, mean, **look)
            low = np.maximum(mean - half, mean / 10 if log else 0.0)
            axes.fill_between(x, low, mean + half, color=colour, alpha=0.15, linewidth=0)
        else:
            axes.errorbar(x, mean, half, capsize=2, marker="o", markersize=4, **look)
    axes.set(title=label(panel.title), xlabel=label(panel.x), ylabel=panel.y)
    if log:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis, axes.get_ylim())
    if not by_round:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, axes.get_xlim())
    for level in panel.levels:
        axes.axhline(level.value, color="black", linewidth=1, linestyle="--")
        where: Any = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom", "fontsize": 9}
        axes.annotate(label(level.text), (1, level.value), **where)
    if panel.gap is not None:
        _draw_gap(axes, panel.gap)


def _draw_gap(axes: Axes, gap: Gap) -> None:
    """Draw an arrow from the rival's money to ours at the same accuracy, with what that is of it."""
    arrow = {"arrowstyle": "<|-|>", "linewidth": 1.6, "color": "#B00020", "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (gap.money, gap.accuracy), (gap.beside, gap.accuracy), arrowprops=arrow)
    box = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    where: Any = {"textcoords": "offset points", "ha": "center", "va": "top", "color": "#B00020", "bbox": box}
    axes.annotate(label(gap.text), (float(np.sqrt(gap.money * gap.beside)), gap.accuracy), (0, -6), **where)


def _plain_ticks(axis: Axis, ends: tuple[float, float]) -> None:
    """1, 2, 5, 10 as they are over few powers of ten, the powers alone over many."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if ends[1] < 1000 * ends[0] else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_comparison(rows: Sequence[Row], found: Sequence[Saving], path: Path, title: str = "") -> None:
    """Draw accuracy over the money really spent; bars are 80 % intervals, `found` are the savings at one budget."""
    names = list(dict.fromkeys(row["policy"] for row in rows if row["learnt"]))
    panel = money_panel(rows, names, found)
    _save_panels([replace(panel, title=title or panel.title)], names, path)
