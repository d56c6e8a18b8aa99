"""Theorem 1 beside runs of logistic regression: cumulative excess population risk, the
bound and the surrogate Σp.

The population is finite: client m's distribution is uniform over the images it owns,
and the target is their mixture with the weights α_m. So an expectation is a weighted
sum, and the population risk is exact.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from headgate.analysis.intervals import LEVEL, Estimate
from headgate.control.types import Floats
from headgate.errors import HeadgateError
from headgate.experiment import Experiment, sweep_points
from headgate.learning.datasets import Dataset
from headgate.simulation.engine import Simulation
from headgate.theory.bound import BoundConstants, learning_error, mismatch, penalty
from studies.paper.errata.numbers import exact_mismatch
from studies.paper.theory import local_constants

CHUNK = 1_000
"""images at once: keeps the logits of all runs in the cache's reach"""
BASIC = ("oracle", "acdpp", "constant", "hybrid", "released")
"""policies at every budget, but for the oracle"""
GLANCES = 25
"""gradients are looked at in the first rounds and then every so many: they are what
changes least and costs most
"""
RIDGE = 1e-4
"""small enough for the ball to hold every run of the recipes: at 3e-4 some on MNIST
leave it
"""
GAP = 1e-4
"""how far the regularised risk may be above its minimum, by a certificate"""
PASSES, STEPS = 60, 20
STRONG = 0.8
"""a rank correlation is called good from here on"""
DRAWS = 1000
SAME_SPEND = 0.1
"""how far a point's spend may be from the recipe's budget to count as equal"""


# the population, and the risk of many models on it


class Population(NamedTuple):
    """Weighted images; `features` (n, d + 1) end with a one, for the bias."""

    features: Tensor
    labels: Tensor
    weight: Tensor
    """(n,) float64, sums to one"""
    classes: int


def pooled(dataset: Dataset, experiment: Experiment, seed: int) -> Population:
    """P = Σ α_m·P_m for one seed: all images of all clients, each as often as clients
    own it.
    """
    system = experiment.system
    owned = experiment.data.partition.split(
        dataset.train_labels, system.clients, seed, dataset.columns
    )
    shares = zip(owned, system.weight, strict=True)
    weight = np.concatenate(
        [np.full(rows.size, share / rows.size) for rows, share in shares]
    )
    images, labels = (
        own[np.concatenate(owned)]
        for own in (dataset.train_images, dataset.train_labels)
    )
    mean, std = (
        np.asarray(values, dtype=np.float32)[:, None, None]
        for values in (dataset.mean, dataset.std)
    )
    pixels = torch.from_numpy(
        ((images.astype(np.float32) / np.float32(dataset.unit) - mean) / std).reshape(
            len(labels), -1
        )
    )
    features = torch.cat([pixels, torch.ones(len(labels), 1)], dim=1)
    return Population(
        features,
        torch.from_numpy(labels),
        torch.from_numpy(weight),
        len(dataset.classes),
    )


def as_matrix(theta: Tensor, classes: int) -> Tensor:
    """Flat logistic models (R, P), weights before biases, as (R, classes, d + 1) that
    belong to `features`.
    """
    return torch.cat(
        [
            theta[:, :-classes].reshape(len(theta), classes, -1),
            theta[:, -classes:, None],
        ],
        dim=2,
    )


def as_vector(matrix: Tensor) -> Tensor:
    """The inverse of `as_matrix`."""
    return torch.cat([matrix[:, :, :-1].flatten(1), matrix[:, :, -1]], dim=1)


def risk(population: Population, theta: Tensor) -> tuple[Floats, Floats]:
    """F and the largest loss of one image, (R,) each, of the models theta (R, P); all
    models are one matrix product.
    """
    mean, largest = (
        torch.zeros(len(theta), dtype=torch.float64),
        torch.zeros(len(theta)),
    )
    for part, logits in _logits(population, theta):
        labels = population.labels[part, None, None].expand(-1, len(theta), 1)
        loss = torch.logsumexp(logits, dim=2) - logits.gather(2, labels).squeeze(2)
        mean += population.weight[part] @ loss.double()
        largest = torch.maximum(largest, loss.amax(dim=0).float())
    return mean.numpy(), largest.double().numpy()


