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
from headgate.learning.architectures import Residual
from headgate.simulation.executors.layers import is_chain, is_plain, side
from headgate.simulation.executors.types import Task
from headgate_kernels.stack_net import Shape, StackLayer, linear_layer, starts_of

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
        """The number of positions of its convolution."""
        return self.height * self.width

    @property
    def out(self) -> tuple[int, int]:
        """The height and width of its output."""
        by = 2 if self.pool else 1
        return self.height // by, self.width // by


@dataclass(
    frozen=True,
    eq=False,
)
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
        """The length of a packed vector."""
        return len(self.order)

    @property
    def last(self) -> StackLayer:
        """The linear layer."""
        inward = self.layers[-1].outward
        bias = self.head + inward * self.classes
        return linear_layer(inward, self.classes, self.head, bias)

    @property
    def scales(self) -> StackLayer:
        """The affine parameters, as a linear layer whose only input is 1."""
        return linear_layer(1, self.head - self.affine, self.affine, None)

    def to(self, device: torch.device) -> "ResidualNet":
        """Return the net with its tensors on a device."""
        return replace(
            self,
            order=self.order.to(device),
            place=self.place.to(device),
        )

    def packed(self, theta: Tensor) -> Tensor:
        """Return the flat vectors (R, flat size) as packed ones (R, size)."""
        return pad(theta, (0, 1)).index_select(1, self.order)

    def flat(self, vectors: Tensor) -> Tensor:
        """Return packed vectors as flat ones."""
        return vectors.index_select(1, self.place)


def read_blocks(task: Task) -> ResidualNet:
    """Return the task's model in this form; refuse any other with a SettingError."""
    flat, blocks, parameters = task.flat, list[Block](), list[Parameters]()
    *layers, average, flatten, linear = [nn.Identity()] * 3 + list(_layers(task.model))
    if not _is_head(average, flatten, linear, task.classes):
        refuse("the model must end in AdaptiveAvgPool2d(1), Flatten and Linear")
    assert isinstance(linear, nn.Linear)
    _read(layers[3:], blocks, parameters, task.shape)
    starts = starts_of(task)

    def own(parameter: Tensor) -> Tensor:
        numbers = torch.arange(parameter.numel())
        return starts[id(parameter)] + numbers.view(parameter.shape)

    weights = list[Tensor]()
    for (weight, *_), block in zip(parameters, blocks, strict=True):
        # [tap, inward, outward], padded to the block's
        rows = own(weight).permute(2, 3, 1, 0).reshape(-1, block.outward)
        missing = block.taps * block.inward - len(rows)
        weights.append(pad(rows, (0, 0, 0, missing), value=flat.size).flatten())
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


def _is_head(
    average: nn.Module,
    flatten: nn.Module,
    linear: nn.Module,
    classes: int,
) -> bool:
    """Return whether these layers end a residual net."""
    averages = (
        isinstance(average, nn.AdaptiveAvgPool2d)
        and average.output_size in (1, (1, 1))
        and isinstance(flatten, nn.Flatten)
        and is_plain(flatten)
    )
    return (
        averages
        and type(linear) is nn.Linear
        and linear.bias is not None
        and linear.out_features == classes
    )


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
        layer = layers.pop(0)
        if type(layer) is Residual:
            _add_residual(layer, blocks, parameters, shape)
        elif type(layer) is nn.MaxPool2d:
            shape = _add_pool(layer, blocks, shape)
        else:
            shape = _add_block([layer, *layers[:2]], blocks, parameters, shape)
            del layers[:2]
    return shape


def _add_residual(
    layer: Residual,
    blocks: list[Block],
    parameters: list[Parameters],
    shape: Shape,
) -> None:
    """Add the blocks of a residual; the last of them adds the input of the first."""
    first = len(blocks)
    after = _read(list(_layers(layer.f)), blocks, parameters, shape) if first else None
    own = blocks[first:]
    if after != shape or not own or any(block.added is not None for block in own):
        refuse(f"{layer} where it stands")
    blocks[-1] = replace(blocks[-1], added=first)


def _add_pool(
    layer: nn.MaxPool2d,
    blocks: list[Block],
    shape: Shape,
) -> Shape:
    """Let the last block end in a pool, and return the shape of its output."""
    channels, height, width = shape
    halves = is_plain(layer) and side(layer.kernel_size) == 2
    even = height % 2 == width % 2 == 0
    # the slope of a pooled sum would have two targets
    fits = blocks and not blocks[-1].pool and blocks[-1].added is None
    if not (halves and even and fits):
        refuse(f"{layer} where it stands")
    blocks[-1] = replace(blocks[-1], pool=True)
    return channels, height // 2, width // 2


def _add_block(
    layers: list[nn.Module],
    blocks: list[Block],
    parameters: list[Parameters],
    shape: Shape,
) -> Shape:
    """Add the block of a convolution, a normalisation and a Mish, and return the shape
    of its output.
    """
    kinds = [type(each) for each in layers]
    if kinds != [nn.Conv2d, nn.GroupNorm, nn.Mish]:
        names = ", ".join(kind.__name__ for kind in kinds)
        refuse(f"{names} instead of Conv2d, GroupNorm, Mish")
    convolution, norm, _ = layers
    assert isinstance(convolution, nn.Conv2d)
    assert isinstance(norm, nn.GroupNorm)
    channels, height, width = shape
    _check_convolution(convolution, shape, is_first=not blocks)
    outward = convolution.out_channels
    group = _group(norm, outward)
    spread = channels % 32 != 0
    block = Block(
        inward=-(-9 * channels // 16) * 16 if spread else channels,
        outward=outward,
        taps=1 if spread else 9,
        height=height,
        width=width,
        group=group,
        eps=norm.eps,
        weights=sum(block.taps * block.inward * block.outward for block in blocks),
        affine=sum(2 * block.outward for block in blocks),
    )
    blocks.append(block)
    parameters.append((convolution.weight, norm.weight, norm.bias))
    return outward, height, width


def _check_convolution(
    convolution: nn.Conv2d,
    shape: Shape,
    is_first: bool,
) -> None:
    """Refuse a convolution, or images, that the kernels do not take."""
    channels, height, width = shape
    asked = (convolution.kernel_size, convolution.padding, convolution.bias)
    plain = asked == ((3, 3), (1, 1), None) and is_plain(convolution)
    if not plain or (channels % 32 and not is_first):
        refuse(
            f"{convolution}, must be 3x3 with padding=1 and bias=False, behind the"
            " first on a multiple of 32 channels"
        )
    if not (_is_power(height) and _is_power(width)):
        refuse(
            f"images of {height}x{width} before a convolution, sides must be 1, 2,"
            " 4, ..., 64"
        )


def _group(norm: nn.GroupNorm, outward: int) -> int:
    """Return the channels of a group; refuse groups that the kernels do not take."""
    group = norm.num_channels // norm.num_groups
    divides = outward % 32 == 0 and outward % max(group, 32) == 0
    if not (divides and _is_power(group) and norm.affine):
        refuse(
            f"{norm}, must be affine on a multiple of 32 channels, in groups of 1, 2,"
            " 4, ..., 64"
        )
    return group


def _is_power(size: int) -> bool:
    """Return whether a size is 1, 2, 4, ..., 64."""
    return size in (1, 2, 4, 8, 16, 32, 64)


def refuse(reason: str) -> NoReturn:
    """Refuse in the name of `triton`."""
    raise SettingError(f"--executor triton: {reason}")
