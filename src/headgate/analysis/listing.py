"""A run in one line of a list: how far it is, what it spent, which policy is best within its limits; and its settings."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headgate.analysis.curves import thinned
from headgate.analysis.limits import best_within_limits, limits
from headgate.analysis.runs import runs_of
from headgate.errors import DataError
from headgate.records.reader import RunFolder
from headgate.records.tables import Rows

LISTED = ("test_accuracy", "spend", "excess")
"""the columns it takes"""
SPARK = 40
"""points of the small curve"""


def list_rows(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """Return a line for each run, in the order given; an unreadable run has the reason in its line."""
    rows = []
    for run in runs:
        try:
            rows.append(run_row(run, run.listed("metrics", *LISTED), partial(run.listed, "clients", "held")))
        except DataError as error:
            rows.append(run_row(run, problem=str(error)))
    return rows


def run_row(
    run: RunFolder,
    metrics: Rows | None = None,
    held: Callable[[], Rows | None] = lambda: None,
    problem: str | None = None,
) -> dict[str, Any]:
    """`metrics` of the columns `LISTED`. `held` is asked where they do not tell the memory. `problem`
    says why there are none."""
    found = [runs_of(run, policy, metrics, LISTED) for policy in run.policies] if metrics is not None else []
    if metrics is not None and any(one.complete and one.peak_excess is None for one in found):
        clients = held()
        found = [runs_of(run, policy, metrics, LISTED, clients) for policy in run.policies]
    played = [one for one in found if one.complete]
    spend = {one.policy: float(one.spend.mean()) for one in played}
    # beside others a reference would be the dearest in every line
    ranked = [one for one in played if not one.reference] or played
    best = best_within_limits(played)
    shown = best or max(ranked, key=lambda one: spend[one.policy], default=None)
    done = sum(int(one.reached.sum()) for one in found) // max(1, len(run.runs))
    curve = [] if best is None else best.curve.mean(axis=0)[thinned(best.t.size, SPARK)].tolist()
    spark = [round(value, 5) for value in curve if math.isfinite(value)]
    elapsed, budget = run.state.get("elapsed_s"), run.budget if run.config else None
    return {
        **{key: getattr(run, key) for key in ("name", "sweep", "rounds", "policies", "started")},
        **{key: run.kind(key) for key in ("data", "model")},
        "state": run.status,
        "round": run.rounds if run.state["state"] == "finished" else done if found else run.state["round"],
        "seeds": len(run.seeds),
        "runs": len(run.runs),
        "lost": len(run.lost),
        "budget": budget,
        "spend_per_round": spend,
        "spend_shares": {name: money / budget for name, money in spend.items()} if budget else {},
        "spend_policy": shown.policy if shown else None,
        "spend_share": spend[shown.policy] / budget if budget and shown else None,
        "broken": limits(shown).which if shown else "",
        "over_budget": [one.policy for one in ranked if one is not shown and limits(one).runs_over_budget],
        "best_policy": best.policy if best else None,
        "best_accuracy": float(best.best.mean()) if best else None,
        "spark": spark,
        "elapsed": float(elapsed) if isinstance(elapsed, int | float) else None,
        "problem": problem,
    }


def about(run: RunFolder) -> dict[str, Any]:
    """Return state, settings and environment of a run, as the page and the report show them."""
    return {
        **{key: getattr(run, key) for key in ("name", "sweep", "rounds", "policies", "started")},
        **{key: getattr(run, key) for key in ("budget", "seeds", "buffers", "target", "environment")},
        **{key: run.kind(key) for key in ("data", "model")},
        "state": run.status,
        "round": run.state["round"],
        "memory": sum(run.buffers),
        "elapsed": run.state.get("elapsed_s"),
        "note": run.state.get("note"),
        "toml": run.config_text(),
    }
