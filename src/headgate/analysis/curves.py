"""The numbers behind every figure of runs: on the page, in the report and on paper."""

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
"""a line is thinned to at most so many"""
CELLS = (120, 250)
"""a heat map is averaged to at most so many clients and rounds"""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito, colour-blind safe
OURS = "headgate"
"""the policy whose saving is drawn"""
SERIES = ("spend", "debt", "admitted", "price", "n", "N", "n_eff", "bound", "train_loss")
"""columns of which every round is known"""
EVALUATED = {"accuracy": "test_accuracy", "test_loss": "test_loss"}
"""names in figures of what is known of evaluated rounds alone, and their columns"""
Numbers = list[float | None]


def thinned(count: int, most: int = POINTS) -> NDArray[np.int64]:
    """At most `most` of `count` places, evenly, with the first and the last."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def rounded(values: NDArray[Any], digits: int = 7) -> list[Any]:
    """Return lists with None where there is no number; the default number of significant digits is enough to draw."""
    if values.ndim > 1:
        return [rounded(each, digits) for each in values]
    return [
        each if isinstance(each, int) else float(f"{each:.{digits}g}") if isfinite(each) else None for each in values.tolist()
    ]


# means over seeds, as JSON holds them


@dataclass(frozen=True)
class Series:
    """Mean over runs and half its 80 % interval; null where there is none."""

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
    """rounds in which the world begins to change for all runs"""


def line(one: Runs, metric: str) -> Floats:
    """Return a metric by its name in figures, (seeds, rounds up to the farthest)."""
    if metric == "spent":
        return np.cumsum(one.values["spend"], axis=1)
    if metric == "best_accuracy":  # so far; none before the first evaluation
        return np.where(np.isnan(one.values["spend"]), np.nan, np.fmax.accumulate(one.values["test_accuracy"], axis=1))
    return one.values[EVALUATED.get(metric, metric)]


def series(values: Floats) -> Series:
    """Return means over the first axis of (runs, points)."""
    mean, half = means(values)
    return Series(rounded(mean), rounded(half))


def policy_curves(one: Runs, since: int = 0, points: int = POINTS) -> PolicyCurves:
    """Return means over the runs of a policy, of the rounds after `since`."""
    first = min(since, one.farthest)
    places = first + thinned(one.farthest - first, points)
    evaluated = first + np.flatnonzero(np.isfinite(one.values["test_accuracy"][:, first:]).any(axis=0))
    evaluated = evaluated[thinned(evaluated.size, points)]
    return PolicyCurves(
        policy=one.policy,
        runs=int(one.begun.sum()),
        rounds=one.farthest,
        complete=one.complete,
        t=(places + 1).tolist(),
        series={name: series(line(one, name)[:, places]) for name in (*SERIES, "spent")},
        evaluated=(evaluated + 1).tolist(),
        judged={name: series(line(one, name)[:, evaluated]) for name in (*EVALUATED, "best_accuracy")},
        changes=changes_in(one),
    )


# whole runs at several budgets


def money_panel(rows: Sequence[Row], names: Sequence[str], saved: Sequence[Saving]) -> dict[str, Any]:
    """Return accuracy over the money really spent, as the report and a figure on paper draw it: whole runs, a point for each
    budget, in curves whose `policy` is a place in `names`; references are levels, and between policies at the same accuracy
    there is a gap."""
    curves, levels, unit = [], [], ""
    for i, name in enumerate(names):
        own = sorted((row for row in rows if row["policy"] == name and row["learnt"]), key=lambda row: row["spend"])
        if not own:
            continue
        unit = str(own[0].get("unit") or "")
        spend = [float(row["spend"]) for row in own]
        mean, half = np.transpose([means(100 * np.array(row["last_by_seed"])) for row in own]).tolist()
        if own[0]["reference"]:  # takes no notice of the budget
            levels.append({"value": np.mean(mean).item(), "text": f"{name}: {amount(unit, np.mean(spend).item())} a round"})
        else:
            curves.append({"policy": i, "x": spend, "mean": mean, "half": half})
    gap, ours = None, next((one for one in saved if one.policy == OURS), None)
    if ours is not None and ours.money is not None and ours.share is not None:
        text = f"{100 * ours.share.mean:.0f} % of the money"
        gap = {"money": ours.money.mean, "beside": ours.rival_money, "accuracy": 100 * ours.accuracy, "text": text}
    title = "Test accuracy in the last tenth of the rounds, for the money"
    axes = {"title": title, "x": f"Money spent a round ({unit})" if unit else "Money spent a round", "y": "Test accuracy (%)"}
    return {**axes, "curves": curves, "levels": levels, "gap": gap}


# buffers


@dataclass(frozen=True)
class Heat:
    """How full each client's buffer is, as JSON holds it."""

    policy: str
    clients: list[str]
    buffers: list[float]
    t: list[int]
    """rounds at which each column begins"""
    last: int
    ratio: list[Numbers]
    """mean over runs of n_m/B_m, (clients, rounds); None where B_m is 0"""


def heat(policy: str, held: NDArray[np.int64], buffers: NDArray[np.int64]) -> Heat:
    """From what clients hold, (runs, rounds, clients)."""
    (clients, labels), (rounds, _) = map(neighbours, held.shape[:0:-1], CELLS)
    room, means_held = _averaged(buffers.astype(np.float64), clients), held.mean(axis=0).T
    means_held = _averaged(_averaged(means_held, clients).T, rounds).T
    ratio = np.divide(means_held, room[:, None], out=np.full_like(means_held, np.nan), where=room[:, None] > 0)
    return Heat(policy, labels, rounded(room), (rounds + 1).tolist(), held.shape[1], rounded(ratio, 4))


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
