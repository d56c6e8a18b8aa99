"""The arrays of a round of many clients, and the kernels of a step in their order: of residual nets, and of stacks."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from triton.tools.tensor_descriptor import TensorDescriptor

from headgate.kernels import triton_kernels as kernels
from headgate.kernels import triton_norms as norms
from headgate.kernels import triton_stacks as stacks
from headgate.kernels.packed_tiles import Kind, Room, count_tiles, power_in, strip_for, tile_for, tiles
from headgate.kernels.residual_net import Block, ResidualNet
from headgate.kernels.stack_net import StackLayer, StackNet
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import to_device

WIDE = 1024
"""numbers of a vector that one program copies or sums"""
PRECISION = "tf32x3"
"""of products of stacks: three short ones of the tensor cores make one that is as good as float32"""
POSITIONS, SAMPLES, WARPS = 64, 16, 2
"""of one client that one program takes together: positions of convolutions, samples of linear layers; and its warps"""
Arrays = Iterator[tuple[str, int, int, torch.dtype]]
"""(name, rows, numbers in a row, type) of everything a round needs"""


class Tables:
    """Which samples are whose, in one piece, so that one copy fills it; tiles by (positions of a sample, rows of a tile)."""

    def __init__(self, room: Room, layout: Sequence[tuple[int, int]], device: torch.device) -> None:
        self.room, self.layout, self.device = room, tuple(dict.fromkeys(layout)), device
        lengths = [room.clients + 1, room.samples, *(2 * count_tiles(*room, *each) for each in self.layout)]
        self.whole = torch.full((sum(lengths),), -1, dtype=torch.int32, device=device)
        self.offsets, self.owner, *parts = torch.split_with_sizes(self.whole, lengths)
        self.tiles = {each: tuple(part.view(2, -1)) for each, part in zip(self.layout, parts, strict=True)}

    def fill(self, offsets: Ints) -> None:
        owner = np.full(self.room.samples, -1)
        owner[: offsets[-1]] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        begins = np.pad(offsets, (0, self.room.clients + 1 - len(offsets)), "edge")
        parts = [tiles(offsets, *each, count_tiles(*self.room, *each)).ravel() for each in self.layout]
        self.whole.copy_(to_device(np.concatenate([begins, owner, *parts]).astype(np.int32), self.device))


class Space:
    """Room for so many samples and clients. Samples beyond those in the tables are left alone.

    A subclass says which `arrays` and tables it needs, and has a `load` of normalised images, a `forward` to the logits, with a
    training also to the losses and the last slope, and a `backward`, by which everything goes down its gradient.
    """

    net: Any
    tables: Tables

    def __init__(self, net: Any, room: Room, momentum: bool, dtype: torch.dtype, device: torch.device) -> None:
        self.net, self.room, self.momentum, self.dtype, self.device = net, room, momentum, dtype, device
        self.made = {
            name: torch.zeros(rows, size, dtype=kind, device=device)
            for name, rows, size, kind in self.arrays(net, room, momentum, dtype)
        }
        self.losses, self.labels, self.master = self.made["losses"], self.made["labels"].view(-1), self.made["master"]
        """the clients' vectors; `low` their beginnings in a shorter type, or the same"""
        self.low, self.velocity = (self.made.get(name, self.master) for name in ("low", "velocity"))
        self.inputs = [self.made[f"input {i}"] for i in range(len(net.layers) + 1)]
        """of each layer; the last one is the output of the last"""

    @classmethod
    def arrays(cls, net: Any, room: Room, momentum: bool, dtype: torch.dtype) -> Arrays:
        yield "losses", room.samples, 1, torch.float32
        yield "labels", room.samples, 1, torch.int64
        yield "master", room.clients, net.size, torch.float32
        if momentum:
            yield "velocity", room.clients, net.size, torch.float32

    @classmethod
    def bytes_needed(cls, *asked: Any) -> int:
        return sum(rows * size * kind.itemsize for _, rows, size, kind in cls.arrays(*asked))

    def holds(self, room: Room, momentum: bool) -> bool:
        fits = room.samples <= self.room.samples and room.clients <= self.room.clients
        return fits and (self.momentum or not momentum)

    def spread(self, start: Tensor, run_of: Ints, momentum: bool) -> None:
        """Every client starts from its run's model, at rest."""
        clients = len(run_of)
        torch.index_select(start, 0, self._table(run_of), out=self.master[:clients])
        if momentum:
            self.velocity[:clients].zero_()
        if self.low is not self.master:
            self.low[:clients] = self.master[:clients, : self.low.shape[1]]

    def average(self, start: Tensor, shares: Tensor, run_offsets: Ints, after: Tensor) -> None:
        """Each run's model plus its clients' moves times their shares."""
        kernels.average[-(-self.net.size // WIDE), len(start)](
            start, self.master, shares, self._table(run_offsets), after, self.net.size, WIDE
        )

    def mean_losses(self, run_offsets: Ints, means: Tensor) -> None:
        kernels.mean_losses[(len(means),)](self.losses, self.tables.offsets, self._table(run_offsets), means, WIDE)

    def _table(self, values: Ints) -> Tensor:
        return to_device(values.astype(np.int32), self.device)


class ResidualSpace(Space):
    net: ResidualNet

    def __init__(self, net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(net, room, momentum, dtype, device)
        self.precision, self.itemsize = "ieee" if dtype == torch.float32 else "tf32", dtype.itemsize
        self._classes = 1 << (net.classes - 1).bit_length()
        made, layers = self.made, range(len(net.layers))
        self.raw = [made[f"raw {i}"] for i in layers]
        """what each block's convolution makes"""
        self.winners = [made.get(f"winner {i}", self.raw[i]) for i in layers]
        """a kernel wants an array also where it does not look at it"""
        self.means, self.scales = ([made[f"{name} {i}"] for i in layers] for name in ("mean", "scale"))
        self.slopes = [made[f"slope {i}"] for i in range(3)]
        """with respect to a block's output, to its input, and one kept for the beginning of a residual"""
        self.raw_slope, self.d_affine = made["raw slope"], made["affine slope"]
        self.features, self.logits = made["features"], made["logits"]
        kinds: tuple[Kind, ...] = ("forward", "backward")
        layout = [(block.positions, tile_for(kind, block, self.itemsize).rows) for block in net.layers for kind in kinds]
        self.tables = Tables(room, layout, device)

    @classmethod
    def arrays(cls, net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype) -> Arrays:
        yield from super().arrays(net, room, momentum, dtype)
        wide = torch.float32
        outputs = [math.prod(block.out) * block.outward for block in net.layers]
        for i, block in enumerate(net.layers):
            yield f"input {i}", room.samples, block.positions * block.inward, dtype
            yield f"raw {i}", room.samples, block.positions * block.outward, dtype
            yield f"mean {i}", room.samples, block.outward, wide
            yield f"scale {i}", room.samples, block.outward, wide
            if block.pool:
                yield f"winner {i}", room.samples, outputs[i], torch.uint8
        yield f"input {len(net.layers)}", room.samples, outputs[-1], dtype
        for i in range(3):
            yield f"slope {i}", room.samples, max(outputs), dtype
        yield "raw slope", room.samples, max(block.positions * block.outward for block in net.layers), dtype
        yield "affine slope", room.samples, net.head - net.affine, wide
        yield "features", room.samples, net.channels, wide
        yield "logits", room.samples, net.classes, wide
        if dtype != wide:
            yield "low", room.clients, net.affine, dtype

    def load(self, pixels: Tensor) -> None:
        block, channels = self.net.layers[0], pixels.shape[1]
        pixels = pixels.to(self.dtype).permute(0, 2, 3, 1)
        into = self.inputs[0].view(-1, block.height, block.width, block.inward)[: len(pixels)]
        if block.taps == 9:
            into.copy_(pixels)
            return
        framed = pad(pixels, (0, 0, 1, 1, 1, 1))
        for tap in range(9):
            down, right = divmod(tap, 3)
            into[..., tap * channels : (tap + 1) * channels] = framed[
                :, down : down + block.height, right : right + block.width
            ]

    def answers(self, pixels: Tensor, clients: int) -> Tensor:
        """The logits of the first clients for the same images, (clients, n, classes)."""
        samples = len(pixels)
        self.tables.fill(np.arange(clients + 1) * samples)
        self.load(pixels)
        rows = self.inputs[0][: samples * clients].view(clients, samples, -1)
        rows[1:] = rows[:1]
        self.forward(Room(clients * samples, clients), None)
        return self.logits[: clients * samples].view(clients, samples, -1).clone()

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        offsets, owner = self.tables.offsets, self.tables.owner
        for i, block in enumerate(self.net.layers):
            self._convolve(room, "forward", block, self.inputs[i], self.raw[i], None)
            strip = strip_for(block)
            norms.norm_mish[(room.samples * (block.outward // strip.channels),)](
                self.raw[i], self._affine(block), self.inputs[i if block.added is None else block.added],
                self.inputs[i + 1], self.winners[i], self.means[i], self.scales[i], owner, self.net.size, block.eps,
                block.positions, block.width, block.outward, block.group, block.pool, block.added is not None,
                training is not None, *strip, num_warps=4,
            )  # fmt: skip
        last, head = self.net.layers[-1], self.master[:, self.net.head :]
        positions = math.prod(last.out)
        kernels.head[(room.samples,)](
            self.inputs[-1], head, self.labels, offsets, owner, self.features, self.logits, self.losses,
            self.slopes[0], self.net.size, positions, last.outward, self.net.classes, training is not None,
            self._classes, 32, power_in(positions, 16), num_warps=2,
        )  # fmt: skip

    def backward(self, room: Room, training: LocalTraining) -> None:
        """Weights after the slopes that need them as they were."""
        rates, moving, offsets = _rates(training), training.momentum > 0, self.tables.offsets
        channels, classes, head = self.net.channels, self.net.classes, self.net.head
        stacks.descend_linear[-(-classes // 32) * -(-channels // 64), room.clients](
            self.features, self.logits, self.master, self.velocity, offsets, self.net.size, head, head + classes * channels,
            *rates, channels, classes, True, moving, 32, 64, SAMPLES, PRECISION, num_warps=4,
        )  # fmt: skip
        now, kept = 0, None  # which slope is that of the block's output, and which waits for a residual's beginning
        for i in range(len(self.net.layers) - 1, -1, -1):
            block = self.net.layers[i]
            strip = strip_for(block)
            norms.norm_mish_slope[(room.samples * (block.outward // strip.channels),)](
                self.raw[i], self.slopes[now], self._affine(block), self.winners[i], self.means[i], self.scales[i],
                self.raw_slope, self.d_affine[:, block.affine :], self.tables.owner, self.net.size,
                self.net.head - self.net.affine, block.positions, block.width, block.outward, block.group, block.pool, *strip,
                num_warps=4,
            )  # fmt: skip
            if block.added is not None:
                begin, kept = block.added, now
            if i > 0:
                free = next(each for each in range(3) if each not in (now, kept))
                added = self.slopes[kept] if kept is not None and i == begin else None
                self._convolve(room, "backward", block, self.raw_slope, self.slopes[free], added)
                now, kept = free, kept if added is None else None
            self._descend_convolution(room, i, training)
        own, size = slice(self.net.affine, self.net.head), self.net.head - self.net.affine
        kernels.descend_affine[-(-size // 128), room.clients](
            self.d_affine, self.master[:, own], self.velocity[:, own], offsets, self.net.size, *rates, size, moving, 128
        )

    def _convolve(self, room: Room, kind: Kind, block: Block, x: Tensor, y: Tensor, added: Tensor | None) -> None:
        tile, backward = tile_for(kind, block, self.itemsize), kind == "backward"
        each = (block.positions, tile.rows)
        inward, outward = (block.outward, block.inward) if backward else (block.inward, block.outward)
        own = [block.taps * block.inward, block.outward]
        taken = [tile.columns, tile.deep] if backward else [tile.deep, tile.columns]
        given, strides = self.low[:, block.weights :], [self.low.stride(0), own[1], 1]
        kernels.convolve[(count_tiles(*room, *each) * (outward // tile.columns),)](
            self._images(x, block, inward, tile.rows, tile.deep),
            TensorDescriptor(given, [room.clients, *own], strides, [1, *taken]),
            y, y if added is None else added, *self.tables.tiles[each], self.tables.offsets, block.height, block.width, inward,
            outward, block.taps, backward, added is not None, *tile[:3], self.precision,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _descend_convolution(self, room: Room, i: int, training: LocalTraining) -> None:
        block = self.net.layers[i]
        tile = tile_for("descend", block, self.itemsize)
        size = [self.room.samples * block.positions, block.outward]
        weights = [each[:, block.weights :] for each in (self.master, self.velocity, self.low)]
        grid = (block.taps * (block.inward // tile.rows) * (block.outward // tile.columns), room.clients)
        kernels.descend_convolution[grid](
            self._images(self.inputs[i], block, block.inward, tile.deep, tile.rows),
            TensorDescriptor(self.raw_slope, size, [block.outward, 1], [tile.deep, tile.columns]),
            self.inputs[i], self.raw_slope, *weights, self.tables.offsets, self.net.size, self.low.stride(0),
            *_rates(training), block.height, block.width, block.inward, block.outward, block.taps, training.momentum > 0,
            self.low is not self.master, *tile[:3], self.precision, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _images(self, x: Tensor, block: Block, channels: int, rows: int, deep: int) -> TensorDescriptor:
        """Of which a box has so many positions and channels."""
        shape = [self.room.samples, block.height, block.width, channels]
        strides = [block.positions * channels, block.width * channels, channels, 1]
        taken = [max(1, rows // block.positions), min(block.height, rows // block.width), block.width, deep]
        return TensorDescriptor(x, shape, strides, taken)

    def _affine(self, block: Block) -> Tensor:
        return self.master[:, self.net.affine + block.affine :]


def _rates(training: LocalTraining) -> tuple[float, float, float]:
    return training.lr, training.momentum, training.weight_decay


# stacks

JUDGED = 1 << 33
"""bytes for the answers of all models to as many images as fit"""


class StackSpace(Space):
    net: StackNet

    def __init__(self, net: StackNet, room: Room, momentum: bool, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(net, room, momentum, dtype, device)
        self.winners = [self.made.get(f"winner {i}") for i in range(len(net.layers))]
        self.slopes = self.made["slope 0"], self.made["slope 1"]
        """with respect to a layer's output before its activation, and to that of the one before"""
        self.wide_slope, self.logits = self.made["wide slope"], self.inputs[-1]
        seen = [each for layer in net.layers for each in (layer.positions, layer.height * layer.width)]
        self.tables = Tables(room, [(each, _rows(each)) for each in seen], device)

    @classmethod
    def arrays(cls, net: StackNet, room: Room, momentum: bool, dtype: torch.dtype) -> Arrays:
        yield from super().arrays(net, room, momentum, dtype)
        for i, size in enumerate(net.sizes):
            yield f"input {i}", room.samples, size, torch.float32
        for i, layer in enumerate(net.layers):
            if layer.pool > 1:
                yield f"winner {i}", room.samples, layer.size, torch.uint8
        for i in range(2):
            yield f"slope {i}", room.samples, max(layer.size for layer in net.layers), torch.float32
        spread = [layer.outward * math.prod(layer.spread) for layer in net.layers[1:] if not layer.linear]
        yield "wide slope", room.samples, max(spread, default=0), torch.float32

    def load(self, pixels: Tensor) -> None:
        _load(self.net, pixels, self.inputs[0])

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        _forward(self.net, self.master, self.inputs, self.winners, self.tables, room, room.samples)
        if training is not None:
            stacks.cross_entropy[(room.samples,)](
                self.logits, self.labels, self.tables.offsets, self.tables.owner, self.losses, self.slopes[0], self.net.classes,
                _power(self.net.classes), num_warps=1,
            )  # fmt: skip

    def backward(self, room: Room, training: LocalTraining) -> None:
        """Weights after the slopes that need them as they were."""
        slope, before = self.slopes
        for i in range(len(self.net.layers) - 1, -1, -1):
            if i > 0:
                self._slope(room, i, slope, before)
            self._descend(room, training, i, slope)
            slope, before = before, slope

    def _slope(self, room: Room, i: int, slope: Tensor, before: Tensor) -> None:
        """That of layer i before, which is at first that of its output."""
        layer, x, (across, along) = self.net.layers[i], self.inputs[i], self.net.layers[i].spread
        if not layer.linear:
            winner, frame = _or(self.winners[i], x), layer.kernel - 1 - layer.padding
            stacks.unpool[room.samples, -(-layer.outward * across * along // WIDE)](
                slope, winner, self.wide_slope, self.tables.owner, layer.outward, *layer.out, layer.pool, frame, across, along,
                WIDE, num_warps=4,
            )  # fmt: skip
            slope = self.wide_slope
        positions, columns = layer.height * layer.width, _columns(layer, layer.inward)
        stacks.convolution_slope[_count(room, positions), -(-layer.inward // columns)](
            slope, x, self.master, before, *self.tables.tiles[positions, _rows(positions)], self.tables.offsets, self.net.size,
            layer.weight, layer.inward, layer.height, layer.width, layer.outward, layer.kernel, layer.padding,
            self.net.layers[i - 1].activation, _rows(positions), columns, 32, PRECISION, num_warps=WARPS,
        )  # fmt: skip

    def _descend(self, room: Room, training: LocalTraining, i: int, slope: Tensor) -> None:
        layer, x, offsets = self.net.layers[i], self.inputs[i], self.tables.offsets
        own = (offsets, self.net.size, layer.weight, layer.bias or 0, *_rates(training), layer.inward)
        biased, moving = layer.bias is not None, training.momentum > 0
        if layer.linear:
            stacks.descend_linear[-(-layer.outward // 32) * -(-layer.inward // 64), room.clients](
                x, slope, self.master, self.velocity, *own, layer.outward, biased, moving, 32, 64, SAMPLES, PRECISION,
                num_warps=4,
            )  # fmt: skip
            return
        stacks.descend_convolution[layer.outward * -(-layer.inward * layer.kernel**2 // 32), room.clients](
            x, slope, _or(self.winners[i], x), self.master, self.velocity, *own, *layer.framed, layer.outward, layer.kernel,
            layer.pool, biased, moving, POSITIONS, 32, num_warps=4,
        )  # fmt: skip


class Answers:
    """The logits of many models for the same images, which lie there once."""

    def __init__(self, net: StackNet, runs: int, device: torch.device) -> None:
        self.net, self.runs, self.device = net, runs, device
        self.most = max(1, JUDGED // (4 * runs * sum(net.sizes[1:])))
        self.inputs: list[Tensor] = []
        self.samples = 0

    def logits(self, theta: Tensor, pixels: Tensor) -> Tensor:
        """(runs, n, classes) of the models theta (runs, P) for images (n, C, H, W), normalised."""
        return torch.cat([self._of_few(theta, part) for part in torch.split(pixels, self.most)], dim=1)

    def _of_few(self, theta: Tensor, pixels: Tensor) -> Tensor:
        room = Room(self.runs * len(pixels), self.runs)
        if self.samples != len(pixels):
            self.samples, self.inputs = len(pixels), []  # before the new ones are made: both may not fit
            self.tables = Tables(room, [(layer.positions, _rows(layer.positions)) for layer in self.net.layers], self.device)
            self.tables.fill(np.arange(self.runs + 1) * len(pixels))
            rows = [len(pixels), *[room.samples] * len(self.net.layers)]
            self.inputs = [torch.zeros(n, size, device=self.device) for n, size in zip(rows, self.net.sizes, strict=True)]
        _load(self.net, pixels, self.inputs[0])
        _forward(self.net, theta, self.inputs, [None] * len(self.net.layers), self.tables, room, len(pixels))
        return self.inputs[-1].view(self.runs, len(pixels), -1).clone()


def _load(net: StackNet, pixels: Tensor, into: Tensor) -> None:
    """Normalised images into the middle of their frame."""
    n, channels, height, width = pixels.shape
    frame = net.frame(0)
    framed = into[:n].view(n, channels, height + 2 * frame, width + 2 * frame)
    framed[:, :, frame : frame + height, frame : frame + width] = pixels


def _forward(
    net: StackNet, theta: Tensor, inputs: list[Tensor], winners: list[Any], tables: Tables, room: Room, images: int
) -> None:
    """From inputs[0] to the logits; sample s looks at image s modulo `images`."""
    for i, layer in enumerate(net.layers):
        each, columns = (layer.positions, _rows(layer.positions)), _columns(layer, layer.outward)
        stacks.convolve[_count(room, layer.positions), -(-layer.outward // columns)](
            inputs[i], theta, inputs[i + 1], _or(winners[i], inputs[i]), *tables.tiles[each], tables.offsets,
            images if i == 0 else room.samples, net.size, layer.weight, layer.bias or 0, layer.inward, *layer.framed,
            layer.outward, layer.kernel, layer.pool, net.frame(i + 1), layer.activation, layer.bias is not None,
            winners[i] is not None, each[1], columns, 32, PRECISION, num_warps=WARPS,
        )  # fmt: skip


def _count(room: Room, positions: int) -> int:
    """As many tiles as a room can need."""
    return count_tiles(*room, positions, _rows(positions))


def _rows(positions: int) -> int:
    return SAMPLES if positions == 1 else POSITIONS


def _columns(layer: StackLayer, channels: int) -> int:
    """That one program keeps: of a convolution all, as what they see is put together once."""
    return 32 if layer.linear else _power(channels)


def _or(array: Tensor | None, other: Tensor) -> Tensor:
    """A kernel wants an array also where it does not look at it."""
    return other if array is None else array


def _power(n: int) -> int:
    """The next power of two, and at least what a product wants."""
    return max(16, 1 << (n - 1).bit_length())
