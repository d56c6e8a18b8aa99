"""A step of gradient descent on the tensors of a model.

torch.optim has the same one, but to import it takes seconds, as it brings a compiler: a Flower client is a new process for
every message.
"""

import torch
from torch import Tensor

from headgate.learning.local import LocalTraining

Tensors = list[Tensor] | tuple[Tensor, ...]


def descend(places: list[Tensor], velocity: list[Tensor], change: Tensors, training: LocalTraining) -> None:
    """One step of torch.optim.SGD down the gradients `change`, in place; without momentum the velocity may be empty."""
    if training.weight_decay:
        change = torch._foreach_add(change, places, alpha=training.weight_decay)
    if training.momentum:
        torch._foreach_mul_(velocity, training.momentum)
        torch._foreach_add_(velocity, change)
        change = velocity
    torch._foreach_sub_(places, change, alpha=training.lr)
