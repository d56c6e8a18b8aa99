"""What the page is told of one run: settings and results, curves, occupancies, one run round by round, tables."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.curves import MEASURED, PolicyRuns, heats, thinned
from headgate.analysis.intervals import Floats, means
from headgate.analysis.summary import Estimate, PolicySummary, breakdown_note, equal_spend_note, headline, summarise
from headgate.errors import SettingError
from headgate.web.rows import Rows
from headgate.web.runs import Head, Library, UnknownRun

SERIES = {
    "spend": "spend",
    "debt": "debt",
    "admitted": "admitted",
    "price": "price",
    "n": "n",
    "N": "N",
    "n_eff": "n_eff",
    "bound": "bound",
    "train_loss": "train_loss",
}
"""names on the page of what is known of every round, and the columns they are"""
JUDGED = {"accuracy": "test_accuracy", "test_loss": "test_loss"}
"""the same of what is known of rounds that were evaluated"""
LINES = (*SERIES, "spent", *JUDGED, "best_accuracy")
TABLES = (*LINES, "occupancy", "metrics")


# numbers as JSON holds them


def plain(values: NDArray[Any], digits: int | None = 7) -> list[Any]:
    """Lists with null where there is no number; so many significant digits are enough to draw."""
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


def number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def estimate(value: Estimate | None) -> dict[str, Any] | None:
    return None if value is None else {"mean": value.mean, "half": number(value.half), "runs": value.runs}


def with_interval(values: Floats) -> dict[str, Any]:
    """Mean over runs and half its interval, (runs, points); no half at all where there is one run."""
    if not values.shape[1]:
        return {"mean": [], "half": []}
    mean, half = means(values)
    return {"mean": plain(mean), "half": plain(half)}


# the runs of a policy


@dataclass(frozen=True, eq=False)
class Runs:
    """One policy's runs that did not diverge and have begun, with rows up to the farthest; NaN where one is not there yet."""

    policy: str
    seeds: list[int]
    reached: NDArray[np.int64]
    values: Floats
    """(runs, rounds, columns) as `MEASURED`"""

    @property
    def rounds(self) -> int:
        return int(self.reached.max(initial=0))

    @property
    def complete(self) -> int:
        """rounds that all of them have reached"""
        return int(self.reached.min(initial=self.rounds))

    def column(self, name: str) -> Floats:
        return self.values[:, :, MEASURED.index(name)]

    def line(self, name: str) -> Floats:
        """By its name on the page, (runs, rounds)."""
        if name == "spent":
            return np.cumsum(self.column("spend"), axis=1)
        if name == "best_accuracy":
            best = np.fmax.accumulate(self.column("test_accuracy"), axis=1)
            return np.where(np.isnan(self.column("spend")), np.nan, best)
        return self.column(SERIES.get(name) or JUDGED[name])


def runs_of(head: Head, rows: Rows, policy: str) -> Runs:
    lost = {seed for name, seed in head.run.diverged if name == policy}
    every = [(policy, seed) for seed in head.run.state["seeds"] if seed not in lost]
    reached = rows.reached(every)
    begun = [run for run, t in zip(every, reached, strict=True) if t]
    reached = reached[reached > 0]
    last = int(reached.max(initial=0))
    values = rows.of(begun, last) if begun else np.zeros((0, 0, len(MEASURED)))
    if reached.min(initial=last) < last:
        there = np.arange(last) < reached[:, None]
        values = np.where(there[:, :, None], values, np.nan)
    return Runs(policy, [seed for _, seed in begun], reached, values)


def policies_of(head: Head, asked: Sequence[str] = ()) -> list[str]:
    known = list(dict.fromkeys(head.run.state["policies"]))
    for policy in asked:
        if policy not in known:
            raise UnknownRun(f"policy {policy[:100]!r}: {head.name} has {', '.join(known)}")
    return [policy for policy in known if policy in asked] if asked else known


# answers


def detail(library: Library, name: str) -> dict[str, Any]:
    head, run = library.head(name), library.open(name)
    metrics, occupancy = library.metrics(name), library.occupancy_if_small(name)
    target = run.config.get("training", {}).get("target")
    target = target if isinstance(target, int | float) and 0 < target <= 1 else None
    summaries = [
        summarise(_policy_runs(runs_of(head, metrics, policy), head, run.buffers, run.budget, occupancy), target)
        for policy in policies_of(head)
    ]
    progress = library.progress(name)
    return {
        "name": name,
        "sweep": head.sweep,
        "state": progress.state,
        "round": progress.round,
        "rounds": progress.rounds,
        "policies": policies_of(head),
        "seeds": head.run.state["seeds"],
        "diverged": head.run.state["diverged"],
        "guessing": head.run.state.get("guessing", []),
        "budget": run.budget,
        "buffers": run.buffers,
        "memory": sum(run.buffers),
        "clients": len(run.buffers),
        "target": target,
        "started": head.started,
        "elapsed": head.run.state.get("elapsed_s"),
        "note": head.run.state.get("note"),
        "occupancy": bool(occupancy.index),
        "settings": run.config,
        "toml": run.config_text(),
        "environment": run.environment,
        "headline": headline(summaries),
        "spend_note": equal_spend_note(summaries),
        "warning": breakdown_note([run]),
        "summary": [_summary(each) for each in summaries],
    }


