"""The figures of studies, README and benchmarks, in SVG, PNG or PDF files.

They need matplotlib, which the package itself does not use.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from headgate.analysis.curves import COLOURS, money_panel
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.savings import Row, Saving
from headgate.escaping import printable

matplotlib.use("Agg")  # draws without a screen


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


def save_figure(figure: Any, path: Path) -> None:
    check_file("figure", path, SUFFIXES)
    how = {
        "bbox_inches": "tight",
        "dpi": 160,
        "metadata": {"Date": None} if path.suffix == ".svg" else None,
    }
    try:
        write_whole(
            "figure",
            path,
            lambda file: figure.savefig(file, format=path.suffix[1:], **how),
        )
    finally:
        plt.close(figure)


def draw_comparison(
    rows: Sequence[Row], found: Sequence[Saving], path: Path, title: str = ""
) -> None:
    """Draw accuracy against the money really spent, with 80 % intervals; `found` are
    the savings at one budget.
    """
    names = list(dict.fromkeys(row["policy"] for row in rows if row["learnt"]))
    panel = money_panel(rows, names, found)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
        for curve in panel["curves"]:
            style: Any = {
                "color": COLOURS[curve["policy"] % len(COLOURS)],
                "label": label(names[curve["policy"]]),
            }
            style |= {
                "linestyle": ("-", "--", ":", "-.")[
                    curve["policy"] // len(COLOURS) % 4
                ],
                "linewidth": 1.6,
            }
            axes.errorbar(
                curve["x"],
                curve["mean"],
                np.nan_to_num(curve["half"]),
                capsize=2,
                marker="o",
                markersize=4,
                **style,
            )
        axes.set(
            title=label(title or panel["title"]),
            xlabel=label(panel["x"]),
            ylabel=panel["y"],
            xscale="log",
        )
        # ticks at 1, 2 and 5 times powers of ten, or at the powers alone if the axis is
        # long
        ends = axes.get_xlim()
        axes.xaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if ends[1] < 1000 * ends[0] else (1,))
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        for level in panel["levels"]:
            axes.axhline(level["value"], color="black", linewidth=1, linestyle="--")
            where: Any = {
                "xycoords": ("axes fraction", "data"),
                "ha": "right",
                "va": "bottom",
                "fontsize": 9,
            }
            axes.annotate(label(level["text"]), (1, level["value"]), **where)
        if panel["gap"] is not None:
            _draw_gap(axes, **panel["gap"])
        figure.legend(loc="outside lower center", ncols=4)
        save_figure(figure, path)


def _draw_gap(
    axes: Any, money: float, beside: float, accuracy: float, text: str
) -> None:
    """Draw an arrow from the rival's money to ours at the same accuracy, with `text`
    below it.
    """
    arrow = {
        "arrowstyle": "<|-|>",
        "linewidth": 1.6,
        "color": "#B00020",
        "shrinkA": 0,
        "shrinkB": 0,
    }
    axes.annotate("", (money, accuracy), (beside, accuracy), arrowprops=arrow)
    box = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.5}
    where: Any = {
        "textcoords": "offset points",
        "ha": "center",
        "va": "top",
        "color": "#B00020",
        "bbox": box,
    }
    axes.annotate(
        label(text), (float(np.sqrt(money * beside)), accuracy), (0, -6), **where
    )


def label(text: str) -> str:
    """Escape a label for matplotlib: a dollar sign begins no formula, and an underscore
    hides no line from the legend.

    >>> label("a$b"), label("_x")
    ('a\\\\$b', ' _x')
    """
    escaped = printable(text).replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
