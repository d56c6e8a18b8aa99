"""The numbers behind a study's page, small enough to be kept beside it: JSON for the table, CSV for the curves."""

from collections.abc import Mapping
from typing import Any

from headgate.analysis.curves import thinned
from headgate.analysis.intervals import Estimate, estimate
from headgate.analysis.runs import Runs
from studies.paper.batches import RELEASED, WRITTEN
from studies.paper.decomposition import decompose
from studies.paper.outcomes import Outcomes

POINTS = 50
"""of a curve that are kept"""
STEP = 5
"""targets for which the first rounds are kept are multiples of so many %"""
FLAVOURS = (WRITTEN, RELEASED)


def study_numbers(data: str, outcomes: Outcomes, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows."""
    return {
        "study": data,
        **facts,
        "policies": [policy_numbers(outcome) for outcome in outcomes.values()],
        "decomposition": [
            {
                "way": way.name,
                "whole": _plain(way.whole),
                "steps": [
                    {
                        "what": step.what,
                        "policy": step.to.policy,
                        "gain": _plain(step.gain),
                        "spend": round(float(step.to.spend.mean()), 3),
                    }
                    for step in way.steps
                ],
            }
            for way in decompose(outcomes)
        ],
    }


def policy_numbers(one: Runs) -> dict[str, Any]:
    """What a policy came to; the seeds one by one where claims are judged by them."""
    judged = {"rounds_by_seed": _first_rounds(one)} if one.folder in FLAVOURS and one.learnt else {}
    return {
        "batch": one.folder,
        "policy": one.policy,
        "seeds": len(one.learnt),
        "diverged": one.lost_runs,
        "guessing": one.guessing,
        "rounds": one.rounds,
        "budget": one.budget,
        "accuracy": _plain(estimate(one.best)) if one.learnt else None,
        "late_gain": _plain(estimate(one.late_gain)) if one.learnt else None,
        "spend": _plain(estimate(one.spend)),
        "mean_n": round(float(one.column("n").mean()), 3),
        "peak_n": one.peak_n,
        "fullest_mean": round(one.fullest, 5),
        "fullest_peak": round(one.peak_share, 5),
        "learnt": list(one.learnt),
        "final_by_seed": [round(float(value), 5) for value in one.best],
        **judged,
    }


def _first_rounds(one: Runs) -> dict[str, list[int | None]]:
    """By each multiple of `STEP` % that any run reaches: the evaluated round in which it is there first; None: never."""
    found = {}
    for target in range(STEP, 101, STEP):
        there = one.curve >= target / 100 - 1e-9
        if not there.any():
            break
        found[str(target)] = [int(one.t[row.argmax()]) if row.any() else None for row in there]
    return found


def _plain(value: Estimate) -> list[float | None]:
    return [None if each is None else round(each, 5) for each in value.three]


def curves_csv(outcomes: Outcomes, quick: bool) -> str:
    """Mean and interval at the evaluated rounds of every policy, thinned evenly where there are many."""
    lines = ["kind,batch,policy,round,accuracy,low,high,spent,n,debt"]
    kind = "trial" if quick else "result"
    for one in (one for one in outcomes.values() if one.learnt):
        means = [values.mean(axis=0) for values in (one.spent, one.column("n"), one.column("debt"))]
        for place in thinned(len(one.t), POINTS):
            t, best = one.t[place], estimate(one.curve[:, place])
            values = [*best.three, *(float(each[t - 1]) for each in means)]
            text = ",".join("" if value is None else f"{value:.6g}" for value in values)
            lines.append(f"{kind},{one.folder},{one.policy},{t},{text}")
    return "\n".join(lines) + "\n"
