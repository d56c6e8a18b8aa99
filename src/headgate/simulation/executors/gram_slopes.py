"""Descent in the Gram form down any objective: an objective is its slope by the logits, and logits are what `gram` follows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.learning.local import LocalTraining
from headgate.learning.objectives import LocalAnswers
from headgate.simulation.executors.executor import Ints

Floats = NDArray[Any]
"""float32 or float64, as the task says."""


def descended_by_slopes(
    logits: Floats,
    labels: Ints,
    sizes: Ints,
    weights: Floats,
    training: LocalTraining,
    bins: list[tuple[slice, Floats]],
    factors: Floats | None,
    pull: Floats | None,
) -> tuple[Floats, Floats]:
    """What each sample adds to its run's model, as a factor for each class, (classes, S), and its cross-entropy before, (S,).

    `logits` (classes, S) are the received models', `sizes` those of the clients, `bins` the Gram matrices of neighbouring
    samples, `pull` (classes, S) by how much the tilt of a run changes a sample's logits in each step.
    """
    weight = weights.reshape(-1)
    # A client of weight 0 stands still: what it would have become is worth exactly nothing.
    share = np.repeat((-training.lr * (weight != 0) / sizes).astype(logits.dtype), sizes)
    if factors is not None:
        share *= factors
    truth = np.zeros_like(logits)
    truth[labels, np.arange(len(labels))] = 1
    held = np.repeat(_classes_held(labels, sizes, len(logits)).astype(logits.dtype), sizes, axis=1)
    here, velocity, total = logits.copy(), np.zeros_like(logits), np.zeros_like(logits)
    for step in range(training.steps):
        if step:
            for span, gram in bins:
                np.matmul(total[:, span], gram, here[:, span])
            here += logits
            if pull is not None:
                here += step * pull
        change = training.objective.slope(LocalAnswers(here, logits, truth, held, np)) * share
        if training.momentum:
            velocity = training.momentum * velocity + change
            change = velocity
        total += change
    total *= np.repeat(weight, sizes)
    most = logits.max(axis=0)
    return total, most + np.log(np.exp(logits - most).sum(axis=0)) - (truth * logits).sum(axis=0)


def _classes_held(labels: Ints, sizes: Ints, classes: int) -> Ints:
    """How many samples of each class each client holds, (classes, clients).

    >>> _classes_held(np.array([1, 1, 0]), np.array([2, 0, 1]), 2).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return np.bincount(labels * len(sizes) + owner, minlength=classes * len(sizes)).reshape(classes, len(sizes))
