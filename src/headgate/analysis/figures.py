"""Figures for paper and screen, as SVG, PNG or PDF: rehearsals, runs, comparisons, replays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from headgate.analysis.comparison import rows as rows_of
from headgate.analysis.comparison import several_budgets
from headgate.analysis.curves import (
    COLOURS,
    DASHES,
    Curve,
    Gap,
    Heat,
    LineStyle,
    Panel,
    heats,
    line_styles,
    money_panel,
    panels,
    thinned,
)
from headgate.analysis.formatting import in_unit, number, percent
from headgate.analysis.intervals import Floats
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.rehearsal import as_runs
from headgate.analysis.replay import KINDS, ReplayResult, moment
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import Row, Saving, chosen_budget, savings
from headgate.control.rehearse import Rehearsal
from headgate.errors import DataError
from headgate.escaping import label
from headgate.experiment import Experiment
from headgate.records.reader import RunFolder

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


ON_PAPER = {name: (name,) for name in ("accuracy", "accuracy-daily")} | {"money": ("spend", "debt")}
"""files and the panels in them"""


def draw_run(runs: Sequence[RunFolder], out_folder: Path, suffixes: Sequence[str] = (".svg", ".png")) -> list[Path]:
    """accuracy, occupancy and money as files in `out_folder`; accuracy-money where there are several budgets, accuracy-daily
    where the world changes. Lines are means, bands their 80 % interval."""
    policies = read_runs(runs)
    names, styles, grids = [one.label for one in policies], line_styles(policies), heats(policies)
    figures: dict[str, Callable[[], Any]] = {}
    for name, keys in ON_PAPER.items():
        if shown := panels(policies, keys):
            figures[name] = partial(_draw_panels, shown, names, styles)
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
            draw_comparison(rows, chosen_budget(savings(rows)), paths[-1])
    return paths


def _one_style_each(count: int) -> list[LineStyle]:
    return [LineStyle(i % len(COLOURS), i // len(COLOURS) % len(DASHES)) for i in range(count)]


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
        ratio = np.array(heat.ratio, dtype=np.float64)
        image = axes.imshow(ratio, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="nearest", extent=ends)
        axes.set(title=label(policies[heat.series].label), xlabel="Round", ylabel="Client")
        places = thinned(len(heat.clients), 11)
        axes.set_yticks(places, [heat.clients[i] for i in places])
        axes.grid(False)
    for axes in grid.flat[len(grids) :]:
        axes.set_axis_off()
    figure.colorbar(image, ax=grid, label="Samples held / buffer", ticks=[0, 0.5, 1, 1.5, 2], extend="max", pad=0.02)
    return figure


def draw_comparison(rows: Sequence[Row], found: Sequence[Saving], path: Path, title: str = "") -> None:
    """Draw accuracy over the money really spent; bars are 80 % intervals, `found` are the savings at one budget."""
    names = list(dict.fromkeys(row["policy"] for row in rows if row["learnt"]))
    panel = money_panel(rows, names, found)
    panel = replace(panel, title=title or panel.title)
    with plt.rc_context(STYLE):
        save_figure(_draw_panels([panel], names, _one_style_each(len(names))), path)


YOU, HEADGATE, POSSIBLE = "#777777", COLOURS[0], "#cccccc"


def draw_replay(result: ReplayResult, path: Path) -> None:
    """headgate's rounds are those for as many samples, or those for as much money where as many cannot be bought."""
    frame, you, unit = result.frame, result.you, result.currency
    when: Any = [moment(text) for text in frame["time"]]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplot_mosaic(
            [["many", "much"], ["price", "price"], ["bought", "bought"]],
            figsize=(9.5, 6.4), height_ratios=(1.1, 1, 1.4), layout="constrained",
        )  # fmt: skip
        many = {} if result.as_many is None else {"headgate": result.as_many.paid, "cheapest possible": result.cheapest}
        _bars(axes["many"], in_unit(f"Paid for {you.samples:,} samples", unit), {"you": you.paid, **many})
        title = f"Samples for {f'{unit} {number(you.paid)}'.strip()}"
        _bars(axes["much"], title, {"you": you.samples, "headgate": result.as_much.samples})
        axes["price"].step(when, frame["price"], where="mid", color="black", linewidth=1.2)
        axes["price"].set_title(label(in_unit("Price of a sample", unit)), loc="left", fontsize=11)
        axes["price"].set_ylim(bottom=0)
        axes["price"].tick_params(labelbottom=False)
        bought, width = axes["bought"], min(max(400 / len(when), 0.5), 6.0)
        bought.vlines(when, 0, frame["bought"], color=YOU, linewidth=width)
        bought.vlines(when, -frame[f"{result.kind}_bought"], 0, color=HEADGATE, linewidth=width)
        bought.axhline(0, color="black", linewidth=0.8)
        bought.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
        bought.set_title(f"Samples bought: you above, headgate below ({KINDS[result.kind]})", loc="left", fontsize=11)
        bought.sharex(axes["price"])
        save_figure(figure, path)


def _bars(axes: Axes, title: str, values: dict[str, Any]) -> None:
    """The first is the whole that the others are a share of."""
    whole = next(iter(values.values()))
    bars = axes.barh(list(values), list(values.values()), color=(YOU, HEADGATE, POSSIBLE)[: len(values)], height=0.7)
    said = [number(value) + (f" ({percent(value / whole)})" if i else "") for i, value in enumerate(values.values())]
    axes.bar_label(bars, said, padding=4)
    axes.set_title(label(title), loc="left", fontsize=11)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.grid(visible=False)
    axes.tick_params(left=False, bottom=False, labelbottom=False)
    axes.spines["bottom"].set_visible(False)
