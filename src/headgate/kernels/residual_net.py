"""Residual nets of 3x3 convolution, GroupNorm and Mish, read from a module, in the form
of the packed kernels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from headgate.errors import SettingError
from headgate.kernels.stack_net import StackLayer
from headgate.learning.architectures import Residual
from headgate.learning.models import Shape
from headgate.simulation.executors.layers import is_chain, is_plain, side
from headgate.simulation.executors.types import Task

ALIGNED = 16
"""the length of a packed vector is a multiple of this, so that kernels load many
numbers at once
"""
Parameters = tuple[Tensor, Tensor, Tensor]
"""the weight of a block's convolution, then the scale and the shift of its
normalisation
"""


@dataclass(frozen=True)
class Block:
    """Convolution, GroupNorm, Mish, and optionally a 2x2 max-pool or the addition of an
    earlier block's input.
    """

    inward: int
    outward: int
    taps: int
    """9, or 1 if the nine neighbours of a position are already among its channels"""
    height: int
    width: int
    group: int
    """the number of channels that are normalised together"""
    eps: float
    weights: int
    """where its weights begin in a packed vector: [tap, inward, outward]"""
    affine: int
    """where its scale begins among the affine parameters; its shift follows"""
    pool: bool = False
    added: int | None = None
    """the block whose input is added to the output"""

    @property
    def positions(self) -> int:
        return self.height * self.width

    @property
    def out(self) -> tuple[int, int]:
        """The height and width of its output."""
        return (
            (self.height // 2, self.width // 2)
            if self.pool
            else (self.height, self.width)
        )


@dataclass(frozen=True, eq=False)
class ResidualNet:
    """Blocks, then the average over all positions and a linear layer."""

    layers: tuple[Block, ...]
    classes: int
    affine: int
    """where the affine parameters begin in a packed vector, after all weights"""
    head: int
    """where the linear layer begins: weight, then bias"""
    order: Tensor
    """for each place of a packed vector its index in a flat one, (size,); an index one
    past the end is a zero
    """
    place: Tensor
    """for each number of a flat vector its place in a packed one, (flat size,)"""

    @property
    def size(self) -> int:
        return len(self.order)

    @property
    def last(self) -> StackLayer:
        """The linear layer."""
        inward = self.layers[-1].outward
        return StackLayer(
            inward,
            1,
            1,
            self.classes,
            1,
            0,
            self.head,
            self.head + inward * self.classes,
            linear=True,
        )

    @property
    def scales(self) -> StackLayer:
        """The affine parameters, as a linear layer whose only input is 1."""
        return StackLayer(
            1, 1, 1, self.head - self.affine, 1, 0, self.affine, None, linear=True
        )

    def to(self, device: torch.device) -> "ResidualNet":
        return replace(self, order=self.order.to(device), place=self.place.to(device))

    def packed(self, theta: Tensor) -> Tensor:
        """Return the flat vectors (R, flat size) as packed ones (R, size)."""
        return pad(theta, (0, 1)).index_select(1, self.order)

    def flat(self, vectors: Tensor) -> Tensor:
        return vectors.index_select(1, self.place)


def read_blocks(task: Task) -> ResidualNet:
    """Return the task's model in this form; refuse any other with a SettingError."""
    flat, blocks, parameters = task.flat, list[Block](), list[Parameters]()
    *layers, average, flatten, linear = [nn.Identity()] * 3 + list(_layers(task.model))
    if not (
        isinstance(average, nn.AdaptiveAvgPool2d)
        and average.output_size in (1, (1, 1))
        and isinstance(flatten, nn.Flatten)
        and is_plain(flatten)
        and type(linear) is nn.Linear
        and linear.bias is not None
        and linear.out_features == task.classes
    ):
        refuse("the model must end in AdaptiveAvgPool2d(1), Flatten and Linear")
    _read(layers[3:], blocks, parameters, task.shape)
    starts = {
        id(parameter): start
        for parameter, start in zip(task.model.parameters(), flat.starts, strict=False)
    }

    def own(parameter: Tensor) -> Tensor:
        return starts[id(parameter)] + torch.arange(parameter.numel()).view(
            parameter.shape
        )

    weights = list[Tensor]()
    for (weight, *_), block in zip(parameters, blocks, strict=True):
        rows = (
            own(weight).permute(2, 3, 1, 0).reshape(-1, block.outward)
        )  # [tap, inward, outward], padded to the block's
        weights.append(
            pad(
                rows, (0, 0, 0, block.taps * block.inward - len(rows)), value=flat.size
            ).flatten()
        )
    affine = [own(each).flatten() for _, *scales in parameters for each in scales]
    last = [own(each).flatten() for each in (linear.weight, linear.bias)]
    order = torch.cat([*weights, *affine, *last])
    order = pad(order, (0, -len(order) % ALIGNED), value=flat.size)
    indices, place = order.sort()
    if not torch.equal(indices[: flat.size], torch.arange(flat.size)):
        refuse("a parameter of the model is shared or not used")
    at, head = sum(map(len, weights)), sum(map(len, weights + affine))
    return ResidualNet(tuple(blocks), task.classes, at, head, order, place[: flat.size])


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of nested Sequentials in their order."""
    if is_chain(module):
        for part in module:
            yield from _layers(part)
    else:
        yield module


def _read(
    layers: list[nn.Module],
    blocks: list[Block],
    parameters: list[Parameters],
    shape: Shape,
) -> Shape:
    """Add the blocks of these layers and their parameters, and return the shape of
    their output.
    """
    while layers:
        layer, first = layers.pop(0), len(blocks)
        if type(layer) is Residual:
            same = (
                first > 0
                and _read(list(_layers(layer.f)), blocks, parameters, shape) == shape
            )
            if (
                not same
                or not blocks[first:]
                or any(block.added is not None for block in blocks[first:])
            ):
                refuse(f"{layer} where it stands")
            blocks[-1] = replace(blocks[-1], added=first)
        elif type(layer) is nn.MaxPool2d:
            halves = (
                is_plain(layer)
                and side(layer.kernel_size) == 2
                and shape[1] % 2 == shape[2] % 2 == 0
            )
            # the slope of a pooled sum would have two targets
            if (
                not halves
                or not blocks
                or blocks[-1].pool
                or blocks[-1].added is not None
            ):
                refuse(f"{layer} where it stands")
            blocks[-1] = replace(blocks[-1], pool=True)
            shape = (shape[0], shape[1] // 2, shape[2] // 2)
        else:
            shape = _add_block([layer, *layers[:2]], blocks, parameters, shape)
            del layers[:2]
    return shape


def _add_block(
    layers: list[nn.Module],
    blocks: list[Block],
    parameters: list[Parameters],
    shape: Shape,
) -> Shape:
    if [type(each) for each in layers] != [nn.Conv2d, nn.GroupNorm, nn.Mish]:
        refuse(
            f"{', '.join(type(each).__name__ for each in layers)} instead of Conv2d,"
            " GroupNorm, Mish"
        )
    convolution, norm, channels = layers[0], layers[1], shape[0]
    assert isinstance(convolution, nn.Conv2d)
    assert isinstance(norm, nn.GroupNorm)
    asked = (convolution.kernel_size, convolution.padding, convolution.bias)
    spread = channels % 32 != 0
    if (
        asked != ((3, 3), (1, 1), None)
        or not is_plain(convolution)
        or (spread and blocks)
    ):
        refuse(
            f"{convolution}, must be 3x3 with padding=1 and bias=False, behind the"
            " first on a multiple of 32 channels"
        )
    if any(size & (size - 1) or size > 64 for size in shape[1:]):
        refuse(
            f"images of {shape[1]}x{shape[2]} before a convolution, sides must be 1, 2,"
            " 4, ..., 64"
        )
    outward, group = convolution.out_channels, norm.num_channels // norm.num_groups
    if (
        outward % 32
        or group & (group - 1)
        or group > 64
        or outward % max(group, 32)
        or not norm.affine
    ):
        refuse(
            f"{norm}, must be affine on a multiple of 32 channels, in groups of 1, 2,"
            " 4, ..., 64"
        )
    blocks.append(
        Block(
            inward=-(-9 * channels // 16) * 16 if spread else channels,
            outward=outward,
            taps=1 if spread else 9,
            height=shape[1],
            width=shape[2],
            group=group,
            eps=norm.eps,
            weights=sum(block.taps * block.inward * block.outward for block in blocks),
            affine=sum(2 * block.outward for block in blocks),
        )
    )
    parameters.append((convolution.weight, norm.weight, norm.bias))
    return outward, shape[1], shape[2]


def refuse(reason: str) -> NoReturn:
    raise SettingError(f"--executor triton: {reason}")
