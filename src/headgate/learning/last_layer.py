"""The linear layer that a model ends with, and what goes into it: with the error, the gradient of a sample's loss by it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headgate.learning.models import Shape


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
    return said, with_one(went_in[-1]) if layer.bias is not None else went_in[-1]


def with_one(features: Tensor) -> Tensor:
    """Features (S, H) with one more, which is always 1."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)
