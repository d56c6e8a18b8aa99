"""Runs with learning as arrays, and the numbers behind every figure of them, on the page and on paper."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headgate.analysis.figures import COLOURS
from headgate.analysis.intervals import Floats, means
from headgate.errors import DataError
from headgate.records.reader import METRICS, RunFolder

POINTS = 500
"""a line is thinned to at most so many"""
CELLS = (120, 250)
"""a heat map is averaged to at most so many clients and rounds"""
DASHES = ("-", "--", ":", "-.")
MONEY = "Money spent per run so far"
MEASURED = tuple(name for name, kind in METRICS.items() if kind.is_numeric() and name not in ("seed", "t"))


# What a run folder holds, as arrays


@dataclass(frozen=True, eq=False)
class PolicyRuns:
    """One policy's runs that did not diverge, up to the last round that all of them have reached."""

    name: str
    """as shown: the policy's, with the run folder's before it where several are compared"""
    run: str
    policy: str
    budget: float
    buffers: NDArray[np.int64]
    diverged: int
    values: Mapping[str, Floats]
    """by column of the metrics, (runs, rounds), NaN where nothing was measured"""
    occupancy: NDArray[np.int64]
    """(runs, rounds, clients); no rounds where nothing was recorded"""

    @property
    def runs(self) -> int:
        return len(self.values["spend"])

    @property
    def rounds(self) -> int:
        return int(self.values["spend"].shape[1])

    @property
    def best_so_far(self) -> Floats:
        """Running-best test accuracy, (runs, rounds); NaN before the first evaluation."""
        best: Floats = np.fmax.accumulate(self.values["test_accuracy"], axis=1)
        return best

    @property
    def spent(self) -> Floats:
        """Money spent up to and with each round, (runs, rounds)."""
        return np.cumsum(self.values["spend"], axis=1)


def read_policies(runs: Sequence[RunFolder]) -> list[PolicyRuns]:
    """Every policy of every run, in the order they were run."""
    names = _distinct([run.name for run in runs])
    return [one for run, name in zip(runs, names, strict=True) for one in _of_run(run, name, len(runs) > 1)]


def _distinct(names: Sequence[str]) -> list[str]:
    """Folders of the same name in different places are told apart by a number."""
    return [name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)]


def _of_run(run: RunFolder, run_name: str, prefixed: bool) -> Iterable[PolicyRuns]:
    metrics, occupancy = run.metrics(), run.occupancy()
    for policy in dict.fromkeys([*run.state["policies"], *metrics["policy"].unique(maintain_order=True)]):
        seeds = {seed for name, seed in run.diverged if name == policy}
        kept = metrics.filter((pl.col("policy") == policy) & ~pl.col("seed").is_in(seeds))
        held = occupancy.filter((pl.col("policy") == policy) & ~pl.col("seed").is_in(seeds))
        shape, columns = _by_run(run, "metrics", kept)
        values = {name: columns[name].cast(pl.Float64).fill_null(float("nan")).to_numpy().reshape(shape) for name in MEASURED}
        if np.isnan(values["spend"]).any():
            raise DataError(f"{run.path}: metrics of policy {policy}: spend is empty in a run that did not diverge")
        shape, columns = _by_run(run, "occupancy", held)
        yield PolicyRuns(
            name=f"{run_name}: {policy}" if prefixed else policy,
            run=run_name,
            policy=policy,
            budget=run.budget,
            buffers=np.array(run.buffers, dtype=np.int64),
            diverged=len(seeds),
            values=values,
            occupancy=columns["n"].list.explode().to_numpy().reshape(*shape, len(run.buffers)),
        )


