"""What the page is told of one run: settings and results, curves, what clients hold, tables."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.curves import heat, thinned
from headgate.analysis.intervals import Floats, means
from headgate.analysis.limits import conclusion
from headgate.analysis.runs import Runs, runs_of
from headgate.analysis.summary import PolicySummary, breakdown_note, columns, summarise, told
from headgate.errors import DataError
from headgate.escaping import cell
from headgate.records.reader import RunFolder
from headgate.web.runs import Library, UnknownRun

SERIES = ("spend", "debt", "admitted", "price", "n", "N", "n_eff", "bound", "train_loss")
"""columns of which every round is known"""
JUDGED = {"accuracy": "test_accuracy", "test_loss": "test_loss"}
"""names on the page of what is known of rounds that were evaluated, and the columns they are"""
LINES = (*SERIES, "spent", *JUDGED, "best_accuracy")
TABLES = (*LINES, "clients", "metrics")


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


def with_interval(values: Floats) -> dict[str, Any]:
    """Mean over runs and half its interval, (runs, points); no half at all where there is one run."""
    if not values.shape[1]:
        return {"mean": [], "half": []}
    mean, half = means(values)
    return {"mean": plain(mean), "half": plain(half)}


# the runs of a policy


def runs_in(library: Library, name: str, policy: str, by_client: bool = False) -> Runs:
    """As they are now; with what clients hold where that is asked for."""
    run, held = library.open(name), library.clients(name) if by_client else None
    return runs_of(run, policy, library.metrics(name), held=held)


def line(one: Runs, name: str) -> Floats:
    """By its name on the page, (seeds, rounds up to the farthest)."""
    if name == "spent":
        return np.cumsum(one.values["spend"], axis=1)
    return one.best_so_far if name == "best_accuracy" else one.values[JUDGED.get(name, name)]


def policies_of(run: RunFolder, asked: Sequence[str] = ()) -> list[str]:
    for policy in asked:
        if policy not in run.policies:
            raise UnknownRun(f"policy {policy[:100]!r}: {run.name} has {', '.join(run.policies)}")
    return [policy for policy in run.policies if policy in asked] if asked else run.policies


# answers


def _standing(library: Library, name: str) -> dict[str, Any]:
    """Which run, and how far it has come."""
    progress = library.progress(name)
    return {"name": name, "state": progress.state, "round": progress.round, "rounds": progress.rounds}


def detail(library: Library, name: str) -> dict[str, Any]:
    run = library.open(name)
    found = [runs_in(library, name, policy, by_client=True) for policy in run.policies]
    summaries = [summarise(one, run.target) for one in found]
    same = ("sweep", "policies", "seeds", "budget", "buffers", "target", "started", "environment")
    return {
        **_standing(library, name),
        **{key: getattr(run, key) for key in same},
        **{key: run.kind(key) for key in ("data", "model")},
        "diverged": run.state["diverged"],
        "guessing": run.state.get("guessing", []),
        "memory": sum(run.buffers),
        "clients": len(run.buffers),
        "elapsed": run.state.get("elapsed_s"),
        "note": run.state.get("note"),
        "recorded": any(one.held is not None for one in found),
        "settings": run.config,
        "toml": run.config_text(),
        "conclusion": conclusion(found),
        "warning": breakdown_note([run]),
        "summary": [told(each) for each in summaries],
        "table": _table(summaries, run.target),
    }


def _table(summaries: Sequence[PolicySummary], target: float | None) -> dict[str, Any]:
    """What the closing table and the report say, word for word."""
    shown = columns(target, summaries)
    return {
        "columns": [{"title": column.title, "meaning": column.meaning} for column in shown],
        "rows": [[{"text": column.text(each), "broken": column.broken(each)} for column in shown] for each in summaries],
    }


def curves(library: Library, name: str, since: int = 0, points: int = 400, policies: Sequence[str] = ()) -> dict[str, Any]:
    run = library.open(name)
    return {
        **_standing(library, name),
        "budget": run.budget,
        "memory": sum(run.buffers),
        "since": since,
        "policies": [_curves(runs_in(library, name, policy), since, points) for policy in policies_of(run, policies)],
    }


def _curves(one: Runs, since: int, points: int) -> dict[str, Any]:
    first = min(since, one.farthest)
    places = first + thinned(one.farthest - first, points)
    judged = first + np.flatnonzero(np.isfinite(one.values["test_accuracy"][:, first:]).any(axis=0))
    judged = judged[thinned(judged.size, points)]
    return {
        "policy": one.policy,
        "runs": int(one.begun.sum()),
        "rounds": one.farthest,
        "complete": one.complete,
        "t": (places + 1).tolist(),
        "series": {name: with_interval(line(one, name)[:, places]) for name in (*SERIES, "spent")},
        "evaluated": (judged + 1).tolist(),
        "judged": {name: with_interval(line(one, name)[:, judged]) for name in (*JUDGED, "best_accuracy")},
    }


def clients(library: Library, name: str, policy: str | None, seed: int | None) -> dict[str, Any]:
    """How full the buffers are, of one run or in the mean over the runs of a policy."""
    run, rows = library.open(name), library.clients(name)
    if rows is None:
        raise DataError(f"{name}: what clients hold is more than the page can hold in memory")
    policy = policies_of(run, [policy] if policy is not None else [])[0]
    keys = [(policy, each) for each in run.seeds if seed is None or each == seed]
    begun = [key for key, t in zip(keys, rows.reached(keys), strict=True) if t]
    if not begun:
        which = policy if seed is None else f"{policy}, seed {seed}"
        raise UnknownRun(f"clients of {name}, {which}: nothing was recorded")
    drawn = heat(0, rows.of(begun, int(rows.reached(begun).min())), np.array(run.buffers))
    return {
        "name": name,
        "policy": policy,
        "seed": seed,
        "clients": drawn.clients,
        "buffers": plain(drawn.buffers),
        "t": drawn.rounds.tolist(),
        "last": drawn.last,
        "ratio": plain(drawn.ratio, 4),
        "held": plain(drawn.ratio * drawn.buffers[:, None], 4),
    }


def table(library: Library, name: str, figure: str) -> Iterator[str]:
    """A figure's numbers as CSV, all rounds."""
    run = library.open(name)
    if figure == "clients":
        lines = _client_lines(library, run)
    elif figure == "metrics":
        lines = _metric_lines(library, run)
    else:
        lines = _curve_lines([runs_in(library, name, policy) for policy in run.policies], figure)
    return _csv(lines)


