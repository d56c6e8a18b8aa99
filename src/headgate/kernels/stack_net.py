"""Stacks of convolutions and linear layers, read from a module, for `compiled` and for
the Triton kernels of stacks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from torch import Tensor, nn

from headgate.errors import SettingError
from headgate.simulation.executors.layers import is_chain, is_plain, side
from headgate.simulation.executors.types import Task

RELU, TANH = 1, 2
ACTIVATIONS: dict[type[nn.Module], int] = {nn.ReLU: RELU, nn.Tanh: TANH}
"""the kernels' number of each; they are increasing, so the maximum of a pool can be
taken before them
"""


@dataclass(frozen=True)
class StackLayer:
    """A convolution of stride 1, optionally with a 2x2 max-pool, a bias and an
    activation; a linear layer has one pixel.
    """

    inward: int
    height: int
    width: int
    outward: int
    kernel: int
    padding: int
    weight: int
    """where its weights begin in a flat vector"""
    bias: int | None
    linear: bool = False
    pool: int = 1
    activation: int = 0

    @property
    def made(self) -> tuple[int, int]:
        """The height and width before the pool."""
        more = 2 * self.padding - self.kernel + 1
        return self.height + more, self.width + more

    @property
    def out(self) -> tuple[int, int]:
        return self.made[0] // self.pool, self.made[1] // self.pool

    @property
    def framed(self) -> tuple[int, int]:
        """The height and width of its input in a frame of zeros."""
        return self.height + 2 * self.padding, self.width + 2 * self.padding

    @property
    def spread(self) -> tuple[int, int]:
        """The height and width of the slope of its output, in the frame that the
        reversed kernel needs.
        """
        return self.height + self.kernel - 1, self.width + self.kernel - 1

    @property
    def positions(self) -> int:
        return self.out[0] * self.out[1]

    @property
    def size(self) -> int:
        """The size of its output."""
        return self.outward * self.positions


@dataclass(frozen=True)
class StackNet:
    """Convolutions, then linear layers, of which the last computes the logits."""

    layers: tuple[StackLayer, ...]
    classes: int
    size: int
    """the length of a flat vector"""

    def frame(self, i: int) -> int:
        """Return the width of the frame around the input of layer i."""
        return self.layers[i].padding if i < len(self.layers) else 0

    @property
    def sizes(self) -> list[int]:
        """The size of each layer's input in its frame, then that of the logits."""
        return [
            *(layer.inward * math.prod(layer.framed) for layer in self.layers),
            self.classes,
        ]

    def packed(self, theta: Tensor) -> Tensor:
        return theta.contiguous()

    def flat(self, vectors: Tensor) -> Tensor:
        return vectors


def read_stack(task: Task) -> StackNet:
    """Return the task's model as a stack; refuse any other form with a SettingError."""
    model = task.model
    if not is_chain(model):
        refuse(
            "the model must do its layers one after the other, as a Sequential does;"
            f" {type(model).__name__} does not"
        )
    starts = {
        id(parameter): start
        for parameter, start in zip(model.parameters(), task.flat.starts, strict=False)
    }
    parts = [part for part in model if type(part) is not nn.Identity]
    if sum(len(list(part.parameters())) for part in parts) != len(starts):
        refuse("a parameter of the model is shared")
    layers = tuple(_layers(parts, task.shape, starts))
    if (
        not layers
        or not layers[-1].linear
        or layers[-1].activation
        or layers[-1].outward != task.classes
    ):
        refuse(f"the model must end in a Linear of {task.classes}")
    return StackNet(layers, task.classes, task.flat.size)


def _layers(
    parts: list[nn.Module], shape: tuple[int, int, int], starts: dict[int, int]
) -> Iterator[StackLayer]:
    """Yield the layers, each with the activation and the pool that follow it, in either
    order.
    """
    inward, image, flat = shape[0], shape[1:], False
    while parts:
        part = parts.pop(0)
        if type(part) is nn.Flatten and is_plain(part) and not flat:
            inward, image, flat = inward * math.prod(image), (1, 1), True
            continue
        weight, bias = (
            starts.get(id(getattr(part, name, None))) for name in ("weight", "bias")
        )
        if (
            type(part) is nn.Conv2d
            and is_plain(part)
            and not flat
            and weight is not None
        ):
            kernel, padding = side(part.kernel_size), side(part.padding)
            layer = StackLayer(
                inward, *image, part.out_channels, kernel, padding, weight, bias
            )
            if padding >= kernel:
                refuse(f"{part}, must have a padding below its kernel")
        elif type(part) is nn.Linear and flat and weight is not None:
            layer = StackLayer(
                inward, 1, 1, part.out_features, 1, 0, weight, bias, linear=True
            )
        else:
            refuse(f"{part} where it stands")
        while parts and type(parts[0]) in (*ACTIVATIONS, nn.MaxPool2d):
            part = parts.pop(0)
            if isinstance(part, nn.MaxPool2d):
                if (
                    layer.linear
                    or layer.pool > 1
                    or not is_plain(part)
                    or side(part.kernel_size) != 2
                ):
                    refuse(f"{part} where it stands")
                layer = replace(layer, pool=2)
            elif layer.activation:
                refuse(f"{part} where it stands")
            else:
                layer = replace(layer, activation=ACTIVATIONS[type(part)])
        inward, image = layer.outward, layer.out
        yield layer


def refuse(reason: str) -> NoReturn:
    """Refuse in the name of `compiled`. `triton` refuses a net that is no stack as a
    residual net.
    """
    raise SettingError(f"--executor compiled: {reason}")
