"""The population that a run samples from, and the risk of many models on it.

The population is finite: client m's distribution is uniform over the images it owns, and the target is their mixture with the
weights α_m. So an expectation is a weighted sum, and the population risk is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headgate.control.types import Floats
from headgate.errors import HeadgateError
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.theory.bound import BoundConstants
from headgate.theory.recursion import local_constants

CHUNK = 1_000
"""images at once: keeps the logits of all runs in the cache's reach"""


@dataclass(frozen=True, eq=False)
class Population:
    """Weighted images; `features` (n, d + 1) end with a one, for the bias."""

    features: Tensor
    labels: Tensor
    weight: Tensor
    """(n,) float64, sums to one"""
    classes: int

    @property
    def norms(self) -> Tensor:
        """‖x‖ of every image, the one included."""
        norms: Tensor = torch.linalg.vector_norm(self.features, dim=1)
        return norms


def pooled(dataset: Dataset, experiment: Experiment, seed: int) -> Population:
    """P = Σ α_m·P_m for one seed: all images of all clients, each as often as clients own it."""
    system = experiment.system
    owned = experiment.data.partition.split(dataset.train_labels, system.clients, seed, dataset.columns)
    shares = zip(owned, system.weight, strict=True)
    weight = np.concatenate([np.full(rows.size, share / rows.size) for rows, share in shares])
    images, labels = (own[np.concatenate(owned)] for own in (dataset.train_images, dataset.train_labels))
    mean, std = (np.asarray(values, dtype=np.float32)[:, None, None] for values in (dataset.mean, dataset.std))
    pixels = torch.from_numpy(((images.astype(np.float32) / np.float32(dataset.unit) - mean) / std).reshape(len(labels), -1))
    features = torch.cat([pixels, torch.ones(len(labels), 1)], dim=1)
    return Population(features, torch.from_numpy(labels), torch.from_numpy(weight), len(dataset.classes))


def as_matrix(theta: Tensor, classes: int) -> Tensor:
    """Flat logistic models (R, P), weights before biases, as (R, classes, d + 1) that belong to `features`."""
    return torch.cat([theta[:, :-classes].reshape(len(theta), classes, -1), theta[:, -classes:, None]], dim=2)


def as_vector(matrix: Tensor) -> Tensor:
    """The inverse of `as_matrix`."""
    return torch.cat([matrix[:, :, :-1].flatten(1), matrix[:, :, -1]], dim=1)


class Risk(NamedTuple):
    mean: Floats
    """F(θ), (R,)"""
    largest: Floats
    """the largest loss of one image, (R,)"""


def risk(population: Population, theta: Tensor) -> Risk:
    """F and the largest loss of the models theta (R, P); all models together are one matrix product."""
    mean, largest = torch.zeros(len(theta), dtype=torch.float64), torch.zeros(len(theta))
    for part, logits in _logits(population, theta):
        labels = population.labels[part, None, None].expand(-1, len(theta), 1)
        loss = torch.logsumexp(logits, dim=2) - logits.gather(2, labels).squeeze(2)
        mean += population.weight[part] @ loss.double()
        largest = torch.maximum(largest, loss.amax(dim=0).float())
    return Risk(mean.numpy(), largest.double().numpy())


class Gradients(NamedTuple):
    variance: Floats
    """E‖∇ℓ − ∇F‖², (R,)"""
    largest: Floats
    """the largest ‖∇ℓ‖ of one image, (R,)"""


def gradients(population: Population, theta: Tensor) -> Gradients:
    """How the gradients of single images spread. ∇ℓ = (softmax − label)·xᵀ, so its norm is a product of two norms."""
    R = len(theta)
    square, largest = torch.zeros(R, dtype=torch.float64), torch.zeros(R, dtype=torch.float64)
    mean = torch.zeros(R * population.classes, population.features.shape[1], dtype=torch.float64)
    for part, logits in _logits(population, theta):
        residual = torch.softmax(logits, dim=2)
        residual -= torch.nn.functional.one_hot(population.labels[part], population.classes)[:, None]
        squares = residual.square().sum(dim=2).double() * population.norms[part, None].double() ** 2
        square += population.weight[part] @ squares
        largest = torch.maximum(largest, squares.amax(dim=0))
        weighted = population.features[part] * population.weight[part, None].to(population.features)
        mean += residual.flatten(1).T @ weighted
    variance = square - mean.reshape(R, -1).square().sum(dim=1)
    return Gradients(variance.clamp_min(0.0).numpy(), largest.sqrt().numpy())


