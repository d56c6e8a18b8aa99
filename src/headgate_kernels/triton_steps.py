"""The arrays of a round of many clients, and the kernels of a step in their order: of
residual nets, and of stacks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from triton.tools.tensor_descriptor import TensorDescriptor

from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import to_device
from headgate_kernels import triton_kernels as kernels
from headgate_kernels import triton_norms as norms
from headgate_kernels import triton_stacks as stacks
from headgate_kernels.packed_tiles import (
    Kind,
    Room,
    count_tiles,
    power_in,
    strip_for,
    tile_for,
    tiles,
)
from headgate_kernels.residual_net import Block, ResidualNet
from headgate_kernels.stack_net import StackLayer, StackNet

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


@dataclass(eq=False)
class Space:
    """Arrays for the samples and clients of a room. Samples that are not in the tables
    do not change.

    A subclass makes its arrays and calls `make_tables`. `load` copies normalised images
    (n, C, H, W) into the first input, for as many clients as shall read the same
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
    bytes: int = 0
    """the size of all arrays but the tables"""

    def __post_init__(self) -> None:
        self.losses = self.of_samples(1)
        self.labels = self.of_samples(1, torch.int64).view(-1)
        self.master = self.zeros(self.room.clients, self.net.size)
        """the clients' parameters"""
        self.low = self.master
        """the first part of `master` in a shorter type; the same array without one"""
        self.velocity = self.master
        if self.momentum:
            self.velocity = self.zeros(self.room.clients, self.net.size)
        self.inputs = list[Tensor]()
        """the input of each layer, then the output of the last one"""
        self.winners = list[Tensor]()
        """the winners of each layer's pool; a kernel needs an array even if it does not
        read it
        """
        self.logits = self.losses

    def zeros(
        self,
        rows: int,
        size: int,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Make an array."""
        made = torch.zeros(
            rows,
            size,
            dtype=dtype,
            device=self.device,
        )
        self.bytes += made.nbytes
        return made

    def of_samples(self, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Make an array of `size` numbers for each sample."""
        return self.zeros(self.room.samples, size, dtype)

    def winners_of(self, pooled: bool, size: int) -> Tensor:
        """Make an array of the winners of a pool, if there is one."""
        return self.of_samples(size, torch.uint8) if pooled else self.losses

    @classmethod
    def bytes_needed(
        cls,
        net: Any,
        room: Room,
        momentum: bool,
        dtype: torch.dtype,
    ) -> int:
        """Return the size of all arrays, without memory for them."""
        return cls(net, room, momentum, dtype, torch.device("meta")).bytes

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
            (sum(lengths),),
            -1,
            dtype=torch.int32,
            device=self.device,
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

    def spread(
        self,
        start: Tensor,
        run_of: Ints,
        momentum: bool,
    ) -> None:
        """Set each client to its run's model, with zero velocity."""
        own = self.master[: len(run_of)]
        torch.index_select(start, 0, self._table(run_of), out=own)
        if momentum:
            self.velocity[: len(own)].zero_()
        if self.low is not self.master:
            self.low[: len(own)] = own[:, : self.low.shape[1]]

    def average(
        self,
        start: Tensor,
        shares: Tensor,
        run_offsets: Ints,
        after: Tensor,
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
        arrays = (x, self.master, y, winner)
        where = (images, *self._own(layer))
        grid = (layer.positions, layer.outward)
        self._convolve_stack(room, layer, grid, arrays, where, shape, options)

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
        shape = (layer.outward, *layer.spread, layer.inward, layer.kernel, 1)
        options = (layer.padding, activation, False, False, True)
        arrays = (slope, self.master, before, x)
        where = (room.samples, self.net.size, layer.weight, 0)
        grid = (layer.height * layer.width, layer.inward)
        self._convolve_stack(room, layer, grid, arrays, where, shape, options)

    def _convolve_stack(
        self,
        room: Room,
        layer: StackLayer,
        grid: tuple[int, int],
        arrays: tuple[Tensor, ...],
        *numbers: tuple[int, ...],
    ) -> None:
        """Launch a stack's convolution whose result has so many positions and channels.

        One program computes all channels of a convolution, so that its inputs are
        gathered once.
        """
        positions, channels = grid
        rows = _rows(positions)
        columns = 32 if layer.linear else _power(channels)
        table = (*self.tiles[positions, rows], self.offsets)
        tile = (rows, columns, DEEP, PRECISION)
        count = count_tiles(*room, positions, rows)
        convolve = stacks.convolve[count, -(-channels // columns)]
        convolve(*arrays, *table, *chain(*numbers), *tile, num_warps=WARPS)

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
            given = (*parameters, *own, inward, outward, *learned)
            tile = (ROWS, COLUMNS, SAMPLES, PRECISION)
            descend = stacks.descend_linear[blocks, room.clients]
            descend(x, slope, *given, *tile, num_warps=4)
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
        if self.dtype != torch.float32:
            self.low = self.zeros(self.room.clients, net.affine, self.dtype)
        self.raw = list[Tensor]()
        """the output of each block's convolution"""
        self.means = list[Tensor]()
        """the mean of its groups"""
        self.scales = list[Tensor]()
        """the scale of its groups"""
        layout, outputs, raw = list[tuple[int, int]](), list[int](), list[int]()
        kinds: tuple[Kind, ...] = ("forward", "backward")
        for block in net.layers:
            positions, channels = block.positions, block.outward
            raw.append(positions * channels)
            outputs.append(math.prod(block.out) * channels)
            self.inputs.append(self.of_samples(positions * block.inward, self.dtype))
            self.raw.append(self.of_samples(raw[-1], self.dtype))
            self.means.append(self.of_samples(channels))
            self.scales.append(self.of_samples(channels))
            self.winners.append(self.winners_of(block.pool, outputs[-1]))
            tiles = [tile_for(kind, block, self.dtype.itemsize) for kind in kinds]
            layout += [(positions, tile.rows) for tile in tiles]
        self.inputs.append(self.of_samples(outputs[-1], self.dtype))
        self.slopes = [self.of_samples(max(outputs), self.dtype) for _ in range(3)]
        """slopes with respect to a block's output and to its input, and one that is
        kept for the beginning of a residual
        """
        self.raw_slope = self.of_samples(max(raw), self.dtype)
        self.d_affine = self.of_samples(net.head - net.affine)
        self.features = self.of_samples(net.last.inward)
        self.feature_slope = self.of_samples(net.last.inward)
        self.logits = self.of_samples(net.classes)
        self.ones = self.of_samples(1).fill_(1)
        self.make_tables([*layout, (1, SAMPLES)])

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

    def _slope_of_norm(
        self,
        room: Room,
        i: int,
        slope: Tensor,
    ) -> None:
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
        self,
        room: Room,
        kernel: Any,
        block: Block,
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

    def _descend_convolution(
        self,
        room: Room,
        i: int,
        training: LocalTraining,
    ) -> None:
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
        self,
        x: Tensor,
        block: Block,
        channels: int,
        rows: int,
        deep: int,
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
        self.inputs = [self.of_samples(size) for size in net.sizes]
        self.logits = self.inputs[-1]
        layout, spread = list[tuple[int, int]](), [0]
        for i, layer in enumerate(net.layers):
            self.winners.append(self.winners_of(layer.pool > 1, layer.size))
            for positions in (layer.positions, layer.height * layer.width):
                layout.append((positions, _rows(positions)))
            if i > 0 and not layer.linear:
                spread.append(layer.outward * math.prod(layer.spread))
        largest = max(layer.size for layer in net.layers)
        self.slopes = self.of_samples(largest), self.of_samples(largest)
        """slopes with respect to the outputs of a layer and of the layer before it,
        both before their activation
        """
        self.wide_slope = self.of_samples(max(spread))
        self.make_tables(layout)

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
        self,
        room: Room,
        layer: StackLayer,
        slope: Tensor,
        winner: Tensor,
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
