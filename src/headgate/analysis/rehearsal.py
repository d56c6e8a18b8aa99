"""The results of rehearsals and plans: rows, summaries, tables, and a plan as JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.text import Text

from headgate.analysis.display import StackedTable, plain_text
from headgate.analysis.formatting import (
    counted,
    delay_text,
    money,
    number,
    percent,
    signed,
)
from headgate.analysis.intervals import Estimate, Floats
from headgate.analysis.pages import write_whole
from headgate.analysis.runs import LEARNING, Runs
from headgate.analysis.summary import PolicySummary, summarise
from headgate.books.saved import money_text
from headgate.control.policies import Below
from headgate.control.policy import AdmissionPolicy
from headgate.control.rehearse import Plan, Rehearsal
from headgate.control.types import System
from headgate.escaping import cell
from headgate.experiment import Experiment

MEASURED = (
    "price",
    "admitted",
    "n",
    "N",
    "n_eff",
    "uniformity",
    "debt",
    "spend",
    "penalty",
    "bound",
    "peak_excess",
)
COLUMNS = ("policy", "seed", "t", *MEASURED)
WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson"}
BOUND = (
    "Money and memory are those of a run. The bound is Theorem 1's: it tells settings"
    " of one policy apart, not policies; headgate compare does, by learning."
)


def rows(experiment: Experiment, rehearsals: Mapping[str, Rehearsal]) -> pl.DataFrame:
    """Return a table with one row per policy, seed and round, in `COLUMNS`."""
    frames, seeds = [], experiment.seeds
    for name, result in rehearsals.items():
        bounds = {
            "penalty": result.penalty(experiment.bound),
            "bound": result.bound(experiment.bound),
        }
        columns: dict[str, Any] = {
            "policy": np.full(len(seeds) * result.rounds, name),
            "seed": np.repeat(seeds, result.rounds),
            "t": np.tile(np.arange(1, result.rounds + 1), len(seeds)),
        }
        for key in MEASURED:
            values = bounds[key] if key in bounds else getattr(result, key)
            columns[key] = values.ravel()
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a table in the format of the suffix, one of `WRITERS`.

    In .csv, no text can be read as a formula.
    """
    if path.suffix == ".csv":
        texts = frame.select(pl.col(pl.String))
        frame = frame.with_columns(
            each.replace({text: cell(text) for text in each.unique()}) for each in texts
        )
    write_whole("--out", path, getattr(frame, WRITERS[path.suffix]))


def as_runs(
    experiment: Experiment,
    name: str,
    result: Rehearsal,
) -> Runs:
    """Return the rehearsal of a policy as runs without any learning."""
    shape = result.spend.shape
    values = dict.fromkeys(LEARNING, np.full(shape, np.nan))
    for key in ("price", "admitted", "n", "N", "n_eff", "debt", "spend"):
        values[key] = np.asarray(getattr(result, key), dtype=np.float64)
    values["excess"] = np.asarray(result.peak_excess, dtype=np.float64)
    values["bound"] = result.bound(experiment.bound)
    return Runs(
        folder=experiment.name,
        policy=name,
        budget=experiment.system.budget,
        buffers=experiment.system.buffer,
        rounds=result.rounds,
        seeds=tuple(experiment.seeds[: shape[0]].tolist()),
        lost=np.zeros(shape[0], dtype=bool),
        reached=np.full(shape[0], result.rounds),
        values=values,
    )


def summarise_rehearsal(
    experiment: Experiment,
    name: str,
    result: Rehearsal,
) -> PolicySummary:
    """Return the summary of a rehearsed policy over all its runs."""
    k = experiment.bound
    return replace(
        summarise(as_runs(experiment, name, result)),
        buffer_violation=result.buffer_violation(),
        mean_n=float(result.n.mean()),
        free=float(result.free.sum(axis=-1).mean()),
        mean_penalty=float(result.penalty(k).mean()),
        bound=float(result.bound(k).sum(axis=-1).mean()),
        regret=float(result.regret(k).mean()),
    )


def rehearsal_tables(
    experiment: Experiment, summaries: Sequence[PolicySummary]
) -> list[RenderableType]:
    """Return a table with one line for each rehearsed policy."""
    system = experiment.system
    rounds = counted(summaries[0].rounds, "round")
    seeds = counted(len(experiment.seeds), "seed")
    title = (
        f"{experiment.name}: {rounds}, {seeds}, budget {system.budget:g} a round,"
        f" {system.clients} clients with room for {system.all_places}"
    )
    lines = [_line(each) for each in summaries]
    return [StackedTable(title, HEADER, lines), plain_text(BOUND)]


