"""Gradients of samples' losses by the last layer, error ⊗ features, which are never built.

Inner products are (error·error)(features·features).
"""

import numpy as np

from headgate.control.scores import Scores
from headgate.control.types import Floats


def gradient_values(scores: Scores) -> Floats:
    """Return how far each sample's gradient points along the sum of those of all its client's samples, (C, W)."""
    error, features = _halves(scores)
    together = error.transpose(0, 2, 1) @ features
    return np.asarray(((error @ together) * features).sum(axis=-1))


def gradient_cosines(scores: Scores) -> Floats:
    """Return the cosines between the gradients of each client's samples, (C, W, W); 0 with one that has no length."""
    error, features = _halves(scores)
    products = (error @ error.transpose(0, 2, 1)) * (features @ features.transpose(0, 2, 1))
    squared = np.diagonal(products, axis1=1, axis2=2)
    lengths = np.sqrt(squared[:, :, None] * squared[:, None])
    return np.clip(np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0), -1.0, 1.0)


def _halves(scores: Scores) -> tuple[Floats, Floats]:
    assert scores.error is not None
    assert scores.features is not None
    return scores.error, scores.features
