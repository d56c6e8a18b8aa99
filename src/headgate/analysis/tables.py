"""Runs as tables for the terminal and for notebooks, and as lines of a list, which the
page shows too.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from headgate.analysis.comparison import comparison_tables, several_budgets
from headgate.analysis.comparison import rows as rows_of
from headgate.analysis.curves import thinned
from headgate.analysis.display import StackedTable
from headgate.analysis.formatting import DASH, counted, percent
from headgate.analysis.limits import best_within_limits, conclusion
from headgate.analysis.runs import Runs, read_runs, runs_of
from headgate.analysis.summary import breakdown_note, policy_table, summarise
from headgate.errors import DataError
from headgate.limits import TABLE
from headgate.reading import read_text
from headgate.records.reader import CONFIG, RunFolder
from headgate.records.tables import Rows

if TYPE_CHECKING:
    from headgate.learning.datasets import DatasetEntry

NARROW = ("Best", "Last", "Daily", "Spend a round", "Limits")
"""the columns of a finished run's table, unless all are requested"""
LISTED = ("test_accuracy", "spend", "excess")
"""the metrics columns that a line of the list needs"""
SPARK = 40
"""the most points of the small accuracy curve in a line of the list"""


def run_tables(
    run: RunFolder, found: Sequence[Runs], wide: bool = False
) -> list[RenderableType]:
    """Return the final table of a run, with cost and memory beside accuracy, then notes
    on failed runs and the conclusion.
    """
    title = (
        f"{run.name}: {counted(run.rounds, 'round')}, {counted(len(run.seeds), 'seed')}"
    )
    table = policy_table(
        title,
        [summarise(one, run.target) for one in found],
        run.target,
        () if wide else NARROW,
    )
    return [
        table,
        *(note for note in (breakdown_note([run]), conclusion(found)) if note),
    ]


def runs_tables(runs: Sequence[RunFolder], wide: bool = False) -> list[RenderableType]:
    """Return the tables of all runs; for several budgets and not `wide`, what each
    policy needs for the same accuracy.
    """
    found = {run.path: read_runs([run]) for run in runs}
    every = [one for own in found.values() for one in own]
    if several_budgets(every) and not wide:
        return comparison_tables(every, rows_of(every))
    return [thing for run in runs for thing in run_tables(run, found[run.path], wide)]


def dataset_tables(
    found: Sequence["DatasetEntry"], folder: Path
) -> list[RenderableType]:
    lines = [
        [each.name, each.format or DASH, each.problem or str(each.path or "embedded")]
        for each in found
    ]
    return [
        StackedTable(
            f"data sets in {folder}", ("name", "format", "where, or why not"), lines
        )
    ]


# lists of runs


def list_rows(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """Return a line for each run, in the given order; the line of an unreadable run
    states the reason.
    """
    rows = []
    for run in runs:
        try:
            rows.append(
                run_row(
                    run, run.follower("metrics", *LISTED, most_bytes=TABLE).read_new()
                )
            )
        except DataError as error:
            rows.append(run_row(run, problem=str(error)))
    return rows


def run_row(
    run: RunFolder, metrics: Rows | None = None, problem: str | None = None
) -> dict[str, Any]:
    """Return how far a run is, what it spent and which policy is best within its
    limits.

    `metrics` has the columns `LISTED`; it is None if the run cannot be read, and
    `problem` is the reason.
    """
    found = (
        [runs_of(run, policy, metrics, LISTED) for policy in run.policies]
        if metrics is not None
        else []
    )
    played = [one for one in found if one.complete]
    spend = {one.policy: float(one.spend.mean()) for one in played}
    # references spend the most, so they are left out if there are other policies
    ranked = [one for one in played if not one.reference] or played
    best = best_within_limits(played)
    shown = best or max(ranked, key=lambda one: spend[one.policy], default=None)
    done = sum(int(one.reached.sum()) for one in found) // max(1, len(run.runs))
    curve = (
        []
        if best is None
        else best.curve.mean(axis=0)[thinned(best.t.size, SPARK)].tolist()
    )
    budget = run.system.budget if run.config else None
    return {
        **{
            key: getattr(run, key)
            for key in ("name", "sweep", "rounds", "policies", "started")
        },
        **{key: run.kind(key) for key in ("data", "model")},
        "state": run.status,
        "round": (
            run.rounds
            if run.state["state"] == "finished"
            else done
            if found
            else run.state["round"]
        ),
        "seeds": len(run.seeds),
        "runs": len(run.runs),
        "lost": len(run.lost),
        "spend_per_round": spend,
        "spend_shares": (
            {name: money / budget for name, money in spend.items()} if budget else {}
        ),
        "spend_policy": shown.policy if shown else None,
        "spend_share": spend[shown.policy] / budget if budget and shown else None,
        "broken": shown.broken if shown else "",
        "over_budget": [
            one.policy for one in ranked if one is not shown and one.runs_over_budget
        ],
        "best_policy": best.policy if best else None,
        "best_accuracy": float(best.best.mean()) if best else None,
        "spark": [round(value, 5) for value in curve if math.isfinite(value)],
        "problem": problem,
    }


def list_tables(rows: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Return a table with one line for each run."""
    lines = [
        [
            row["name"],
            _state(row),
            row["data"] or DASH,
            (
                f"{row['best_policy']} {percent(row['best_accuracy'], 1)}"
                if row["best_policy"]
                else DASH
            ),
            percent(row["spend_share"])
            + (
                f", {row['spend_policy']} broke {row['broken']}"
                if row["broken"]
                else ""
            ),
        ]
        for row in rows
    ]
    return [
        StackedTable("", ["run", "state", "data", "best within limits", "spent"], lines)
    ]


def _state(row: dict[str, Any]) -> str:
    """Return the state of a run as text, with its progress if it is not finished, and
    what went wrong.
    """
    state = (
        row["state"]
        if row["state"] == "finished"
        else f"{row['state']} {row['round']}/{row['rounds']}"
    )
    return (
        state
        + (f", {row['lost']} lost" if row["lost"] else "")
        + (", unreadable" if row["problem"] else "")
    )


def about(run: RunFolder) -> dict[str, Any]:
    """Return the state, settings and environment of a run, as the page and the report
    show them.
    """
    own = (
        "name",
        "sweep",
        "rounds",
        "policies",
        "started",
        "seeds",
        "target",
        "environment",
    )
    return {
        **{key: getattr(run, key) for key in own},
        **{key: run.kind(key) for key in ("data", "model")},
        "state": run.status,
        "round": run.state["round"],
        "budget": run.system.budget,
        "buffers": run.system.buffer.tolist(),
        "memory": run.system.all_places,
        "elapsed": run.state.get("elapsed_s"),
        "note": run.state.get("note"),
        "toml": read_text(run.path / CONFIG),
    }
