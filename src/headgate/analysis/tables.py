"""Results as tables for the terminal."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headgate.analysis.compare.scores import MEASURES
from headgate.analysis.formatting import DASH, counted, money, number, percent, plus_minus, signed
from headgate.analysis.intervals import Estimate
from headgate.analysis.limits import Place, conclusion
from headgate.analysis.rehearsal import Summary
from headgate.analysis.runs import Runs
from headgate.analysis.summary import breakdown_note, columns, summarise
from headgate.experiment import Experiment
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    from headgate.learning.datasets import Found


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


def print_summaries(experiment: Experiment, summaries: Sequence[Summary]) -> None:
    e = experiment
    size = f"{counted(summaries[0].rounds, 'round')}, {counted(len(e.seeds), 'seed')}"
    names = "spend a round,over budget,Vio_S,Vio_B,mean n,peak n,max n_m-B_m,N,N_eff,free,mean p,bound,regret"
    table = _table(
        f"{e.name}: {size}, budget {e.system.budget:g} a round, {e.system.clients} clients with room for {e.system.memory}",
        "policy",
        *names.split(","),
    )
    for s in summaries:
        table.add_row(
            s.policy,
            money(s.spend_per_round),
            f"{s.runs_over_budget} of {s.runs}, {percent(s.dearest_share)}",
            number(s.cost_violation),
            number(s.buffer_violation),
            number(s.mean_n),
            number(s.peak_n),
            signed(s.peak_excess),
            number(round(s.N)),
            number(round(s.n_eff)),
            number(s.free),
            number(s.mean_penalty),
            number(s.bound),
            number(s.regret),
        )
    _show(table)


def print_comparison(rows: Sequence[dict[str, Any]], places: dict[float, list[Place]]) -> None:
    """A table for each budget, and then who is best where."""
    shown = [measure.key for measure in MEASURES]
    for budget in dict.fromkeys(row["budget"] for row in rows):
        closed = ("closed, best", "closed, mean")
        ends = ("spend a round", "over budget", "n_m-B_m", "limits")
        table = _table(f"budget {budget:g} a round", "policy", "best %", "final %", "mean %", *closed, *ends)
        for row in (row for row in rows if row["budget"] == budget):
            table.add_row(
                row["policy"],
                *(_points(row[key]) for key in ("best", "final", "mean")),
                *(percent(row[f"closed_{key}"]) for key in shown),
                money(row["spend"]),
                f"{row['overspent_runs']} of {row['seeds'] + row['diverged']}, {percent(row['worst_spend'] / budget)}",
                signed(row["worst_excess"]),
                "reference" if row["reference"] else "kept" if row["kept_limits"] else "broken",
            )
        _show(table)
    table = _table("best within the limits", "budget", "by", "policy", "not told apart (p > 0.05)")
    for budget, place in ((budget, place) for budget, own in places.items() for place in own):
        best = place.best.policy if place.best else "nobody"
        table.add_row(f"{budget:g}", place.measure, best, ", ".join(place.level_with) or DASH)
    _show(table)


def _points(value: list[float | None] | None) -> str:
    return DASH if value is None else plus_minus(Estimate(*value).scaled(100), 2)  # type: ignore[arg-type]


def print_runs_of(run: RunFolder, found: Sequence[Runs]) -> None:
    """The closing table of a run: never accuracy without what it cost and held; and what to take from it."""
    shown = [column for column in columns(run.target) if column.title not in ("Final", "N_eff", "Bound")]  # in the report
    title = f"{run.name}: {counted(run.rounds, 'round')}, {counted(len(run.seeds), 'seed')}"
    table = _table(title, "policy", *(column.title for column in shown))
    for one in found:
        summary = summarise(one, run.target)
        table.add_row(summary.policy, *(column.text(summary) for column in shown))
    _show(table)
    for note in (breakdown_note([run]), conclusion(found)):
        if note:
            print(note)


def print_list(rows: Sequence[dict[str, Any]]) -> None:
    """Runs, one a line."""
    names = ("run", "state", "rounds", "data", "model", "policies", "seeds", "spend of budget", "best within the limits", "by")
    table = _table("", *names)
    for row in rows:
        table.add_row(
            row["name"],
            row["state"] + (f", {row['lost']} lost" if row["lost"] else "") + (", unreadable" if row["problem"] else ""),
            f"{row['round']}/{row['rounds']}",
            row["data"] or DASH,
            row["model"] or DASH,
            str(len(row["policies"])),
            str(row["seeds"]),
            ", ".join(f"{name} {percent(share)}" for name, share in row["spend_shares"].items()) or DASH,
            percent(row["best_accuracy"], 1),
            row["best_policy"] or DASH,
        )
    _show(table)


def print_datasets(found: Sequence["Found"], folder: Path) -> None:
    table = _table(f"data sets in {folder}", "name", "format", "train", "test", "where, or why not")
    for each in found:
        counts = ["–" if count is None else f"{count:,}" for count in (each.train, each.test)]
        table.add_row(each.name, each.format or "–", *counts, each.problem or str(each.path or "embedded"))
    _show(table)
