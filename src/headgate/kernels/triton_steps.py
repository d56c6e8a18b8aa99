"""The arrays of a round of many clients, and the kernels of a step in their order: of
residual nets, and of stacks.
"""

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
from headgate.kernels.packed_tiles import (
    Kind,
    Room,
    count_tiles,
    power_in,
    strip_for,
    tile_for,
    tiles,
)
from headgate.kernels.residual_net import Block, ResidualNet
from headgate.kernels.stack_net import StackLayer, StackNet
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import to_device

WIDE = 1024
"""numbers that one program copies, averages or sums at a time"""
PRECISION = "tf32x3"
"""the precision of a stack's products: three tensor-core products of short numbers give
one as precise as float32
"""
POSITIONS, SAMPLES, WARPS = 64, 16, 2
"""positions of a convolution, samples of a linear layer, and warps of one program,
which works for one client
"""
Arrays = Iterator[tuple[str, int, int, torch.dtype]]
"""(name, rows, numbers in a row, type) of all arrays of a round"""


class Space:
    """Arrays for the samples and clients of a room. Samples that are not in the tables
    do not change.

    A subclass states its `arrays` and calls `make_tables`. `load` copies normalised
    images (n, C, H, W) into the first input, for as many clients as shall read the same
    images. `forward` computes the logits, with a training of different images for each
    client, and then also the losses; without one all clients have the same images.
    `backward` takes a gradient step with all parameters; each changes after the slopes
    that depend on it are computed.
    """

    net: Any
    logits: Tensor

    def __init__(
        self,
        net: Any,
        room: Room,
        momentum: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.net, self.room, self.momentum, self.dtype, self.device = (
            net,
            room,
            momentum,
            dtype,
            device,
        )
        made = self.made = {
            name: torch.zeros(rows, size, dtype=kind, device=device)
            for name, rows, size, kind in self.arrays(net, room, momentum, dtype)
        }
        self.losses, self.labels, self.master = (
            made["losses"],
            made["labels"].view(-1),
            made["master"],
        )
        """`master` has the clients' parameters, `low` their first part in a shorter
        type; without one it is the same array
        """
        self.low, self.velocity = (
            made.get(name, self.master) for name in ("low", "velocity")
        )
        self.inputs = [made[f"input {i}"] for i in range(len(net.layers) + 1)]
        """the input of each layer, then the output of the last one"""
        self.winners = [
            made.get(f"winner {i}", self.losses) for i in range(len(net.layers))
        ]
        """the winners of each layer's pool; a kernel needs an array even if it does not
        read it
        """

    @classmethod
    def arrays(cls, net: Any, room: Room, momentum: bool, dtype: torch.dtype) -> Arrays:
        yield "losses", room.samples, 1, torch.float32
        yield "labels", room.samples, 1, torch.int64
        yield "master", room.clients, net.size, torch.float32
        if momentum:
            yield "velocity", room.clients, net.size, torch.float32

    @classmethod
    def bytes_needed(cls, *asked: Any) -> int:
        return sum(
            rows * size * kind.itemsize for _, rows, size, kind in cls.arrays(*asked)
        )

    def make_tables(self, layout: Sequence[tuple[int, int]]) -> None:
        """Make a table of the client of each sample, and one of tiles for each
        (positions of a sample, rows of a tile).
        """
        self.layout = tuple(dict.fromkeys(layout))
        lengths = [
            self.room.clients + 1,
            self.room.samples,
            *(2 * count_tiles(*self.room, *each) for each in self.layout),
        ]
        # one array, so that one copy fills it
        self.tables = torch.full(
            (sum(lengths),), -1, dtype=torch.int32, device=self.device
        )
        self.offsets, self.owner, *parts = torch.split_with_sizes(self.tables, lengths)
        self.tiles = {
            each: tuple(part.view(2, -1))
            for each, part in zip(self.layout, parts, strict=True)
        }
        self.filled = np.zeros(0, dtype=np.int64)

    def set_clients(self, offsets: Ints) -> None:
        """Fill the tables for clients whose samples begin at `offsets`, unless they are
        filled for these already.
        """
        if np.array_equal(offsets, self.filled):
            return
        self.filled = offsets
        owner = np.full(self.room.samples, -1)
        owner[: offsets[-1]] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        begins = np.pad(offsets, (0, self.room.clients + 1 - len(offsets)), "edge")
        parts = [
            tiles(offsets, *each, count_tiles(*self.room, *each)).ravel()
            for each in self.layout
        ]
        self.tables.copy_(
            to_device(
                np.concatenate([begins, owner, *parts]).astype(np.int32), self.device
            )
        )

    def holds(self, room: Room, momentum: bool) -> bool:
        fits = room.samples <= self.room.samples and room.clients <= self.room.clients
        return fits and (self.momentum or not momentum)

    def spread(self, start: Tensor, run_of: Ints, momentum: bool) -> None:
        """Set each client to its run's model, with zero velocity."""
        clients = len(run_of)
        torch.index_select(start, 0, self._table(run_of), out=self.master[:clients])
        if momentum:
            self.velocity[:clients].zero_()
        if self.low is not self.master:
            self.low[:clients] = self.master[:clients, : self.low.shape[1]]

    def average(
        self, start: Tensor, shares: Tensor, run_offsets: Ints, after: Tensor
    ) -> None:
        """Write to `after` each run's model plus its clients' changes times their
        shares.
        """
        kernels.average[-(-self.net.size // WIDE), len(start)](
            start,
            self.master,
            shares,
            self._table(run_offsets),
            after,
            self.net.size,
            WIDE,
        )

    def mean_losses(self, run_offsets: Ints, means: Tensor) -> None:
        kernels.mean_losses[(len(means),)](
            self.losses, self.offsets, self._table(run_offsets), means, WIDE
        )

    def _table(self, values: Ints) -> Tensor:
        return to_device(values.astype(np.int32), self.device)

    # the layers of a stack; the linear layer of a residual net is one, too

    def _apply(
        self,
        room: Room,
        layer: StackLayer,
        winner: Tensor,
        x: Tensor,
        y: Tensor,
        images: int,
        frame: int,
    ) -> None:
        """Compute the output of a layer in its frame; sample s reads image s modulo
        `images` of x.
        """
        rows, columns = _rows(layer.positions), _columns(layer, layer.outward)
        stacks.convolve[count_tiles(*room, layer.positions, rows), -(-layer.outward // columns)](
            x, self.master, y, winner, *self.tiles[layer.positions, rows], self.offsets, images, self.net.size,
            layer.weight, layer.bias or 0, layer.inward, *layer.framed, layer.outward, layer.kernel, layer.pool, frame,
            layer.activation, layer.bias is not None, winner is not self.losses, False, rows, columns, 32, PRECISION,
            num_warps=WARPS,
        )  # fmt: skip

    def _cross_entropy(self, room: Room, slope: Tensor) -> None:
        stacks.cross_entropy[(room.samples,)](
            self.logits, self.labels, self.offsets, self.owner, self.losses, slope, self.net.classes,
            _power(self.net.classes), num_warps=1,
        )  # fmt: skip

    def _slope(
        self,
        room: Room,
        layer: StackLayer,
        x: Tensor,
        slope: Tensor,
        before: Tensor,
        activation: int,
    ) -> None:
        """Compute the slope with respect to the input x of a layer, before the
        activation whose result x is.
        """
        positions, columns = layer.height * layer.width, _columns(layer, layer.inward)
        rows = _rows(positions)
        stacks.convolve[count_tiles(*room, positions, rows), -(-layer.inward // columns)](
            slope, self.master, before, x, *self.tiles[positions, rows], self.offsets, room.samples,
            self.net.size, layer.weight, 0, layer.outward, *layer.spread, layer.inward, layer.kernel, 1, layer.padding,
            activation, False, False, True, rows, columns, 32, PRECISION, num_warps=WARPS,
        )  # fmt: skip

    def _descend(
        self,
        room: Room,
        layer: StackLayer,
        winner: Tensor,
        x: Tensor,
        slope: Tensor,
        training: LocalTraining,
    ) -> None:
        own = (
            self.offsets,
            self.net.size,
            layer.weight,
            layer.bias or 0,
            *_rates(training),
            layer.inward,
        )
        biased, moving = layer.bias is not None, training.momentum > 0
        if layer.linear:
            stacks.descend_linear[-(-layer.outward // 32) * -(-layer.inward // 64), room.clients](
                x, slope, self.master, self.velocity, *own, layer.outward, biased, moving, 32, 64, SAMPLES, PRECISION,
                num_warps=4,
            )  # fmt: skip
            return
        stacks.descend_convolution[layer.outward * -(-layer.inward * layer.kernel**2 // 32), room.clients](
            x, slope, winner, self.master, self.velocity, *own, *layer.framed, layer.outward, layer.kernel, layer.pool, biased,
            moving, POSITIONS, 32, num_warps=4,
        )  # fmt: skip


class ResidualSpace(Space):
    net: ResidualNet

    def __init__(
        self,
        net: ResidualNet,
        room: Room,
        momentum: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(net, room, momentum, dtype, device)
        self.precision, self.itemsize = (
            "ieee" if dtype == torch.float32 else "tf32",
            dtype.itemsize,
        )
        made, layers = self.made, range(len(net.layers))
        self.raw, self.means, self.scales = (
            [made[f"{name} {i}"] for i in layers] for name in ("raw", "mean", "scale")
        )
        """the output of each block's convolution, and the mean and scale of its groups
        """
        self.slopes = [made[f"slope {i}"] for i in range(3)]
        """slopes with respect to a block's output and to its input, and one that is
        kept for the beginning of a residual
        """
        self.raw_slope, self.d_affine = made["raw slope"], made["affine slope"]
        self.features, self.feature_slope, self.logits = (
            made["features"],
            made["feature slope"],
            made["logits"],
        )
        self.ones = made["ones"].fill_(1)
        kinds: tuple[Kind, ...] = ("forward", "backward")
        layout = [
            (block.positions, tile_for(kind, block, self.itemsize).rows)
            for block in net.layers
            for kind in kinds
        ]
        self.make_tables([*layout, (1, SAMPLES)])

    @classmethod
    def arrays(
        cls, net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype
    ) -> Arrays:
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
        yield (
            "raw slope",
            room.samples,
            max(block.positions * block.outward for block in net.layers),
            dtype,
        )
        yield "affine slope", room.samples, net.head - net.affine, wide
        yield "features", room.samples, net.last.inward, wide
        yield "feature slope", room.samples, net.last.inward, wide
        yield "logits", room.samples, net.classes, wide
        yield "ones", room.samples, 1, wide
        if dtype != wide:
            yield "low", room.clients, net.affine, dtype

    def load(self, pixels: Tensor, clients: int = 1) -> None:
        block, (samples, channels), pixels = (
            self.net.layers[0],
            pixels.shape[:2],
            pixels.to(self.dtype),
        )
        into = self.inputs[0].view(-1, block.height, block.width, block.inward)[
            : samples * clients
        ]
        if block.taps == 9:
            into[:samples].copy_(pixels.permute(0, 2, 3, 1))
        else:
            near = (
                pad(pixels, (1, 1, 1, 1))
                .unfold(2, 3, 1)
                .unfold(3, 3, 1)
                .permute(0, 2, 3, 4, 5, 1)
            )
            into[:samples, ..., : 9 * channels].view(*near.shape).copy_(near)
        rows = into.view(clients, samples, -1)
        rows[1:] = rows[:1]

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        net, owner = self.net, self.owner
        for i, block in enumerate(net.layers):
            self._convolve(room, "forward", block, self.inputs[i], self.raw[i], None)
            strip, affine = (
                strip_for(block),
                self.master[:, net.affine + block.affine :],
            )
            norms.norm_mish[(room.samples * (block.outward // strip[0]),)](
                self.raw[i], affine, self.inputs[i if block.added is None else block.added],
                self.inputs[i + 1], self.winners[i], self.means[i], self.scales[i], owner, net.size, block.eps,
                block.positions, block.width, block.outward, block.group, block.pool, block.added is not None,
                training is not None, *strip, num_warps=4,
            )  # fmt: skip
        positions, channels = math.prod(net.layers[-1].out), net.last.inward
        kernels.average_positions[(room.samples,)](
            self.inputs[-1],
            owner,
            self.features,
            positions,
            channels,
            32,
            power_in(positions, 16),
            num_warps=2,
        )
        self._apply(
            room, net.last, self.losses, self.features, self.logits, room.samples, 0
        )
        if training is not None:
            self._cross_entropy(room, self.logits)  # their slope replaces them

    def backward(self, room: Room, training: LocalTraining) -> None:
        net = self.net
        self._slope(room, net.last, self.features, self.logits, self.feature_slope, 0)
        self._descend(room, net.last, self.losses, self.features, self.logits, training)
        positions, channels = math.prod(net.layers[-1].out), net.last.inward
        of_each = (
            self.slopes[0]
            .view(-1)[: room.samples * positions * channels]
            .view(room.samples, positions, channels)
        )
        of_each.copy_(self.feature_slope[: room.samples, None] / positions)
        now, kept = (
            0,
            None,
            # the slope of the block's output, and the one kept for a residual's
            # beginning
        )
        for i in range(len(net.layers) - 1, -1, -1):
            block = net.layers[i]
            strip, affine = (
                strip_for(block),
                self.master[:, net.affine + block.affine :],
            )
            norms.norm_mish_slope[(room.samples * (block.outward // strip[0]),)](
                self.raw[i], self.slopes[now], affine, self.winners[i], self.means[i], self.scales[i],
                self.raw_slope, self.d_affine[:, block.affine :], self.owner, net.size, net.head - net.affine,
                block.positions, block.width, block.outward, block.group, block.pool, *strip, num_warps=4,
            )  # fmt: skip
            if block.added is not None:
                begin, kept = block.added, now
            if i > 0:
                free = next(each for each in range(3) if each not in (now, kept))
                added = self.slopes[kept] if kept is not None and i == begin else None
                self._convolve(
                    room, "backward", block, self.raw_slope, self.slopes[free], added
                )
                now, kept = free, kept if added is None else None
            self._descend_convolution(room, i, training)
        self._descend(room, net.scales, self.losses, self.ones, self.d_affine, training)

    def _convolve(
        self,
        room: Room,
        kind: Kind,
        block: Block,
        x: Tensor,
        y: Tensor,
        added: Tensor | None,
    ) -> None:
        tile, backward = tile_for(kind, block, self.itemsize), kind == "backward"
        each = (block.positions, tile.rows)
        inward, outward = (
            (block.outward, block.inward) if backward else (block.inward, block.outward)
        )
        own = [block.taps * block.inward, block.outward]
        taken = [tile.columns, tile.deep] if backward else [tile.deep, tile.columns]
        given, strides = self.low[:, block.weights :], [self.low.stride(0), own[1], 1]
        kernels.convolve[(count_tiles(*room, *each) * (outward // tile.columns),)](
            self._images(x, block, inward, tile.rows, tile.deep),
            TensorDescriptor(given, [room.clients, *own], strides, [1, *taken]),
            y, y if added is None else added, *self.tiles[each], self.offsets, block.height, block.width, inward,
            outward, block.taps, backward, added is not None, *tile[:3], self.precision,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _descend_convolution(self, room: Room, i: int, training: LocalTraining) -> None:
        block = self.net.layers[i]
        tile = tile_for("descend", block, self.itemsize)
        size = [self.room.samples * block.positions, block.outward]
        weights = [
            each[:, block.weights :] for each in (self.master, self.velocity, self.low)
        ]
        grid = (
            block.taps * (block.inward // tile.rows) * (block.outward // tile.columns),
            room.clients,
        )
        kernels.descend_convolution[grid](
            self._images(self.inputs[i], block, block.inward, tile.deep, tile.rows),
            TensorDescriptor(self.raw_slope, size, [block.outward, 1], [tile.deep, tile.columns]),
            *weights, self.offsets, self.net.size, self.low.stride(0), *_rates(training), block.height, block.width,
            block.inward, block.outward, block.taps, training.momentum > 0, self.low is not self.master, *tile[:3],
            self.precision, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip

    def _images(
        self, x: Tensor, block: Block, channels: int, rows: int, deep: int
    ) -> TensorDescriptor:
        """Describe images whose boxes have `rows` positions and `deep` channels."""
        shape = [self.room.samples, block.height, block.width, channels]
        strides = [block.positions * channels, block.width * channels, channels, 1]
        taken = [
            max(1, rows // block.positions),
            min(block.height, rows // block.width),
            block.width,
            deep,
        ]
        return TensorDescriptor(x, shape, strides, taken)


class StackSpace(Space):
    net: StackNet

    def __init__(
        self,
        net: StackNet,
        room: Room,
        momentum: bool,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(net, room, momentum, dtype, device)
        self.slopes = self.made["slope 0"], self.made["slope 1"]
        """slopes with respect to the outputs of a layer and of the layer before it,
        both before their activation
        """
        self.wide_slope, self.logits = self.made["wide slope"], self.inputs[-1]
        seen = [
            each
            for layer in net.layers
            for each in (layer.positions, layer.height * layer.width)
        ]
        self.make_tables([(each, _rows(each)) for each in seen])

    @classmethod
    def arrays(
        cls, net: StackNet, room: Room, momentum: bool, dtype: torch.dtype
    ) -> Arrays:
        yield from super().arrays(net, room, momentum, dtype)
        for i, size in enumerate(net.sizes):
            yield f"input {i}", room.samples, size, torch.float32
        for i, layer in enumerate(net.layers):
            if layer.pool > 1:
                yield f"winner {i}", room.samples, layer.size, torch.uint8
        for i in range(2):
            yield (
                f"slope {i}",
                room.samples,
                max(layer.size for layer in net.layers),
                torch.float32,
            )
        spread = [
            layer.outward * math.prod(layer.spread)
            for layer in net.layers[1:]
            if not layer.linear
        ]
        yield "wide slope", room.samples, max(spread, default=0), torch.float32

    def load(self, pixels: Tensor, clients: int = 1) -> None:
        samples, channels, height, width = pixels.shape
        frame = self.net.frame(0)
        framed = self.inputs[0][:samples].view(
            samples, channels, height + 2 * frame, width + 2 * frame
        )
        framed[:, :, frame : frame + height, frame : frame + width] = pixels

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        images = room.samples if training else room.samples // room.clients
        for i, layer in enumerate(self.net.layers):
            x, y, winner = (
                self.inputs[i],
                self.inputs[i + 1],
                self.winners[i] if training else self.losses,
            )
            self._apply(
                room,
                layer,
                winner,
                x,
                y,
                images if i == 0 else room.samples,
                self.net.frame(i + 1),
            )
        if training:
            self._cross_entropy(room, self.slopes[0])

    def backward(self, room: Room, training: LocalTraining) -> None:
        slope, before = self.slopes
        for i in range(len(self.net.layers) - 1, -1, -1):
            layer, x, wide = self.net.layers[i], self.inputs[i], slope
            if i > 0 and not layer.linear:
                (across, along), wide = layer.spread, self.wide_slope
                stacks.unpool[room.samples, -(-layer.outward * across * along // WIDE)](
                    slope, self.winners[i], wide, self.owner, layer.outward, *layer.out, layer.pool,
                    layer.kernel - 1 - layer.padding, across, along, WIDE, num_warps=4,
                )  # fmt: skip
            if i > 0:
                self._slope(
                    room, layer, x, wide, before, self.net.layers[i - 1].activation
                )
            self._descend(room, layer, self.winners[i], x, slope, training)
            slope, before = before, slope


def _rates(training: LocalTraining) -> tuple[float, float, float]:
    return training.lr, training.momentum, training.weight_decay


def _rows(positions: int) -> int:
    return SAMPLES if positions == 1 else POSITIONS


def _columns(layer: StackLayer, channels: int) -> int:
    """Return how many channels one program computes: of a convolution all of them, so
    that its inputs are gathered once.
    """
    return 32 if layer.linear else _power(channels)


def _power(n: int) -> int:
    """Return the next power of two, at least 16, the least size of a product."""
    return max(16, 1 << (n - 1).bit_length())
