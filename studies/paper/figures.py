"""The figures of a study: the paper's two, and accuracy for the money and memory held, which it lacks."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, horizontal_line, save_figure, vertical_line
from headgate.analysis.intervals import Floats, means
from headgate.analysis.runs import Runs
from studies.paper.batches import OURS, RELEASED, WRITTEN

LOOK = {
    "oracle": ("oracle", "#000000", ":"),
    "acdpp": ("ACDPP", COLOURS[0], "-"),
    "released": ("ACDPP as released", COLOURS[0], "-"),
    "constant": ("constant admission", COLOURS[1], "-"),
    "hybrid": ("hybrid", COLOURS[2], "--"),
    "acdpp_capped": ("ACDPP capped at B_m", COLOURS[5], "-."),
}
FLAVOURS = {WRITTEN: "as written", RELEASED: "as released"}
Sides = Mapping[str, Sequence[Runs]]
"""the policies of each flavour"""


def draw_study(name: str, sides: Sides, folder: Path, quick: bool = False) -> list[Path]:
    """All figures of a study, in reading order; those of a trial run say so."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Callable[[], Any]] = {
        "accuracy": lambda: _beside(sides, _accuracy),
        "money": lambda: _beside(sides, _money),
        "resources": lambda: _resources(sides),
        "memory": lambda: _beside(sides, _peaks),
        "summary": lambda: _summary(sides),
    }
    paths = []
    with plt.rc_context(STYLE):
        for kind, draw in drawn.items():
            paths.append(folder / f"{name}-{kind}.svg")
            figure = draw()
            if quick:
                figure.suptitle("trial run: these numbers mean nothing", color="#B00020")
            save_figure(figure, paths[-1])
    return paths


def _beside(sides: Sides, draw: Callable[[Axes, Sequence[Runs]], None]) -> Any:
    figure, grid = plt.subplots(1, len(sides), figsize=(5.6 * len(sides), 3.9), squeeze=False, layout="constrained")
    for axes, (flavour, outcomes) in zip(grid.flat, sides.items(), strict=True):
        draw(axes, outcomes)
        axes.set_title(f"{FLAVOURS[flavour]}: {axes.get_title()}")
    return figure


def _label(outcome: Runs) -> str:
    return f"{LOOK[outcome.policy][0]}, {outcome.spend.mean():,.0f} a round"


def _line(axes: Axes, x: Floats, values: Floats, outcome: Runs, label: str, most: float = np.inf) -> None:
    _, colour, dash = LOOK[outcome.policy]
    mean, half = means(values)
    half = np.nan_to_num(half)
    axes.plot(x, mean, dash, color=colour, label=label, linewidth=1.6)
    axes.fill_between(x, np.maximum(mean - half, 0), np.minimum(mean + half, most), color=colour, alpha=0.15, linewidth=0)


def _accuracy(axes: Axes, outcomes: Sequence[Runs]) -> None:
    for outcome in (one for one in outcomes if one.learnt):
        _line(axes, outcome.t.astype(np.float64), 100 * outcome.curve, outcome, _label(outcome), 100)
    axes.set(title="test accuracy", xlabel="round", ylabel="best so far (%)")
    axes.legend(fontsize=8, loc="lower right", title=f"budget {outcomes[0].budget:g} a round", title_fontsize=8)


def _money(axes: Axes, outcomes: Sequence[Runs]) -> None:
    for outcome in (one for one in outcomes if one.learnt):
        spent = outcome.spent[:, outcome.t - 1].mean(axis=0)
        _line(axes, spent, 100 * outcome.curve, outcome, LOOK[outcome.policy][0], 100)
    allowed = outcomes[0].budget * outcomes[0].rounds
    vertical_line(axes, allowed, f"budget in all {allowed:,.0f}")
    axes.set(title="accuracy for the money", xlabel="money spent so far, all clients", ylabel="best so far (%)", xscale="log")
    axes.legend(fontsize=8, loc="upper left")


def _resources(sides: Sides) -> Any:
    """The paper's Figure 2: what each client holds, what is spent, and the debt."""
    figure, grid = plt.subplots(len(sides), 3, figsize=(14, 3.6 * len(sides)), squeeze=False, layout="constrained")
    for row, (flavour, outcomes) in zip(grid, sides.items(), strict=True):
        held, spent, debt = row
        ours = next((one for one in outcomes if one.policy == OURS[flavour]), outcomes[0])
        t = np.arange(1, ours.rounds + 1)
        clients = ours.held_shares.mean(axis=0)
        shades = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, clients.shape[1]))
        for client, colour in enumerate(shades):
            held.plot(t, 100 * clients[:, client], color=colour, linewidth=1, label=f"{client}")
        horizontal_line(held, 100, "B_m")
        held.set(title=f"{FLAVOURS[flavour]}: buffers under {LOOK[ours.policy][0]}", xlabel="round", ylabel="n_m / B_m (%)")
        held.set_ylim(0, None)
        held.legend(fontsize=7, ncols=5, title="client", title_fontsize=8)
        for outcome in outcomes:
            if outcome.policy != "oracle":
                rounds = np.arange(1, outcome.rounds + 1).astype(np.float64)
                _line(spent, rounds, outcome.spent / rounds, outcome, LOOK[outcome.policy][0])
                _line(debt, rounds, outcome.column("debt"), outcome, LOOK[outcome.policy][0])
        horizontal_line(spent, ours.budget, f"budget {ours.budget:g}")
        spent.set(title="money a round, mean so far", xlabel="round", ylabel="money a round", ylim=(0, None))
        debt.set(title="cost debt Z", xlabel="round", ylabel="money owed", ylim=(0, None))
        debt.legend(fontsize=8)
    return figure


def _peaks(axes: Axes, outcomes: Sequence[Runs]) -> None:
    """The fullest client: its most samples ever and its mean, in % of its B_m."""
    places = np.arange(len(outcomes))
    for place, outcome in zip(places, outcomes, strict=True):
        colour = LOOK[outcome.policy][1]
        axes.barh(place, 100 * outcome.peak_share, color=colour, alpha=0.35)
        axes.barh(place, 100 * outcome.fullest, color=colour, height=0.45)
        axes.annotate(f" {100 * outcome.peak_share:.0f} %", (100 * outcome.peak_share, place), va="center", fontsize=9)
    axes.axvline(100, color="black", linewidth=1, linestyle="--")
    axes.set_yticks(places, [LOOK[outcome.policy][0] for outcome in outcomes])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.grid(False, axis="y")
    axes.set(title="memory of the fullest client", xlabel="n_m / B_m (%): peak (light) and mean (dark)")


def _summary(sides: Sides) -> Any:
    """One flavour in three panels, for the front page."""
    outcomes = sides[RELEASED] if RELEASED in sides else next(iter(sides.values()))
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14.5, 3.9), layout="constrained")
    _accuracy(left, outcomes)
    _money(middle, outcomes)
    _peaks(right, outcomes)
    for axes in (left, middle, right):
        axes.set_title(axes.get_title().capitalize())
    return figure
