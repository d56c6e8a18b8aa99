"""Rehearsals as rows and as one line per policy."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from headgate.analysis.formatting import percent
from headgate.analysis.pages import check_file, write_whole
from headgate.analysis.runs import LEARNING, Runs
from headgate.analysis.summary import PolicySummary, summarise
from headgate.control.policy import AdmissionPolicy
from headgate.control.rehearse import Rehearsal
from headgate.escaping import cell
from headgate.experiment import Experiment

MEASURED = ("price", "admitted", "n", "N", "n_eff", "uniformity", "debt", "spend", "penalty", "bound", "peak_excess")
COLUMNS = ("policy", "seed", "t", *MEASURED)


def rows(experiment: Experiment, rehearsals: Mapping[str, Rehearsal]) -> pl.DataFrame:
    """One row per policy, seed and round."""
    return pl.concat([_frame(experiment, name, result) for name, result in rehearsals.items()])


def _frame(experiment: Experiment, name: str, result: Rehearsal) -> pl.DataFrame:
    rounds, seeds, k = np.arange(1, result.rounds + 1), experiment.seeds, experiment.bound
    known = {"penalty": result.penalty(k), "bound": result.bound(k)}
    index = {"policy": np.full(len(seeds) * rounds.size, name), "seed": np.repeat(seeds, rounds.size)}
    values = {key: (known[key] if key in known else getattr(result, key)).ravel() for key in MEASURED}
    return pl.DataFrame({**index, "t": np.tile(rounds, len(seeds)), **values})


WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson"}


def check_out(path: Path) -> None:
    check_file("--out", path, WRITERS)


def write(frame: pl.DataFrame, path: Path) -> None:
    """By suffix."""
    check_out(path)
    write_whole("--out", path, getattr(as_cells(frame) if path.suffix == ".csv" else frame, WRITERS[path.suffix]))


def as_cells(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same with no text that a spreadsheet takes for a formula."""
    texts = frame.select(pl.col(pl.String))
    return frame.with_columns(each.replace({text: cell(text) for text in each.unique()}) for each in texts)


def as_runs(experiment: Experiment, name: str, result: Rehearsal) -> Runs:
    """Return a rehearsed policy as runs that learnt nothing."""
    system, shape = experiment.system, result.spend.shape
    kept = {"excess": "peak_excess"} | {key: key for key in ("price", "admitted", "n", "N", "n_eff", "debt", "spend")}
    values = {key: np.asarray(getattr(result, own), dtype=np.float64) for key, own in kept.items()}
    return Runs(
        folder=experiment.name,
        policy=name,
        budget=system.budget,
        buffers=system.buffer,
        rounds=result.rounds,
        seeds=tuple(experiment.seeds[: shape[0]].tolist()),
        lost=np.zeros(shape[0], dtype=bool),
        reached=np.full(shape[0], result.rounds),
        values={**values, "bound": result.bound(experiment.bound), **dict.fromkeys(LEARNING, np.full(shape, np.nan))},
    )


def summarise_rehearsal(experiment: Experiment, name: str, result: Rehearsal) -> PolicySummary:
    """Return what a rehearsed policy came to, of all its runs."""
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


def way_out_of_limits(summary: PolicySummary, policy: AdmissionPolicy) -> str:
    """Which limit is broken and by how much, with the way out; empty where both are kept."""
    if summary.kept_limits:
        return ""
    said = []
    if summary.runs_over_budget:
        runs = f"{summary.runs_over_budget} of {summary.runs} {'run goes' if summary.runs == 1 else 'runs go'} over budget"
        dearest = summary.dearest_share
        said.append(runs + ("" if dearest is None else f", the dearest spends {percent(dearest, 1)} of it"))
    if (summary.peak_excess or 0) > 0:
        said.append(f"a client holds up to {summary.peak_excess} more than its buffer")
    way_out = 'take headgate, or set capacity = "buffer" and purse = true' if hasattr(policy, "purse") else "take headgate"
    return f"{'; '.join(said)}: {way_out}."
