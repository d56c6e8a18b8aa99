"""A stack of convolutions and linear layers, read off a module, as the packed kernels take it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headgate.kernels.residual_net import refuse
from headgate.simulation.executors.layers import is_chain, is_plain, side
from headgate.simulation.executors.types import Task

ACTIVATIONS: dict[type[nn.Module], int] = {nn.ReLU: 1, nn.Tanh: 2, nn.Sigmoid: 3}
"""rising, so that the maximum of a pool may be taken first; the number is the kernels'"""
WIDEST = 128
"""channels of a convolution that one program keeps at a time"""


@dataclass(frozen=True)
class PooledConvolution:
    """Stride 1, then perhaps a 2x2 max-pool, a bias and an activation."""

    inward: int
    height: int
    width: int
    outward: int
    kernel: int
    padding: int
    weight: int
    """where its weights begin in a flat vector"""
    bias: int | None
    pool: int = 1
    activation: int = 0

    @property
    def made(self) -> tuple[int, int]:
        """Height and width before the pool."""
        more = 2 * self.padding - self.kernel + 1
        return self.height + more, self.width + more

    @property
    def out(self) -> tuple[int, int]:
        return self.made[0] // self.pool, self.made[1] // self.pool

    @property
    def framed(self) -> tuple[int, int]:
        """Height and width of what it looks at, in a frame of zeros."""
        return self.height + 2 * self.padding, self.width + 2 * self.padding

    @property
    def positions(self) -> int:
        return self.out[0] * self.out[1]

    @property
    def size(self) -> int:
        """Of its output."""
        return self.outward * self.positions


@dataclass(frozen=True)
class DenseLayer:
    inward: int
    outward: int
    weight: int
    bias: int | None
    activation: int = 0

    @property
    def size(self) -> int:
        return self.outward


@dataclass(frozen=True)
class StackNet:
    """Convolutions, then linear layers; the last one makes the logits."""

    layers: tuple[PooledConvolution | DenseLayer, ...]
    classes: int
    size: int
    """of a flat vector"""

    @property
    def convolutions(self) -> list[PooledConvolution]:
        return [layer for layer in self.layers if isinstance(layer, PooledConvolution)]

    def frame(self, i: int) -> int:
        """How wide the frame is that layer i wants round its input."""
        layer = self.layers[i] if i < len(self.layers) else None
        return layer.padding if isinstance(layer, PooledConvolution) else 0

    @property
    def sizes(self) -> list[int]:
        """Of each layer's input, in its frame; the last one is that of the logits."""
        framed = [
            layer.inward * layer.framed[0] * layer.framed[1] if isinstance(layer, PooledConvolution) else layer.inward
            for layer in self.layers
        ]
        return [*framed, self.classes]

    def to(self, device: torch.device) -> "StackNet":
        return self

    def packed(self, theta: Tensor) -> Tensor:
        return theta.contiguous()

    def flat(self, vectors: Tensor) -> Tensor:
        return vectors


def read_stack(task: Task) -> StackNet:
    """The task's model; a SettingError says what is not of this form."""
    model = task.model
    if not is_chain(model):
        refuse(f"the model must be a Sequential, it is a {type(model).__name__}")
    named = {id(parameter): start for parameter, start in zip(model.parameters(), task.flat.starts, strict=False)}
    parts = [part for part in model if type(part) is not nn.Identity]
    if sum(len(list(part.parameters())) for part in parts) != len(named):
        refuse("a parameter of the model is shared")
    layers = tuple(_layers(parts, task.shape, named))
    last = layers[-1] if layers else None
    if not isinstance(last, DenseLayer) or last.activation or last.outward != task.classes:
        refuse(f"the model must end in a Linear of {task.classes}")
    return StackNet(layers, task.classes, task.flat.size)


def _layers(
    parts: list[nn.Module], shape: tuple[int, int, int], named: dict[int, int]
) -> Iterator[PooledConvolution | DenseLayer]:
    inward, image = shape[0], shape[1:]
    flat, place = False, 0
    while place < len(parts):
        part = parts[place]
        follow = [type(each) for each in parts[place + 1 : place + 3]]
        place += 1
        if type(part) is nn.Flatten and is_plain(part) and not flat:
            inward, flat = inward * image[0] * image[1], True
            continue
        weight, bias = (named.get(id(getattr(part, name, None))) for name in ("weight", "bias"))
        layer: PooledConvolution | DenseLayer
        if type(part) is nn.Conv2d and is_plain(part) and not flat and weight is not None:
            layer = PooledConvolution(
                inward, *image, part.out_channels, side(part.kernel_size), side(part.padding), weight, bias
            )
            if max(inward, layer.outward) > WIDEST or layer.padding >= layer.kernel or min(layer.made) < 1:
                refuse(f"{part}, must have at most {WIDEST} channels, and a padding below its kernel")
        elif type(part) is nn.Linear and flat and weight is not None:
            layer = DenseLayer(inward, part.out_features, weight, bias)
        else:
            refuse(f"{part} where it stands")
        if follow and follow[0] in ACTIVATIONS:
            layer, place = replace(layer, activation=ACTIVATIONS[follow.pop(0)]), place + 1
        if isinstance(layer, PooledConvolution):
            if follow and follow[0] is nn.MaxPool2d:
                pool = parts[place]
                if not is_plain(pool) or side(pool.kernel_size) != 2:  # type: ignore[arg-type]
                    refuse(f"{pool} where it stands")
                layer, place = replace(layer, pool=2), place + 1
            image = layer.out
        inward = layer.outward
        yield layer
