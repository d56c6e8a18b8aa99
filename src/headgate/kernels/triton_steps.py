"""The arrays of a round of many clients, and the kernels of a step in their order: of
residual nets, and of stacks.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
POSITIONS = 64
"""positions of a convolution for which one program works"""
SAMPLES = 16
"""samples of a linear layer for which one program works"""
ROWS, COLUMNS, DEEP = 32, 64, 32
"""outputs and inputs of a linear layer whose weights one program changes, and terms of
a product that a program reads at a time
"""
WARPS = 2
Array = tuple[str, int, int, torch.dtype]
"""(name, rows, numbers in a row, type)"""


@dataclass(eq=False)
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
    room: Room
    momentum: bool
    dtype: torch.dtype
    device: torch.device

    def __post_init__(self) -> None:
        asked = self.arrays(self.net, self.room, self.momentum, self.dtype)
        self.made = {
            name: torch.zeros(rows, size, dtype=kind, device=self.device)
            for name, rows, size, kind in asked
        }
        self.losses = self.made["losses"]
        self.labels = self.made["labels"].view(-1)
        self.master = self.made["master"]
        """the clients' parameters"""
        self.low = self.made.get("low", self.master)
        """the first part of `master` in a shorter type; the same array without one"""
        self.velocity = self.made.get("velocity", self.master)
        layers = len(self.net.layers)
        self.inputs = self.each("input", layers + 1)
        """the input of each layer, then the output of the last one"""
        self.winners = self.each("winner", layers)
        """the winners of each layer's pool"""
        self.logits = self.inputs[-1]

    def each(self, name: str, count: int) -> list[Tensor]:
        """Return the arrays of some layers. A kernel needs an array even if it does not
        read it.
        """
        return [self.made.get(f"{name} {i}", self.losses) for i in range(count)]

    @classmethod
    def arrays(
        cls, net: Any, room: Room, momentum: bool, dtype: torch.dtype
    ) -> Iterator[Array]:
        """Yield what arrays a round needs."""
        yield "losses", room.samples, 1, torch.float32
        yield "labels", room.samples, 1, torch.int64
        yield "master", room.clients, net.size, torch.float32
        if momentum:
            yield "velocity", room.clients, net.size, torch.float32

    @classmethod
    def bytes_needed(cls, *asked: Any) -> int:
        """Return the size of all arrays."""
        wanted = cls.arrays(*asked)
        return sum(rows * size * kind.itemsize for _, rows, size, kind in wanted)

    def make_tables(self, layout: Sequence[tuple[int, int]]) -> None:
        """Make a table of the client of each sample, and one of tiles for each
        (positions of a sample, rows of a tile).
        """
        samples, clients = self.room
        self.layout = tuple(dict.fromkeys(layout))
        parts = [2 * count_tiles(*self.room, *each) for each in self.layout]
        lengths = [clients + 1, samples, *parts]
        # one array, so that one copy fills it
        self.tables = torch.full(
            (sum(lengths),), -1, dtype=torch.int32, device=self.device
        )
        self.offsets, self.owner, *made = torch.split_with_sizes(self.tables, lengths)
        pairs = [tuple(part.view(2, -1)) for part in made]
        self.tiles = dict(zip(self.layout, pairs, strict=True))
        self.filled = np.zeros(0, dtype=np.int64)

    def set_clients(self, offsets: Ints) -> None:
        """Fill the tables for clients whose samples begin at `offsets`, unless they are
        filled for these already.
        """
        if np.array_equal(offsets, self.filled):
            return
        self.filled = offsets
        samples, clients = self.room
        owner = np.full(samples, -1)
        owner[: offsets[-1]] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        begins = np.pad(offsets, (0, clients + 1 - len(offsets)), "edge")
        parts = [
            tiles(offsets, *each, count_tiles(*self.room, *each)).ravel()
            for each in self.layout
        ]
        self.tables.copy_(self._table(np.concatenate([begins, owner, *parts])))

    def holds(self, room: Room, momentum: bool) -> bool:
        """Return whether there is space for so many samples and clients."""
        fits = room.samples <= self.room.samples and room.clients <= self.room.clients
        return fits and (self.momentum or not momentum)

    def spread(self, start: Tensor, run_of: Ints, momentum: bool) -> None:
        """Set each client to its run's model, with zero velocity."""
        own = self.master[: len(run_of)]
        torch.index_select(start, 0, self._table(run_of), out=own)
        if momentum:
            self.velocity[: len(own)].zero_()
        if self.low is not self.master:
            self.low[: len(own)] = own[:, : self.low.shape[1]]

    def average(
        self, start: Tensor, shares: Tensor, run_offsets: Ints, after: Tensor
    ) -> None:
        """Write to `after` each run's model plus its clients' changes times their
        shares.
        """
        size, table = self.net.size, self._table(run_offsets)
        average = kernels.average[-(-size // WIDE), len(start)]
        average(start, self.master, shares, table, after, size, WIDE)

    def mean_losses(self, run_offsets: Ints, means: Tensor) -> None:
        """Write the mean loss of each run."""
        table = self._table(run_offsets)
        mean_losses = kernels.mean_losses[(len(means),)]
        mean_losses(self.losses, self.offsets, table, means, WIDE)

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
        biased, learn = layer.bias is not None, winner is not self.losses
        shape = (layer.inward, *layer.framed, layer.outward, layer.kernel, layer.pool)
        options = (frame, layer.activation, biased, learn, False)
        convolve, table, tile = self._tiled(room, layer, layer.positions, layer.outward)
        convolve(
            x,
            self.master,
            y,
            winner,
            *table,
            images,
            *self._own(layer),
            *shape,
            *options,
            *tile,
            num_warps=WARPS,
        )

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
        positions = layer.height * layer.width
        shape = (layer.outward, *layer.spread, layer.inward, layer.kernel, 1)
        options = (layer.padding, activation, False, False, True)
        convolve, table, tile = self._tiled(room, layer, positions, layer.inward)
        convolve(
            slope,
            self.master,
            before,
            x,
            *table,
            room.samples,
            self.net.size,
            layer.weight,
            0,
            *shape,
            *options,
            *tile,
            num_warps=WARPS,
        )

    def _tiled(
        self, room: Room, layer: StackLayer, positions: int, channels: int
    ) -> tuple[Any, tuple[Tensor, ...], tuple[Any, ...]]:
        """Return the convolution of a stack for so many positions and channels of its
        result, then its tables and its tile.

        One program computes all channels of a convolution, so that its inputs are
        gathered once.
        """
        rows = _rows(positions)
        columns = 32 if layer.linear else _power(channels)
        count = count_tiles(*room, positions, rows)
        convolve = stacks.convolve[count, -(-channels // columns)]
        table = (*self.tiles[positions, rows], self.offsets)
        return convolve, table, (rows, columns, DEEP, PRECISION)

    def _own(self, layer: StackLayer) -> tuple[int, int, int]:
        """Return the length of a client's parameters, and where a layer's weights and
        its bias begin in them.
        """
        return self.net.size, layer.weight, layer.bias or 0

    def _cross_entropy(self, room: Room, slope: Tensor) -> None:
        classes = self.net.classes
        given = (self.logits, self.labels, self.offsets, self.owner)
        cross_entropy = stacks.cross_entropy[(room.samples,)]
        cross_entropy(*given, self.losses, slope, classes, _power(classes), num_warps=1)

    def _descend(
        self,
        room: Room,
        layer: StackLayer,
        winner: Tensor,
        x: Tensor,
        slope: Tensor,
        training: LocalTraining,
    ) -> None:
        """Take a gradient step with the parameters of a layer."""
        inward, outward, kernel = layer.inward, layer.outward, layer.kernel
        own = (self.offsets, *self._own(layer), *_rates(training))
        parameters = (self.master, self.velocity)
        learned = (layer.bias is not None, training.momentum > 0)
        if layer.linear:
            blocks = -(-outward // ROWS) * -(-inward // COLUMNS)
            tile = (ROWS, COLUMNS, SAMPLES, PRECISION)
            descend = stacks.descend_linear[blocks, room.clients]
            shape = (inward, outward)
            descend(x, slope, *parameters, *own, *shape, *learned, *tile, num_warps=4)
            return
        blocks = outward * -(-inward * kernel**2 // DEEP)
        descend = stacks.descend_convolution[blocks, room.clients]
        shape = (inward, *layer.framed, outward, kernel, layer.pool)
        descend(
            x,
            slope,
            winner,
            *parameters,
            *own,
            *shape,
            *learned,
            POSITIONS,
            DEEP,
            num_warps=4,
        )


class ResidualSpace(Space):
    """The arrays and kernels of residual nets."""

    net: ResidualNet

    def __post_init__(self) -> None:
        super().__post_init__()
        net = self.net
        self.precision = "ieee" if self.dtype == torch.float32 else "tf32"
        count = len(net.layers)
        self.raw = self.each("raw", count)
        """the output of each block's convolution"""
        self.means = self.each("mean", count)
        """the mean of its groups"""
        self.scales = self.each("scale", count)
        """the scale of its groups"""
        self.slopes = self.each("slope", 3)
        """slopes with respect to a block's output and to its input, and one that is
        kept for the beginning of a residual
        """
        self.raw_slope = self.made["raw slope"]
        self.d_affine = self.made["affine slope"]
        self.features = self.made["features"]
        self.feature_slope = self.made["feature slope"]
        self.logits = self.made["logits"]
        self.ones = self.made["ones"].fill_(1)
        kinds: tuple[Kind, ...] = ("forward", "backward")
        layout = [
            (block.positions, tile_for(kind, block, self.dtype.itemsize).rows)
            for block in net.layers
            for kind in kinds
        ]
        self.make_tables([*layout, (1, SAMPLES)])

    @classmethod
    def arrays(
        cls, net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype
    ) -> Iterator[Array]:
        """Yield what arrays a round needs."""
        yield from super().arrays(net, room, momentum, dtype)
        samples, wide = room.samples, torch.float32
        outputs = [math.prod(block.out) * block.outward for block in net.layers]
        raw = [block.positions * block.outward for block in net.layers]
        for i, block in enumerate(net.layers):
            yield f"input {i}", samples, block.positions * block.inward, dtype
            yield f"raw {i}", samples, raw[i], dtype
            yield f"mean {i}", samples, block.outward, wide
            yield f"scale {i}", samples, block.outward, wide
            if block.pool:
                yield f"winner {i}", samples, outputs[i], torch.uint8
        yield f"input {len(net.layers)}", samples, outputs[-1], dtype
        for i in range(3):
            yield f"slope {i}", samples, max(outputs), dtype
        yield "raw slope", samples, max(raw), dtype
        yield "affine slope", samples, net.head - net.affine, wide
        yield "features", samples, net.last.inward, wide
        yield "feature slope", samples, net.last.inward, wide
        yield "logits", samples, net.classes, wide
        yield "ones", samples, 1, wide
        if dtype != wide:
            yield "low", room.clients, net.affine, dtype

    def load(self, pixels: Tensor, clients: int = 1) -> None:
        """Copy images into the input of the first block."""
        block, pixels = self.net.layers[0], pixels.to(self.dtype)
        samples, channels = pixels.shape[:2]
        shape = (-1, block.height, block.width, block.inward)
        into = self.inputs[0].view(shape)[: samples * clients]
        if block.taps == 9:
            into[:samples].copy_(pixels.permute(0, 2, 3, 1))
        else:
            windows = pad(pixels, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)
            near = windows.permute(0, 2, 3, 4, 5, 1)
            into[:samples, ..., : 9 * channels].view(*near.shape).copy_(near)
        rows = into.view(clients, samples, -1)
        rows[1:] = rows[:1]

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        """Compute the logits, and with a training the losses."""
        net = self.net
        learn = training is not None
        for i, block in enumerate(net.layers):
            self._convolve(room, "forward", block, self.inputs[i], self.raw[i], None)
            has_added = block.added is not None
            added = self.inputs[i if block.added is None else block.added]
            norm_mish, shape, strip = self._normalised(room, norms.norm_mish, block)
            norm_mish(
                self.raw[i],
                self._affine(block),
                added,
                self.inputs[i + 1],
                self.winners[i],
                self.means[i],
                self.scales[i],
                self.owner,
                net.size,
                block.eps,
                *shape,
                has_added,
                learn,
                *strip,
                num_warps=4,
            )
        positions, channels = math.prod(net.layers[-1].out), net.last.inward
        average_positions = kernels.average_positions[(room.samples,)]
        average_positions(
            self.inputs[-1],
            self.owner,
            self.features,
            positions,
            channels,
            32,
            power_in(positions, 16),
            num_warps=2,
        )
        given = (self.losses, self.features, self.logits)
        self._apply(room, net.last, *given, room.samples, 0)
        if learn:
            self._cross_entropy(room, self.logits)  # their slope replaces them

    def backward(self, room: Room, training: LocalTraining) -> None:
        """Take a gradient step with all parameters."""
        net = self.net
        self._slope(room, net.last, self.features, self.logits, self.feature_slope, 0)
        self._descend(room, net.last, self.losses, self.features, self.logits, training)
        self._spread_over_positions(room)
        now, kept = 0, None
        # the slope of the block's output, and the one kept for a residual's beginning
        for i in range(len(net.layers) - 1, -1, -1):
            block = net.layers[i]
            self._slope_of_norm(room, i, self.slopes[now])
            if block.added is not None:
                begin, kept = block.added, now
            if i > 0:
                free = min({0, 1, 2} - {now, kept})
                added = self.slopes[kept] if kept is not None and i == begin else None
                into = self.slopes[free]
                self._convolve(room, "backward", block, self.raw_slope, into, added)
                now, kept = free, kept if added is None else None
            self._descend_convolution(room, i, training)
        self._descend(room, net.scales, self.losses, self.ones, self.d_affine, training)

    def _spread_over_positions(self, room: Room) -> None:
        """Copy the slope of the features to all positions of the last output."""
        positions, channels = math.prod(self.net.layers[-1].out), self.net.last.inward
        shape = (room.samples, positions, channels)
        of_each = self.slopes[0].view(-1)[: math.prod(shape)].view(shape)
        of_each.copy_(self.feature_slope[: room.samples, None] / positions)

    def _slope_of_norm(self, room: Room, i: int, slope: Tensor) -> None:
        """Compute the slope of a block's convolution from that of its output."""
        net, block = self.net, self.net.layers[i]
        kernel, shape, strip = self._normalised(room, norms.norm_mish_slope, block)
        kernel(
            self.raw[i],
            slope,
            self._affine(block),
            self.winners[i],
            self.means[i],
            self.scales[i],
            self.raw_slope,
            self.d_affine[:, block.affine :],
            self.owner,
            net.size,
            net.head - net.affine,
            *shape,
            *strip,
            num_warps=4,
        )

    def _normalised(
        self, room: Room, kernel: Any, block: Block
    ) -> tuple[Any, tuple[Any, ...], tuple[int, int]]:
        """Return a kernel of the normalisation for so many samples, then the shape and
        the strips of the block.
        """
        strip, channels = strip_for(block), block.outward
        count = room.samples * (channels // strip[0])
        shape = (block.positions, block.width, channels, block.group, block.pool)
        return kernel[(count,)], shape, strip

    def _affine(self, block: Block) -> Tensor:
        """Return the clients' affine parameters from those of a block on."""
        return self.master[:, self.net.affine + block.affine :]

    def _convolve(
        self,
        room: Room,
        kind: Kind,
        block: Block,
        x: Tensor,
        y: Tensor,
        added: Tensor | None,
    ) -> None:
        """Compute the output of a block's convolution, or the slope of its input."""
        backward, adds = kind == "backward", added is not None
        tile = tile_for(kind, block, self.dtype.itemsize)
        each = (block.positions, tile.rows)
        own = [block.taps * block.inward, block.outward]
        if backward:
            inward, outward = block.outward, block.inward
            taken = [1, tile.columns, tile.deep]
        else:
            inward, outward = block.inward, block.outward
            taken = [1, tile.deep, tile.columns]
        weights, strides = self.low[:, block.weights :], [self.low.stride(0), own[1], 1]
        count = count_tiles(*room, *each) * (outward // tile.columns)
        convolve = kernels.convolve[(count,)]
        convolve(
            self._images(x, block, inward, tile.rows, tile.deep),
            TensorDescriptor(weights, [room.clients, *own], strides, taken),
            y,
            y if added is None else added,
            *self.tiles[each],
            self.offsets,
            block.height,
            block.width,
            inward,
            outward,
            block.taps,
            backward,
            adds,
            *tile[:3],
            self.precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    def _descend_convolution(self, room: Room, i: int, training: LocalTraining) -> None:
        """Take a gradient step with the weights of a block."""
        block, low = self.net.layers[i], self.low
        tile = tile_for("descend", block, self.dtype.itemsize)
        size = [self.room.samples * block.positions, block.outward]
        taken = [tile.deep, tile.columns]
        parameters = (self.master, self.velocity, low)
        columns = block.outward // tile.columns
        count = block.taps * (block.inward // tile.rows) * columns
        descend = kernels.descend_convolution[count, room.clients]
        descend(
            self._images(self.inputs[i], block, block.inward, tile.deep, tile.rows),
            TensorDescriptor(self.raw_slope, size, [block.outward, 1], taken),
            *(each[:, block.weights :] for each in parameters),
            self.offsets,
            self.net.size,
            low.stride(0),
            *_rates(training),
            block.height,
            block.width,
            block.inward,
            block.outward,
            block.taps,
            training.momentum > 0,
            low is not self.master,
            *tile[:3],
            self.precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    def _images(
        self, x: Tensor, block: Block, channels: int, rows: int, deep: int
    ) -> TensorDescriptor:
        """Describe images whose boxes have `rows` positions and `deep` channels."""
        shape = [self.room.samples, block.height, block.width, channels]
        strides = [block.positions * channels, block.width * channels, channels, 1]
        samples = max(1, rows // block.positions)
        height = min(block.height, rows // block.width)
        return TensorDescriptor(x, shape, strides, [samples, height, block.width, deep])


class StackSpace(Space):
    """The arrays and kernels of stacks."""

    net: StackNet

    def __post_init__(self) -> None:
        super().__post_init__()
        net = self.net
        self.slopes = self.each("slope", 2)
        """slopes with respect to the outputs of a layer and of the layer before it,
        both before their activation
        """
        self.wide_slope = self.made["wide slope"]
        seen = [
            positions
            for layer in net.layers
            for positions in (layer.positions, layer.height * layer.width)
        ]
        self.make_tables([(positions, _rows(positions)) for positions in seen])

    @classmethod
    def arrays(
        cls, net: StackNet, room: Room, momentum: bool, dtype: torch.dtype
    ) -> Iterator[Array]:
        """Yield what arrays a round needs."""
        yield from super().arrays(net, room, momentum, dtype)
        samples, wide = room.samples, torch.float32
        for i, size in enumerate(net.sizes):
            yield f"input {i}", samples, size, wide
        for i, layer in enumerate(net.layers):
            if layer.pool > 1:
                yield f"winner {i}", samples, layer.size, torch.uint8
        largest = max(layer.size for layer in net.layers)
        for i in range(2):
            yield f"slope {i}", samples, largest, wide
        spread = [
            layer.outward * math.prod(layer.spread)
            for layer in net.layers[1:]
            if not layer.linear
        ]
        yield "wide slope", samples, max(spread, default=0), wide

    def load(self, pixels: Tensor, clients: int = 1) -> None:
        """Copy images into the frames of the first input, which all clients share."""
        samples, channels, height, width = pixels.shape
        frame = self.net.frame(0)
        shape = (samples, channels, height + 2 * frame, width + 2 * frame)
        framed = self.inputs[0][:samples].view(shape)
        framed[:, :, frame : frame + height, frame : frame + width] = pixels

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        """Compute the logits, and with a training the losses."""
        images = room.samples if training else room.samples // room.clients
        for i, layer in enumerate(self.net.layers):
            winner = self.winners[i] if training else self.losses
            given = (winner, self.inputs[i], self.inputs[i + 1], images)
            self._apply(room, layer, *given, self.net.frame(i + 1))
            images = room.samples
        if training:
            self._cross_entropy(room, self.slopes[0])

    def backward(self, room: Room, training: LocalTraining) -> None:
        """Take a gradient step with all parameters."""
        layers = self.net.layers
        slope, before = self.slopes
        for i in range(len(layers) - 1, -1, -1):
            layer, x, winner = layers[i], self.inputs[i], self.winners[i]
            if i > 0:
                wide = slope
                if not layer.linear:
                    wide = self.wide_slope
                    self._unpool(room, layer, slope, winner)
                activation = layers[i - 1].activation
                self._slope(room, layer, x, wide, before, activation)
            self._descend(room, layer, winner, x, slope, training)
            slope, before = before, slope

    def _unpool(
        self, room: Room, layer: StackLayer, slope: Tensor, winner: Tensor
    ) -> None:
        """Compute the slope of a pool's input, in the frame that the reversed kernel
        needs.
        """
        frame = layer.kernel - 1 - layer.padding
        shape = (layer.outward, *layer.out, layer.pool, frame, *layer.spread)
        blocks = -(-layer.outward * math.prod(layer.spread) // WIDE)
        unpool = stacks.unpool[room.samples, blocks]
        unpool(slope, winner, self.wide_slope, self.owner, *shape, WIDE, num_warps=4)


def _rates(training: LocalTraining) -> tuple[float, float, float]:
    return training.lr, training.momentum, training.weight_decay


def _rows(positions: int) -> int:
    return SAMPLES if positions == 1 else POSITIONS


def _power(n: int) -> int:
    """Return the next power of two, at least 16, the least size of a product."""
    return max(16, 1 << (n - 1).bit_length())
