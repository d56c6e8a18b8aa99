"""Answers about runs: the list, settings and results, curves and buffers.

Every answer is a data class. Its fields are the keys of the JSON object, and define its
schema in the OpenAPI document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from headgate.analysis.accounts import ledger_facts
from headgate.analysis.curves import Heat, PolicyCurves, heat, policy_curves
from headgate.analysis.limits import conclusion
from headgate.analysis.runs import Runs, runs_of
from headgate.analysis.summary import breakdown_note, summarise, summary_table
from headgate.analysis.tables import about
from headgate.errors import DataError
from headgate.records.reader import WARN_AT, RunFolder
from headgate.web.runs import TOO_LARGE, Library, UnknownRun

State = Literal["running", "finished", "interrupted", "diverged"]
Order = Literal["asc", "desc"]
Sort = Literal["started", "name", "state", "progress", "spend", "accuracy"]
Metric = Literal[
    "spend", "debt", "admitted", "price", "n", "N", "n_eff", "bound", "train_loss",
    "spent", "accuracy", "test_loss", "best_accuracy",
]  # fmt: skip
BY_HEAD = {
    "started": lambda head: head.started,
    "name": lambda head: head.name,
    "state": lambda head: head.status,
    "progress": lambda head: head.state["round"] / max(1, head.rounds),
}
BY_ROW = {"spend": "spend_share", "accuracy": "best_accuracy"}
UNREADABLE = 20
"""largest number of unreadable folders that the list names"""


# the runs of a policy


def runs_in(
    library: Library,
    name: str,
    policy: str,
    by_client: bool = False,
) -> Runs:
    """Return the runs of a policy; `by_client` adds what each client holds."""
    run = library.open(name)
    held = library.clients(name) if by_client else None
    return runs_of(run, policy, library.metrics(name), held=held)


def policies_of(run: RunFolder, asked: Sequence[str] = ()) -> list[str]:
    """Return the policies in `asked`, or all policies of the run if it is empty."""
    for policy in asked:
        if policy not in run.policies:
            raise UnknownRun(
                f"policy {policy[:100]!r}: {run.name} has {', '.join(run.policies)}"
            )
    if not asked:
        return run.policies
    return [policy for policy in run.policies if policy in asked]


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
    library: Library,
    search: str,
    sort: Sort,
    order: Order,
    limit: int,
    offset: int,
) -> RunList:
    """Return the runs that contain all words of `search`.

    Results are read only for rows that are shown, or to sort by them.
    """
    heads = library.heads()
    words = search.lower().split()
    found = [heads[name] for name in sorted(heads) if _contains(heads[name], words)]
    found = _sorted(library, found, sort, order == "desc")
    shown = [head.name for head in found[offset : offset + limit]]
    return RunList(
        total=len(heads),
        matching=len(found),
        offset=offset,
        limit=limit,
        rows=library.rows(shown),
        unreadable=dict(islice(library.unreadable().items(), UNREADABLE)),
    )


def _contains(head: RunFolder, words: Sequence[str]) -> bool:
    text = " ".join([head.name, head.status, *head.policies]).lower()
    return all(word in text for word in words)


def _sorted(
    library: Library,
    found: Sequence[RunFolder],
    sort: Sort,
    falling: bool,
) -> list[RunFolder]:
    """Return the runs sorted; those without a result to sort by come last."""
    if sort in BY_HEAD:
        values = {head.name: BY_HEAD[sort](head) for head in found}
    else:
        rows = library.rows([head.name for head in found])
        values = {row["name"]: row[BY_ROW[sort]] for row in rows}
    known = [head for head in found if values[head.name] is not None]
    known.sort(
        key=lambda head: values[head.name],
        reverse=falling,
    )
    return known + [head for head in found if values[head.name] is None]


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
    facts = ledger_facts(run)
    left = [_money_warning(run, one) for one in found]
    warnings = [breakdown_note([run]), facts.dry, *left]
    return RunDetail(
        **about(run) | {"round": library.round(name)},
        recorded=any(one.held is not None for one in found),
        conclusion=" ".join(filter(None, (facts.sentence, conclusion(found)))),
        warning=" ".join(filter(None, warnings)),
        summary=[each.to_dict() for each in summaries],
        table=summary_table(summaries, run.target),
    )


def _money_warning(run: RunFolder, one: Runs) -> str:
    """Return a warning if a run with real clients that goes on has spent most of its
    money."""
    money = run.system.budget * run.rounds * len(run.seeds)
    share = float(np.nansum(one.values["spend"])) / max(money, 1e-100)
    live = run.environment.get("executor") == "flower" and not run.finished
    if not live or share < WARN_AT:
        return ""
    return f"{share:.0%} of the money is spent."


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


def clients(
    library: Library,
    name: str,
    policy: str | None,
    seed: int | None,
) -> Heat:
    """Return how full the buffers are in the run of a seed.

    If `seed` is None, it is the mean over all runs of the policy.
    """
    run, rows = library.open(name), library.clients(name)
    if rows is None:
        raise DataError(f"{name}: {TOO_LARGE}")

    policy = policies_of(run, [] if policy is None else [policy])[0]
    keys = [(policy, each) for each in run.seeds if seed in (None, each)]
    begun = [key for key, t in zip(keys, rows.reached(keys), strict=True) if t]
    if not begun:
        which = policy if seed is None else f"{policy}, seed {seed}"
        raise UnknownRun(f"clients of {name}, {which}: nothing was recorded")

    held = rows.of(begun, int(rows.reached(begun).min()))
    return heat(policy, held, run.system.buffer)
