"""What the measurement says about Theorem 1: is it kept, does it inform, does its surrogate rank policies rightly?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.control.types import Floats
from headgate.studies.theory.constants import exact_mismatch, informative_from
from headgate.studies.theory.outcome import RELEASED, ExcessRisk, Point, Stage
from headgate.studies.theory.ranks import Agreement, agreement
from headgate.theory.bound import mismatch

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
    full = [kept(outcome, stage, C2=True) for stage in outcome.stages]
    bare = [kept(outcome, stage, C2=False) for stage in outcome.stages]
    said = (_inequality(outcome, full, bare), _informative(outcome, full, bare), _ranks(outcome), _step_size(outcome))
    return [f"{outcome.name}, {each}" for each in (*said, _mismatch(outcome))]


def _each(values: Iterable[str]) -> str:
    return " and ".join(values)


def _lrs(outcome: ExcessRisk) -> str:
    return _each(f"{stage.lr:g}" for stage in outcome.stages)


def _inequality(outcome: ExcessRisk, full: Sequence[Inequality], bare: Sequence[Inequality]) -> str:
    runs = sum(each.runs for each in full)
    broken, broken_bare = sum(each.broken_runs for each in full), sum(each.broken_runs for each in bare)
    means = sum(each.broken_means for each in (*full, *bare))
    points = sum(len(stage.points) for stage in outcome.stages)
    return (
        f"the inequality: at η = {_lrs(outcome)}, with and without C_2, the mean over seeds exceeds the bound at {means} of "
        f"{2 * points} points. Of {runs} single runs {broken} exceed it, {broken_bare} if C_2 is left out."
    )


def _informative(outcome: ExcessRisk, full: Sequence[Inequality], bare: Sequence[Inequality]) -> str:
    least, over = min(each.least for each in bare), min(each.over_trivial for each in bare)
    spans, spans_bare = (_each(f"{each.least:,.0f} to {each.most:,.0f}" for each in side) for side in (full, bare))
    most = max(float(point.N.max()) for stage in outcome.stages for point in stage.points)
    pdims = (outcome.stages[0].few().bound.pdim, outcome.stages[0].estimated.bound.pdim)
    needed = _each(f"{informative_from(pdim):,.0f} (Pdim = {pdim:,.0f})" for pdim in pdims)
    return (
        f"how tight it is: at η = {_lrs(outcome)} the bound is {spans} times the measured risk ({spans_bare} times without "
        f"C_2); at its best, without C_2, it is {over:,.1f} times T·B, for which no theorem is needed, and could be divided by "
        f"{least:,.0f} and still hold here. Its pseudo-dimension term alone exceeds B until N = {needed}; these runs saw at "
        f"most {most:,.0f} samples."
    )


def _ranks(outcome: ExcessRisk) -> str:
    ranked = [rankings(stage, stage.points) for stage in outcome.stages]
    equal = [rankings(stage, at_equal_spend(stage)) for stage in outcome.stages if len(at_equal_spend(stage)) > 2]
    parts = []
    for stage, each in zip(outcome.stages, ranked, strict=True):
        own, count = each[SURROGATE], each["distinct samples N(T)"]
        parts.append(
            f"at η = {stage.lr:g} Spearman {own.spearman:.2f} ({own.spearman_low:.2f} to {own.spearman_high:.2f}), "
            f"Kendall {own.kendall:.2f}; counting distinct samples alone gives {count.spearman:.2f}"
        )
    same = ", ".join(f"{each[SURROGATE].spearman:.2f}" for each in equal)
    theorem = ", ".join(
        f"{next(value.spearman for name, value in each.items() if name.startswith('Theorem 1, estimated')):.2f}"
        for each in ranked
    )
    return (
        f"ranks of {len(outcome.stages[0].points)} points by Σp: {'; '.join(parts)}. Among points of equal spend it is "
        f"{same or 'not measured'}; Theorem 1's bound with estimated constants gives {theorem}."
    )


def _step_size(outcome: ExcessRisk) -> str:
    lr = outcome.stages[0].lr
    return f"the step size: L = {outcome.L:.1f}, so η = {lr:g} is {lr * outcome.L:.1f} times 1/L = {1 / outcome.L:.2g}."


def _mismatch(outcome: ExcessRisk) -> str:
    step = variance_step(outcome.stages[0].points)
    return (
        f"the variance step: for independent samples the mismatch is larger than allowed in {100 * step.broken:.0f} % of "
        f"rounds, {step.ratio:.2f} times the allowed on average; in {100 * step.none_allowed:.0f} % it is not zero where it "
        "should be."
    )
