"""Results as tables, for the terminal and for notebooks; a plan as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from headgate.analysis.comparison import comparison_tables, several_budgets
from headgate.analysis.comparison import rows as rows_of
from headgate.analysis.display import StackedTable, plain_text
from headgate.analysis.formatting import DASH, counted, money, number, percent, signed
from headgate.analysis.limits import conclusion
from headgate.analysis.rehearsal import summarise_rehearsal, way_out_of_limits
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.summary import PolicySummary, breakdown_note, policy_table, summarise, whole_number
from headgate.control.rehearse import Plan
from headgate.experiment import Experiment
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    from headgate.learning.datasets import DatasetEntry

NARROW = ("Best", "Last", "Daily", "Spend a round", "Limits")
"""columns of a finished run unless all are asked for"""
BOUND = (
    "Money and memory are those of a run. The bound is Theorem 1's: it tells settings of one policy apart, not policies; "
    "headgate compare does, by learning."
)


def rehearsal_tables(experiment: Experiment, summaries: Sequence[PolicySummary]) -> list[RenderableType]:
    """Rehearsed policies, one a line."""
    e = experiment
    size = f"{counted(summaries[0].rounds, 'round')}, {counted(len(e.seeds), 'seed')}"
    title = f"{e.name}: {size}, budget {e.system.budget:g} a round, {e.system.clients} clients with room for {e.system.memory}"
    names = "policy,spend a round,over budget,Vio_S,Vio_B,mean n,peak n,max n_m-B_m,N,N_eff,free,mean p,bound,regret"
    lines = [
        [
            s.policy,
            money(s.spend_per_round),
            f"{s.runs_over_budget} of {s.runs}, {percent(s.dearest_share)}",
            *map(number, (s.cost_violation, s.buffer_violation, s.mean_n, s.peak_n)),
            signed(s.peak_excess),
            *map(whole_number, (s.N, s.n_eff)),
            *map(number, (s.free, s.mean_penalty, s.bound, s.regret)),
        ]
        for s in summaries
    ]
    return [StackedTable(title, names.split(","), lines), plain_text(BOUND)]


def run_tables(run: RunFolder, found: Sequence[Runs], wide: bool = False) -> list[RenderableType]:
    """The closing table of a run: never accuracy without what it cost and held; and what to take from it."""
    title = f"{run.name}: {counted(run.rounds, 'round')}, {counted(len(run.seeds), 'seed')}"
    table = policy_table(title, [summarise(one, run.target) for one in found], run.target, () if wide else NARROW)
    return [table, *(note for note in (breakdown_note([run]), conclusion(found)) if note)]


def runs_tables(runs: Sequence[RunFolder], wide: bool = False) -> list[RenderableType]:
    """One run after the other; and, at several budgets, what each policy needs for the same accuracy."""
    found = {run.path: read_runs([run]) for run in runs}
    every = [one for own in found.values() for one in own]
    if several_budgets(every) and not wide:
        return comparison_tables(every, rows_of(every))
    return [thing for run in runs for thing in run_tables(run, found[run.path], wide)]


def list_tables(rows: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Runs, one a line."""
    lines = [
        [
            row["name"],
            _state(row),
            row["data"] or DASH,
            f"{row['best_policy'] or DASH} {percent(row['best_accuracy'], 1)}" if row["best_policy"] else DASH,
            percent(row["spend_share"]) + (f", {row['spend_policy']} broke {row['broken']}" if row["broken"] else ""),
        ]
        for row in rows
    ]
    return [StackedTable("", ["run", "state", "data", "best within limits", "spent"], lines)]


def _state(row: dict[str, Any]) -> str:
    """finished, or how far it is; and what went wrong."""
    said = row["state"] if row["state"] == "finished" else f"{row['state']} {row['round']}/{row['rounds']}"
    return said + (f", {row['lost']} lost" if row["lost"] else "") + (", unreadable" if row["problem"] else "")


def dataset_tables(found: Sequence["DatasetEntry"], folder: Path) -> list[RenderableType]:
    lines = [[each.name, each.format or DASH, each.problem or str(each.path or "embedded")] for each in found]
    return [StackedTable(f"data sets in {folder}", ("name", "format", "where, or why not"), lines)]


POINT = ("K", "rate", "V", "rho")
VALUES = ("bound", "oracle_bound", "regret", "cost_violation", "buffer_violation")


def plan_json(experiment: Experiment, name: str, made: Plan) -> dict[str, Any]:
    """What `headgate plan --format json` prints; null where a policy has no such number, or follows a schedule."""
    summary = summarise_rehearsal(experiment, name, made.rehearsal)
    return {
        "policy": name,
        **{each: made.setting(each) for each in POINT},
        "spend": made.spend,
        "peak_spend": made.peak_spend,
        "bound": made.bound,
        "oracle_bound": made.oracle_bound,
        "regret": made.regret,
        "cost_violation": summary.cost_violation,
        "buffer_violation": summary.buffer_violation,
        "peak_buffer": made.peak_buffer,
        "warning": way_out_of_limits(summary, made.policy),
    }


def plan_lines(experiment: Experiment, name: str, made: Plan) -> list[tuple[str, str]]:
    """Return label and value of every line about the planned point."""
    system, said = experiment.system, plan_json(experiment, name, made)
    units = {"K": " rounds", "rate": " samples a round"}
    lines = [(key, f"{said[key]:.6g}{units.get(key, '')}") for key in POINT if said[key] is not None]
    return [
        *lines,
        ("expected spend", f"{made.spend:.2f} a round of a budget of {system.budget:g}"),
        ("most costly round", f"{made.peak_spend:,.2f}, {made.peak_spend / system.budget:.1f} times a round's budget"),
        *((key.replace("_", " "), number(said[key])) for key in VALUES),
        (
            "peak buffer",
            f"{counted(made.peak_buffer, 'sample')} at client {made.peak_client}, B_m = {system.buffer[made.peak_client]}",
        ),
    ]


def plan_tables(experiment: Experiment, name: str, made: Plan) -> Sequence[RenderableType]:
    """The planned point, and in red what breaks a limit."""
    runs, rounds = made.rehearsal.price.shape
    title = f"{experiment.name}: {name} planned for {rounds} rounds, {runs} seeds rehearsed"
    point = StackedTable(title, ("", ""), plan_lines(experiment, name, made))
    warning = plan_json(experiment, name, made)["warning"]
    kept = "Keeps the budget and every buffer in all rehearsed runs."
    few = scarce(experiment)
    return [point, Text(warning, style="bold red") if warning else Text(kept), *([Text(few, style="yellow")] if few else [])]


def scarce(experiment: Experiment) -> str:
    """Said where all the money of a run buys fewer samples than there are places; else nothing."""
    system, price = experiment.system, experiment.given.mean_price
    bought, enough = system.budget * experiment.rounds / price, system.memory * price / experiment.rounds
    if bought >= system.memory:
        return ""
    return (
        f"All the money buys about {bought:.3g} samples, and there are {system.memory} places: the bound tells little then. "
        f"From a budget of {enough:.3g} a round on the buffers can be filled once."
    )
