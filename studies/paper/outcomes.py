"""What policies came to: as run folders have it, and as the numbers of a study keep it for its claims."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis.intervals import Floats
from headgate.analysis.runs import Runs, read_finished
from studies.paper.control import Control, Controls

Outcomes = Mapping[tuple[str, str], Runs]
"""by (run folder's own name, policy)"""


def read_outcomes(folders: Sequence[Path]) -> dict[tuple[str, str], Runs]:
    """Every policy of the given folders."""
    return {(one.folder, one.policy): one for folder in folders for one in read_finished([folder])}


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
    return Side(
        policy=raw["policy"],
        rounds=raw["rounds"],
        lost=raw["diverged"],
        best=dict(zip(raw["learnt"], raw["final_by_seed"], strict=True)),
        first=None if first is None else {int(target): rounds for target, rounds in first.items()},
        control=control.get((raw["batch"], raw["policy"]), ()),
    )