def _logits(population: Population, theta: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """(which images, their logits (images, R, classes))"""
    flat = as_matrix(theta.to(population.features), population.classes).flatten(0, 1).T.contiguous()
    for start in range(0, len(population.labels), CHUNK):
        part = slice(start, start + CHUNK)
        yield part, (population.features[part] @ flat).reshape(-1, len(theta), population.classes)


@dataclass(frozen=True)
class Extremes:
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


def smoothness(populations: Sequence[Population]) -> float:
    """L of the population risk: the Hessian of softmax cross-entropy is at most ½·λ_max(E[x·xᵀ])."""
    largest = 0.0
    for each in populations:
        features = each.features.double()
        largest = max(largest, float(torch.linalg.eigvalsh((features.T * each.weight) @ features)[-1]))
    return largest / 2


def estimate_constants(seen: Extremes, L: float, eta: float, steps: int, rounds: int, pdim: float) -> BoundConstants:
    """The smallest constants that these runs allow, so the tightest bound: each is the largest value that was met.

    D is the largest ‖θ_t − θ*‖ rather than Θ's diameter, because the proof uses D for nothing else; Pdim is stated, not
    measured. C_2 is what the proof collects in it, D²/(2ηT) + (η·C_1 + η³·C_2)/2 with the C_1, C_2 of eq:C1C2-def.
    """
    c = local_constants(seen.gradient, L, seen.distance, steps)
    C2 = seen.distance**2 / (2 * eta * rounds) + (eta * c.C1 + eta**3 * c.C2) / 2
    return BoundConstants(D=seen.distance, sigma=sqrt(seen.variance), eta=eta, loss=seen.loss, pdim=pdim, C2=C2)


def exact_mismatch(n: ArrayLike, n_eff: ArrayLike) -> Floats:
    """Σ_i (ω_i − 1{i in memory}/n)² for every round, from n(t) and N_eff(t) on the last axis.

    That times the variance is E‖∇F̂_all − ∇F̂_mem‖² of independent samples at a fixed θ; eq:sigma-bar-Neff-app says it is at most
    1/n − 1/N_eff. The sum is 1/N_eff + 1/n − 2·(mean weight in memory), and the use counts of the samples in memory follow
    from how ΣA² grows (`count_uses`). Each image counts once in a memory.
    """
    n, n_eff = np.asarray(n, dtype=np.float64), np.asarray(n_eff, dtype=np.float64)
    uses = np.cumsum(n, axis=-1)
    squares = uses**2 / n_eff
    grown = np.diff(squares, axis=-1, prepend=0.0)
    held = (grown / n + 1) / 2  # mean use count in memory, this round's included
    return np.asarray(1 / n + 1 / n_eff - 2 * held / uses)


RIDGE = 1e-4
"""small enough for the ball to hold every run of the recipes: at 3e-4 some on MNIST leave it"""
GAP = 1e-4
"""how far the regularised risk may be above its minimum, by a certificate"""
PASSES, STEPS = 60, 20


@dataclass(frozen=True, eq=False)
class Optimum:
    theta: Tensor
    """(P,) float64"""
    risk: float
    """F(θ*)"""
    radius: float
    """‖θ*‖: the radius of Θ"""
    ridge: float
    gradient: float
    """‖∇F(θ*) + ridge·θ*‖"""

    @property
    def gap(self) -> float:
        """The regularised risk is strongly convex, so its gradient bounds how far it is above its minimum."""
        return self.gradient**2 / (2 * self.ridge)


def minimiser(population: Population, ridge: float = RIDGE, gap: float = GAP, start: Tensor | None = None) -> Optimum:
    """L-BFGS in coordinates in which the second moments of the images are nearly the identity (far fewer steps).

    `start` may be the best model of a similar population: it saves steps and changes nothing else.
    """
    features = population.features.double()
    moments, axes = torch.linalg.eigh((features.T * population.weight) @ features)
    seen = moments > 1e-10 * moments[-1]  # directions that no image has stay at zero, as in every run
    scale = (moments[seen] + 0.01 * moments[-1]).rsqrt()
    turned = features @ (axes[:, seen] * scale)
    wanted = torch.nn.functional.one_hot(population.labels, population.classes).double()
    weight = population.weight[:, None]
    point = torch.nn.Parameter(torch.zeros(population.classes, int(seen.sum()), dtype=torch.float64))
    if start is not None:
        point.data = as_matrix(start[None].double(), population.classes)[0] @ axes[:, seen] / scale

    def value() -> Tensor:
        logits = turned @ point.data.T
        total = torch.logsumexp(logits, dim=1, keepdim=True)
        own = point.data * scale
        point.grad = ((torch.exp(logits - total) - wanted) * weight).T @ turned + ridge * own * scale
        loss: Tensor = ((total - (logits * wanted).sum(dim=1, keepdim=True)) * weight).sum() + ridge / 2 * own.square().sum()
        return loss

    solver = torch.optim.LBFGS(
        [point], max_iter=STEPS, tolerance_grad=0.0, tolerance_change=0.0, history_size=10, line_search_fn="strong_wolfe"
    )
    for _ in range(PASSES):
        solver.step(value)  # type: ignore[no-untyped-call]
        value()
        gradient = float((point.grad / scale).norm())
        if gradient**2 <= 2 * ridge * gap:
            break
    else:
        raise HeadgateError(f"ridge = {ridge:g}: the population's best model is not found to {gap:g} in {PASSES * STEPS} steps")
    matrix = (point.data * scale) @ axes[:, seen].T
    logits = features @ matrix.T
    loss = torch.logsumexp(logits, dim=1) - logits.gather(1, population.labels[:, None]).squeeze(1)
    return Optimum(as_vector(matrix[None])[0], float(population.weight @ loss), float(matrix.norm()), ridge, gradient)
