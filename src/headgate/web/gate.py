"""One run round by round, for the picture of the gate: prices, debt, and what every client admits and holds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SettingError
from headgate.records.reader import RunFolder
from headgate.records.rows import Rows
from headgate.web.answers import line, plain, policies_of, runs_in
from headgate.web.runs import Library, UnknownRun

GROUPS = 60
"""clients that are drawn one by one; more are put together with their neighbours"""
COLUMNS = ("price", "spend", "spent", "debt", "admitted", "n", "N", "accuracy")
Ints = NDArray[np.int64]


def trace(library: Library, name: str, policy: str | None, seed: int | None, first: int, limit: int) -> dict[str, Any]:
    run = library.open(name)
    policies = policies_of(run, [] if policy is None else [policy])
    if seed is not None and seed not in run.seeds:
        raise UnknownRun(f"seed = {seed}: {name} has {', '.join(map(str, run.seeds))}")
    one = runs_in(library, name, policies[0])
    places = [place for place, each in enumerate(one.seeds) if seed in (None, each)]
    row = next((place for place in places if one.reached[place]), places[0])
    rounds, key = int(one.reached[row]), (one.policy, one.seeds[row])
    if rounds and first > rounds:
        raise SettingError(f"first = {first}: the run has come to round {rounds}")
    columns = {column: line(one, column)[row, :rounds] for column in COLUMNS}
    held, admitted = (_recorded(library.clients(name, column), key, rounds) for column in ("held", "admitted"))
    return {
        "name": name,
        "policy": one.policy,
        "seed": key[1],
        "policies": run.policies,
        "seeds": run.seeds,
        "state": library.head(name).state,
        "rounds": rounds,
        "budget": run.budget,
        **told(columns, run.buffers, held, admitted, first, limit, _kept_for(run, one.policy)),
    }


def _recorded(rows: Rows | None, key: tuple[str, int], rounds: int) -> Ints | None:
    """(rounds, clients); None where not all rounds were recorded."""
    if rows is None or not rounds or int(rows.reached([key])[0]) < rounds:
        return None
    return np.asarray(rows.of([key], rounds)[0], dtype=np.int64)


def _kept_for(run: RunFolder, policy: str) -> int | None:
    """K, where the settings say that samples are kept for so many rounds."""
    settings = run.config.get("policies", {}).get(policy)
    K = settings.get("K") if isinstance(settings, dict) else None
    return K if isinstance(K, int) else None


def told(
    columns: dict[str, NDArray[Any]],
    buffers: Sequence[int],
    held: Ints | None,
    admitted: Ints | None,
    first: int,
    limit: int,
    K: int | None,
) -> dict[str, Any]:
    """Rounds from `first` on of a run or of a rehearsal; `held` and `admitted` are (rounds, clients), None if not recorded."""
    starts = np.unique(np.linspace(0, len(buffers), min(len(buffers), GROUPS), endpoint=False).astype(np.int64))
    ends = [*starts[1:].tolist(), len(buffers)]
    rows = slice(first - 1, first - 1 + limit)
    held, admitted = (None if each is None else np.add.reduceat(each, starts, axis=1)[rows] for each in (held, admitted))
    return {
        "first": first,
        "t": list(range(first, first + len(columns["price"][rows]))),
        "K": K,
        "clients": [str(a) if a == b - 1 else f"{a}–{b - 1}" for a, b in zip(starts.tolist(), ends, strict=True)],
        "buffers": np.add.reduceat(np.asarray(buffers, dtype=np.int64), starts).tolist(),
        **{name: plain(values[rows], None) for name, values in columns.items()},
        "held": None if held is None else held.tolist(),
        "admitted_by_client": None if admitted is None else admitted.tolist(),
        "recorded": admitted is not None,
    }


def rehearsed_trace(columns: dict[str, NDArray[Any]], buffers: Sequence[int], held: Ints, admitted: Ints) -> dict[str, Any]:
    """All of a rehearsal."""
    return told(columns, buffers, held, admitted, 1, len(held), None)
