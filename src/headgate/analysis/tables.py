"""Runs as tables for the terminal and for notebooks, and as rows of a list."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from headgate.analysis.accounts import ledger_facts
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
HEAD = ("name", "sweep", "rounds", "policies", "started")
"""what a run's row and its page say first"""
LISTED = ("test_accuracy", "spend", "excess")
"""the metrics columns that a line of the list needs"""
SPARK = 40
"""the most points of the small accuracy curve in a line of the list"""


def run_tables(
    run: RunFolder,
    found: Sequence[Runs],
    wide: bool = False,
) -> list[RenderableType]:
    """Return the final table of a run, notes on failed runs, the conclusion, and what
    its ledger says."""
    rounds, seeds = counted(run.rounds, "round"), counted(len(run.seeds), "seed")
    summaries = [summarise(one, run.target) for one in found]
    shown = () if wide else NARROW
    title = f"{run.name}: {rounds}, {seeds}"
    table = policy_table(title, summaries, run.target, shown)
    facts = ledger_facts(run)
    notes = (breakdown_note([run]), conclusion(found), facts.sentence, facts.dry)
    return [table, *filter(None, notes)]


def runs_tables(runs: Sequence[RunFolder], wide: bool = False) -> list[RenderableType]:
    """Return the tables of all runs.

    For several budgets and not `wide`, it is what policies need for one accuracy.
    """
    found = {run.path: read_runs([run]) for run in runs}
    every = [one for own in found.values() for one in own]
    if several_budgets(every) and not wide:
        return comparison_tables(every, rows_of(every))
    return [thing for run in runs for thing in run_tables(run, found[run.path], wide)]


def dataset_tables(
    found: Sequence["DatasetEntry"], folder: Path
) -> list[RenderableType]:
    """Return a table of the data sets, and where they are or why they are missing."""
    columns = ("name", "format", "where, or why not")
    lines = [
        [each.name, each.format or DASH, each.problem or str(each.path or "embedded")]
        for each in found
    ]
    return [StackedTable(f"data sets in {folder}", columns, lines)]


# lists of runs


def list_rows(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """Return a line for each run; that of an unreadable run states the reason."""
    rows = []
    for run in runs:
        try:
            follower = run.follower("metrics", *LISTED, most_bytes=TABLE)
            rows.append(run_row(run, follower.read_new()))
        except DataError as error:
            rows.append(run_row(run, problem=str(error)))
    return rows


def run_row(
    run: RunFolder,
    metrics: Rows | None = None,
    problem: str | None = None,
) -> dict[str, Any]:
    """Return how far a run is, what it spent and which policy is best.

    Parameters
    ----------
    run : RunFolder
        The run, without settings if they cannot be read.
    metrics : Rows, optional
        The columns `LISTED` of its metrics; None if they cannot be read.
    problem : str, optional
        Why the run cannot be read.

    Returns
    -------
    dict
        The row.
    """
    found = []
    if metrics is not None:
        found = [runs_of(run, policy, metrics, LISTED) for policy in run.policies]
    return {
        **{key: getattr(run, key) for key in HEAD},
        "data": run.kind("data"),
        "model": run.kind("model"),
        "state": run.status,
        "round": _round(run, found),
        "seeds": len(run.seeds),
        "runs": len(run.runs),
        "lost": len(run.lost),
        **_results(run, found),
        "problem": problem,
    }


def _round(run: RunFolder, found: Sequence[Runs]) -> int:
    """Return the mean number of rounds that the runs have reached."""
    if run.state["state"] == "finished":
        return run.rounds
    if not found:
        return int(run.state["round"])
    return sum(int(one.reached.sum()) for one in found) // max(1, len(run.runs))


def _results(run: RunFolder, found: Sequence[Runs]) -> dict[str, Any]:
    """Return the money of each policy, and the best one within the limits.

    If no policy kept its limits, `spend_policy` is the one that spent the most.
    """
    played = [one for one in found if one.complete]
    # references spend the most, so they are left out if there are other policies
    ranked = [one for one in played if not one.reference] or played
    spend = {one.policy: float(one.spend.mean()) for one in played}
    budget = run.system.budget if run.config else 0.0
    shares = {name: money / budget for name, money in spend.items() if budget}

    row: dict[str, Any] = {
        "spend_per_round": spend,
        "spend_shares": shares,
        "spend_policy": None,
        "spend_share": None,
        "broken": "",
        "over_budget": [],
        "best_policy": None,
        "best_accuracy": None,
        "spark": [],
    }
    best = best_within_limits(played)
    if best is not None:
        row["best_policy"] = best.policy
        row["best_accuracy"] = float(best.best.mean())
        row["spark"] = _spark(best)
    if ranked:
        shown = best or max(ranked, key=lambda one: spend[one.policy])
        row["spend_policy"] = shown.policy
        row["spend_share"] = shares.get(shown.policy)
        row["broken"] = shown.broken
        over = [one.policy for one in ranked if one.runs_over_budget]
        row["over_budget"] = [policy for policy in over if policy != shown.policy]
    return row


def _spark(one: Runs) -> list[float]:
    """Return the points of the small accuracy curve."""
    curve = one.curve.mean(axis=0)[thinned(one.t.size, SPARK)]
    return [round(value, 5) for value in curve.tolist() if math.isfinite(value)]


def list_tables(rows: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Return a table with one line for each run."""
    columns = ["run", "state", "data", "best within limits", "spent"]
    lines = [
        [row["name"], _state(row), row["data"] or DASH, _best(row), _spent(row)]
        for row in rows
    ]
    return [StackedTable("", columns, lines)]


def _state(row: dict[str, Any]) -> str:
    """Return the state of a run, its progress, and what went wrong."""
    text = str(row["state"])
    if text != "finished":
        text += f" {row['round']}/{row['rounds']}"
    if row["lost"]:
        text += f", {row['lost']} lost"
    if row["problem"]:
        text += ", unreadable"
    return text


def _best(row: dict[str, Any]) -> str:
    if row["best_policy"] is None:
        return DASH
    return f"{row['best_policy']} {percent(row['best_accuracy'], 1)}"


def _spent(row: dict[str, Any]) -> str:
    share = percent(row["spend_share"])
    if not row["broken"]:
        return share
    return f"{share}, {row['spend_policy']} broke {row['broken']}"


def about(run: RunFolder) -> dict[str, Any]:
    """Return the state, the settings and the environment of a run."""
    own = (*HEAD, "seeds", "target", "environment")
    return {
        **{key: getattr(run, key) for key in own},
        "data": run.kind("data"),
        "model": run.kind("model"),
        "state": run.status,
        "round": run.state["round"],
        "budget": run.system.budget,
        "buffers": run.system.buffer.tolist(),
        "memory": run.system.all_places,
        "elapsed": run.state.get("elapsed_s"),
        "note": run.state.get("note"),
        "toml": read_text(run.path / CONFIG),
    }
