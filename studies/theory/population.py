"""The population that a run samples from, and the risk of many models on it.

The population is finite: client m's distribution is uniform over the images it owns, and the target is their mixture with the
weights α_m. So an expectation is a weighted sum, and the population risk is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from headgate.control.types import Floats
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset

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
