"""What the measurement says about Theorem 1: is it kept, does it inform, does its surrogate rank policies rightly?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from headgate.analysis.formatting import jsonable
from headgate.analysis.intervals import LEVEL, means
from headgate.control.types import Floats
from headgate.theory.bound import BoundConstants, generalisation_gap, mismatch
from studies.theory.outcome import RELEASED, ExcessRisk, Point, Stage
from studies.theory.population import exact_mismatch

STRONG = 0.8
"""a rank correlation is called good from here on"""
DRAWS = 1000
SAME_SPEND = 0.1
"""how far a point's spend may be from the recipe's budget to count as equal"""
SURROGATE = "Σp, released constants"


def totals(points: Sequence[Point]) -> Floats:
    """E_T of every point and seed, (points, seeds)."""
    return np.stack([point.measured for point in points])


def predictors(stage: Stage, points: Sequence[Point]) -> dict[str, Floats]:
    """What could tell the order of the risks without any run, (points, seeds) each; counts are negated: more is better."""
    all_parameters, few = stage.estimated.bound, stage.few().bound
    stated = {"released constants": RELEASED, f"estimated, Pdim = {all_parameters.pdim:,.0f}": all_parameters}
    stated[f"estimated, Pdim = {few.pdim:g}"] = few
    made = {f"Σp, {name}": np.stack([point.penalty(k).sum(axis=1) for point in points]) for name, k in stated.items()}
    made |= {f"Theorem 1, {name}": np.stack([p.bound(k).sum(axis=1) for p in points]) for name, k in stated.items()}
    made["distinct samples N(T)"] = -np.stack([point.N[:, -1] for point in points])
    made["samples in memory, mean n"] = -np.stack([point.n.mean(axis=1) for point in points])
    made["money spent"] = -np.stack([point.spend.sum(axis=1) for point in points])
    return made


def at_equal_spend(stage: Stage) -> list[Point]:
    """The points whose mean spend is that of the recipe's budget."""
    budget = stage.points[0].budget
    return [point for point in stage.points if abs(point.spend.mean() - budget) <= SAME_SPEND * budget]


class Agreement(NamedTuple):
    """The coefficient of the means over seeds, with its interval."""

    spearman: float
    spearman_low: float
    spearman_high: float


def agreement(predicted: Floats, measured: Floats, draws: int = DRAWS) -> Agreement:
    """Of two tables (points, seeds); the interval is the middle 80 % over seeds drawn again with replacement."""
    points, seeds = measured.shape
    generator = np.random.Generator(np.random.Philox(key=points))
    drawn = generator.integers(0, seeds, (draws, seeds))
    tables = [each[:, drawn].mean(axis=-1).T for each in (predicted, measured)]
    centre = [each.mean(axis=1) for each in (predicted, measured)]
    low, high = np.quantile(spearman(*tables), ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return Agreement(float(spearman(*centre)), low, high)


def rankings(stage: Stage, points: Sequence[Point]) -> dict[str, Agreement]:
    measured = totals(points)
    return {name: agreement(values, measured) for name, values in predictors(stage, points).items()}


@dataclass(frozen=True)
class VarianceStep:
    """eq:sigma-bar-Neff-app against the exact sum of squared weights, over all runs and rounds."""

    broken: float
    """share of rounds in which the exact value is the larger one"""
    none_allowed: float
    """share of rounds in which it is positive although the inequality allows nothing"""
    ratio: float
    """mean exact value / mean allowed value"""


def variance_step(points: Sequence[Point], seed: int | None = None) -> VarianceStep:
    """Of all seeds, or of one."""
    rows = slice(None) if seed is None else slice(seed, seed + 1)
    exact = np.stack([exact_mismatch(point.n[rows], point.n_eff[rows]) for point in points])
    allowed = np.stack([mismatch(point.n[rows], point.n_eff[rows]) for point in points])
    beyond = exact > allowed + 1e-9
    ratio = float(exact.sum() / allowed.sum()) if allowed.any() else float("inf")
    return VarianceStep(float(beyond.mean()), float((beyond & (allowed == 0)).mean()), ratio)


# everything, as results keep it


def parts_of_bound(point: Point, k: BoundConstants) -> dict[str, float]:
    """Σ over rounds of each term of Theorem 1, mean over seeds."""
    uneven = mismatch(point.n, point.n_eff)
    summed = {
        "mismatch": k.D * k.sigma * np.sqrt(uneven) + k.eta * k.sigma**2 * uneven,
        "generalisation": generalisation_gap(point.N, point.n_eff / point.N, k),
        "C2": np.full_like(point.n, k.C2),
    }
    return {name: float(values.sum(axis=1).mean()) for name, values in summed.items()}


def outcome_numbers(outcome: ExcessRisk) -> dict[str, Any]:
    """Return what was measured on one data set, as JSON has it: a row for each step size and point."""
    rows = []
    for stage in outcome.stages:
        k = stage.estimated.bound
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
                    "bound": float(point.bound(k).sum(axis=1).mean()),
                    **{f"bound_{name}": value for name, value in parts_of_bound(point, k).items()},
                    "bound_released": float(point.bound(RELEASED).sum(axis=1).mean()),
                    "surrogate_released": float(point.penalty(RELEASED).sum(axis=1).mean()),
                }
            )
    stages = [
        {"lr": stage.lr, "constants": stage.estimated, "seen": stage.seen, "ranks": rankings(stage, stage.points)}
        for stage in outcome.stages
    ]
    named = {name: getattr(outcome, name) for name in ("quick", "rounds", "seeds", "L")}
    variance = variance_step(outcome.stages[0].points)
    told = {"data": outcome.name, **named, "never_learning": outcome.idle, "variance_step": variance}
    made: dict[str, Any] = jsonable({**told, "stages": stages, "points": rows})
    return made


def spearman(a: Floats, b: Floats) -> Floats:
    """Correlation of the ranks on the last axis; nan where one side is all equal."""
    x, y = (rankdata(each, axis=-1) - (a.shape[-1] + 1) / 2 for each in (a, b))
    size = np.sqrt((x * x).sum(axis=-1) * (y * y).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        return np.asarray((x * y).sum(axis=-1) / size)