def _by_run(run: RunFolder, table: str, frame: pl.DataFrame) -> tuple[tuple[int, int], pl.DataFrame]:
    """(runs, rounds) and the rows sorted so that they fill this shape; a round that some runs lack is left out."""
    if not frame.height:
        return (0, 0), frame
    ends = frame.group_by("seed").agg(pl.col("t").min().alias("first"), pl.col("t").max().alias("last"), pl.len())
    for seed, first, last, rows in ends.iter_rows():
        if first != 1 or last != rows:
            policy = frame["policy"][0]
            raise DataError(f"{run.path}: {table} of policy {policy}, seed {seed}: rounds are missing, {rows} of 1 to {last}")
    rounds = int(ends["last"].min())  # type: ignore[arg-type]
    return (ends.height, rounds), frame.filter(pl.col("t") <= rounds).sort("seed", "t")


# What is drawn


class Look(NamedTuple):
    """Which of the colours and which of the four kinds of line."""

    colour: int
    dash: int


def looks(policies: Sequence[PolicyRuns]) -> list[Look]:
    """A policy has the same colour in every run, and a run the same kind of line; with too many of them, each its own."""
    names, runs = list(dict.fromkeys(p.policy for p in policies)), list(dict.fromkeys(p.run for p in policies))
    if len(names) <= len(COLOURS) and len(runs) <= len(DASHES):
        return [Look(names.index(p.policy), runs.index(p.run)) for p in policies]
    return [Look(i % len(COLOURS), i // len(COLOURS) % len(DASHES)) for i in range(len(policies))]


class Curve(NamedTuple):
    """A policy's line: where, mean over runs, half the interval's width (NaN for none), and the round of each point."""

    policy: int
    x: Floats
    mean: Floats
    half: Floats
    t: NDArray[np.int64]


class Level(NamedTuple):
    """A straight line to compare with, along the y axis or the x axis."""

    axis: str
    value: float
    text: str


@dataclass(frozen=True, eq=False)
class Panel:
    """One figure: the same numbers for the page and for paper."""

    key: str
    title: str
    x_label: str
    y_label: str
    digits: str
    """how the page writes numbers of the y axis, as a d3 format"""
    curves: list[Curve]
    levels: list[Level]

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
        """The same for money, where one policy spends several times as much as another."""
        ends = [curve.x[-1] for curve in self.curves if curve.x[-1] > 0]
        return self.x_label == MONEY and bool(ends) and bool(max(ends) > 5 * min(ends))


def thinned(count: int, most: int = POINTS) -> NDArray[np.int64]:
    """At most `most` of `count` places, evenly, with the first and the last."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(np.int64)


def curve(policy: int, values: Floats, x: Floats | None = None, scale: float = 1.0) -> Curve | None:
    """The mean of (runs, rounds) over runs, at the rounds where there is one; None where nothing was measured."""
    mean, half = means(values * scale)
    places = np.flatnonzero(np.isfinite(mean))
    if not places.size:
        return None
    places = places[thinned(places.size)]
    t = places + 1
    return Curve(policy, t.astype(np.float64) if x is None else x[places], mean[places], half[places], t)


def panels(policies: Sequence[PolicyRuns]) -> list[Panel]:
    """All figures of lines, in reading order; a figure without a line is left out."""
    drawn = [
        _panel(
            "accuracy", "Test accuracy", "Test accuracy, best so far (%)", ".1f", policies, lambda p: p.best_so_far, scale=100
        ),
        _panel(
            "accuracy-money",
            "Test accuracy for the money",
            "Test accuracy, best so far (%)",
            ".1f",
            policies,
            lambda p: p.best_so_far,
            _levels(policies, "x", lambda p: p.budget * p.rounds, "budget in all"),
            x=lambda p: p.spent.mean(axis=0),
            scale=100,
        ),
        _panel(
            "spend",
            "Money spent per round, so far",
            "Money per round, mean so far",
            ",.2f",
            policies,
            lambda p: p.spent / np.arange(1, p.rounds + 1),
            _levels(policies, "y", lambda p: p.budget, "budget"),
        ),
        _panel("debt", "Spending debt Z", "Debt at the round’s beginning", ",.1f", policies, lambda p: p.values["debt"]),
        _panel(
            "n",
            "Samples in memory, n",
            "Samples, all clients",
            ",.1f",
            policies,
            lambda p: p.values["n"],
            _levels(policies, "y", lambda p: float(p.buffers.sum()), "all buffers"),
        ),
        _panel("N", "Distinct samples so far, N", "Samples, all clients", ",.0f", policies, lambda p: p.values["N"]),
        _panel("n_eff", "Effective samples, N_eff", "Samples, all clients", ",.0f", policies, lambda p: p.values["n_eff"]),
        _panel("bound", "Learning bound", "Term of each round", ".4~g", policies, lambda p: p.values["bound"]),
        _panel("train_loss", "Training loss", "Mean loss in memory", ".4~g", policies, lambda p: p.values["train_loss"]),
        _panel("test_loss", "Test loss", "Mean loss on test data", ".4~g", policies, lambda p: p.values["test_loss"]),
    ]
    return [panel for panel in drawn if panel.curves]


def _panel(
    key: str,
    title: str,
    y_label: str,
    digits: str,
    policies: Sequence[PolicyRuns],
    values: Callable[[PolicyRuns], Floats],
    levels: Sequence[Level] = (),
    x: Callable[[PolicyRuns], Floats] | None = None,
    scale: float = 1.0,
) -> Panel:
    curves = [curve(i, values(p), x(p) if x else None, scale) for i, p in enumerate(policies) if p.runs]
    x_label = MONEY if x else "Round"
    return Panel(key, title, x_label, y_label, digits, [c for c in curves if c], list(levels))


def _levels(policies: Sequence[PolicyRuns], axis: str, value: Callable[[PolicyRuns], float], text: str) -> list[Level]:
    """One line for each different value of a run; where there are several, each says whose it is."""
    of_run: dict[str, float] = {}
    for policy in policies:
        if policy.runs:
            of_run[policy.run] = max(value(policy), of_run.get(policy.run, -math.inf))
    owners: dict[float, list[str]] = {}
    for run, level in of_run.items():
        owners.setdefault(level, []).append(run)
    return [
        Level(axis, level, f"{text} {level:,.6g}" + (f" ({', '.join(whose)})" if len(owners) > 1 else ""))
        for level, whose in owners.items()
    ]


class Heat(NamedTuple):
    """How full each client's buffer is: mean over runs of n_m/B_m, NaN where B_m is 0."""

    policy: int
    clients: list[str]
    buffers: Floats
    rounds: NDArray[np.int64]
    """at which each column begins"""
    last: int
    ratio: Floats
    """(clients, rounds)"""


def heats(policies: Sequence[PolicyRuns]) -> list[Heat]:
    """One for each policy of which occupancy was recorded."""
    return [_heat(i, policy) for i, policy in enumerate(policies) if policy.occupancy.size]


def _heat(index: int, policy: PolicyRuns) -> Heat:
    held, buffers = policy.occupancy.mean(axis=0).T, policy.buffers.astype(np.float64)
    clients, rounds = (_groups(size, most) for size, most in zip(held.shape, CELLS, strict=True))
    room = _averaged(buffers, clients)
    held = _averaged(_averaged(held, clients).T, rounds).T
    ratio = np.divide(held, room[:, None], out=np.full_like(held, np.nan), where=room[:, None] > 0)
    ends = np.append(clients[1:], buffers.size) - 1
    labels = [str(a) if a == b else f"{a}–{b}" for a, b in zip(clients, ends, strict=True)]
    return Heat(index, labels, room, rounds + 1, policy.occupancy.shape[1], ratio)


def _groups(size: int, most: int) -> NDArray[np.int64]:
    """Where at most `most` groups of neighbours begin."""
    return np.unique(np.linspace(0, size, min(size, most), endpoint=False).astype(np.int64))


def _averaged(values: Floats, starts: NDArray[np.int64]) -> Floats:
    sizes = np.diff(np.append(starts, len(values)))
    sums: Floats = np.add.reduceat(values, starts, axis=0)
    return sums / sizes.reshape(-1, *[1] * (values.ndim - 1))
