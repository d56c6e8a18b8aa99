"""The arrays of a round of stacks, and the kernels of a step in their order."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from headgate.kernels import triton_stacks as kernels
from headgate.kernels.packed_tiles import count_tiles, tiles
from headgate.kernels.stack_net import DenseLayer, PooledConvolution, StackNet
from headgate.kernels.triton_executor import Room, Space, whose
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import to_device

PRECISION = "tf32x3"
"""the precision of products: three tensor-core products of short numbers give one as precise as float32"""
POSITIONS, SAMPLES, WARPS = 64, 16, 2
"""positions of a convolution, samples of a linear layer, and warps of one program, which works for one client"""
JUDGED = 1 << 33
"""bytes for the logits of all models at a time"""


class Tables:
    """The client of each sample and tile, in one array, so that one copy fills it; tiles by the positions of a sample."""

    def __init__(self, room: Room, positions: Sequence[int], device: torch.device) -> None:
        self.room, self.positions, self.device = room, tuple(dict.fromkeys((1, *positions))), device
        lengths = [room.clients + 1, room.samples, *(2 * count(room, each) for each in self.positions)]
        self.whole = torch.full((sum(lengths),), -1, dtype=torch.int32, device=device)
        self.offsets, self.owner, *parts = torch.split_with_sizes(self.whole, lengths)
        self.tiles = {each: tuple(part.view(2, -1)) for each, part in zip(self.positions, parts, strict=True)}

    def fill(self, offsets: Ints) -> None:
        parts = [tiles(offsets, each, _rows(each), count(self.room, each)).ravel() for each in self.positions]
        self.whole.copy_(to_device(np.concatenate([*whose(offsets, self.room), *parts]).astype(np.int32), self.device))


class Workspace(Space):
    """Arrays for the samples and clients of a room. Samples that are not in the tables do not change."""

    net: StackNet

    def __init__(self, net: StackNet, room: Room, momentum: bool, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(net, room, momentum, dtype, device)
        made = {
            name: torch.zeros(rows, size, dtype=kind, device=device) for name, rows, size, kind in _arrays(net, room, momentum)
        }
        self.inputs = [made[f"input {i}"] for i in range(len(net.layers) + 1)]
        """the input of each layer, in its frame, then the logits"""
        self.winners = [made.get(f"winner {i}") for i in range(len(net.layers))]
        self.slopes = made["slope 0"], made["slope 1"]
        """slopes with respect to the outputs of a layer and of the layer before it, both before their activation"""
        self.wide_slope = made["wide slope"]
        self.logits, self.losses, self.labels = self.inputs[-1], made["losses"], made["labels"].view(-1)
        self.master = self.low = made["master"]
        self.velocity = made.get("velocity", self.master)
        seen = [each for layer in net.convolutions for each in (layer.positions, layer.height * layer.width)]
        self.tables = Tables(room, seen, device)
        self.offsets = self.tables.offsets

    def set_tables(self, offsets: Ints) -> None:
        self.tables.fill(offsets)

    def load(self, pixels: Tensor) -> None:
        _load(self.net, pixels, self.inputs[0])

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        _forward(self.net, self.master, self.inputs, self.winners, self.tables, room, room.samples)
        if training is not None:
            kernels.cross_entropy[(room.samples,)](
                self.logits, self.labels, self.offsets, self.tables.owner, self.losses, self.slopes[0], self.net.classes,
                _power(self.net.classes), num_warps=1,
            )  # fmt: skip

    def backward(self, room: Room, training: LocalTraining) -> None:
        """Take a gradient step; each weight changes after the slopes that depend on it are computed."""
        slope, before = self.slopes
        for i in range(len(self.net.layers) - 1, -1, -1):
            layer = self.net.layers[i]
            if isinstance(layer, PooledConvolution):
                self._convolution(room, training, i, layer, slope, before)
            else:
                self._linear(room, training, i, layer, slope, before)
            slope, before = before, slope

    def _convolution(
        self, room: Room, training: LocalTraining, i: int, layer: PooledConvolution, slope: Tensor, before: Tensor
    ) -> None:
        x, winner = self.inputs[i], _or(self.winners[i], self.inputs[i])
        (high, wide), (across, along) = layer.out, layer.framed
        if i > 0:
            shape = (layer.outward, high, wide, layer.pool, layer.kernel - 1 - layer.padding)
            area = (layer.height + layer.kernel - 1, layer.width + layer.kernel - 1)
            kernels.unpool[room.samples, -(-layer.outward * area[0] * area[1] // 1024)](
                slope, winner, self.wide_slope, self.tables.owner, *shape, *area, 1024, num_warps=4
            )
            positions = layer.height * layer.width
            kernels.convolution_slope[(count(room, positions),)](
                self.wide_slope, x, self.master, before, *self.tables.tiles[positions], self.offsets, self.net.size,
                layer.weight, layer.inward, layer.height, layer.width, layer.outward, layer.kernel, layer.padding,
                self.net.layers[i - 1].activation, POSITIONS, _power(layer.inward), 32, PRECISION, num_warps=WARPS,
            )  # fmt: skip
        kernels.descend_convolution[layer.outward * -(-layer.inward * layer.kernel**2 // 32), room.clients](
            x, slope, winner, self.master, self.velocity, self.offsets, *self._own(layer), *_rates(training), layer.inward,
            across, along, layer.outward, layer.kernel, layer.pool, layer.bias is not None, training.momentum > 0,
            POSITIONS, 32, num_warps=4,
        )  # fmt: skip

    def _linear(self, room: Room, training: LocalTraining, i: int, layer: DenseLayer, slope: Tensor, before: Tensor) -> None:
        x = self.inputs[i]
        if i > 0:
            kernels.linear_slope[count(room, 1), -(-layer.inward // 32)](
                slope, x, self.master, before, *self.tables.tiles[1], self.offsets, self.net.size, layer.weight, layer.inward,
                layer.outward, self.net.layers[i - 1].activation, SAMPLES, 32, 32, PRECISION, num_warps=2,
            )  # fmt: skip
        kernels.descend_linear[-(-layer.outward // 32) * -(-layer.inward // 64), room.clients](
            x, slope, self.master, self.velocity, self.offsets, *self._own(layer), *_rates(training), layer.inward,
            layer.outward, layer.bias is not None, training.momentum > 0, 32, 64, SAMPLES, PRECISION, num_warps=4,
        )  # fmt: skip

    def _own(self, layer: PooledConvolution | DenseLayer) -> tuple[int, int, int]:
        return self.net.size, layer.weight, layer.bias or 0


class Answers:
    """The logits of many models for the same images, which are stored once."""

    def __init__(self, net: StackNet, runs: int, device: torch.device) -> None:
        self.net, self.runs, self.device = net, runs, device
        self.most = max(1, JUDGED // (4 * runs * sum(net.sizes[1:])))
        self.inputs: list[Tensor] = []
        self.samples = 0

    def logits(self, theta: Tensor, pixels: Tensor) -> Tensor:
        """Return the logits (runs, n, classes) of the models theta (runs, P) for normalised images (n, C, H, W)."""
        return torch.cat([self._of_few(theta, part) for part in torch.split(pixels, self.most)], dim=1)

    def _of_few(self, theta: Tensor, pixels: Tensor) -> Tensor:
        room = Room(self.runs * len(pixels), self.runs)
        if self.samples != len(pixels):
            self.samples, self.inputs = len(pixels), []  # freed before the new ones are allocated, because both may not fit
            self.tables = Tables(room, [layer.positions for layer in self.net.convolutions], self.device)
            self.tables.fill(np.arange(self.runs + 1) * len(pixels))
            rows = [len(pixels), *[room.samples] * len(self.net.layers)]
            self.inputs = [torch.zeros(n, size, device=self.device) for n, size in zip(rows, self.net.sizes, strict=True)]
        _load(self.net, pixels, self.inputs[0])
        _forward(self.net, theta, self.inputs, [None] * len(self.net.layers), self.tables, room, len(pixels))
        return self.inputs[-1].view(self.runs, len(pixels), -1).clone()


def _load(net: StackNet, pixels: Tensor, into: Tensor) -> None:
    """Copy normalised images into their frames."""
    n, channels, height, width = pixels.shape
    frame = net.frame(0)
    framed = into[:n].view(n, channels, height + 2 * frame, width + 2 * frame)
    framed[:, :, frame : frame + height, frame : frame + width] = pixels


def _forward(
    net: StackNet,
    theta: Tensor,
    inputs: Sequence[Tensor],
    winners: Sequence[Tensor | None],
    tables: Tables,
    room: Room,
    images: int,
) -> None:
    """Compute the logits from inputs[0]; sample s is image s modulo `images`."""
    for i, layer in enumerate(net.layers):
        own = (images if i == 0 else room.samples, net.size, layer.weight, layer.bias or 0)
        if isinstance(layer, PooledConvolution):
            kernels.convolve[(count(room, layer.positions),)](
                inputs[i], theta, inputs[i + 1], _or(winners[i], inputs[i]), *tables.tiles[layer.positions], tables.offsets,
                *own, layer.inward, *layer.framed, layer.outward, layer.kernel, layer.pool, net.frame(i + 1),
                layer.activation, layer.bias is not None, winners[i] is not None, POSITIONS, _power(layer.outward), 32,
                PRECISION, num_warps=WARPS,
            )  # fmt: skip
        else:
            kernels.linear[count(room, 1), -(-layer.outward // 32)](
                inputs[i], theta, inputs[i + 1], *tables.tiles[1], tables.offsets, *own, layer.inward, layer.outward,
                layer.activation, layer.bias is not None, SAMPLES, 32, 32, PRECISION, num_warps=2,
            )  # fmt: skip


def count(room: Room, positions: int) -> int:
    """Return the most tiles that a room can need."""
    return count_tiles(*room, positions, _rows(positions))


def _rows(positions: int) -> int:
    return SAMPLES if positions == 1 else POSITIONS


def _rates(training: LocalTraining) -> tuple[float, float, float]:
    return training.lr, training.momentum, training.weight_decay


def _or(array: Tensor | None, other: Tensor) -> Tensor:
    """Return an array in any case: a kernel needs one even if it does not read it."""
    return other if array is None else array


def _power(n: int) -> int:
    """Return the next power of two, at least 16, the least size of a product."""
    return max(16, 1 << (n - 1).bit_length())


def _arrays(net: StackNet, room: Room, momentum: bool) -> Iterator[tuple[str, int, int, torch.dtype]]:
    """Yield (name, rows, numbers in a row, type) of all arrays of a round."""
    wide = torch.float32
    for i, size in enumerate(net.sizes):
        yield f"input {i}", room.samples, size, wide
    for i, layer in enumerate(net.layers):
        if isinstance(layer, PooledConvolution) and layer.pool > 1:
            yield f"winner {i}", room.samples, layer.size, torch.uint8
    for i in range(2):
        yield f"slope {i}", room.samples, max(layer.size for layer in net.layers), wide
    spread = [each.outward * (each.height + each.kernel - 1) * (each.width + each.kernel - 1) for each in net.convolutions[1:]]
    yield "wide slope", room.samples, max(spread, default=0), wide
    yield "losses", room.samples, 1, wide
    yield "labels", room.samples, 1, torch.int64
    yield "master", room.clients, net.size, wide
    if momentum:
        yield "velocity", room.clients, net.size, wide


def bytes_needed(net: StackNet, room: Room, momentum: bool, dtype: torch.dtype) -> int:
    return sum(rows * size * kind.itemsize for _, rows, size, kind in _arrays(net, room, momentum))
