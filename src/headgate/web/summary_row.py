"""A run in one line: how far it is, what it spent of its budget, how well it learnt."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.compare.scores import REFERENCES
from headgate.analysis.curves import thinned
from headgate.records.reader import RunFolder
from headgate.web.rows import Rows

LISTED = ("test_accuracy", "spend")
"""the columns it takes"""
SPARK = 40
"""points of the small curve"""


def summary_row(
    name: str, sweep: str | None, state: str, run: RunFolder, rows: Rows, problem: str | None = None
) -> dict[str, Any]:
    """`rows` of the columns `LISTED`. `run` may be without settings where they cannot be read, which `problem` says."""
    policies = list(dict.fromkeys(run.state["policies"]))
    every = [(policy, seed) for policy in policies for seed in run.state["seeds"]]
    spend, curves = {}, {}
    for policy in policies if run.config else ():
        spend[policy], curves[policy] = _policy(policy, run, rows)
    # beside others a reference would be the best and the dearest in every line
    ranked = [policy for policy in policies if policy not in REFERENCES] or policies
    best = max((policy for policy in ranked if curves.get(policy)), key=lambda policy: curves[policy][-1], default=None)
    done = int(rows.reached(every).sum()) // max(1, len(every))
    known = [share for policy in ranked if (share := spend.get(policy)) is not None]
    elapsed = run.state.get("elapsed_s")
    return {
        "name": name,
        "sweep": sweep,
        "state": state,
        "round": run.rounds if state == "finished" else max(done, 0 if rows.index else run.state["round"]),
        "rounds": run.rounds,
        "data": _text(run.config, "data"),
        "model": _text(run.config, "model"),
        "policies": policies,
        "seeds": len(run.state["seeds"]),
        "runs": len(every),
        "diverged": len(run.diverged),
        "budget": run.budget if run.config else None,
        "spend": spend,
        "spend_share": max(known, default=None),
        "best_accuracy": curves[best][-1] if best else None,
        "best_policy": best,
        "spark": curves[best] if best else [],
        "started": run.started,
        "elapsed": float(elapsed) if isinstance(elapsed, int | float) else None,
        "problem": problem,
    }


def _text(config: Mapping[str, Any], section: str) -> str | None:
    said = config.get(section)
    name = said.get("name") if isinstance(said, dict) else None
    return name if isinstance(name, str) else None


def _policy(policy: str, run: RunFolder, rows: Rows) -> tuple[float | None, list[float]]:
    """(share of the budget, best accuracy so far at some rounds): means over the runs that did not diverge and have begun."""
    runs = [(policy, seed) for seed in run.state["seeds"] if (policy, seed) not in run.diverged]
    reached = dict(zip(runs, rows.reached(runs).tolist(), strict=True))
    begun = [each for each in runs if reached[each]]
    if not begun:
        return None, []
    last = max(reached.values())
    values = rows.of(begun, last)
    there = np.arange(last) < np.array([reached[each] for each in begun])[:, None]
    spend = np.where(there, values[:, :, LISTED.index("spend")], 0.0).sum(axis=1) / there.sum(axis=1)
    share = float(np.nanmean(spend) / run.budget) if run.budget > 0 and np.isfinite(spend).any() else None
    accuracy = np.where(there, values[:, :, LISTED.index("test_accuracy")], np.nan)
    return share, _best_so_far(accuracy)


def _best_so_far(accuracy: NDArray[np.float64]) -> list[float]:
    best = np.fmax.accumulate(accuracy, axis=1)
    known = np.flatnonzero(np.isfinite(best).all(axis=0) & np.isfinite(accuracy).any(axis=0))
    if not known.size:
        return []
    return [round(float(value), 5) for value in best[:, known[thinned(known.size, SPARK)]].mean(axis=0)]