HEADER = (
    "policy",
    "spend a round",
    "over budget",
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


def _line(one: PolicySummary) -> list[str]:
    """Return the cells below `HEADER`."""
    return [
        one.policy,
        money(one.spend_per_round),
        f"{one.runs_over_budget} of {one.runs}, {percent(one.dearest_share)}",
        number(one.cost_violation),
        number(one.buffer_violation),
        number(one.mean_n),
        number(one.peak_n),
        signed(one.peak_excess),
        number(round(one.N or 0)),
        number(round(one.n_eff or 0)),
        number(one.free),
        number(one.mean_penalty),
        number(one.bound),
        number(one.regret),
    ]


# what is bought, beside buying evenly

EVEN = Below(quantile=1.0, fill=0.0)
"""the same money in every round at any price, held to the same limits"""


@dataclass(frozen=True)
class Bought:
    """What a policy buys in all rounds: the mean over the rehearsed runs, and the least
    and the most of any run.
    """

    spent: Estimate
    labels: Estimate
    each: Estimate
    """the money for a label: that of all runs for all their labels"""
    dearest: Estimate
    """the most costly round"""


def purchases(result: Rehearsal) -> Bought:
    """Return what the policy of a rehearsal buys."""
    return Bought(
        spent=_ranged(result.spend.sum(axis=1)),
        labels=_ranged(result.admitted.sum(axis=1)),
        each=_ranged(*_paid_for_each(result)),
        dearest=_ranged(result.spend.max(axis=1)),
    )


def saved_beside(result: Rehearsal, evenly: Rehearsal) -> Estimate:
    """Return the part of the price of a label that is saved beside `evenly`.

    The least and the most are of runs with the same prices.
    """
    (ours, our_mean), (theirs, their_mean) = map(_paid_for_each, (result, evenly))
    return _ranged(1 - ours / theirs, 1 - our_mean / their_mean)


def _paid_for_each(result: Rehearsal) -> tuple[Floats, Floats]:
    """Return the money for a label, (runs,), and that of all runs together; infinite or
    NaN without a label.
    """
    spent, labels = result.spend.sum(axis=1), result.admitted.sum(axis=1)
    return spent / labels, spent.sum() / labels.sum()


class QueueCost(NamedTuple):
    """What the delay of samples costs a policy, each with its least and most of a run.

    Parameters
    ----------
    fewer : Estimate
        The part of the labels that it does not get.
    dearer : Estimate
        The part by which a label costs more.
    """

    fewer: Estimate
    dearer: Estimate


def cost_of_queue(result: Rehearsal, at_once: Rehearsal) -> QueueCost:
    """Return what a policy loses beside a rehearsal in which samples arrive at once."""
    ours, theirs = result.admitted.sum(axis=1), at_once.admitted.sum(axis=1)
    (each, mean), (before, mean_before) = map(_paid_for_each, (result, at_once))
    return QueueCost(
        fewer=_ranged(1 - ours / theirs, 1 - ours.sum() / theirs.sum()),
        dearer=_ranged(each / before - 1, mean / mean_before - 1),
    )


def queue_lines(
    experiment: Experiment,
    results: Mapping[str, Rehearsal],
    at_once: Mapping[str, Rehearsal],
) -> list[str]:
    """Return a line about the delay for each policy; none if samples arrive at once."""
    return [
        f"{name}: {_queue_text(experiment, results[name], before)}"
        for name, before in at_once.items()
    ]


def _queue_text(
    experiment: Experiment,
    result: Rehearsal,
    at_once: Rehearsal,
) -> str:
    """Return in words what the delay costs."""
    fewer, dearer = cost_of_queue(result, at_once)
    pipeline = result.ledger.pipeline
    late = 0.0 if pipeline is None else float(pipeline.under_way.mean())
    end = f"; {late:.3g} come after the last round" if late else ""
    return (
        f"{delay_text(experiment.data.delay)}: {percent(fewer.mean, 1)} fewer labels"
        f" than without, each {percent(dearer.mean, 1)} dearer{end}"
    )


def _ranged(values: NDArray[Any], mean: Floats | None = None) -> Estimate:
    """Return the mean, the least and the most of the runs that have a value."""
    known = values[np.isfinite(values)]
    if not known.size:
        return Estimate(math.nan, runs=0)
    middle = known.mean() if mean is None else mean
    return Estimate(float(middle), float(known.min()), float(known.max()), known.size)


# plans

POINT = ("K", "rate", "V", "rho")
UNITS = {"K": " rounds", "rate": " samples a round"}
EXPECTED = ("spend", "peak_spend", "bound", "oracle_bound", "regret")
VIOLATIONS = ("cost_violation", "buffer_violation")


def plan_json(
    experiment: Experiment,
    name: str,
    made: Plan,
) -> dict[str, Any]:
    """Return the numbers that `headgate plan --format json` prints.

    A number is None if a policy has no such number or has a schedule.
    """
    summary = summarise_rehearsal(experiment, name, made.rehearsal)
    queue = {}
    if made.at_once is not None:
        queue = cost_of_queue(made.rehearsal, made.at_once)._asdict()
    return {
        "policy": name,
        **{each: made.setting(each) for each in POINT},
        **{each: getattr(made, each) for each in EXPECTED},
        **{each: getattr(summary, each) for each in VIOLATIONS},
        "peak_buffer": made.peak_buffer,
        "warning": way_out_of_limits(summary, made.policy),
        **{f"delay_{name}": part.mean for name, part in queue.items()},
    }


def plan_tables(
    experiment: Experiment,
    name: str,
    made: Plan,
) -> Sequence[RenderableType]:
    """Return a table of a plan, and a sentence on the limits, red if one is broken."""
    numbers = plan_json(experiment, name, made)
    runs, rounds = made.rehearsal.price.shape
    title = (
        f"{experiment.name}: {name} planned for {rounds} rounds, {runs} seeds rehearsed"
    )
    table: RenderableType = StackedTable(
        title, ("", ""), _plan_lines(experiment, made, numbers)
    )

    limits = Text("Keeps the budget and every buffer in all rehearsed runs.")
    if numbers["warning"]:
        limits = Text(numbers["warning"], style="bold red")
    things = [table, limits]
    advice = _advice(experiment, rounds)
    if advice:
        things.append(Text(advice, style="yellow"))
    return things


def _plan_lines(
    experiment: Experiment,
    made: Plan,
    numbers: Mapping[str, Any],
) -> list[tuple[str, str]]:
    """Return the lines of a plan's table."""
    system, client = experiment.system, made.peak_client
    lines = _bought_lines(system, made.rehearsal)
    if made.at_once is not None:
        text = _queue_text(experiment, made.rehearsal, made.at_once)
        lines.append(("slow queue", text))
    lines += [
        (key, f"{numbers[key]:.6g}{UNITS.get(key, '')}")
        for key in POINT
        if numbers[key] is not None
    ]
    spend = f"{made.spend:.2f} a round of a budget of {system.budget:g}"
    times = made.peak_spend / system.budget
    peak = f"{made.peak_spend:,.2f}, {times:.1f} times a round's budget"
    lines += [("expected spend", spend), ("most costly round", peak)]
    for key in ("bound", "oracle_bound", "regret", *VIOLATIONS):
        lines.append((key.replace("_", " "), number(numbers[key])))
    samples = counted(made.peak_buffer, "sample")
    held = f"{samples} at client {client}, B_m = {system.buffer[client]}"
    return [*lines, ("peak buffer", held)]


def _bought_lines(system: System, result: Rehearsal) -> list[tuple[str, str]]:
    """Return the lines about the money in all and the labels that it buys."""
    rounds, bought = result.rounds, purchases(result)
    most = money_text(system.budget * rounds, system.currency)
    labels = bought.labels
    each = ""
    if labels.mean:
        each = f", {money_text(bought.each.mean, system.currency)} each"
    ends = f"{labels.low or 0:,.0f} … {labels.high or 0:,.0f}"
    return [
        ("in all, at most", f"{most}: {system.budget:g} a round, {rounds} rounds"),
        ("labels bought", f"{labels.mean:,.0f} ({ends}){each}"),
    ]


def _advice(experiment: Experiment, rounds: int) -> str:
    """Return what to do if all the money does not fill the buffers once."""
    system, price = experiment.system, experiment.given.mean_price
    bought = system.budget * rounds / price
    if bought >= system.all_places:
        return ""
    enough = system.all_places * price / rounds
    return (
        f"All the money buys about {bought:.3g} samples, and there are"
        f" {system.all_places} places: the bound tells little then. From a budget of"
        f" {enough:.3g} a round on the buffers can be filled once."
    )


def way_out_of_limits(summary: PolicySummary, policy: AdmissionPolicy) -> str:
    """Return which limit is broken, by how much, and the remedy; empty if none is."""
    limits = []
    if summary.runs_over_budget:
        go = "run goes" if summary.runs == 1 else "runs go"
        dearest = percent(summary.dearest_share, 1)
        limits.append(
            f"{summary.runs_over_budget} of {summary.runs} {go} over budget, the"
            f" dearest spends {dearest} of it"
        )
    if summary.peak_excess is not None and summary.peak_excess > 0:
        limits.append(
            f"a client holds up to {summary.peak_excess} more than its buffer"
        )
    if not limits:
        return ""
    way_out = "take headgate"
    if hasattr(policy, "purse"):
        way_out += ', or set capacity = "buffer" and purse = true'
    return f"{'; '.join(limits)}: {way_out}."
