"""Results as tables for the terminal."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headgate.analysis.rehearsal import Summary
from headgate.experiment import Experiment
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    from headgate.analysis.compare.scores import Place
    from headgate.analysis.summary import PolicySummary
    from headgate.learning.datasets import Found


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, show_header=any(columns))
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column else "left", no_wrap=i == 0)
    return table


def _show(table: Table) -> None:
    """Tables keep their columns when the output is not a terminal."""
    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(table)


def show_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    table = _table(title, *header)
    for line in lines:
        table.add_row(*line)
    _show(table)


def print_summaries(experiment: Experiment, summaries: list[Summary]) -> None:
    e = experiment
    size = f"{counted(summaries[0].rounds, 'round')}, {counted(len(e.seeds), 'seed')}"
    table = _table(
        f"{e.name}: {size}, budget {e.system.budget:g} a round, {e.system.clients} clients with room for {e.system.memory}",
        "policy",
        "spend a round",
        "of budget",
        "Vio_S",
        "Vio_B",
        "mean n",
        "peak n",
        "max n_m-B_m",
        "N",
        "N_eff",
        "free",
        "mean p",
        "bound",
        "regret",
    )
    for s in summaries:
        table.add_row(
            s.policy,
            f"{s.spend_per_round:.2f}",
            f"{100 * s.spend_per_round / s.budget:.0f} %",
            _number(s.cost_violation),
            _number(s.buffer_violation),
            f"{s.mean_n:.1f}",
            f"{s.peak_n}",
            f"{s.peak_excess:+d}",
            f"{s.N:,.0f}",
            f"{s.n_eff:,.0f}",
            _number(s.free),
            _number(s.mean_penalty),
            _number(s.bound),
            _number(s.regret),
        )
    _show(table)


def print_comparison(rows: Sequence[dict[str, Any]], places: Sequence["Place"]) -> None:
    """A table for each budget, and then who is best where."""
    from headgate.analysis.compare.scores import REFERENCES

    for budget in dict.fromkeys(row["budget"] for row in rows):
        columns = (
            "policy",
            "best %",
            "mean %",
            "closed, best",
            "closed, mean",
            "spend a round",
            "worst run",
            "n_m-B_m",
            "limits",
        )
        table = _table(f"budget {budget:g} a round", *columns)
        for row in (row for row in rows if row["budget"] == budget):
            table.add_row(
                row["policy"],
                *(_points(row[key]) for key in ("best", "mean")),
                *("–" if row[key] is None else f"{100 * row[key]:.0f} %" for key in ("closed_best", "closed_mean")),
                f"{row['spend']:.2f}",
                f"{100 * row['worst_spend'] / budget:.0f} %",
                f"{row['worst_excess']:+d}",
                "reference" if row["policy"] in REFERENCES else "kept" if row["kept_limits"] else "broken",
            )
        _show(table)
    table = _table("best within the limits", "budget", "by", "policy", "not told apart (p > 0.05)")
    for place in places:
        table.add_row(f"{place.budget:g}", place.measure, place.best or "nobody", ", ".join(place.level_with) or "–")
    _show(table)


def _points(value: tuple[float, float | None, float | None] | None) -> str:
    if value is None:
        return "–"
    mean, low, _ = value
    return f"{100 * mean:.2f}" + ("" if low is None else f" ± {100 * (mean - low):.2f}")


def print_policy_summaries(run: RunFolder, summaries: Sequence["PolicySummary"], target: float | None) -> None:
    """The closing table of a run: never accuracy without what it cost and held."""
    from headgate.analysis.summary import breakdown_note, columns, equal_spend_note

    shown = [column for column in columns(target) if column.title not in ("Final accuracy", "N_eff", "Bound")]  # in the report
    table = _table(
        f"{run.name}: {counted(run.rounds, 'round')}, {counted(len(run.state['seeds']), 'seed')}",
        "policy",
        *(column.title for column in shown),
    )
    for summary in summaries:
        table.add_row(summary.policy, *(column.text(summary) for column in shown))
    _show(table)
    for note in (equal_spend_note(summaries), breakdown_note([run])):
        if note:
            print(note)


def run_rows(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """One line a run, newest first."""
    from headgate.analysis.summary import policy_summaries

    rows = []
    for run in runs:
        summaries = policy_summaries(run)
        best = max((s for s in summaries if s.best_accuracy), key=lambda s: s.best_accuracy.mean, default=None)  # type: ignore[union-attr]
        rows.append(
            {
                "run": run.name,
                "state": run.status,
                "round": run.state["round"],
                "rounds": run.rounds,
                "data": run.config.get("data", {}).get("name"),
                "model": run.config.get("model", {}).get("name"),
                "policies": run.state["policies"],
                "seeds": len(run.state["seeds"]),
                "budget": run.budget,
                "spend_per_round": {s.policy: s.spend_per_round for s in summaries},
                "best_policy": best.policy if best else None,
                "best_accuracy": best.best_accuracy.mean if best and best.best_accuracy else None,
                "diverged": len(run.diverged),
            }
        )
    return rows


def print_runs(rows: Sequence[dict[str, Any]]) -> None:
    table = _table("", "run", "state", "rounds", "data", "model", "policies", "seeds", "best accuracy", "by")
    for row in rows:
        accuracy = "–" if row["best_accuracy"] is None else f"{100 * row['best_accuracy']:.1f} %"
        table.add_row(
            row["run"],
            row["state"] + (f", {row['diverged']} diverged" if row["diverged"] else ""),
            f"{row['round']}/{row['rounds']}",
            row["data"] or "–",
            row["model"] or "–",
            str(len(row["policies"])),
            str(row["seeds"]),
            accuracy,
            row["best_policy"] or "–",
        )
    _show(table)


def print_datasets(found: Sequence["Found"], folder: Path) -> None:
    table = _table(f"data sets in {folder}", "name", "format", "train", "test", "where, or why not")
    for each in found:
        counts = ["–" if count is None else f"{count:,}" for count in (each.train, each.test)]
        table.add_row(each.name, each.format or "–", *counts, each.problem or str(each.path or "embedded"))
    _show(table)
