"""What the measurement says about Theorem 1: is it kept, does it inform, does its surrogate rank policies rightly?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.analysis.pages import words
from headgate.control.types import Floats
from headgate.theory.bound import mismatch
from studies.theory.constants import exact_mismatch, informative_from
from studies.theory.outcome import RELEASED, ExcessRisk, Point, Stage
from studies.theory.ranks import Agreement, agreement

STRONG = 0.8
"""a rank correlation is called good from here on"""
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


def rankings(stage: Stage, points: Sequence[Point]) -> dict[str, Agreement]:
    measured = totals(points)
    return {name: agreement(values, measured) for name, values in predictors(stage, points).items()}


@dataclass(frozen=True)
class Inequality:
    """The inequality, over the points of a stage."""

    runs: int
    broken_runs: int
    broken_means: int
    least: float
    """the smallest bound / measured of a point's mean"""
    most: float
    over_trivial: float
    """the smallest bound / (T·B)"""
    over_idle: float
    """the smallest bound / (what a model that never learns gathers)"""


def kept(outcome: ExcessRisk, stage: Stage, C2: bool) -> Inequality:
    """With the smallest constants these runs allow; without C_2 it is the least that Theorem 1 can be read to say."""
    k = stage.estimated.bound if C2 else stage.estimated.without_C2()
    measured = totals(stage.points)
    bound = np.stack([point.bound(k).sum(axis=1) for point in stage.points])
    ratio = bound.mean(axis=1) / measured.mean(axis=1)
    return Inequality(
        runs=measured.size,
        broken_runs=int((measured > bound).sum()),
        broken_means=int((ratio < 1).sum()),
        least=float(ratio.min()),
        most=float(ratio.max()),
        over_trivial=float(bound.mean(axis=1).min() / (outcome.rounds * k.loss)),
        over_idle=float(bound.mean(axis=1).min() / outcome.idle),
    )


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


def remarks(outcome: ExcessRisk) -> list[str]:
    """What stands behind the verdicts of the claims, at every step size that was run."""
    numbers = _tightness(outcome) | _orders(outcome) | _steps(outcome)
    return [f"{outcome.name}, {said.format(**numbers)}" for said in words(__file__)["remarks"].values()]


def _tightness(outcome: ExcessRisk) -> dict[str, Any]:
    full, bare = ([kept(outcome, stage, C2) for stage in outcome.stages] for C2 in (True, False))
    pdims = (outcome.stages[0].few().bound.pdim, outcome.stages[0].estimated.bound.pdim)
    spans, spans_bare = (_each(f"{each.least:,.0f} to {each.most:,.0f}" for each in side) for side in (full, bare))
    return {
        "lrs": _each(f"{stage.lr:g}" for stage in outcome.stages),
        "runs": sum(each.runs for each in full),
        "broken": sum(each.broken_runs for each in full),
        "broken_bare": sum(each.broken_runs for each in bare),
        "broken_means": sum(each.broken_means for each in (*full, *bare)),
        "twice_points": 2 * sum(len(stage.points) for stage in outcome.stages),
        "spans": spans,
        "spans_bare": spans_bare,
        "over": min(each.over_trivial for each in bare),
        "least": min(each.least for each in bare),
        "needed": _each(f"{informative_from(pdim):,.0f} (Pdim = {pdim:,.0f})" for pdim in pdims),
        "most": max(float(point.N.max()) for stage in outcome.stages for point in stage.points),
    }


def _orders(outcome: ExcessRisk) -> dict[str, Any]:
    ranked = [rankings(stage, stage.points) for stage in outcome.stages]
    equal = [rankings(stage, same) for stage in outcome.stages if len(same := at_equal_spend(stage)) > 2]
    parts = []
    for stage, each in zip(outcome.stages, ranked, strict=True):
        own, count = each[SURROGATE], each["distinct samples N(T)"]
        parts.append(
            f"at η = {stage.lr:g} Spearman {own.spearman:.2f} ({own.spearman_low:.2f} to {own.spearman_high:.2f}), "
            f"Kendall {own.kendall:.2f}; counting distinct samples alone gives {count.spearman:.2f}"
        )
    theorem = [next(value for name, value in each.items() if name.startswith("Theorem 1, estimated")) for each in ranked]
    return {
        "points": len(outcome.stages[0].points),
        "ranked": "; ".join(parts),
        "same": ", ".join(f"{each[SURROGATE].spearman:.2f}" for each in equal) or "not measured",
        "theorem": ", ".join(f"{each.spearman:.2f}" for each in theorem),
    }


def _steps(outcome: ExcessRisk) -> dict[str, Any]:
    step, lr, L = variance_step(outcome.stages[0].points), outcome.stages[0].lr, outcome.L
    shares = {"beyond": 100 * step.broken, "none_allowed": 100 * step.none_allowed, "ratio": step.ratio}
    return {"L": L, "lr": lr, "times": lr * L, "inverse": 1 / L, **shares}


def _each(values: Iterable[str]) -> str:
    return " and ".join(values)
