"""Figures for paper and screen, as SVG, PNG or PDF: rehearsals, runs, comparisons, replays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from headgate.analysis.comparison import rows as rows_of
from headgate.analysis.comparison import several_budgets
from headgate.analysis.curves import COLOURS, DASHES, Curve, Heat, Panel, heats, line_styles, panels, thinned
from headgate.analysis.formatting import in_unit, number, percent
from headgate.analysis.intervals import Floats, means
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.replay import KINDS, ReplayResult, moment
from headgate.analysis.runs import MEASURES, Runs, read_runs
from headgate.analysis.savings import Row, Saving, amount, chosen_budget, savings
from headgate.control.rehearse import Rehearsal
from headgate.errors import DataError, SettingError
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
            draw_comparison(rows, chosen_budget(savings(rows)), paths[-1])
    return paths


def _draw_panels(drawn: Sequence[Panel], policies: Sequence[Runs]) -> Any:
    figure, grid = plt.subplots(1, len(drawn), figsize=(6.4 * len(drawn) ** 0.85, 3.9), squeeze=False, layout="constrained")
    for axes, panel in zip(grid.flat, drawn, strict=True):
        _draw_panel(axes, panel, policies)
    handles = {label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 3 * len(drawn)))
    return figure


def _draw_panel(axes: Axes, panel: Panel, policies: Sequence[Runs]) -> None:
    look = line_styles(policies)
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


OURS, FEW = "headgate", 7
"""the policy whose saving is drawn; as many policies as are named beside their lines"""


def draw_comparison(rows: Sequence[Row], found: Sequence[Saving], path: Path, measure: str = "last", title: str = "") -> None:
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
