"""Rehearsals as rows and as one line per policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from headgate.analysis.limits import Limits, limits_of
from headgate.control.policy import AdmissionPolicy
from headgate.control.rehearse import Rehearsal
from headgate.errors import DataError, SettingError
from headgate.experiment import Experiment

COLUMNS = (
    "policy",
    "seed",
    "t",
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


def rows(experiment: Experiment, rehearsals: Mapping[str, Rehearsal]) -> pl.DataFrame:
    """One row per policy, seed and round."""
    frames = [_frame(experiment, name, result) for name, result in rehearsals.items()]
    return pl.concat(frames).select(COLUMNS)


def _frame(experiment: Experiment, name: str, result: Rehearsal) -> pl.DataFrame:
    T = result.rounds
    return pl.DataFrame(
        {
            "policy": np.full(len(experiment.seeds) * T, name),
            "seed": np.repeat(experiment.seeds, T),
            "t": np.tile(np.arange(1, T + 1), len(experiment.seeds)),
            "price": result.price.ravel(),
            "admitted": result.admitted.ravel(),
            "n": result.n.ravel(),
            "N": result.N.ravel(),
            "n_eff": result.n_eff.ravel(),
            "uniformity": result.uniformity.ravel(),
            "debt": result.debt.ravel(),
            "spend": result.spend.ravel(),
            "penalty": result.penalty(experiment.bound).ravel(),
            "bound": result.bound(experiment.bound).ravel(),
            "peak_excess": result.peak_excess.ravel(),
        }
    )


WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson"}


def check_out(path: Path) -> None:
    """Refuse a file that could not be written, before the work is done."""
    if path.suffix not in WRITERS:
        raise SettingError(f"--out {path}: must end in {', '.join(WRITERS)}")
    if not path.parent.is_dir():
        raise DataError(f"--out {path}: there is no folder {path.parent}")


def write(frame: pl.DataFrame, path: Path) -> None:
    """By suffix; written beside the target and moved there when complete."""
    check_out(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        getattr(frame, WRITERS[path.suffix])(partial)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"--out {path}: cannot be written ({error.strerror or error})") from None


@dataclass(frozen=True)
class Summary:
    """One policy over all its runs. Means are over runs; violations are the paper's, of the mean over runs."""

    policy: str
    rounds: int
    runs: int
    spend_per_round: float
    budget: float
    runs_over_budget: int
    """runs that spent more than budget·rounds in all"""
    dearest_share: float | None
    """what the dearest run spent, as a share of that"""
    kept_limits: bool
    """by every run, client and round"""
    cost_violation: float
    buffer_violation: float
    mean_n: float
    peak_n: int
    peak_excess: int
    """largest n_m(t) − B_m of any client, round and run"""
    N: float
    n_eff: float
    free: float
    """samples that nobody paid for"""
    mean_penalty: float
    bound: float
    regret: float


def summarise(experiment: Experiment, name: str, result: Rehearsal) -> Summary:
    k, system = experiment.bound, experiment.system
    bound, peak_excess = result.bound(k).sum(axis=-1), int(result.peak_excess.max())
    kept = limits_of(result.spend.sum(axis=-1), system.budget * result.rounds, peak_excess)
    return Summary(
        policy=name,
        rounds=result.rounds,
        runs=len(bound),
        spend_per_round=float(result.spend.mean()),
        budget=system.budget,
        runs_over_budget=kept.runs_over_budget,
        dearest_share=kept.dearest,
        kept_limits=kept.kept,
        cost_violation=result.cost_violation(),
        buffer_violation=result.buffer_violation(),
        mean_n=float(result.n.mean()),
        peak_n=int(result.n.max()),
        peak_excess=peak_excess,
        N=float(result.N[:, -1].mean()),
        n_eff=float(result.n_eff[:, -1].mean()),
        free=float(result.free.sum(axis=-1).mean()),
        mean_penalty=float(result.penalty(k).mean()),
        bound=float(bound.mean()),
        regret=float(result.regret(k).mean()),
    )


def broken_limits(summary: Summary, policy: AdmissionPolicy) -> str:
    """Which limit is broken and by how much, with the way out; empty where both are kept."""
    broken = Limits(summary.runs, summary.runs_over_budget, summary.dearest_share, summary.peak_excess).broken
    if not broken:
        return ""
    way_out = 'take headgate, or set capacity = "buffer" and purse = true' if hasattr(policy, "purse") else "take headgate"
    return f"{broken}: {way_out}."
