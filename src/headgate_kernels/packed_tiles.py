"""The tiles of packed convolutions: their sizes, and the client of each."""

from typing import Literal, NamedTuple

import numpy as np

from headgate.simulation.executors.executor import Ints
from headgate_kernels.residual_net import Block


class Room(NamedTuple):
    """How many samples and clients there is space for."""

    samples: int
    clients: int


class Tile(NamedTuple):
    """The matrix product of one program: rows x columns, `deep` terms at a time."""

    rows: int
    columns: int
    deep: int
    warps: int
    stages: int


Kind = Literal["forward", "backward", "descend"]
TUNED: dict[Kind, dict[tuple[int, int], Tile]] = {
    "forward": {
        (32, 64): Tile(128, 64, 32, 4, 4),
        (64, 128): Tile(128, 128, 64, 4, 3),
        (128, 128): Tile(128, 128, 64, 8, 3),
        (128, 256): Tile(256, 128, 64, 8, 3),
        (256, 512): Tile(256, 128, 64, 8, 4),
        (512, 512): Tile(64, 256, 64, 8, 4),
    },
    "backward": {
        (64, 128): Tile(128, 64, 64, 8, 3),
        (128, 128): Tile(128, 128, 64, 8, 3),
        (128, 256): Tile(256, 128, 64, 8, 4),
        (256, 512): Tile(256, 128, 64, 8, 4),
        (512, 512): Tile(64, 256, 64, 8, 4),
    },
    "descend": {
        (32, 64): Tile(32, 64, 128, 4, 5),
        (64, 128): Tile(64, 128, 64, 4, 4),
        (128, 128): Tile(128, 128, 64, 8, 4),
        (128, 256): Tile(128, 256, 64, 8, 3),
        (256, 512): Tile(128, 128, 64, 4, 3),
        (512, 512): Tile(64, 128, 64, 4, 3),
    },
}
"""tiles for bfloat16 on an H200, by kind, then input and output channels: the fastest
of those tried for ResNet-9 with one run and with ten (`benchmarks/tune_packed.py` at
7668df2e)"""


def tile_for(
    kind: Kind,
    block: Block,
    itemsize: int,
) -> Tile:
    """Return the tile of a block's convolution, of its slope or of its descent."""
    inward, outward = block.inward, block.outward
    short = itemsize == 2
    tuned = TUNED[kind].get((inward, outward))
    if tuned and short:
        return tuned
    deep, most = (64, 128) if short else (32, 64)
    if kind == "descend":
        deep = max(deep, block.width)
        return Tile(power_in(inward, most), power_in(outward, most), deep, 8, 3)
    made, summed = (outward, inward) if kind == "forward" else (inward, outward)
    return Tile(most, power_in(made, most), power_in(summed, deep), 8, 3)


def strip_for(block: Block) -> tuple[int, int]:
    """Return how many channels of a sample a program of four warps normalises, and how
    many rows, or windows, at a time.

    They are as many as fit into its registers, if possible all positions, which are
    then read once.
    """
    positions = block.positions
    channels = max(32, block.group)
    if positions <= 16:
        channels = power_in(block.outward, 512)
    if block.pool:
        return channels, power_in(positions // 4, max(16, block.width))
    return channels, power_in(positions, 256 if positions <= 256 else 128)


def power_in(n: int, most: int) -> int:
    """Return the largest power of two that divides n, at most `most`.

    >>> power_in(96, 64), power_in(512, 64)
    (32, 64)
    """
    return min(n & -n, most)


def count_tiles(
    samples: int,
    clients: int,
    positions: int,
    rows: int,
) -> int:
    """Return the most tiles that the samples can need, however they are divided among
    the clients.
    """
    return -(-samples * positions // rows) + clients


def tiles(
    offsets: Ints,
    positions: int,
    rows: int,
    count: int,
) -> Ints:
    """Return the client of each tile, -1 for none, and its first row, (2, count). A
    tile has the rows of one client only.

    >>> tiles(np.array([0, 2, 2, 3]), positions=4, rows=5, count=5)
    array([[ 0,  0,  2, -1, -1],
           [ 0,  5,  8,  0,  0]])
    """
    needed = -(-np.diff(offsets) * positions // rows)
    client = np.repeat(np.arange(len(needed)), needed)
    turn = np.arange(len(client)) - np.repeat(np.cumsum(needed) - needed, needed)
    table = np.full((2, count), -1)
    table[1] = 0
    table[0, : len(client)] = client
    table[1, : len(client)] = offsets[client] * positions + turn * rows
    return table
