"""The numbers behind all figures of runs: on the page, in the report and in files for
papers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.formatting import grouped
from headgate.analysis.intervals import Floats, means
from headgate.analysis.runs import Runs, changes_in
from headgate.analysis.savings import OURS, Row, Saving, amount
from headgate.control.types import Ints
from headgate.theory.reuse import quotient

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


def thinned(count: int, most: int = POINTS) -> Ints:
    """Return at most `most` of the indices below `count`, with the first and the last.

    They are evenly spaced.
    """
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def rounded(values: NDArray[Any], digits: int = 7) -> list[Any]:
    """Return an array as nested lists of rounded numbers, None if not finite.

    7 significant digits are enough to draw.
    """
    if values.ndim > 1:
        return [rounded(each, digits) for each in values]
    if values.dtype.kind in "iu":
        return list(values.tolist())
    return [
        float(f"{each:.{digits}g}") if isfinite(each) else None
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


def policy_curves(
    one: Runs,
    since: int = 0,
    points: int = POINTS,
) -> PolicyCurves:
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
    rows: Sequence[Row],
    names: Sequence[str],
    saved: Sequence[Saving],
) -> dict[str, Any]:
    """Return accuracy against the money really spent.

    Parameters
    ----------
    rows : sequence of dict
        The rows of a comparison.
    names : sequence of str
        The policies to draw.
    saved : sequence of Saving
        The savings at one budget.

    Returns
    -------
    dict
        `curves` with a point for each budget and a `policy` that is an index of
        `names`, `levels` of references, and the `gap` between the money of headgate and
        of the rival at the same accuracy, or None.
    """
    by_policy = grouped(rows, lambda row: row["policy"])
    curves, levels, unit = [], [], ""
    for i, name in enumerate(names):
        own = [row for row in by_policy.get(name, ()) if row["learnt"]]
        if not own:
            continue
        own.sort(key=lambda row: row["spend"])
        unit = str(own[0].get("unit") or "")
        if own[0]["reference"]:  # a reference does not depend on the budget
            levels.append(_level(own, unit))
        else:
            curves.append({"policy": i, **_points(own)})
    return {
        "title": "Test accuracy in the last tenth of the rounds, for the money",
        "x": f"Money spent a round ({unit})" if unit else "Money spent a round",
        "y": "Test accuracy (%)",
        "curves": curves,
        "levels": levels,
        "gap": _gap(saved),
    }


def _points(own: Sequence[Row]) -> dict[str, list[float]]:
    """Return the mean accuracy at each budget, and half its interval."""
    estimates = [means(100 * np.array(row["last_by_seed"])) for row in own]
    mean, half = np.transpose(estimates).tolist()
    return {"x": [float(row["spend"]) for row in own], "mean": mean, "half": half}


def _level(own: Sequence[Row], unit: str) -> dict[str, Any]:
    """Return the accuracy and the money of a reference, means over the budgets."""
    points = _points(own)
    money = amount(unit, np.mean(points["x"]).item())
    text = f"{own[0]['policy']}: {money} a round"
    return {"value": np.mean(points["mean"]).item(), "text": text}


def _gap(saved: Sequence[Saving]) -> dict[str, Any] | None:
    """Return the money of headgate beside that of the rival at the same accuracy."""
    for one in saved:
        if one.policy == OURS and one.money is not None and one.share is not None:
            return {
                "money": one.money.mean,
                "beside": one.rival_money,
                "accuracy": 100 * one.accuracy,
                "text": f"{100 * one.share.mean:.0f} % of the money",
            }
    return None


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


def heat(
    policy: str,
    held: Ints,
    buffers: Ints,
) -> Heat:
    """Return the heat map of a policy.

    `held` are the samples that clients hold, (runs, rounds, clients), and `buffers`
    the places that they have.
    """
    _, all_rounds, all_clients = held.shape
    clients, labels = neighbours(all_clients, CELLS[0])
    rounds, _ = neighbours(all_rounds, CELLS[1])
    room = _averaged(buffers.astype(np.float64), clients)
    by_client = _averaged(held.mean(axis=0).T, clients)
    mean = _averaged(by_client.T, rounds).T

    of_client = room[:, None]
    ratio = quotient(mean, of_client, of_client > 0, np.nan)
    return Heat(
        policy=policy,
        clients=labels,
        buffers=rounded(room),
        t=(rounds + 1).tolist(),
        last=all_rounds,
        ratio=rounded(ratio, 4),
    )


def neighbours(size: int, most: int) -> tuple[Ints, list[str]]:
    """Split `size` indices into at most `most` groups of neighbours.

    The result is the first index and the label of each group.

    >>> neighbours(5, 2)
    (array([0, 2]), ['0–1', '2–4'])
    """
    spaced = np.linspace(0, size, min(size, most), endpoint=False)
    starts = np.unique(spaced.astype(np.int64))
    labels = []
    for first, after in pairwise([*starts.tolist(), size]):
        last = after - 1
        labels.append(str(first) if first == last else f"{first}–{last}")
    return starts, labels


def _averaged(values: Floats, starts: Ints) -> Floats:
    """Return the means of groups of neighbours along the first axis."""
    sizes = np.diff(np.append(starts, len(values)))
    sums: Floats = np.add.reduceat(values, starts, axis=0)
    return sums / sizes.reshape(-1, *[1] * (values.ndim - 1))
