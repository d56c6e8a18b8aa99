"""The arrays of a round of residual nets, and the kernels of a step in their order."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from triton.tools.tensor_descriptor import TensorDescriptor

from headgate.kernels import triton_boxes as boxes
from headgate.kernels import triton_kernels as kernels
from headgate.kernels import triton_norms as norms
from headgate.kernels.packed_tiles import Kind, count_tiles, fits_boxes, power_in, strip_for, tile_for, tiles
from headgate.kernels.residual_net import Block, ResidualNet
from headgate.kernels.triton_executor import Room, Space, whose
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import to_device


class Workspace(Space):
    """Arrays for the samples and clients of a room. Samples that are not in the tables do not change."""

    net: ResidualNet

    def __init__(self, net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(net, room, momentum, dtype, device)
        self.precision = "ieee" if dtype == torch.float32 else "tf32"
        self.itemsize, self._classes = dtype.itemsize, 1 << (net.classes - 1).bit_length()
        self.boxes = dtype == torch.bfloat16 and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
        made = {
            name: torch.empty(count, size, dtype=kind, device=device)
            for name, count, size, kind in _arrays(net, room, momentum, dtype)
        }
        blocks = range(len(net.blocks))
        self.inputs = [made[f"input {i}"] for i in range(len(net.blocks) + 1)]
        """the input of each block, then the output of the last one"""
        self.inputs[0].zero_()  # padding channels stay 0
        self.raw = [made[f"raw {i}"] for i in blocks]
        """the output of each block's convolution"""
        self.winners = [made.get(f"winner {i}", self.raw[i]) for i in blocks]
        """the winners of each block's pool; a kernel needs an array even if it does not read it"""
        self.means, self.scales = ([made[f"{name} {i}"] for i in blocks] for name in ("mean", "scale"))
        self.slopes = [made[f"slope {i}"] for i in range(3)]
        """slopes with respect to a block's output and to its input, and one that is kept for the beginning of a residual"""
        self.raw_slope, self.d_affine = made["raw slope"], made["affine slope"]
        self.features, self.logits, self.losses = made["features"], made["logits"], made["losses"]
        self.labels = made["labels"].view(-1)
        self.master = made["master"]
        self.low = made.get("low", self.master)
        self.velocity = made.get("velocity", self.master)
        self.layout = [
            *dict.fromkeys((block.positions, tile_for(kind, block, self.itemsize).rows) for kind, block in self._convolutions())
        ]
        lengths = [room.clients + 1, room.samples, *(2 * count_tiles(*room, *each) for each in self.layout)]
        # one array, so that one copy fills it
        self.tables = torch.full((sum(lengths),), -1, dtype=torch.int32, device=device)
        self.offsets, self.owner, *tables = torch.split_with_sizes(self.tables, lengths)
        self.tile_tables = dict(zip(self.layout, (table.view(2, -1) for table in tables), strict=True))

    def set_tables(self, offsets: Ints) -> None:
        """Set the client of each sample and tile."""
        parts = [tiles(offsets, *each, count_tiles(*self.room, *each)).ravel() for each in self.layout]
        whole = np.concatenate([*whose(offsets, self.room), *parts]).astype(np.int32)
        self.tables.copy_(to_device(whole, self.device))

    def load(self, pixels: Tensor) -> None:
        """Copy normalised images into the first block's input."""
        block, channels = self.net.blocks[0], pixels.shape[1]
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
        """Return the logits of the first clients for the same images, (clients, n, classes)."""
        samples = len(pixels)
        self.set_tables(np.arange(clients + 1) * samples)
        self.load(pixels)
        rows = self.inputs[0][: samples * clients].view(clients, samples, -1)
        rows[1:] = rows[:1]
        self.forward(Room(clients * samples, clients), None)
        return self.logits[: clients * samples].view(clients, samples, -1).clone()

    # a step

    def forward(self, room: Room, training: LocalTraining | None) -> None:
        """Compute the logits; with a training also the losses and the slope with respect to the last block's output."""
        for i, block in enumerate(self.net.blocks):
            self._convolve(room, "forward", block, self.inputs[i], self.raw[i], None)
            strip = strip_for(block)
            norms.norm_mish[(room.samples * (block.outward // strip.channels),)](
                self.raw[i], self._affine(block), self.inputs[i if block.added is None else block.added],
                self.inputs[i + 1], self.winners[i], self.means[i], self.scales[i], self.owner, self.net.size, block.eps,
                block.positions, block.width, block.outward, block.group, block.pool, block.added is not None,
                training is not None, *strip, num_warps=4,
            )  # fmt: skip
        last, head = self.net.blocks[-1], self.master[:, self.net.head :]
        positions = math.prod(last.out)
        kernels.head[(room.samples,)](
            self.inputs[-1], head, self.labels, self.offsets, self.owner, self.features, self.logits, self.losses,
            self.slopes[0], self.net.size, positions, last.outward, self.net.classes, training is not None,
            self._classes, 32, power_in(positions, 16), num_warps=2,
        )  # fmt: skip

    def backward(self, room: Room, training: LocalTraining) -> None:
        """Take a gradient step with all parameters; each weight changes after the slopes that depend on it are computed."""
        rates = (training.lr, training.momentum, training.weight_decay)
        moving = training.momentum > 0
        own, last = slice(self.net.head, None), self.net.channels
        kernels.descend_head[last // 32, room.clients](
            self.features, self.logits, self.master[:, own], self.velocity[:, own], self.offsets, self.net.size, *rates,
            last, self.net.classes, moving, self._classes, 32,
        )  # fmt: skip
        now, kept = 0, None  # the slope of the block's output, and the one kept for a residual's beginning
        for i in range(len(self.net.blocks) - 1, -1, -1):
            block = self.net.blocks[i]
            strip = strip_for(block)
            norms.norm_mish_slope[(room.samples * (block.outward // strip.channels),)](
                self.raw[i], self.slopes[now], self._affine(block), self.winners[i], self.means[i], self.scales[i],
                self.raw_slope, self.d_affine[:, block.affine :], self.owner, self.net.size, self.net.head - self.net.affine,
                block.positions, block.width, block.outward, block.group, block.pool, *strip, num_warps=4,
            )  # fmt: skip
            if block.added is not None:
                begin, kept = block.added, now
            if i > 0:
                free = next(each for each in range(3) if each not in (now, kept))
                added = self.slopes[kept] if kept is not None and i == begin else None
                self._convolve(room, "backward", block, self.raw_slope, self.slopes[free], added)
                now, kept = free, kept if added is None else None
            self._descend_convolution(room, i, rates, moving)
        own, size = slice(self.net.affine, self.net.head), self.net.head - self.net.affine
        kernels.descend_affine[-(-size // 128), room.clients](
            self.d_affine, self.master[:, own], self.velocity[:, own], self.offsets, self.net.size, *rates, size, moving, 128
        )

    def _convolve(self, room: Room, kind: Kind, block: Block, x: Tensor, y: Tensor, added: Tensor | None) -> None:
        tile = tile_for(kind, block, self.itemsize)
        each, backward = (block.positions, tile.rows), kind == "backward"
        inward, outward = (block.outward, block.inward) if backward else (block.inward, block.outward)
        grid, given = (count_tiles(*room, *each) * (outward // tile.columns),), self.low[:, block.weights :]
        where = (y, y if added is None else added, *self.tile_tables[each], self.offsets)
        shape = (block.height, block.width, inward, outward, block.taps, backward, added is not None, *tile[:3])
        if self._boxed(block, tile.rows):
            own = [block.taps * block.inward, block.outward]
            taken = [tile.columns, tile.deep] if backward else [tile.deep, tile.columns]
            weights = TensorDescriptor(given, [room.clients, *own], [self.low.stride(0), own[1], 1], [1, *taken])
            images = self._images(x, block, inward, tile.rows, tile.deep)
            boxes.convolve[grid](images, weights, *where, *shape, num_warps=tile.warps, num_stages=tile.stages)
        else:
            kernels.convolve[grid](
                x, given, *where, self.low.stride(0), *shape, self.precision, num_warps=tile.warps, num_stages=tile.stages
            )

    def _descend_convolution(self, room: Room, i: int, rates: tuple[float, float, float], moving: bool) -> None:
        block = self.net.blocks[i]
        tile = tile_for("descend", block, self.itemsize)
        grid = (block.taps * (block.inward // tile.rows) * (block.outward // tile.columns), room.clients)
        weights = [each[:, block.weights :] for each in (self.master, self.velocity, self.low)]
        given = (
            self.inputs[i], self.raw_slope, *weights, self.offsets, self.net.size, self.low.stride(0), *rates,
            block.height, block.width, block.inward, block.outward, block.taps, moving, self.low is not self.master, *tile[:3],
        )  # fmt: skip
        if self._boxed(block, tile.deep):
            size = [self.room.samples * block.positions, block.outward]
            slopes = TensorDescriptor(self.raw_slope, size, [block.outward, 1], [tile.deep, tile.columns])
            images = self._images(self.inputs[i], block, block.inward, tile.deep, tile.rows)
            boxes.descend_convolution[grid](images, slopes, *given, num_warps=tile.warps, num_stages=tile.stages)
        else:
            kernels.descend_convolution[grid](*given, self.precision, num_warps=tile.warps, num_stages=tile.stages)

    # sizes

    def _convolutions(self) -> Iterator[tuple[Kind, Block]]:
        for i, block in enumerate(self.net.blocks):
            yield "forward", block
            if i > 0:
                yield "backward", block

    def _boxed(self, block: Block, rows: int) -> bool:
        """Return whether factors are read as boxes of `rows` positions."""
        return self.boxes and fits_boxes(block, rows)

    def _images(self, x: Tensor, block: Block, channels: int, rows: int, deep: int) -> TensorDescriptor:
        """Describe images whose boxes have `rows` positions and `deep` channels."""
        shape = [self.room.samples, block.height, block.width, channels]
        strides = [block.positions * channels, block.width * channels, channels, 1]
        taken = [max(1, rows // block.positions), min(block.height, rows // block.width), block.width, deep]
        return TensorDescriptor(x, shape, strides, taken)

    def _affine(self, block: Block) -> Tensor:
        return self.master[:, self.net.affine + block.affine :]


def _arrays(net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype) -> Iterator[tuple[str, int, int, torch.dtype]]:
    """Yield (name, rows, numbers in a row, type) of all arrays of a round."""
    wide = torch.float32
    outputs = [math.prod(block.out) * block.outward for block in net.blocks]
    for i, block in enumerate(net.blocks):
        yield f"input {i}", room.samples, block.positions * block.inward, dtype
        yield f"raw {i}", room.samples, block.positions * block.outward, dtype
        yield f"mean {i}", room.samples, block.outward, wide
        yield f"scale {i}", room.samples, block.outward, wide
        if block.pool:
            yield f"winner {i}", room.samples, outputs[i], torch.uint8
    yield f"input {len(net.blocks)}", room.samples, outputs[-1], dtype
    for i in range(3):
        yield f"slope {i}", room.samples, max(outputs), dtype
    yield "raw slope", room.samples, max(block.positions * block.outward for block in net.blocks), dtype
    yield "affine slope", room.samples, net.head - net.affine, wide
    yield "features", room.samples, net.channels, wide
    yield "logits", room.samples, net.classes, wide
    yield "losses", room.samples, 1, wide
    yield "labels", room.samples, 1, torch.int64
    yield "master", room.clients, net.size, wide
    if momentum:
        yield "velocity", room.clients, net.size, wide
    if dtype != wide:
        yield "low", room.clients, net.affine, dtype


def bytes_needed(net: ResidualNet, room: Room, momentum: bool, dtype: torch.dtype) -> int:
    return sum(count * size * kind.itemsize for _, count, size, kind in _arrays(net, room, momentum, dtype))
