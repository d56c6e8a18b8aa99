"""The figures of runs with learning for paper, with matplotlib."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from headgate.analysis.compare.figure import draw as draw_money
from headgate.analysis.compare.page import rows as rows_of
from headgate.analysis.compare.page import several_budgets
from headgate.analysis.curves import COLOURS, DASHES, Curve, Heat, Panel, heats, looks, panels, thinned
from headgate.analysis.figures import STYLE, SUFFIXES, horizontal_line, save_figure, vertical_line
from headgate.analysis.intervals import Floats
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import chosen_budget, savings
from headgate.errors import DataError, SettingError
from headgate.escaping import label
from headgate.records.reader import RunFolder

ON_PAPER = {name: (name,) for name in ("accuracy", "accuracy-daily")} | {"money": ("spend", "debt")}
"""files and the panels in them"""


def draw_run(runs: Sequence[RunFolder], out_folder: Path, suffixes: Sequence[str] = (".svg", ".png")) -> list[Path]:
    """accuracy, occupancy and money as files in `out_folder`; accuracy-money where there are several budgets, accuracy-daily
    where the world changes. Lines are means, bands their 80 % interval."""
    for suffix in suffixes:
        if suffix not in SUFFIXES:
            raise SettingError(f"figure {suffix}: must end in {', '.join(SUFFIXES)}")
    policies = read_runs(runs)
    by_key = {panel.key: panel for panel in panels(policies)}
    grids = heats(policies)
    figures: dict[str, Callable[[], Any]] = {}
    for name, keys in ON_PAPER.items():
        if shown := [by_key[key] for key in keys if key in by_key]:
            figures[name] = partial(_draw_panels, shown, policies)
    if grids:
        figures["occupancy"] = partial(_draw_heats, grids, policies)
    if not figures:
        raise DataError(f"{', '.join(str(run.path) for run in runs)}: no round has been recorded, there is nothing to draw")
    try:
        out_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"figures {out_folder}: cannot be written ({error.strerror})") from None
    paths = []
    with plt.rc_context(STYLE):
        for name, draw in figures.items():
            for suffix in suffixes:
                paths.append(out_folder / f"{name}{suffix}")
                save_figure(draw(), paths[-1])
    if several_budgets(policies):
        rows = rows_of(policies)
        for suffix in suffixes:
            paths.append(out_folder / f"accuracy-money{suffix}")
            draw_money(rows, chosen_budget(savings(rows)), paths[-1])
    return paths


def _draw_panels(drawn: Sequence[Panel], policies: Sequence[Runs]) -> Any:
    figure, grid = plt.subplots(1, len(drawn), figsize=(6.4 * len(drawn) ** 0.85, 3.9), squeeze=False, layout="constrained")
    for axes, panel in zip(grid.flat, drawn, strict=True):
        _draw_panel(axes, panel, policies)
    handles = {label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 3 * len(drawn)))
    return figure


def _draw_panel(axes: Axes, panel: Panel, policies: Sequence[Runs]) -> None:
    look = looks(policies)
    for line in panel.curves:
        colour, dash = COLOURS[look[line.policy].colour], DASHES[look[line.policy].dash]
        axes.plot(line.x, line.mean, dash, color=colour, label=label(policies[line.policy].label), linewidth=1.6)
        axes.fill_between(line.x, *_band(panel, line), color=colour, alpha=0.15, linewidth=0)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.log:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis, axes.get_ylim())
    if panel.log_x:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, axes.get_xlim())
    for level in panel.levels:
        (horizontal_line if level.axis == "y" else vertical_line)(axes, level.value, label(level.text))


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


def _draw_heats(grids: Sequence[Heat], policies: Sequence[Runs]) -> Any:
    """Small multiples with one colour scale: white is full, blue has room, red is over."""
    columns = min(len(grids), 3)
    rows = -(-len(grids) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(4.2 * columns + 0.6, 2.7 * rows + 0.3), squeeze=False, layout="constrained"
    )
    colours = LinearSegmentedColormap.from_list("room", [COLOURS[0], "#f7f7f5", COLOURS[1]]).with_extremes(bad="#dddddd")
    for axes, heat in zip(grid.flat, grids, strict=False):
        ends = (0.5, heat.last + 0.5, len(heat.clients) - 0.5, -0.5)
        image = axes.imshow(heat.ratio, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="nearest", extent=ends)
        axes.set(title=label(policies[heat.policy].label), xlabel="Round", ylabel="Client")
        places = thinned(len(heat.clients), 11)
        axes.set_yticks(places, [heat.clients[i] for i in places])
        axes.grid(False)
    for axes in grid.flat[len(grids) :]:
        axes.set_axis_off()
    figure.colorbar(image, ax=grid, label="Samples held / buffer", ticks=[0, 0.5, 1, 1.5, 2], extend="max", pad=0.02)
    return figure
