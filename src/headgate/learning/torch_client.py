"""The torch side of a client: a step of descent, the slope of its objective, and what goes into the last layer of its model."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from headgate.learning.local import LocalTraining
from headgate.learning.models import Shape
from headgate.learning.objectives import LocalAnswers, LocalObjective


def last_layer(model: nn.Module, shape: Shape) -> nn.Linear | None:
    """The one linear layer whose answer is the model's; None where the model ends with something else.

    >>> last_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), (1, 2, 2))
    Linear(in_features=4, out_features=3, bias=True)
    >>> last_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh()), (1, 2, 2)) is None
    True
    """
    answers: list[tuple[nn.Module, Tensor]] = []

    def note(layer: nn.Module, _: object, answer: Tensor) -> None:
        answers.append((layer, answer))

    first = next(model.parameters())
    with torch.no_grad():
        hooks = [layer.register_forward_hook(note) for layer in model.modules() if type(layer) is nn.Linear]
        try:
            said = model(torch.zeros(1, *shape, dtype=first.dtype, device=first.device))
        finally:
            for hook in hooks:
                hook.remove()
    last = [layer for layer, answer in answers if answer is said]
    asked_once = len(last) == 1 and sum(layer is last[0] for layer, _ in answers) == 1
    return last[0] if asked_once and isinstance(last[0], nn.Linear) else None


def with_features(layer: nn.Linear, answer: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """What the model says when `answer` calls it, and what then goes into its last layer, with a 1 for the bias it may have."""
    went_in: list[Tensor] = []

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        went_in.append(given[0])

    hook = layer.register_forward_pre_hook(note)
    try:
        said = answer()
    finally:
        hook.remove()
    features = went_in[-1]
    return said, features if layer.bias is None else torch.cat([features, features.new_ones(len(features), 1)], dim=1)


Tensors = list[Tensor] | tuple[Tensor, ...]


def descend(places: list[Tensor], velocity: list[Tensor], change: Tensors, training: LocalTraining) -> None:
    """One step of torch.optim.SGD down the gradients `change`, in place; without momentum the velocity may be empty.

    To import torch.optim takes seconds, as it brings a compiler, and a Flower client is a new process for every message.
    """
    if training.weight_decay:
        change = torch._foreach_add(change, places, alpha=training.weight_decay)
    if training.momentum:
        torch._foreach_mul_(velocity, training.momentum)
        torch._foreach_add_(velocity, change)
        change = velocity
    torch._foreach_sub_(places, change, alpha=training.lr)


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
