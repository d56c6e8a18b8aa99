"""A client's objective where its model is a torch module: what to descend by, without a loss to differentiate."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from headgate.learning.objectives import LocalAnswers, LocalObjective


class ClientSlopes:
    """How a client's loss over some of its samples changes with its model's answers to them.

    Made of what the received model says to all of them, (n, classes), their labels (n,) and their `factors` (n,); None: all
    count alike.
    """

    def __init__(self, objective: LocalObjective, received: Tensor, labels: Tensor, factors: Tensor | None = None) -> None:
        self.objective, self.received, self.factors = objective, received.T, factors
        self.truth = one_hot(labels, received.shape[1]).T.to(received.dtype)
        self.held = self.truth.sum(1, keepdim=True)

    def __call__(self, logits: Tensor, rows: slice | NDArray[np.int64]) -> Tensor:
        """By the answers (b, classes) to the samples at `rows`, of their mean loss."""
        at = LocalAnswers(logits.detach().T, self.received[:, rows], self.truth[:, rows], self.held, torch)
        slope: Tensor = self.objective.slope(at)
        if self.factors is not None:
            slope = slope * self.factors[rows]
        return slope.T / len(logits)