def _policy_runs(runs: Runs, head: Head, buffers: Sequence[int], budget: float, occupancy: Rows) -> PolicyRuns:
    """What the report and the closing table are made from, up to the round that all have reached."""
    keys = [(runs.policy, seed) for seed in runs.seeds]
    last = runs.complete
    recorded = int(occupancy.reached(keys).min(initial=last)) if keys else 0
    held = occupancy.of(keys, recorded) if recorded else np.zeros((0, 0, len(buffers)), dtype=np.int32)
    return PolicyRuns(
        name=runs.policy,
        run=head.name,
        policy=runs.policy,
        budget=budget,
        buffers=np.array(buffers, dtype=np.int64),
        diverged=sum(name == runs.policy for name, _ in head.run.diverged),
        values={name: runs.column(name)[:, :last] for name in MEASURED},
        occupancy=held.astype(np.int64),
    )


def _summary(summary: PolicySummary) -> dict[str, Any]:
    told = {field.name: getattr(summary, field.name) for field in fields(summary)}
    told = {key: estimate(value) if isinstance(value, Estimate) else value for key, value in told.items()}
    share = summary.spend_share
    return told | {"spend_share": None if share is None else share / 100}


def curves(library: Library, name: str, since: int = 0, points: int = 400, policies: Sequence[str] = ()) -> dict[str, Any]:
    head, run, metrics = library.head(name), library.open(name), library.metrics(name)
    progress = library.progress(name)
    return {
        "name": name,
        "state": progress.state,
        "round": progress.round,
        "rounds": progress.rounds,
        "budget": run.budget,
        "memory": sum(run.buffers),
        "since": since,
        "policies": [_curves(runs_of(head, metrics, policy), since, points) for policy in policies_of(head, policies)],
    }


def _curves(runs: Runs, since: int, points: int) -> dict[str, Any]:
    first = min(since, runs.rounds)
    places = first + thinned(runs.rounds - first, points)
    judged = first + np.flatnonzero(np.isfinite(runs.column("test_accuracy")[:, first:]).any(axis=0))
    judged = judged[thinned(judged.size, points)]
    return {
        "policy": runs.policy,
        "runs": len(runs.seeds),
        "rounds": runs.rounds,
        "complete": runs.complete,
        "t": (places + 1).tolist(),
        "series": {name: with_interval(runs.line(name)[:, places]) for name in (*SERIES, "spent")},
        "evaluated": (judged + 1).tolist(),
        "judged": {name: with_interval(runs.line(name)[:, judged]) for name in (*JUDGED, "best_accuracy")},
    }


def clients(library: Library, name: str, policy: str | None, seed: int | None) -> dict[str, Any]:
    """How full the buffers are, of one run or in the mean over the runs of a policy."""
    head, run, occupancy = library.head(name), library.open(name), library.occupancy(name)
    policy = policies_of(head, [policy] if policy is not None else [])[0]
    keys = [(policy, each) for each in head.run.state["seeds"] if seed is None or each == seed]
    reached = dict(zip(keys, occupancy.reached(keys).tolist(), strict=True))
    begun = [key for key in keys if reached[key]]
    if not begun:
        which = policy if seed is None else f"{policy}, seed {seed}"
        raise UnknownRun(f"occupancy of {name}, {which}: nothing was recorded")
    held = occupancy.of(begun, min(reached[key] for key in begun)).astype(np.int64)
    empty = dict.fromkeys(MEASURED, np.zeros((len(begun), 0)))
    (heat,) = heats([PolicyRuns(policy, name, policy, run.budget, np.array(run.buffers), 0, empty, held)])
    return {
        "name": name,
        "policy": policy,
        "seed": seed,
        "clients": heat.clients,
        "buffers": plain(heat.buffers),
        "t": heat.rounds.tolist(),
        "last": heat.last,
        "ratio": plain(heat.ratio, 4),
        "held": plain(heat.ratio * heat.buffers[:, None], 4),
    }


def table(library: Library, name: str, figure: str) -> Iterator[str]:
    """A figure's numbers as CSV, all rounds."""
    if figure not in TABLES:
        raise SettingError(f"figure = {figure[:100]}: must be one of {', '.join(TABLES)}")
    head = library.head(name)
    if figure == "occupancy":
        rows = library.occupancy(name)
        lines = _occupancy_lines(head, rows)
    elif figure == "metrics":
        lines = _metric_lines(head, library.metrics(name))
    else:
        lines = _curve_lines(head, library.metrics(name), figure)
    return _csv(lines)


def _csv(lines: Iterator[Sequence[Any]]) -> Iterator[str]:
    """In pieces: a line at a time would be handed over a line at a time."""
    while some := list(islice(lines, 500)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(["" if value is None else value for value in line] for line in some)
        yield text.getvalue()


def _curve_lines(head: Head, rows: Rows, figure: str) -> Iterator[Sequence[Any]]:
    yield "policy", "t", "mean", "half"
    for policy in policies_of(head):
        runs = runs_of(head, rows, policy)
        if runs.rounds:
            mean, half = means(runs.line(figure))
            places = np.flatnonzero(np.isfinite(mean))
            for t, m, h in zip((places + 1).tolist(), plain(mean[places], None), plain(half[places], None), strict=True):
                yield policy, t, m, h


def _metric_lines(head: Head, rows: Rows) -> Iterator[Sequence[Any]]:
    yield "policy", "seed", "t", *MEASURED
    for run in head.every_run:
        reached = int(rows.reached([run])[0])
        for t, values in enumerate(plain(rows.of([run], reached)[0], None) if reached else (), 1):
            yield *run, t, *values


def _occupancy_lines(head: Head, rows: Rows) -> Iterator[Sequence[Any]]:
    yield "policy", "seed", "t", "client", "n"
    for run in head.every_run:
        reached = int(rows.reached([run])[0])
        for t, held in enumerate(rows.of([run], reached)[0].tolist() if reached else (), 1):
            for client, n in enumerate(held):
                yield *run, t, client, n
