"""The numbers behind all figures of runs: on the page, in the report and in files for
papers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.intervals import Floats, means
from headgate.analysis.runs import Runs, changes_in
from headgate.analysis.savings import Row, Saving, amount

POINTS = 500
"""the most points that a line keeps after thinning"""
CELLS = (120, 250)
"""the most groups of clients and of rounds that a heat map is averaged to"""
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # Okabe and Ito, colour-blind safe
OURS = "headgate"
"""the policy whose saving is drawn"""
SERIES = (
    "spend",
    "debt",
    "admitted",
    "price",
    "n",
    "N",
    "n_eff",
    "bound",
    "train_loss",
)
"""metrics columns that have a value in every round"""
EVALUATED = {"accuracy": "test_accuracy", "test_loss": "test_loss"}
"""names in figures of the metrics that only evaluated rounds have, with their columns
"""
Numbers = list[float | None]


def thinned(count: int, most: int = POINTS) -> NDArray[np.int64]:
    """Return at most `most` of the indices below `count`, evenly spaced, with the first
    and the last.
    """
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def rounded(values: NDArray[Any], digits: int = 7) -> list[Any]:
    """Return an array as nested lists of rounded numbers, None if not finite; 7
    significant digits are enough to draw.
    """
    if values.ndim > 1:
        return [rounded(each, digits) for each in values]
    return [
        (
            each
            if isinstance(each, int)
            else float(f"{each:.{digits}g}")
            if isfinite(each)
            else None
        )
        for each in values.tolist()
    ]


# means over seeds, as JSON holds them


@dataclass(frozen=True)
class Series:
    """The mean over runs and half the width of its 80 % interval at each point; None if
    a value is missing.
    """

    mean: Numbers
    half: Numbers


@dataclass(frozen=True)
class PolicyCurves:
    policy: str
    runs: int
    rounds: int
    complete: int
    t: list[int]
    series: dict[str, Series]
    evaluated: list[int]
    judged: dict[str, Series]
    changes: list[int]
    """the rounds in which a change of the world begins in every run"""


def line(one: Runs, metric: str) -> Floats:
    """Return a metric by its name in figures, (seeds, rounds of the farthest run)."""
    if metric == "spent":
        return np.cumsum(one.values["spend"], axis=1)
    if metric == "best_accuracy":  # highest so far, NaN before the first evaluation
        return np.where(
            np.isnan(one.values["spend"]),
            np.nan,
            np.fmax.accumulate(one.values["test_accuracy"], axis=1),
        )
    return one.values[EVALUATED.get(metric, metric)]


def series(values: Floats) -> Series:
    """Return the means and half intervals over the first axis of (runs, points)."""
    mean, half = means(values)
    return Series(rounded(mean), rounded(half))


def policy_curves(one: Runs, since: int = 0, points: int = POINTS) -> PolicyCurves:
    """Return the means over the runs of a policy, for the rounds after `since`."""
    first = min(since, one.farthest)
    places = first + thinned(one.farthest - first, points)
    evaluated = first + np.flatnonzero(
        np.isfinite(one.values["test_accuracy"][:, first:]).any(axis=0)
    )
    evaluated = evaluated[thinned(evaluated.size, points)]
    return PolicyCurves(
        policy=one.policy,
        runs=int(one.begun.sum()),
        rounds=one.farthest,
        complete=one.complete,
        t=(places + 1).tolist(),
        series={
            name: series(line(one, name)[:, places]) for name in (*SERIES, "spent")
        },
        evaluated=(evaluated + 1).tolist(),
        judged={
            name: series(line(one, name)[:, evaluated])
            for name in (*EVALUATED, "best_accuracy")
        },
        changes=changes_in(one),
    )


# whole runs at several budgets


def money_panel(
    rows: Sequence[Row], names: Sequence[str], saved: Sequence[Saving]
) -> dict[str, Any]:
    """Return accuracy against the money really spent, for the report and for a figure
    in a file: `curves` with a point for each budget and a `policy` that is an index of
    `names`, `levels` of references, and the `gap` between the money of headgate and of
    the rival at the same accuracy, or None."""
    curves, levels, unit = [], [], ""
    for i, name in enumerate(names):
        own = sorted(
            (row for row in rows if row["policy"] == name and row["learnt"]),
            key=lambda row: row["spend"],
        )
        if not own:
            continue
        unit = str(own[0].get("unit") or "")
        spend = [float(row["spend"]) for row in own]
        mean, half = np.transpose(
            [means(100 * np.array(row["last_by_seed"])) for row in own]
        ).tolist()
        if own[0]["reference"]:  # a reference does not depend on the budget
            levels.append(
                {
                    "value": np.mean(mean).item(),
                    "text": f"{name}: {amount(unit, np.mean(spend).item())} a round",
                }
            )
        else:
            curves.append({"policy": i, "x": spend, "mean": mean, "half": half})
    gap, ours = None, next((one for one in saved if one.policy == OURS), None)
    if ours is not None and ours.money is not None and ours.share is not None:
        text = f"{100 * ours.share.mean:.0f} % of the money"
        gap = {
            "money": ours.money.mean,
            "beside": ours.rival_money,
            "accuracy": 100 * ours.accuracy,
            "text": text,
        }
    title = "Test accuracy in the last tenth of the rounds, for the money"
    axes = {
        "title": title,
        "x": f"Money spent a round ({unit})" if unit else "Money spent a round",
        "y": "Test accuracy (%)",
    }
    return {**axes, "curves": curves, "levels": levels, "gap": gap}


# buffers


@dataclass(frozen=True)
class Heat:
    """How full each client's buffer is in each round, in a form that JSON can hold."""

    policy: str
    clients: list[str]
    buffers: list[float]
    t: list[int]
    """the round at which each column begins"""
    last: int
    ratio: list[Numbers]
    """the mean of n_m/B_m over runs, (clients, rounds); None if B_m is 0"""


def heat(policy: str, held: NDArray[np.int64], buffers: NDArray[np.int64]) -> Heat:
    """Return the heat map of a policy from the samples that clients hold, (runs,
    rounds, clients), and their buffers.
    """
    (clients, labels), (rounds, _) = map(neighbours, held.shape[:0:-1], CELLS)
    room, means_held = (
        _averaged(buffers.astype(np.float64), clients),
        held.mean(axis=0).T,
    )
    means_held = _averaged(_averaged(means_held, clients).T, rounds).T
    ratio = np.divide(
        means_held,
        room[:, None],
        out=np.full_like(means_held, np.nan),
        where=room[:, None] > 0,
    )
    return Heat(
        policy,
        labels,
        rounded(room),
        (rounds + 1).tolist(),
        held.shape[1],
        rounded(ratio, 4),
    )


def neighbours(size: int, most: int) -> tuple[NDArray[np.int64], list[str]]:
    """Split `size` indices into at most `most` groups of neighbours; return the first
    index and the label of each group.

    >>> neighbours(5, 2)
    (array([0, 2]), ['0–1', '2–4'])
    """
    starts = np.unique(
        np.linspace(0, size, min(size, most), endpoint=False).astype(np.int64)
    )
    ends = [*starts[1:].tolist(), size]
    return starts, [
        str(a) if a == b - 1 else f"{a}–{b - 1}"
        for a, b in zip(starts.tolist(), ends, strict=True)
    ]


def _averaged(values: Floats, starts: NDArray[np.int64]) -> Floats:
    sizes = np.diff(np.append(starts, len(values)))
    sums: Floats = np.add.reduceat(values, starts, axis=0)
    return sums / sizes.reshape(-1, *[1] * (values.ndim - 1))