def gradients(population: Population, theta: Tensor) -> tuple[Floats, Floats]:
    """E‖∇ℓ − ∇F‖² and the largest ‖∇ℓ‖ of one image, (R,) each.

    ∇ℓ = (softmax − label)·xᵀ, so its norm is a product of two norms.
    """
    R = len(theta)
    square, largest = (
        torch.zeros(R, dtype=torch.float64),
        torch.zeros(R, dtype=torch.float64),
    )
    mean = torch.zeros(
        R * population.classes, population.features.shape[1], dtype=torch.float64
    )
    for part, logits in _logits(population, theta):
        features = population.features[part]
        residual = torch.softmax(logits, dim=2)
        residual -= torch.nn.functional.one_hot(
            population.labels[part], population.classes
        )[:, None]
        norms = torch.linalg.vector_norm(features, dim=1)[:, None]
        squares = residual.square().sum(dim=2).double() * norms.double() ** 2
        square += population.weight[part] @ squares
        largest = torch.maximum(largest, squares.amax(dim=0))
        mean += residual.flatten(1).T @ (
            features * population.weight[part, None].to(features)
        )
    variance = square - mean.reshape(R, -1).square().sum(dim=1)
    return variance.clamp_min(0.0).numpy(), largest.sqrt().numpy()


