"""The front between early and late money: accuracy of the last models against the mean over rounds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.intervals import means
from headgate.studies.better.studies import title

EARLY = {"headgate": "0", "early-10": "0.1", "early-25": "0.25", "early-50": "0.5", "early-100": "1"}
OTHERS = {"released": COLOURS[1], "cheapest-first": COLOURS[2], "constant": "black"}
Row = Mapping[str, Any]


def draw_front(found: Mapping[str, Sequence[Row]], path: Path, quick: bool = False) -> None:
    """A panel for each comparison."""
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(1, len(found), figsize=(12, 4), layout="constrained")
        for axes, (name, rows) in zip(grid, found.items(), strict=True):
            named = {row["policy"]: row for row in rows}
            ours = {text: named[policy] for policy, text in EARLY.items() if policy in named}
            _line(axes, ours, COLOURS[0], "headgate, by early")
            for policy, colour in OTHERS.items():
                over = "" if named[policy]["kept_limits"] else " (over its limits)"
                _line(axes, {"": named[policy]}, colour, f"{policy}{over}")
            shown = title(name).replace(", every part by itself", "")
            axes.set(title=shown, xlabel="accuracy in the last tenth of the rounds (%)", ylabel="mean over rounds (%)")
        if quick:
            figure.suptitle("trial run: these numbers mean nothing", color="#B00020")
        handles = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
        save_figure(figure, path)


def _line(axes: Axes, points: Mapping[str, Row], colour: str, label: str) -> None:
    x, dx, y, dy = (
        np.array([float(means(100 * np.array(row[f"{key}_by_seed"]))[part]) for row in points.values()])
        for key in ("last", "mean")
        for part in (0, 1)
    )
    axes.errorbar(x, y, dy, dx, "o-", color=colour, label=label, linewidth=1.2, capsize=2, markersize=5)
    for text, px, py in zip(points, x, y, strict=True):
        axes.annotate(text, (px, py), xytext=(5, 5), textcoords="offset points", fontsize=9)
