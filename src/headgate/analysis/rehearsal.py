"""The results of rehearsals and plans: rows, one summary per policy, tables, and a plan
as JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import RenderableType
from rich.text import Text

from headgate.analysis.display import StackedTable, plain_text
from headgate.analysis.formatting import counted, money, number, percent, signed
from headgate.analysis.pages import write_whole
from headgate.analysis.runs import LEARNING, Runs
from headgate.analysis.summary import PolicySummary, summarise
from headgate.control.policy import AdmissionPolicy
from headgate.control.rehearse import Plan, Rehearsal
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
    frames, k = [], experiment.bound
    for name, result in rehearsals.items():
        rounds, seeds = np.arange(1, result.rounds + 1), experiment.seeds
        known = {"penalty": result.penalty(k), "bound": result.bound(k)}
        index = {
            "policy": np.full(len(seeds) * rounds.size, name),
            "seed": np.repeat(seeds, rounds.size),
        }
        values = {
            key: (known[key] if key in known else getattr(result, key)).ravel()
            for key in MEASURED
        }
        frames.append(
            pl.DataFrame({**index, "t": np.tile(rounds, len(seeds)), **values})
        )
    return pl.concat(frames)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a table in the format of the suffix, one of `WRITERS`; in .csv, no text can
    be read as a formula.
    """
    if path.suffix == ".csv":
        texts = frame.select(pl.col(pl.String))
        frame = frame.with_columns(
            each.replace({text: cell(text) for text in each.unique()}) for each in texts
        )
    write_whole("--out", path, getattr(frame, WRITERS[path.suffix]))


def as_runs(experiment: Experiment, name: str, result: Rehearsal) -> Runs:
    """Return the rehearsal of a policy as runs without any learning."""
    system, shape = experiment.system, result.spend.shape
    kept = {"excess": "peak_excess"} | {
        key: key for key in ("price", "admitted", "n", "N", "n_eff", "debt", "spend")
    }
    values = {
        key: np.asarray(getattr(result, own), dtype=np.float64)
        for key, own in kept.items()
    }
    return Runs(
        folder=experiment.name,
        policy=name,
        budget=system.budget,
        buffers=system.buffer,
        rounds=result.rounds,
        seeds=tuple(experiment.seeds[: shape[0]].tolist()),
        lost=np.zeros(shape[0], dtype=bool),
        reached=np.full(shape[0], result.rounds),
        values={
            **values,
            "bound": result.bound(experiment.bound),
            **dict.fromkeys(LEARNING, np.full(shape, np.nan)),
        },
    )


def summarise_rehearsal(
    experiment: Experiment, name: str, result: Rehearsal
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
    e = experiment
    size = f"{counted(summaries[0].rounds, 'round')}, {counted(len(e.seeds), 'seed')}"
    title = (
        f"{e.name}: {size}, budget {e.system.budget:g} a round, {e.system.clients}"
        f" clients with room for {e.system.all_places}"
    )
    names = (
        "policy,spend a round,over budget,Vio_S,Vio_B,mean n,peak n,max"
        " n_m-B_m,N,N_eff,free,mean p,bound,regret"
    )
    lines = [
        [
            s.policy,
            money(s.spend_per_round),
            f"{s.runs_over_budget} of {s.runs}, {percent(s.dearest_share)}",
            *map(number, (s.cost_violation, s.buffer_violation, s.mean_n, s.peak_n)),
            signed(s.peak_excess),
            *map(
                number,
                (
                    round(s.N or 0),
                    round(s.n_eff or 0),
                    s.free,
                    s.mean_penalty,
                    s.bound,
                    s.regret,
                ),
            ),
        ]
        for s in summaries
    ]
    return [StackedTable(title, names.split(","), lines), plain_text(BOUND)]


# plans

POINT = ("K", "rate", "V", "rho")
VIOLATIONS = ("cost_violation", "buffer_violation")


def plan_json(experiment: Experiment, name: str, made: Plan) -> dict[str, Any]:
    """Return the numbers that `headgate plan --format json` prints; None if a policy
    has no such number or has a schedule.
    """
    summary = summarise_rehearsal(experiment, name, made.rehearsal)
    return {
        "policy": name,
        **{each: made.setting(each) for each in POINT},
        **{
            each: getattr(made, each)
            for each in ("spend", "peak_spend", "bound", "oracle_bound", "regret")
        },
        **{each: getattr(summary, each) for each in VIOLATIONS},
        "peak_buffer": made.peak_buffer,
        "warning": way_out_of_limits(summary, made.policy),
    }


def plan_tables(
    experiment: Experiment, name: str, made: Plan
) -> Sequence[RenderableType]:
    """Return a table of the planned settings and expectations, and a sentence on the
    limits, in red if one is broken.
    """
    system, client, numbers = (
        experiment.system,
        made.peak_client,
        plan_json(experiment, name, made),
    )
    units = {"K": " rounds", "rate": " samples a round"}
    lines = [
        *(
            (key, f"{numbers[key]:.6g}{units.get(key, '')}")
            for key in POINT
            if numbers[key] is not None
        ),
        (
            "expected spend",
            f"{made.spend:.2f} a round of a budget of {system.budget:g}",
        ),
        (
            "most costly round",
            (
                f"{made.peak_spend:,.2f}, {made.peak_spend / system.budget:.1f} times a"
                " round's budget"
            ),
        ),
        *(
            (key.replace("_", " "), number(numbers[key]))
            for key in ("bound", "oracle_bound", "regret", *VIOLATIONS)
        ),
        (
            "peak buffer",
            (
                f"{counted(made.peak_buffer, 'sample')} at client {client}, B_m ="
                f" {system.buffer[client]}"
            ),
        ),
    ]
    runs, rounds = made.rehearsal.price.shape
    title = (
        f"{experiment.name}: {name} planned for {rounds} rounds, {runs} seeds rehearsed"
    )
    kept = Text("Keeps the budget and every buffer in all rehearsed runs.")
    limits = Text(numbers["warning"], style="bold red") if numbers["warning"] else kept
    things: list[RenderableType] = [StackedTable(title, ("", ""), lines), limits]
    price = experiment.given.mean_price
    if (bought := system.budget * rounds / price) < system.all_places:
        few = (
            f"All the money buys about {bought:.3g} samples, and there are"
            f" {system.all_places} places: the bound tells little then."
        )
        enough = (
            f"From a budget of {system.all_places * price / rounds:.3g} a round on the"
            " buffers can be filled once."
        )
        things.append(Text(f"{few} {enough}", style="yellow"))
    return things


def way_out_of_limits(summary: PolicySummary, policy: AdmissionPolicy) -> str:
    """Return which limit is broken, by how much, and the remedy; empty if both are
    kept.
    """
    limits = []
    if summary.runs_over_budget:
        runs = (
            f"{summary.runs_over_budget} of {summary.runs}"
            f" {'run goes' if summary.runs == 1 else 'runs go'} over budget"
        )
        limits.append(
            f"{runs}, the dearest spends {percent(summary.dearest_share, 1)} of it"
        )
    if (summary.peak_excess or 0) > 0:
        limits.append(
            f"a client holds up to {summary.peak_excess} more than its buffer"
        )
    way_out = (
        'take headgate, or set capacity = "buffer" and purse = true'
        if hasattr(policy, "purse")
        else "take headgate"
    )
    return f"{'; '.join(limits)}: {way_out}." if limits else ""
