"""Stacks of convolution, pooling and linear layers for many clients at a time, each with its own parameters.

A client's samples and its parameters are a rectangle, so a layer is one batched matrix product; a convolution is the
product of its weights with the patches of its input. vmap would do it by grouped convolutions, which are slow on CUDA.
"""

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import fold, max_pool2d, pad

from headgate.simulation.executors.layers import is_plain, side
from headgate.simulation.executors.types import Task

Parameters = Mapping[str, Tensor]
"""by name, (G, ...)"""
ACTIVATIONS: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu,
    nn.Tanh: torch.tanh,
    nn.Sigmoid: torch.sigmoid,
}


class _Patches(torch.autograd.Function):
    """Images (n, C, H, W) as columns (n, C·k·k, positions): one copy, where torch's own unfold takes image by image."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: int, padding: int) -> Tensor:
        ctx.shape, ctx.kernel, ctx.padding = x.shape[2:], kernel, padding
        framed = pad(x, (padding,) * 4)
        windows = framed.unfold(2, kernel, 1).unfold(3, kernel, 1)  # (n, C, height, width, k, k)
        positions = windows.shape[2] * windows.shape[3]
        return windows.permute(0, 1, 4, 5, 2, 3).reshape(len(x), -1, positions)

    @staticmethod
    def backward(ctx: Any, *slope: Tensor) -> tuple[Tensor, None, None]:
        height, width = ctx.shape
        return _fold(slope[0], height, width, ctx.kernel, ctx.padding), None, None


def _fold(columns: Tensor, height: int, width: int, kernel: int, padding: int) -> Tensor:
    if columns.is_cuda and importlib.util.find_spec("triton"):
        from headgate.simulation.executors import triton_fold

        return triton_fold.fold(columns, height, width, kernel, padding)
    return fold(columns, (height, width), kernel, padding=padding)


@dataclass(frozen=True)
class _Convolution:
    """With bias, pool and activation in an order that computes the same: the fewest numbers last."""

    weight: str
    bias: str | None
    kernel: int
    padding: int
    pool: int | None = None
    activation: Callable[[Tensor], Tensor] | None = None

    def patches(self, x: Tensor) -> Tensor:
        columns: Tensor = _Patches.apply(x.flatten(0, 1), self.kernel, self.padding)  # type: ignore[no-untyped-call]
        return columns.view(*x.shape[:2], *columns.shape[1:])

    def __call__(self, parameters: Parameters, x: Tensor, columns: Tensor | None = None) -> Tensor:
        """(G, p, C, H, W) to the same of its output."""
        columns = self.patches(x) if columns is None else columns
        height = x.shape[3] + 2 * self.padding - self.kernel + 1
        # sample by sample, so that the sum of a weight's gradient has many short parts and not few long ones
        made = parameters[self.weight].flatten(2).unsqueeze(1) @ columns
        made = made.view(*made.shape[:3], height, -1)
        if self.pool:
            made = _each_sample(partial(max_pool2d, kernel_size=self.pool))(made)
        if self.bias:
            made = made + parameters[self.bias][:, None, :, None, None]
        return self.activation(made) if self.activation else made


def _linear(weight: str, bias: str | None) -> "Layer":
    def layer(parameters: Parameters, x: Tensor, columns: Tensor | None) -> Tensor:
        turned = parameters[weight].transpose(1, 2)
        return torch.baddbmm(parameters[bias][:, None], x, turned) if bias else torch.bmm(x, turned)

    return layer


def _plain(function: Callable[[Tensor], Tensor]) -> "Layer":
    """A layer without parameters."""
    return lambda parameters, x, columns: function(x)


Layer = Callable[[Parameters, Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Stack:
    layers: tuple[Layer, ...]

    def prepared(self, images: Tensor) -> tuple[Tensor, Tensor | None]:
        """Images (G, p, C, H, W) and what the first layer needs of them in every step."""
        first = self.layers[0]
        return images, first.patches(images) if isinstance(first, _Convolution) else None

    def logits(self, parameters: Parameters, prepared: tuple[Tensor, Tensor | None]) -> Tensor:
        """(G, p, classes)."""
        x, columns = prepared
        for layer in self.layers:
            x, columns = layer(parameters, x, columns), None
        return x


def read_stack(task: Task) -> Stack | None:
    """The task's model, if it is a Sequential of such layers with a convolution; None for all others."""
    model = task.model
    if type(model) is not nn.Sequential:
        return None
    shared = len(dict(model.named_parameters())) < sum(len(list(part.parameters())) for part in model)
    layers = list(_layers(model)) if not shared else [None]
    if any(layer is None for layer in layers) or not any(isinstance(layer, _Convolution) for layer in layers):
        return None
    return Stack(tuple(layer for layer in layers if layer is not None))


def _layers(model: nn.Sequential) -> Iterator[Layer | None]:
    """None for a layer that is not known."""
    # not named_children(), which leaves out a part that comes a second time
    parts = [(name, part) for name, part in model._modules.items() if type(part) is not nn.Identity]
    place = 0
    while place < len(parts):
        name, part = parts[place]
        kinds = [type(each) for _, each in parts[place + 1 : place + 3]]
        place += 1
        if type(part) is nn.Conv2d and is_plain(part):
            pool, activation = None, None
            # A rising function of the maximum is the maximum of the function.
            if kinds == [nn.ReLU, nn.MaxPool2d] and is_plain(parts[place + 1][1]):
                activation, pool, place = torch.relu, side(parts[place + 1][1].kernel_size), place + 2  # type: ignore[arg-type]
            bias = None if part.bias is None else f"{name}.bias"
            yield _Convolution(f"{name}.weight", bias, side(part.kernel_size), side(part.padding), pool, activation)
        elif type(part) is nn.Linear:
            yield _linear(f"{name}.weight", None if part.bias is None else f"{name}.bias")
        elif type(part) is nn.MaxPool2d and is_plain(part):
            yield _plain(_each_sample(partial(max_pool2d, kernel_size=part.kernel_size)))
        elif type(part) is nn.AvgPool2d:
            yield _plain(_each_sample(part))
        elif type(part) is nn.Flatten and is_plain(part):
            yield _plain(lambda x: x.flatten(2))
        else:
            known = ACTIVATIONS.get(type(part))
            yield None if known is None else _plain(known)


def _each_sample(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function of images (n, ...) as one of those of many clients, (G, p, ...)."""

    def of_all(x: Tensor) -> Tensor:
        made = function(x.flatten(0, 1))
        return made.view(*x.shape[:2], *made.shape[1:])

    return of_all
