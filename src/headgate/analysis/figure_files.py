"""The figure of a comparison in a PDF, PNG or SVG file, for papers.

It needs matplotlib, of the extra `figures`. Nothing is drawn on a screen, and plots of
the user stay as they are.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis.curves import COLOURS, money_panel
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.savings import Row, Saving
from headgate.errors import SettingError
from headgate.escaping import printable

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
except ImportError:
    raise SettingError(
        "figure: needs matplotlib; pip install 'headgate[figures]' installs it"
    ) from None

SUFFIXES = (".svg", ".png", ".pdf")
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "svg.hashsalt": "headgate",  # the same figure gives the same bytes
}
DASHES = ("-", "--", ":", "-.")
ARROW = "#B00020"
WIDTH = 6.4
"""the width of a figure in inches, if none is stated"""
NARROW = 4.5
"""the width in inches below which text is smaller"""
LEGEND = 1.5
"""the inches that a name in the legend takes"""
MULTIPLES = ((1,), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9))
"""the multiples of powers of ten at which an axis may have ticks"""


def save_figure(figure: Any, path: Path, cut: bool = True) -> None:
    """Write a matplotlib figure to a file, whole or not at all.

    With `cut` empty margins are cut off; without, it keeps its size.
    """
    check_file("figure", path, SUFFIXES)
    how: Any = {"dpi": 160}
    if cut:
        how["bbox_inches"] = "tight"
    if path.suffix == ".svg":
        how["metadata"] = {"Date": None}
    if path.suffix == ".pdf":
        how["metadata"] = {"CreationDate": None}
    write_whole(
        "figure",
        path,
        lambda file: figure.savefig(file, format=path.suffix[1:], **how),
    )


def draw_comparison(
    rows: Sequence[Row],
    saved: Sequence[Saving],
    path: Path,
    title: str = "",
    width: float = WIDTH,
) -> None:
    """Draw accuracy against the money really spent, with 80 % intervals.

    Parameters
    ----------
    rows : sequence of dict
        The rows of a comparison.
    saved : sequence of Saving
        The savings at one budget.
    path : pathlib.Path
        The file; its suffix is its format.
    title : str
        The title; a narrow figure has none unless it is stated.
    width : float
        The width in inches.

    Raises
    ------
    SettingError
        If the suffix is unknown.
    DataError
        If the file cannot be written.
    """
    names = list(dict.fromkeys(row["policy"] for row in rows if row["learnt"]))
    panel = money_panel(rows, names, saved)
    narrow = width < NARROW
    style = STYLE | {"font.size": 8 if narrow else 10}
    if not title and not narrow:
        title = panel["title"]

    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, 0.8 * width if narrow else 0.61 * width))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for curve in panel["curves"]:
            _draw_curve(axes, curve, names[curve["policy"]])
        axes.set(
            title=label(title),
            xlabel=label(panel["x"]),
            ylabel=panel["y"],
            xscale="log",
        )
        _set_ticks(axes)
        for level in panel["levels"]:
            _draw_level(axes, level)
        if panel["gap"] is not None:
            _draw_gap(axes, panel["gap"])
        columns = max(1, min(4, int(width / LEGEND)))
        figure.legend(loc="outside lower center", ncols=columns)
        save_figure(figure, path, cut=False)


def _draw_curve(axes: Any, curve: dict[str, Any], name: str) -> None:
    turn, place = divmod(curve["policy"], len(COLOURS))
    axes.errorbar(
        curve["x"],
        curve["mean"],
        np.nan_to_num(curve["half"]),
        capsize=2,
        marker="o",
        markersize=4,
        color=COLOURS[place],
        linestyle=DASHES[turn % len(DASHES)],
        linewidth=1.6,
        label=label(name),
    )


def _set_ticks(axes: Any) -> None:
    """Put ticks on the logarithmic axis of money, and a number at each of them."""
    places = ticks(*axes.get_xlim())
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def ticks(low: float, high: float) -> list[float]:
    """Return at least three round numbers between two bounds, if there are as many.

    >>> ticks(0.8, 23), ticks(2.1, 5.4), ticks(0.5, 60_000)
    ([1.0, 2.0, 5.0, 10.0, 20.0], [3.0, 4.0, 5.0], [1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for multiples in MULTIPLES:
        every = [float(f"{by}e{decade}") for decade in decades for by in multiples]
        found = [value for value in every if low <= value <= high]
        if len(found) > 2:
            break
    return found


def _draw_level(axes: Any, level: dict[str, Any]) -> None:
    axes.axhline(
        level["value"],
        color="black",
        linewidth=1,
        linestyle="--",
    )
    axes.annotate(
        label(level["text"]),
        (1, level["value"]),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize="small",
    )


def _draw_gap(axes: Any, gap: dict[str, Any]) -> None:
    """Draw an arrow from the rival's money to ours, with a text below it.

    Both reach the same accuracy.
    """
    money, beside, accuracy = gap["money"], gap["beside"], gap["accuracy"]
    arrow = {
        "arrowstyle": "<|-|>",
        "linewidth": 1.6,
        "color": ARROW,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    axes.annotate("", (money, accuracy), (beside, accuracy), arrowprops=arrow)
    box = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    middle = math.sqrt(money * beside)
    axes.annotate(
        label(gap["text"]),
        (middle, accuracy),
        (0, -6),
        textcoords="offset points",
        ha="center",
        va="top",
        color=ARROW,
        bbox=box,
    )


def label(text: str) -> str:
    """Escape a label for matplotlib: a dollar sign begins no formula, and an underscore
    hides no line from the legend.

    >>> label("a$b"), label("_x")
    ('a\\\\$b', ' _x')
    """
    escaped = printable(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
