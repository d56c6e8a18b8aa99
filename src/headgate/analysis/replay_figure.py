"""Both answers of a replay as bars, and below them when who bought, and at which price."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.formatting import in_unit, number, percent
from headgate.analysis.purchases import moment
from headgate.analysis.replay import KINDS, ReplayResult
from headgate.escaping import label

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
