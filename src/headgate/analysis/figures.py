"""Figures for paper and screen, as SVG, PNG or PDF."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no screen is needed, and none is opened
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from headgate.analysis.curves import COLOURS
from headgate.analysis.pages import check_file, write_whole
from headgate.control.rehearse import Rehearsal
from headgate.escaping import label
from headgate.experiment import Experiment

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
    _lay_out_before_drawing(figure)
    try:
        write_whole("figure", path, lambda file: figure.savefig(file, format=path.suffix[1:], **how))
    finally:
        plt.close(figure)


def _lay_out_before_drawing(figure: Any) -> None:
    """matplotlib draws a figure twice to save it: first into nothing, so that what belongs where is known. Laying it out tells
    that as well, and takes a fraction of the time."""

    def first(renderer: Any) -> None:
        del figure.draw  # the next time it is drawn
        engine = figure.get_layout_engine()
        if not hasattr(renderer.draw_path, "__wrapped__"):  # not into nothing: a matplotlib that draws once
            figure.draw(renderer)
        elif engine is not None:
            engine.execute(figure)

    figure.draw = first


def draw_rehearsal(experiment: Experiment, rehearsals: Mapping[str, Rehearsal], path: Path) -> None:
    """Money, memory and distinct samples over the rounds; lines are means, bands the middle 80 % of the runs."""
    with plt.rc_context(STYLE):
        figure, (money, memory, seen) = plt.subplots(1, 3, figsize=(13, 3.8))
        for colour, (name, result) in zip(np.resize(COLOURS, len(rehearsals)), rehearsals.items(), strict=True):
            t = np.arange(1, result.rounds + 1)
            for axes, values in (
                (money, np.cumsum(result.spend, axis=-1) / t),
                (memory, result.n),
                (seen, result.N),
            ):
                low, high = np.quantile(values, [0.1, 0.9], axis=0)
                axes.plot(t, values.mean(axis=0), color=colour, label=label(name), linewidth=1.6)
                axes.fill_between(t, low, high, color=colour, alpha=0.15, linewidth=0)
        horizontal_line(money, experiment.system.budget, "budget C")
        horizontal_line(memory, experiment.system.memory, "all buffers ΣB")
        money.set(title="Money spent per round, so far", xlabel="round", yscale="log")
        memory.set(title="Samples in memory, n(t)", xlabel="round", ylim=(0, None))
        seen.set(title="Distinct samples, N(t)", xlabel="round", yscale="log")
        figure.legend(*money.get_legend_handles_labels(), loc="upper center", ncols=len(rehearsals), bbox_to_anchor=(0.5, 0.02))
        save_figure(figure, path)


def horizontal_line(axes: Axes, level: float, text: str) -> None:
    axes.axhline(level, color="black", linewidth=1, linestyle="--")
    axes.annotate(text, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9)


def vertical_line(axes: Axes, place: float, text: str) -> None:
    axes.axvline(place, color="black", linewidth=1, linestyle="--")
    where: Any = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "bottom", "rotation": 90, "fontsize": 9}
    axes.annotate(text, (place, 0.02), **where)
