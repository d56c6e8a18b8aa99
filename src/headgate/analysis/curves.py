"""The numbers behind every figure of runs, on the page and on paper."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.dips import changes_in
from headgate.analysis.formatting import in_unit
from headgate.analysis.intervals import Floats, means
from headgate.analysis.pages import words
from headgate.analysis.runs import MEASURES, Runs
from headgate.analysis.savings import Row, Saving, amount

POINTS = 500
"""a line is thinned to at most so many"""
CELLS = (120, 250)
"""a heat map is averaged to at most so many clients and rounds"""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito, colour-blind safe
DASHES = ("-", "--", ":", "-.")
MARKED = 20
"""changes of the world that a figure marks, the first of them"""
MONEY = "Money spent a round"
OURS = "headgate"
"""the policy whose saving is drawn"""


class LineStyle(NamedTuple):
    """Which of the colours and which of the four kinds of line."""

    colour: int
    dash: int


def line_styles(policies: Sequence[Runs]) -> list[LineStyle]:
    """A policy has the same colour in every run, and a run the same kind of line; with too many of them, each its own."""
    names, runs = list(dict.fromkeys(p.policy for p in policies)), list(dict.fromkeys(p.folder for p in policies))
    if len(names) <= len(COLOURS) and len(runs) <= len(DASHES):
        return [LineStyle(names.index(p.policy), runs.index(p.folder)) for p in policies]
    return [one_style(i) for i in range(len(policies))]


def one_style(place: int) -> LineStyle:
    return LineStyle(place % len(COLOURS), place // len(COLOURS) % len(DASHES))


class Curve(NamedTuple):
    """A policy's line: where, mean over runs, half the interval's width (NaN for none), and the rounds of its points."""

    policy: int
    x: Floats
    mean: Floats
    half: Floats
    t: NDArray[np.int64] | None
    """None where its points are no rounds"""


class Level(NamedTuple):
    """A straight line to compare with, along the y axis or the x axis."""

    axis: str
    value: float
    text: str


class Gap(NamedTuple):
    """Between the money of two policies at the same accuracy."""

    money: float
    beside: float
    accuracy: float
    text: str


@dataclass(frozen=True, eq=False)
class Panel:
    """One figure: the same numbers for the page and for paper."""

    key: str
    title: str
    x: str
    y: str
    """what its axes say"""
    digits: str
    """how the page writes numbers of the y axis, as a d3 format"""
    curves: list[Curve]
    levels: list[Level]
    gap: Gap | None = None

    @property
    def log(self) -> bool:
        """A logarithmic scale, where else one far-off value would press everything flat."""
        if not self.curves:
            return False
        every = np.concatenate([curve.mean for curve in self.curves])
        last = np.median([curve.mean[-1] for curve in self.curves])
        return bool(every.min() > 0 and every.max() > 8 * last)

    @property
    def log_x(self) -> bool:
        """The same for money, of which each budget is a multiple of the one before."""
        return self.x.startswith(MONEY)


def thinned(count: int, most: int = POINTS) -> NDArray[np.int64]:
    """At most `most` of `count` places, evenly, with the first and the last."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def rounded(values: NDArray[Any], digits: int | None = 7) -> list[Any]:
    """Return lists with None where there is no number; the default number of significant digits is enough to draw."""
    values = np.asarray(values)
    if values.dtype.kind in "iub":
        whole: list[Any] = values.tolist()
        return whole
    known = np.isfinite(values)
    if digits is not None:
        size = np.floor(np.log10(np.abs(values), out=np.zeros_like(values), where=known & (values != 0)))
        scale = 10.0 ** np.clip(digits - 1 - size, -300, 300)
        values = np.where(known, np.round(np.where(known, values, 0.0) * scale) / scale, np.nan)
    boxed = values.astype(object)
    boxed[~known] = None
    listed: list[Any] = boxed.tolist()
    return listed


def curve(policy: int, values: Floats) -> Curve | None:
    """The mean of (runs, rounds) over runs, at the rounds where there is one; None where nothing was measured."""
    mean, half = means(values)
    places = np.flatnonzero(np.isfinite(mean))
    if not places.size:
        return None
    places = places[thinned(places.size)]
    t = places + 1
    return Curve(policy, t.astype(np.float64), mean[places], half[places], t)


VALUES: dict[str, Callable[[Runs], Floats]] = {
    "accuracy": lambda p: 100 * p.best_so_far[:, : p.complete],
    "accuracy-daily": lambda p: 100 * p.column("test_accuracy") if changes_in(p) else np.full((1, p.complete), np.nan),
    "spend": lambda p: p.spent / np.arange(1, p.complete + 1),
}
"""of the panels that show no column of the metrics as it is"""
LEVELS: dict[str, tuple[str, Callable[[Runs], float], str]] = {
    "spend": ("y", lambda p: p.budget, "budget"),
    "n": ("y", lambda p: float(p.buffers.sum()), "all buffers"),
}