def _csv(lines: Iterator[Sequence[Any]]) -> Iterator[str]:
    """In pieces: a line at a time would be handed over a line at a time."""
    while some := list(islice(lines, 500)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(map(_cells, some))
        yield text.getvalue()


def _cells(line: Sequence[Any]) -> list[Any]:
    return ["" if value is None else cell(value) if isinstance(value, str) else value for value in line]


def _curve_lines(found: Sequence[Runs], figure: str) -> Iterator[Sequence[Any]]:
    yield "policy", "t", "mean", "half"
    for one in found:
        if one.farthest:
            mean, half = means(line(one, figure))
            places = np.flatnonzero(np.isfinite(mean))
            for t, m, h in zip((places + 1).tolist(), plain(mean[places], None), plain(half[places], None), strict=True):
                yield one.policy, t, m, h


def _metric_lines(library: Library, run: RunFolder) -> Iterator[Sequence[Any]]:
    rows = library.metrics(run.name)
    yield "policy", "seed", "t", *run.measured
    for key in run.runs:
        reached = int(rows.reached([key])[0])
        for t, values in enumerate(plain(rows.of([key], reached)[0], None) if reached else (), 1):
            yield *key, t, *values


def _client_lines(library: Library, run: RunFolder) -> Iterator[Sequence[Any]]:
    """What was not recorded stays empty."""
    names = ("admitted", "held", "paid")
    tables = [library.clients(run.name, name) for name in names]
    if any(each is None for each in tables):
        raise DataError(f"{run.name}: what clients hold is more than the page can hold in memory")
    return _each_client(run, [each for each in tables if each is not None], names)


def _each_client(run: RunFolder, tables: Sequence[Any], names: Sequence[str]) -> Iterator[Sequence[Any]]:
    yield "policy", "seed", "t", "client", *names
    for key in run.runs:
        there = [int(each.reached([key])[0]) for each in tables]
        values = [each.of([key], t)[0] if t else None for each, t in zip(tables, there, strict=True)]
        for t in range(max(there)):
            for client in range(len(run.buffers)):
                told = (None if own is None or t >= len(own) else own[t, client].item() for own in values)
                yield *key, t + 1, client, *told
