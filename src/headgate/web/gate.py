"""One run round by round, for the picture of the gate: prices, debt, and what every client admits and holds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SettingError
from headgate.web.answers import plain, policies_of, runs_of
from headgate.web.runs import Library, UnknownRun

GROUPS = 60
"""clients that are drawn one by one; more are put together with their neighbours"""
Ints = NDArray[np.int64]


def trace(library: Library, name: str, policy: str | None, seed: int | None, first: int, limit: int) -> dict[str, Any]:
    head, run, occupancy = library.head(name), library.open(name), library.occupancy_if_small(name)
    policies = policies_of(head, [] if policy is None else [policy])
    seeds = head.run.state["seeds"]
    if seed is not None and seed not in seeds:
        raise UnknownRun(f"seed = {seed}: {name} has {', '.join(map(str, seeds))}")
    metrics = library.metrics(name)
    candidates = [(policies[0], each) for each in (seeds if seed is None else [seed])]
    key = next((each for each, t in zip(candidates, metrics.reached(candidates), strict=True) if t), candidates[0])
    one = runs_of(head, metrics, key[0])
    row = one.seeds.index(key[1]) if key[1] in one.seeds else None
    rounds = 0 if row is None else int(one.reached[row])
    if rounds and first > rounds:
        raise SettingError(f"first = {first}: the run has come to round {rounds}")
    columns = {
        column: np.zeros(0) if row is None else one.line(column)[row, :rounds]
        for column in ("price", "spend", "spent", "debt", "admitted", "n", "N", "accuracy")
    }
    recorded = rounds > 0 and int(occupancy.reached([key])[0]) >= rounds
    held = occupancy.of([key], rounds)[0].astype(np.int64) if recorded else None
    told = whole_trace(columns, run.buffers, held)
    return {
        "name": name,
        "policy": key[0],
        "seed": key[1],
        "policies": policies_of(head),
        "seeds": seeds,
        "state": head.state,
        "rounds": rounds,
        "budget": run.budget,
        **_cut(told, first, limit),
    }


def whole_trace(
    columns: dict[str, NDArray[Any]], buffers: Sequence[int], held: Ints | None, admitted: Ints | None = None
) -> dict[str, Any]:
    """`held` and `admitted` are (rounds, clients); what clients admitted is worked out where it is not known."""
    K, exact = None, True
    if held is not None and admitted is None:
        total = np.nan_to_num(columns["admitted"]).astype(np.int64)
        K = steps_kept(total, held.sum(axis=1))
        admitted = admitted_under(K, held) if K is not None else shared_out(total, held, np.asarray(buffers, dtype=np.int64))
        exact = K is not None
    dropped = held is not None and K is not None and len(held) > K  # before anything has left, it cannot be told
    starts = np.unique(np.linspace(0, len(buffers), min(len(buffers), GROUPS), endpoint=False).astype(np.int64))
    ends = [*starts[1:].tolist(), len(buffers)]
    return {
        "K": K if dropped else None,
        "clients": [str(a) if a == b - 1 else f"{a}–{b - 1}" for a, b in zip(starts.tolist(), ends, strict=True)],
        "buffers": np.add.reduceat(np.asarray(buffers, dtype=np.int64), starts).tolist(),
        **columns,
        "held": None if held is None else np.add.reduceat(held, starts, axis=1),
        "admitted_by_client": None if admitted is None else np.add.reduceat(admitted, starts, axis=1),
        "exact": exact,
    }


def _cut(told: dict[str, Any], first: int, limit: int) -> dict[str, Any]:
    rows = slice(first - 1, first - 1 + limit)
    shown = {key: plain(value[rows], None) if isinstance(value, np.ndarray) else value for key, value in told.items()}
    return {"first": first, "t": list(range(first, first + len(shown["price"]))), **shown}


def rehearsed_trace(columns: dict[str, NDArray[Any]], buffers: Sequence[int], held: Ints, admitted: Ints) -> dict[str, Any]:
    """The same of a rehearsal."""
    return _cut(whole_trace(columns, buffers, held, admitted), 1, len(held))


def steps_kept(admitted: Ints, n: Ints, most: int = 512) -> int | None:
    """The K for which n(t) = Λ(t) + … + Λ(t − K + 1) in all rounds; None where samples leave in another way."""
    total = np.concatenate([[0], np.cumsum(admitted)])
    for K in range(1, min(most, len(n)) + 1):
        if np.array_equal(total[1:] - total[np.maximum(np.arange(1, len(n) + 1) - K, 0)], n):
            return K
    return None


def admitted_under(K: int, held: Ints) -> Ints:
    """λ_m(t) = n_m(t) − n_m(t − 1) + λ_m(t − K) under K-step retention."""
    admitted = np.diff(held, axis=0, prepend=0)
    for t in range(K, len(held)):
        admitted[t] += admitted[t - K]
    return admitted


def shared_out(total: Ints, held: Ints, buffers: Ints) -> Ints:
    """A division of Λ(t) that fits what clients hold: at least the growth, at most all of it, the rest by buffers."""
    least = np.maximum(np.diff(held, axis=0, prepend=0), 0)
    admitted = least.copy()
    for t, left in enumerate(total - least.sum(axis=1)):
        while left > 0:
            room = held[t] - admitted[t]
            if not room.any():  # more was admitted than is held: it came and went within the round
                break
            share = np.where(room > 0, buffers, 0)
            more = np.minimum(room, np.maximum(left * share // max(1, share.sum()), 0))
            if not more.any():
                more = np.zeros_like(room)
                more[np.argmax(np.where(room > 0, buffers, -1))] = 1
            admitted[t] += more
            left -= int(more.sum())
    return admitted
