"""Answers about runs: the list, settings and results, curves, buffers, and the gate
round by round.

Every answer is a data class. Its fields are the keys of the JSON object, and define its
schema in the OpenAPI document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.curves import (
    Heat,
    Numbers,
    PolicyCurves,
    heat,
    line,
    neighbours,
    policy_curves,
    rounded,
)
from headgate.analysis.limits import conclusion
from headgate.analysis.runs import Runs, runs_of
from headgate.analysis.summary import breakdown_note, summarise, summary_table
from headgate.analysis.tables import about
from headgate.errors import DataError, SettingError
from headgate.records.reader import WARN_AT, RunFolder
from headgate.records.tables import Rows
from headgate.web.runs import TOO_LARGE, Library, UnknownRun

State = Literal["running", "finished", "interrupted", "diverged"]
Order = Literal["asc", "desc"]
Sort = Literal["started", "name", "state", "progress", "spend", "accuracy"]
Metric = Literal[
    "spend", "debt", "admitted", "price", "n", "N", "n_eff", "bound", "train_loss",
    "spent", "accuracy", "test_loss", "best_accuracy",
]  # fmt: skip
GATE_COLUMNS = ("price", "spend", "spent", "debt", "admitted", "n", "N", "accuracy")
GATE_CLIENTS = 60
"""largest number of clients that the gate draws separately; with more clients,
neighbours are added up
"""
BY_HEAD = {
    "started": lambda head: head.started,
    "name": lambda head: head.name,
    "state": lambda head: head.status,
    "progress": lambda head: head.state["round"] / max(1, head.rounds),
}
BY_ROW = {"spend": "spend_share", "accuracy": "best_accuracy"}
UNREADABLE = 20
"""largest number of unreadable folders that the list names"""
Ints = NDArray[np.int64]


# the runs of a policy


def runs_in(library: Library, name: str, policy: str, by_client: bool = False) -> Runs:
    """Return the runs of a policy as they are now; `by_client` adds what clients
    hold.
    """
    run, held = library.open(name), library.clients(name) if by_client else None
    return runs_of(run, policy, library.metrics(name), held=held)


def policies_of(run: RunFolder, asked: Sequence[str] = ()) -> list[str]:
    """Return the policies in `asked`, or all policies of the run if it is empty."""
    for policy in asked:
        if policy not in run.policies:
            raise UnknownRun(
                f"policy {policy[:100]!r}: {run.name} has {', '.join(run.policies)}"
            )
    return (
        [policy for policy in run.policies if policy in asked]
        if asked
        else run.policies
    )


# the list


@dataclass(frozen=True)
class RunList:
    total: int
    matching: int
    offset: int
    limit: int
    rows: list[dict[str, Any]]
    """rows as `headgate runs --format json` prints them"""
    unreadable: dict[str, str]
    """the reason for each folder that cannot be read, by name"""


def run_list(
    library: Library, search: str, sort: Sort, order: Order, limit: int, offset: int
) -> RunList:
    """Return the runs that contain all words of `search`. Results are read only for
    rows that are shown, or to sort by them.
    """
    heads, falling, words = library.heads(), order == "desc", search.lower().split()
    texts = {
        name: " ".join([name, head.status, *head.policies]).lower()
        for name, head in heads.items()
    }
    found = [
        heads[name]
        for name in sorted(heads)
        if all(word in texts[name] for word in words)
    ]
    if sort in BY_HEAD:
        found.sort(key=BY_HEAD[sort], reverse=falling)
    else:
        results = {
            row["name"]: row[BY_ROW[sort]]
            for row in library.rows([head.name for head in found])
        }
        known = [head for head in found if results[head.name] is not None]
        without = [
            head for head in found if results[head.name] is None
        ]  # last in either order
        found = [
            *sorted(known, key=lambda head: results[head.name], reverse=falling),
            *without,
        ]
    rows = library.rows([head.name for head in found[offset : offset + limit]])
    return RunList(
        len(heads),
        len(found),
        offset,
        limit,
        rows,
        dict(islice(library.unreadable().items(), UNREADABLE)),
    )


# one run


@dataclass(frozen=True)
class RunProgress:
    """A run and its progress."""

    name: str
    state: State
    round: int
    rounds: int
    budget: float


@dataclass(frozen=True)
class RunDetail(RunProgress):
    data: str | None
    model: str | None
    sweep: str | None
    policies: list[str]
    seeds: list[int]
    buffers: list[int]
    memory: int
    target: float | None
    started: float
    elapsed: float | None
    note: str | None
    recorded: bool
    """whether the run recorded what each client held"""
    toml: str
    environment: dict[str, Any]
    conclusion: str
    warning: str
    summary: list[dict[str, Any]]
    """summaries of the policies, as in summary.json"""
    table: dict[str, list[Any]]
    """columns with titles and meanings, and rows of cells with their texts and whether
    each shows that a limit was broken
    """


@dataclass(frozen=True)
class RunCurves(RunProgress):
    policies: list[PolicyCurves]


def detail(library: Library, name: str) -> RunDetail:
    """Return the settings, the state and the results of a run."""
    run = library.open(name)
    found = [runs_in(library, name, policy, by_client=True) for policy in run.policies]
    summaries = [summarise(one, run.target) for one in found]
    return RunDetail(
        **about(run) | {"round": library.round(name)},
        recorded=any(one.held is not None for one in found),
        conclusion=conclusion(found),
        warning=" ".join(
            filter(
                None,
                [breakdown_note([run]), *(_money_warning(run, one) for one in found)],
            )
        ),
        summary=[each.to_dict() for each in summaries],
        table=summary_table(summaries, run.target),
    )


def _money_warning(run: RunFolder, one: Runs) -> str:
    """Return a warning if a run with real clients has spent most of its money,
    otherwise an empty text.
    """
    share = float(np.nansum(one.values["spend"])) / max(
        run.system.budget * run.rounds * len(run.seeds), 1e-100
    )
    return (
        f"{share:.0%} of the money is spent."
        if run.environment.get("executor") == "flower" and share >= WARN_AT
        else ""
    )


def curves(
    library: Library,
    name: str,
    since: int = 0,
    points: int = 400,
    policies: Sequence[str] = (),
) -> RunCurves:
    """Return means over seeds with intervals, for the rounds after `since`."""
    run = library.open(name)
    lines = [
        policy_curves(runs_in(library, name, policy), since, points)
        for policy in policies_of(run, policies)
    ]
    state: Any = run.status
    return RunCurves(
        name, state, library.round(name), run.rounds, run.system.budget, lines
    )


def clients(library: Library, name: str, policy: str | None, seed: int | None) -> Heat:
    """Return how full the buffers are in the run of a seed, or the mean over all runs
    of a policy if `seed` is None.
    """
    run, rows = library.open(name), library.clients(name)
    if rows is None:
        raise DataError(f"{name}: {TOO_LARGE}")
    policy = policies_of(run, [policy] if policy is not None else [])[0]
    keys = [(policy, each) for each in run.seeds if seed is None or each == seed]
    begun = [key for key, t in zip(keys, rows.reached(keys), strict=True) if t]
    if not begun:
        which = policy if seed is None else f"{policy}, seed {seed}"
        raise UnknownRun(f"clients of {name}, {which}: nothing was recorded")
    return heat(
        policy, rows.of(begun, int(rows.reached(begun).min())), run.system.buffer
    )


# the gate


@dataclass(frozen=True)
class GateTrace:
    """One run, round by round and client by client."""

    name: str | None
    policy: str
    seed: int
    policies: list[str]
    seeds: list[int]
    state: State
    rounds: int
    budget: float
    K: int | None
    first: int
    t: list[int]
    clients: list[str]
    buffers: list[int]
    price: Numbers
    spend: Numbers
    spent: Numbers
    debt: Numbers
    admitted: Numbers
    n: Numbers
    N: Numbers
    accuracy: Numbers
    held: list[list[int]] | None
    admitted_by_client: list[list[int]] | None
    recorded: bool
    """whether the run recorded what each client admitted"""


def trace(
    library: Library,
    name: str,
    policy: str | None,
    seed: int | None,
    first: int,
    limit: int,
) -> GateTrace:
    """Return one run of a policy. If `seed` is None, it is the first run that has
    begun.
    """
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
    settings = run.config.get("policies", {}).get(one.policy)
    K = settings.get("K") if isinstance(settings, dict) else None
    by_client = (
        _recorded(library.clients(name, column), key, rounds)
        for column in ("held", "admitted")
    )
    known: dict[str, Any] = {
        "name": name,
        "policies": run.policies,
        "state": library.head(name).status,
        "K": K if isinstance(K, int) else None,
    }
    return gate_trace(one, row, *by_client, first=first, limit=limit, **known)


def _recorded(rows: Rows | None, key: tuple[str, int], rounds: int) -> Ints | None:
    """Return an array of shape (rounds, clients), or None if not all rounds were
    recorded.
    """
    if rows is None or not rounds or int(rows.reached([key])[0]) < rounds:
        return None
    return np.asarray(rows.of([key], rounds)[0], dtype=np.int64)


def gate_trace(
    one: Runs,
    row: int,
    held: Ints | None,
    admitted: Ints | None,
    *,
    first: int,
    limit: int,
    **known: Any,
) -> GateTrace:
    """Return the rounds from `first` of a run or a rehearsal. `held` and `admitted`
    have the shape (rounds, clients).
    """
    starts, names = neighbours(len(one.buffers), GATE_CLIENTS)
    rounds = int(one.reached[row])
    rows = slice(first - 1, min(first - 1 + limit, rounds))
    held, admitted = (
        None if each is None else np.add.reduceat(each, starts, axis=1)[rows]
        for each in (held, admitted)
    )
    known |= {
        column: rounded(line(one, column)[row, rows], 17) for column in GATE_COLUMNS
    }
    return GateTrace(
        policy=one.policy,
        seed=one.seeds[row],
        seeds=list(one.seeds),
        rounds=rounds,
        budget=one.budget,
        first=first,
        t=list(range(first, first + len(known["price"]))),
        clients=names,
        buffers=np.add.reduceat(one.buffers, starts).tolist(),
        held=None if held is None else held.tolist(),
        admitted_by_client=None if admitted is None else admitted.tolist(),
        recorded=admitted is not None,
        **known,
    )
