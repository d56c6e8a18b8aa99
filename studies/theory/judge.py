"""What was measured of Theorem 1 on one data set: is it kept, does it inform, does its surrogate rank policies rightly?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from headgate.analysis.formatting import jsonable
from headgate.analysis.intervals import LEVEL, Estimate, means
from headgate.control.types import Floats
from headgate.theory.bound import BoundConstants, learning_error, mismatch, penalty
from studies.theory.population import Extremes, Optimum, exact_mismatch

RELEASED = BoundConstants()
"""the constants of the released scripts"""
STRONG = 0.8
"""a rank correlation is called good from here on"""
DRAWS = 1000
SAME_SPEND = 0.1
"""how far a point's spend may be from the recipe's budget to count as equal"""


@dataclass(frozen=True, eq=False)
class Point:
    """One policy under one budget, all seeds; arrays are (seeds, rounds)."""

    policy: str
    budget: float
    risk: Floats
    """F(θ^(t)), of the model that enters round t, as eq:cum-excess-risk has it"""
    excess: Floats
    """F(θ^(t)) − F(θ*)"""
    n: Floats
    N: Floats
    n_eff: Floats
    spend: Floats

    @property
    def measured(self) -> Floats:
        """E_T of each seed."""
        return np.asarray(self.excess.sum(axis=1))

    def bound(self, k: BoundConstants) -> Floats:
        """Theorem 1's bound on E_T, of each seed."""
        return np.asarray(learning_error(self.n, self.N, self.n_eff / self.N, k).sum(axis=1))

    def surrogate(self) -> Floats:
        """Σp with the constants of the released scripts, of each seed."""
        return np.asarray(penalty(self.n, self.N, RELEASED).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Stage:
    """All points at one step size."""

    lr: float
    points: tuple[Point, ...]
    seen: Extremes
    estimated: BoundConstants
    """the smallest that fit these runs, Pdim = number of parameters"""


@dataclass(frozen=True, eq=False)
class ExcessRisk:
    """The outcome for one data set."""

    name: str
    rounds: int
    seeds: int
    L: float
    classes: int
    optima: tuple[Optimum, ...]
    """one per seed: every seed deals the images out itself"""
    stages: tuple[Stage, ...]
    """the recipe's step size, then one that is at most 1/L"""
    quick: bool

    @property
    def idle(self) -> float:
        """T·(log c − F(θ*)): what the model that every run starts from, all zero, would gather by never learning."""
        return self.rounds * (float(np.log(self.classes)) - float(np.mean([each.risk for each in self.optima])))


def at_equal_spend(stage: Stage) -> list[Point]:
    """The points whose mean spend is that of the recipe's budget."""
    budget = stage.points[0].budget
    return [point for point in stage.points if abs(point.spend.mean() - budget) <= SAME_SPEND * budget]


def surrogate_ranks(points: Sequence[Point]) -> Estimate:
    """The rank correlation of the surrogate and the measured risk."""
    return agreement(np.stack([point.surrogate() for point in points]), np.stack([point.measured for point in points]))


def agreement(predicted: Floats, measured: Floats, draws: int = DRAWS) -> Estimate:
    """Spearman's coefficient of the means over seeds of two tables (points, seeds).

    The interval is the middle 80 % over seeds drawn again with replacement.
    """
    points, seeds = measured.shape
    generator = np.random.Generator(np.random.Philox(key=points))
    drawn = generator.integers(0, seeds, (draws, seeds))
    tables = [each[:, drawn].mean(axis=-1).T for each in (predicted, measured)]
    centre = [each.mean(axis=1) for each in (predicted, measured)]
    low, high = np.quantile(spearman(*tables), ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return Estimate(float(spearman(*centre)), low, high)


def spearman(a: Floats, b: Floats) -> Floats:
    """Correlation of the ranks on the last axis; nan where one side is all equal."""
    x, y = (rankdata(each, axis=-1) - (a.shape[-1] + 1) / 2 for each in (a, b))
    size = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray((x * y).sum(axis=-1) / size)


class VarianceStep(NamedTuple):
    """eq:sigma-bar-Neff-app against the exact sum of squared weights, over all runs and rounds."""

    broken: float
    """share of rounds in which the exact value is the larger one"""
    ratio: float
    """mean exact value / mean allowed value"""


def variance_step(points: Sequence[Point], seed: int | None = None) -> VarianceStep:
    """Of all seeds, or of one."""
    rows = slice(None) if seed is None else slice(seed, seed + 1)
    exact = np.stack([exact_mismatch(point.n[rows], point.n_eff[rows]) for point in points])
    allowed = np.stack([mismatch(point.n[rows], point.n_eff[rows]) for point in points])
    ratio = float(exact.sum() / allowed.sum()) if allowed.any() else float("inf")
    return VarianceStep(float((exact > allowed + 1e-9).mean()), ratio)


def outcome_numbers(outcome: ExcessRisk) -> dict[str, Any]:
    """Return what was measured on one data set, as JSON has it: a row for each step size and point."""
    rows, stages = [], []
    for stage in outcome.stages:
        ranks = surrogate_ranks(stage.points).three
        stages.append({"lr": stage.lr, "constants": stage.estimated, "seen": stage.seen, "ranks": ranks})
        for point in stage.points:
            measured, half = means(point.measured[:, None])
            rows.append(
                {
                    "lr": stage.lr,
                    "policy": point.policy,
                    "budget": point.budget,
                    "spend": float(point.spend.mean()),
                    "n": float(point.n.mean()),
                    "N": float(point.N[:, -1].mean()),
                    "excess": float(measured[0]),
                    "excess_half": None if np.isnan(half[0]) else float(half[0]),  # one seed has no interval
                    "bound": float(point.bound(stage.estimated).mean()),
                    "bound_released": float(point.bound(RELEASED).mean()),
                    "surrogate_released": float(point.surrogate().mean()),
                }
            )
    named = {name: getattr(outcome, name) for name in ("quick", "rounds", "seeds", "L")}
    variance = variance_step(outcome.stages[0].points)._asdict()
    told = {"data": outcome.name, **named, "never_learning": outcome.idle, "variance_step": variance}
    made: dict[str, Any] = jsonable({**told, "stages": stages, "points": rows})
    return made