def panels(policies: Sequence[Runs], keys: Sequence[str] = ()) -> list[Panel]:
    """All figures of lines, or these, in reading order; a figure without a line is left out."""
    drawn = [_panel(key, policies, **said) for key, said in words(__file__)["panels"].items() if not keys or key in keys]
    return [panel for panel in drawn if panel.curves]


def _panel(key: str, policies: Sequence[Runs], title: str, y: str, digits: str) -> Panel:
    values: Callable[[Runs], Floats] = VALUES.get(key, lambda p: p.column(key))
    curves = [curve(i, values(p)) for i, p in enumerate(policies) if p.complete]
    levels = _levels(policies, *LEVELS[key]) if key in LEVELS else []
    if key == "accuracy-daily":
        rounds = sorted({t for policy in policies for t in changes_in(policy)})
        levels = [Level("x", t, f"change in round {t}") for t in rounds[:MARKED]]
    return Panel(key, title, "Round", y, digits, [c for c in curves if c], levels)


def money_panel(rows: Sequence[Row], names: Sequence[str], saved: Sequence[Saving]) -> Panel:
    """Return accuracy over the money really spent: whole runs, a point for each budget; references are levels."""
    curves, levels, unit = [], [], ""
    for i, name in enumerate(names):
        own = sorted((row for row in rows if row["policy"] == name and row["learnt"]), key=lambda row: row["spend"])
        if not own:
            continue
        unit = str(own[0].get("unit") or "")
        spend = np.array([row["spend"] for row in own])
        mean, half = zip(*(means(100 * np.array(row["last_by_seed"])) for row in own), strict=True)
        if own[0]["reference"]:  # takes no notice of the budget
            levels.append(Level("y", float(np.mean(mean)), f"{name}: {amount(unit, float(spend.mean()))} a round"))
        else:
            curves.append(Curve(i, spend, np.array(mean), np.array(half), None))
    gap, ours = None, next((one for one in saved if one.policy == OURS), None)
    if ours is not None and ours.money is not None and ours.share is not None:
        text = f"{100 * ours.share.mean:.0f} % of the money"
        gap = Gap(ours.money.mean, ours.rival_money, 100 * ours.accuracy, text)
    title = f"Test {MEASURES['last']}, for the money"
    return Panel("accuracy-money", title, in_unit(MONEY, unit), "Test accuracy (%)", ".1f", curves, levels, gap)


def _levels(policies: Sequence[Runs], axis: str, value: Callable[[Runs], float], text: str) -> list[Level]:
    """One line for each different value of a run; where there are several, each says whose it is."""
    of_run: dict[str, float] = {}
    for policy in policies:
        if policy.complete:
            of_run[policy.folder] = max(value(policy), of_run.get(policy.folder, -math.inf))
    owners: dict[float, list[str]] = {}
    for run, level in of_run.items():
        owners.setdefault(level, []).append(run)
    return [
        Level(axis, level, f"{text} {level:,.6g}" + (f" ({', '.join(whose)})" if len(owners) > 1 else ""))
        for level, whose in owners.items()
    ]


class Heat(NamedTuple):
    """How full each client's buffer is, as JSON holds it."""

    series: int
    """which policy"""
    clients: list[str]
    buffers: list[float]
    t: list[int]
    """rounds at which each column begins"""
    last: int
    ratio: list[list[float | None]]
    """mean over runs of n_m/B_m, (clients, rounds); None where B_m is 0"""


def heats(policies: Sequence[Runs]) -> list[Heat]:
    """One for each policy of which it was recorded what clients hold."""
    return [heat(i, policy.held, policy.buffers) for i, policy in enumerate(policies) if policy.held is not None]


def heat(series: int, held: NDArray[np.int64], buffers: NDArray[np.int64]) -> Heat:
    """From what clients hold, (runs, rounds, clients)."""
    (clients, labels), (rounds, _) = map(neighbours, held.shape[:0:-1], CELLS)
    room, means_held = _averaged(buffers.astype(np.float64), clients), held.mean(axis=0).T
    means_held = _averaged(_averaged(means_held, clients).T, rounds).T
    ratio = np.divide(means_held, room[:, None], out=np.full_like(means_held, np.nan), where=room[:, None] > 0)
    return Heat(series, labels, rounded(room), (rounds + 1).tolist(), held.shape[1], rounded(ratio, 4))


def neighbours(size: int, most: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return where at most `most` groups of neighbours begin, and what they are called.

    >>> neighbours(5, 2)
    (array([0, 2]), ['0–1', '2–4'])
    """
    starts = np.unique(np.linspace(0, size, min(size, most), endpoint=False).astype(np.int64))
    ends = [*starts[1:].tolist(), size]
    return starts, [str(a) if a == b - 1 else f"{a}–{b - 1}" for a, b in zip(starts.tolist(), ends, strict=True)]


def _averaged(values: Floats, starts: NDArray[np.int64]) -> Floats:
    sizes = np.diff(np.append(starts, len(values)))
    sums: Floats = np.add.reduceat(values, starts, axis=0)
    return sums / sizes.reshape(-1, *[1] * (values.ndim - 1))