def _logits(population: Population, theta: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """(which images, their logits (images, R, classes))"""
    flat = (
        as_matrix(theta.to(population.features), population.classes)
        .flatten(0, 1)
        .T.contiguous()
    )
    for start in range(0, len(population.labels), CHUNK):
        part = slice(start, start + CHUNK)
        yield (
            part,
            (population.features[part] @ flat).reshape(
                -1, len(theta), population.classes
            ),
        )


class Optimum(NamedTuple):
    """Θ is the ball of radius ‖θ*‖, and θ* the best model in it."""

    theta: Tensor
    """(P,) float64"""
    risk: float
    """F(θ*)"""
    gradient: float
    """‖∇F(θ*) + ridge·θ*‖: that squared, over 2·ridge, bounds how far the regularised
    risk is above its minimum
    """


def minimiser(
    population: Population,
    ridge: float = RIDGE,
    gap: float = GAP,
    start: Tensor | None = None,
) -> Optimum:
    """L-BFGS in coordinates in which the second moments of the images are nearly the
    identity (far fewer steps).

    `start` may be the best model of a similar population: it saves steps and changes
    nothing else.
    """
    features = population.features.double()
    moments, axes = torch.linalg.eigh((features.T * population.weight) @ features)
    seen = (
        moments > 1e-10 * moments[-1]
    )  # directions that no image has stay at zero, as in every run
    scale = (moments[seen] + 0.01 * moments[-1]).rsqrt()
    turned = features @ (axes[:, seen] * scale)
    wanted = torch.nn.functional.one_hot(population.labels, population.classes).double()
    weight = population.weight[:, None]
    point = torch.nn.Parameter(
        torch.zeros(population.classes, int(seen.sum()), dtype=torch.float64)
    )
    if start is not None:
        point.data = (
            as_matrix(start[None].double(), population.classes)[0]
            @ axes[:, seen]
            / scale
        )

    def value() -> Tensor:
        logits = turned @ point.data.T
        total = torch.logsumexp(logits, dim=1, keepdim=True)
        own = point.data * scale
        point.grad = (
            (torch.exp(logits - total) - wanted) * weight
        ).T @ turned + ridge * own * scale
        loss: Tensor = (
            (total - (logits * wanted).sum(dim=1, keepdim=True)) * weight
        ).sum() + ridge / 2 * own.square().sum()
        return loss

    solver = torch.optim.LBFGS(
        [point],
        max_iter=STEPS,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        history_size=10,
        line_search_fn="strong_wolfe",
    )
    for _ in range(PASSES):
        solver.step(value)  # type: ignore[no-untyped-call]
        value()
        gradient = float((point.grad / scale).norm())
        if gradient**2 <= 2 * ridge * gap:
            break
    else:
        raise HeadgateError(
            f"ridge = {ridge:g}: the population's best model is not found to {gap:g} in"
            f" {PASSES * STEPS} steps"
        )
    matrix = (point.data * scale) @ axes[:, seen].T
    theta = as_vector(matrix[None])
    return Optimum(
        theta[0],
        float(risk(population._replace(features=features), theta)[0][0]),
        gradient,
    )


def smoothness(populations: Sequence[Population]) -> float:
    """L of the population risk: the Hessian of softmax cross-entropy is at most
    ½·λ_max(E[x·xᵀ]).
    """
    moments = [
        (each.features.double().T * each.weight) @ each.features.double()
        for each in populations
    ]
    return max(float(torch.linalg.eigvalsh(each)[-1]) for each in moments) / 2


# constants of the bound


class Extremes(NamedTuple):
    """Extremes over all runs and rounds, and θ*."""

    distance: float
    """‖θ_t − θ*‖"""
    variance: float
    """E‖∇ℓ − ∇F‖²"""
    gradient: float
    """‖∇ℓ‖ of one image"""
    loss: float
    """of one image"""
    radius: float
    """‖θ_t‖"""


def estimate_constants(
    seen: Extremes, L: float, eta: float, steps: int, rounds: int, pdim: float
) -> BoundConstants:
    """The smallest constants that these runs allow, so the tightest bound: each is the
    largest value that was met.

    D is the largest ‖θ_t − θ*‖ rather than Θ's diameter, because the proof uses D for
    nothing else; Pdim is stated, not measured. C_2 is what the proof collects in it,
    D²/(2ηT) + (η·C_1 + η³·C_2)/2 with the C_1, C_2 of eq:C1C2-def.
    """
    c = local_constants(seen.gradient, L, seen.distance, steps)
    C2 = seen.distance**2 / (2 * eta * rounds) + (eta * c.C1 + eta**3 * c.C2) / 2
    return BoundConstants(
        D=seen.distance,
        sigma=sqrt(seen.variance),
        eta=eta,
        loss=seen.loss,
        pdim=pdim,
        C2=C2,
    )


# runs


@dataclass(frozen=True, eq=False)
class Point:
    """One policy under one budget, all seeds; arrays are (seeds, rounds)."""

    policy: str
    budget: float
    excess: Floats
    """F(θ^(t)) − F(θ*) of the model that enters round t, as eq:cum-excess-risk has it
    """
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
        return np.asarray(
            learning_error(self.n, self.N, self.n_eff / self.N, k).sum(axis=1)
        )

    def surrogate(self) -> Floats:
        """Σp with the constants of the released scripts, of each seed."""
        return np.asarray(penalty(self.n, self.N, BoundConstants()).sum(axis=1))


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
    """What was measured on one data set."""

    name: str
    rounds: int
    L: float
    classes: int
    optima: tuple[Optimum, ...]
    """one per seed: every seed deals the images out itself"""
    stages: tuple[Stage, ...]
    """the recipe's step size, then one that is at most 1/L"""

    @property
    def idle(self) -> float:
        """T·(log c − F(θ*)): what the model that every run starts from, all zero, would
        gather by never learning.
        """
        return self.rounds * (
            float(np.log(self.classes))
            - float(np.mean([each.risk for each in self.optima]))
        )


def measure_risk(
    recipe: str,
    dataset: Dataset,
    quick: bool = False,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> ExcessRisk:
    """Every policy and setting at the recipe's step size with all seeds, and at 1/L
    with half of them.

    There is one experiment per budget, the recipe's first; runs of one experiment share
    a batch. A trial has no variants.
    """
    cases = [
        case
        for _, case in sweep_points(
            recipe, ["run.rounds=12", "run.seeds=2"] if quick else ()
        )
    ]
    cases = (
        [case.only([name for name in case.policies if name in BASIC]) for case in cases]
        if quick
        else cases
    )
    first = cases[0]
    rounds, seeds = first.rounds, len(first.seeds)
    populations = [pooled(dataset, first, int(seed)) for seed in first.seeds]
    optima = [minimiser(populations[0])]
    optima += [minimiser(each, start=optima[0].theta) for each in populations[1:]]
    L = smoothness(populations)
    plans = [(first.training.lr, seeds)]
    if first.training.lr > 1 / L:
        unit = 10.0 ** (
            np.floor(np.log10(1 / L)) - 1
        )  # two digits: a step size that can be typed
        plans.append((float(np.floor(1 / L / unit) * unit), max(seeds // 2, 1)))
    stages: list[Stage] = []
    for lr, count in plans:
        own = [
            replace(
                case, training=replace(case.training, lr=lr), seeds=case.seeds[:count]
            )
            for case in cases
        ]
        played = []
        for place, case in enumerate(own, start=1):
            played.append(_run(case, dataset, populations, optima))
            tick(len(stages) * len(own) + place, len(plans) * len(own))
        found, extremes = zip(*played, strict=True)
        seen = Extremes(*(max(values) for values in zip(*extremes, strict=True)))
        estimated = estimate_constants(
            seen, L, lr, first.training.steps, rounds, float(optima[0].theta.numel())
        )
        stages.append(
            Stage(
                lr,
                tuple(point for points in found for point in points),
                seen,
                estimated,
            )
        )
    return ExcessRisk(
        first.name, rounds, L, len(dataset.classes), tuple(optima), tuple(stages)
    )


def _run(
    case: Experiment,
    dataset: Dataset,
    populations: Sequence[Population],
    optima: Sequence[Optimum],
) -> tuple[list[Point], Extremes]:
    """All runs of one experiment, judged by the population and the best model of each
    seed.
    """
    simulation = Simulation(case, dataset, "cpu")
    names, S, T = list(simulation.names), len(case.seeds), case.rounds
    excess = np.empty((len(names), S, T))
    record = {key: np.empty((len(names), S, T)) for key in ("n", "N", "n_eff", "spend")}
    seen = np.zeros(len(Extremes._fields))
    for t in range(T):
        theta = torch.from_numpy(simulation.theta).reshape(len(names), S, -1)
        for s, population in enumerate(populations[:S]):
            own = theta[:, s]
            mean, largest = risk(population, own)
            excess[:, s, t] = mean - optima[s].risk
            glance = t < 3 or t % GLANCES == 0 or t == T - 1
            variance, gradient = (
                (float(each.max()) for each in gradients(population, own))
                if glance
                else (0.0, 0.0)
            )
            distance, radius = (
                float(each.norm(dim=1).max())
                for each in (own.double() - optima[s].theta, own)
            )
            seen = np.maximum(
                seen,
                Extremes(distance, variance, gradient, float(largest.max()), radius),
            )
        rows = simulation.step().metrics
        for key, table in record.items():
            table[..., t] = np.array(
                [row[key] for row in rows], dtype=np.float64
            ).reshape(len(names), S)
    points = [
        Point(
            name,
            case.system.budget,
            excess[p],
            **{key: table[p] for key, table in record.items()},
        )
        for p, name in enumerate(names)
    ]
    return points, Extremes(*seen.tolist())


# is the theorem kept, does it inform, does its surrogate rank policies rightly?


def at_equal_spend(stage: Stage) -> list[Point]:
    """The points whose mean spend is that of the recipe's budget."""
    budget = stage.points[0].budget
    return [
        point
        for point in stage.points
        if abs(point.spend.mean() - budget) <= SAME_SPEND * budget
    ]


def surrogate_ranks(points: Sequence[Point]) -> Estimate:
    """The rank correlation (Spearman) of the surrogate and the measured risk, of their
    means over seeds.

    The interval is the middle 80 % over seeds drawn again with replacement.
    """
    surrogate, measured = np.stack(
        [[point.surrogate(), point.measured] for point in points], axis=1
    )
    seeds = measured.shape[1]
    drawn = np.random.Generator(np.random.Philox(key=len(points))).integers(
        0, seeds, (DRAWS, seeds)
    )
    first, *again = [
        float(
            spearmanr(
                surrogate[:, own].mean(axis=1), measured[:, own].mean(axis=1)
            ).statistic
        )
        for own in (np.arange(seeds), *drawn)
    ]
    low, high = np.quantile(again, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return Estimate(first, low, high)


def variance_step(
    points: Sequence[Point], seed: int | None = None
) -> tuple[float, float]:
    """eq:sigma-bar-Neff-app against the exact sum of squared weights, over all runs and
    rounds, of all seeds or of one.

    Returns the share of rounds in which the exact value is the larger one, and mean
    exact value / mean allowed value.
    """
    rows = slice(None) if seed is None else slice(seed, seed + 1)
    exact = np.stack(
        [exact_mismatch(point.n[rows], point.n_eff[rows]) for point in points]
    )
    allowed = np.stack([mismatch(point.n[rows], point.n_eff[rows]) for point in points])
    ratio = float(exact.sum() / allowed.sum()) if allowed.any() else float("inf")
    return float((exact > allowed + 1e-9).mean()), ratio
