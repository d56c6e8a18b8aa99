"""What policies came to: as run folders have it, and as the results of a study keep it for its claims."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.analysis.curves import thinned
from headgate.analysis.intervals import Estimate, Floats, estimate
from headgate.analysis.runs import Runs
from headgate.errors import DataError
from studies.paper.batches import HORIZON, RELEASED, WRITTEN
from studies.paper.control import Control, Controls

POINTS = 50
"""of a curve that are kept"""
STEP = 5
"""targets for which the first rounds are kept are multiples of so many %"""


@dataclass(frozen=True, eq=False)
class Side:
    """A policy of a study, as claims ask for it: accuracies by seed from learning, money and memory from rehearsals."""

    policy: str
    rounds: int
    lost: int
    """runs whose model diverged"""
    best: Mapping[int, float]
    """by seed that has learnt: the running best at the end"""
    first: Mapping[int, Sequence[int | None]] | None
    """by target in %, for these seeds: the round in which each is there; None: not published"""
    control: Sequence[Control]
    """the shortest horizon first; empty: not rehearsed"""

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.best.values())))

    def reached(self, target: int, seeds: Iterable[int]) -> Floats:
        """Rounds up to the target in %, by seed; NaN where it never gets there."""
        rounds = dict(zip(self.best, (self.first or {}).get(target, [None] * len(self.best)), strict=True))
        return np.array([rounds[seed] for seed in seeds], dtype=np.float64)


Sides = Mapping[tuple[str, str], Side]
"""by (run folder's own name, policy)"""


def sides_of(numbers: Mapping[str, Any], control: Controls) -> dict[tuple[str, str], Side]:
    """From the numbers of a study and what was rehearsed for it."""
    return {(raw["batch"], raw["policy"]): side_of(raw, control) for raw in numbers.get("policies", [])}


def side_of(raw: Mapping[str, Any], control: Controls) -> Side:
    first = raw.get("rounds_by_seed")
    longer = control.get((WRITTEN, raw["policy"]), ()) if raw["batch"].startswith(HORIZON) else ()  # the same rule for longer
    known = control.get((raw["batch"], raw["policy"])) or sorted(longer, key=lambda one: one.rounds != raw["rounds"])
    return Side(
        policy=raw["policy"],
        rounds=raw["rounds"],
        lost=raw["diverged"],
        best=dict(zip(raw["learnt"], raw["final_by_seed"], strict=True)),
        first=None if first is None else {int(target): rounds for target, rounds in first.items()},
        control=known,
    )


def policy_numbers(one: Runs) -> dict[str, Any]:
    """What a policy came to; the seeds one by one where claims are judged by them."""
    if one.held is None:
        raise DataError(f"{one.folder}: what clients hold was not recorded")
    shares = one.held / one.buffers
    asked = one.folder.startswith((WRITTEN, RELEASED, HORIZON)) and one.learnt
    judged = {"rounds_by_seed": _first_rounds(one)} if asked else {}
    return {
        "batch": one.folder,
        "policy": one.policy,
        "seeds": len(one.learnt),
        "diverged": one.lost_runs,
        "rounds": one.rounds,
        "budget": one.budget,
        "accuracy": _plain(estimate(one.best)) if one.learnt else None,
        "spend": _plain(estimate(one.spend)),
        "fullest_mean": round(float(shares.mean(axis=(0, 1)).max()), 5),
        "fullest_peak": round(float(shares.max()), 5),
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


def curves_csv(outcomes: Sequence[Runs], quick: bool) -> str:
    """Mean and interval at the evaluated rounds of every policy, thinned evenly where there are many."""
    lines = ["kind,batch,policy,round,accuracy,low,high,spent,n,debt"]
    kind = "trial" if quick else "result"
    for one in (one for one in outcomes if one.learnt):
        means = [values.mean(axis=0) for values in (one.spent, one.column("n"), one.column("debt"))]
        for place in thinned(len(one.t), POINTS):
            t, best = one.t[place], estimate(one.curve[:, place])
            values = [*best.three, *(float(each[t - 1]) for each in means)]
            text = ",".join("" if value is None else f"{value:.6g}" for value in values)
            lines.append(f"{kind},{one.folder},{one.policy},{t},{text}")
    return "\n".join(lines) + "\n"
