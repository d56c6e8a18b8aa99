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

Shape = tuple[int, int, int]
"""channels, height and width"""
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
        """The height and width of its output."""
        height, width = self.made
        return height // self.pool, width // self.pool

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
        """The number of pixels of its output."""
        return math.prod(self.out)

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
        inputs = [layer.inward * math.prod(layer.framed) for layer in self.layers]
        return [*inputs, self.classes]

    def packed(self, theta: Tensor) -> Tensor:
        """Return flat vectors as the kernels take them."""
        return theta.contiguous()

    def flat(self, vectors: Tensor) -> Tensor:
        """Return what the kernels made as flat vectors."""
        return vectors


def read_stack(task: Task) -> StackNet:
    """Return the task's model as a stack; refuse any other form with a SettingError."""
    model, classes = task.model, task.classes
    if not is_chain(model):
        refuse(
            "the model must do its layers one after the other, as a Sequential does;"
            f" {type(model).__name__} does not"
        )
    starts = starts_of(task)
    parts = [part for part in model if type(part) is not nn.Identity]
    if sum(len(list(part.parameters())) for part in parts) != len(starts):
        refuse("a parameter of the model is shared")
    layers = tuple(_layers(parts, task.shape, starts))
    if not layers or not _is_last(layers[-1], classes):
        refuse(f"the model must end in a Linear of {classes}")
    return StackNet(layers, classes, task.flat.size)


def starts_of(task: Task) -> dict[int, int]:
    """Return where each parameter begins in a flat vector, by its id."""
    parameters = map(id, task.model.parameters())
    return dict(zip(parameters, task.flat.starts, strict=False))


def _is_last(layer: StackLayer, classes: int) -> bool:
    return layer.linear and not layer.activation and layer.outward == classes


def _layers(
    parts: list[nn.Module],
    shape: Shape,
    starts: dict[int, int],
) -> Iterator[StackLayer]:
    """Yield the layers, each with the activation and the pool that follow it, in either
    order.
    """
    flat = False
    while parts:
        part = parts.pop(0)
        if type(part) is nn.Flatten and is_plain(part) and not flat:
            shape, flat = (math.prod(shape), 1, 1), True
            continue
        layer = _with_weights(part, shape, flat, starts)
        while parts and type(parts[0]) in (*ACTIVATIONS, nn.MaxPool2d):
            layer = _followed(layer, parts.pop(0))
        shape = (layer.outward, *layer.out)
        yield layer


def _with_weights(
    part: nn.Module,
    shape: Shape,
    flat: bool,
    starts: dict[int, int],
) -> StackLayer:
    """Return a convolution, or a linear layer behind a Flatten."""
    weight = starts.get(id(getattr(part, "weight", None)))
    bias = starts.get(id(getattr(part, "bias", None)))
    if weight is not None and type(part) is nn.Linear and flat:
        return linear_layer(shape[0], part.out_features, weight, bias)
    plain = type(part) is nn.Conv2d and is_plain(part) and not flat
    if weight is None or not plain:
        refuse(f"{part} where it stands")
    assert isinstance(part, nn.Conv2d)
    kernel, padding = side(part.kernel_size), side(part.padding)
    if padding >= kernel:
        refuse(f"{part}, must have a padding below its kernel")
    return StackLayer(*shape, part.out_channels, kernel, padding, weight, bias)


def linear_layer(
    inward: int,
    outward: int,
    weight: int,
    bias: int | None,
) -> StackLayer:
    """Return a linear layer, which is a convolution of one pixel."""
    return StackLayer(inward, 1, 1, outward, 1, 0, weight, bias, linear=True)


def _followed(layer: StackLayer, part: nn.Module) -> StackLayer:
    """Return the layer with the activation or the pool that follows it."""
    if isinstance(part, nn.MaxPool2d):
        halves = is_plain(part) and side(part.kernel_size) == 2
        fits = halves and not layer.linear and layer.pool == 1
        after = replace(layer, pool=2)
    else:
        fits = not layer.activation
        after = replace(layer, activation=ACTIVATIONS[type(part)])
    if not fits:
        refuse(f"{part} where it stands")
    return after


def refuse(reason: str) -> NoReturn:
    """Refuse in the name of `compiled`. `triton` refuses a net that is no stack as a
    residual net.
    """
    raise SettingError(f"--executor compiled: {reason}")
