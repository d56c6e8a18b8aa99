"""Cumulative excess population risk of runs, beside Theorem 1's bound and the surrogate Σp, over policies and settings."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from headgate.errors import SettingError
from headgate.experiment import Experiment, sweep_points
from headgate.learning.datasets import Dataset
from headgate.simulation.engine import Simulation
from studies.theory.judge import ExcessRisk, Point, Stage
from studies.theory.population import (
    Extremes,
    Optimum,
    Population,
    estimate_constants,
    gradients,
    minimiser,
    pooled,
    risk,
    smoothness,
)

Tick = Callable[[int, int], None]
BASIC = ("oracle", "acdpp", "constant", "hybrid", "released")
"""policies at every budget, but for the oracle"""
GLANCES = 25
"""gradients are looked at in the first rounds and then every so many: they are what changes least and costs most"""


def measure(recipe: str, dataset: Dataset, quick: bool = False, tick: Tick = lambda done, of: None) -> ExcessRisk:
    """Every policy and setting at the recipe's step size with all seeds, and at 1/L with half of them."""
    cases = _cases(recipe, quick)
    first = cases[0]
    rounds, seeds = first.rounds, len(first.seeds)
    if first.model.kind != "logistic":
        raise SettingError(f"model.kind = {first.model.kind}: the bound is for a convex loss, so it must be logistic")
    populations = [pooled(dataset, first, int(seed)) for seed in first.seeds]
    optima = [minimiser(populations[0])]
    optima += [minimiser(each, start=optima[0].theta) for each in populations[1:]]
    L = smoothness(populations)
    fewer = max(seeds // 2, 1)
    plans = [(first.training.lr, seeds)] + ([] if first.training.lr <= 1 / L else [(_rounded_down(1 / L), fewer)])
    of, done = len(cases) * rounds * len(plans), 0

    def ticked() -> None:
        nonlocal done
        done += 1
        tick(done, of)

    stages = []
    for lr, count in plans:
        own = [replace(case, training=replace(case.training, lr=lr), seeds=case.seeds[:count]) for case in cases]
        found, extremes = zip(*(_run(case, dataset, populations, optima, ticked) for case in own), strict=True)
        seen = Extremes(*(max(values) for values in zip(*extremes, strict=True)))
        estimated = estimate_constants(seen, L, lr, first.training.steps, rounds, float(optima[0].theta.numel()))
        stages.append(Stage(lr, tuple(point for points in found for point in points), seen, estimated))
    return ExcessRisk(first.name, rounds, seeds, L, len(dataset.classes), tuple(optima), tuple(stages), quick)


def _cases(recipe: str, quick: bool) -> list[Experiment]:
    """One experiment per budget, the recipe's first; runs of one experiment share a batch. A trial has no variants."""
    cases = [case for _, case in sweep_points(recipe, ["run.rounds=12", "run.seeds=2"] if quick else ())]
    return [case.only([name for name in case.policies if name in BASIC]) for case in cases] if quick else cases


def _rounded_down(value: float) -> float:
    """To two digits: a step size that can be typed."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.floor(value / unit) * unit)


def _run(
    case: Experiment, dataset: Dataset, populations: Sequence[Population], optima: Sequence[Optimum], ticked: Callable[[], None]
) -> tuple[list[Point], tuple[float, ...]]:
    """All runs of one experiment, judged by the population and the best model of each seed: points, and the extremes."""
    simulation = Simulation(case, dataset, "cpu")
    names, S, T = list(simulation.names), len(case.seeds), case.rounds
    losses = np.empty((len(names), S, T))
    record = {key: np.empty((len(names), S, T)) for key in ("n", "N", "n_eff", "spend")}
    distance = variance = gradient = loss = radius = 0.0
    for t in range(T):
        theta = torch.from_numpy(simulation.theta).reshape(len(names), S, -1)
        for s, population in enumerate(populations[:S]):
            own = theta[:, s]
            now = risk(population, own)
            losses[:, s, t] = now.mean
            loss = max(loss, float(now.largest.max()))
            radius = max(radius, float(own.norm(dim=1).max()))
            distance = max(distance, float((own.double() - optima[s].theta).norm(dim=1).max()))
            if t < 3 or t % GLANCES == 0 or t == T - 1:
                spread = gradients(population, own)
                variance, gradient = max(variance, float(spread.variance.max())), max(gradient, float(spread.largest.max()))
        rows = simulation.step().metrics
        for key, table in record.items():
            table[..., t] = np.array([row[key] for row in rows], dtype=np.float64).reshape(len(names), S)
        ticked()
    best = np.array([each.risk for each in optima[:S]])[:, None]
    points = [
        Point(
            policy=name,
            budget=case.system.budget,
            risk=losses[p],
            excess=losses[p] - best,
            **{key: table[p] for key, table in record.items()},
        )
        for p, name in enumerate(names)
    ]
    return points, (distance, variance, gradient, loss, radius)
