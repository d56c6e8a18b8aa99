"""The memory layout of the executor `compiled`, and the blocks into which its kernels
divide their work.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate_kernels.processor import vector_registers

LANES, LONG, REGISTERS = vector_registers()
"""Numbers of float32 in a usual and in the longest vector, which is for blocks that
fill it; and vector registers of a core.
"""
BLOCK = 16
"""Outputs in a block of a linear layer."""
WIDE, LONG_WIDE = BLOCK // LANES, BLOCK // LONG
"""`BLOCK` in usual and in the longest vectors."""
SAMPLES = 4 * LONG // LANES
"""Samples in a block of a linear layer, a multiple of WIDE."""
LINE = 64
"""Bytes of a cache line: a vector that lies in two lines is read twice."""
IN_FLIGHT = 8
"""Sums that a core computes at the same time; a block with fewer takes as long."""
MOST_WIDE = 5
"""Vectors in a block of a convolution; with more, too few pixels fit beside them."""
LIST = 256
"""Windows whose gradients are collected before they are multiplied."""
NEAR = 8192
"""Numbers of float32 in half of a first-level cache of 64 KiB."""
SLACK = 32 * LANES
"""Spare numbers at the end of an array, because whole vectors are read and written."""


def zeros(size: int, dtype: Any) -> NDArray[Any]:
    """Return an array of zeros that begins at a cache line."""
    unit = LINE // np.dtype(dtype).itemsize
    whole = np.zeros(size + unit, dtype)
    first = -(whole.ctypes.data // whole.itemsize) % unit
    return whole[first : first + size]


def rounded(number: int, unit: int) -> int:
    """Return the number rounded up to a multiple of the unit."""
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Grid:
    """The layout of a sample: rows of pixels, the channels of a pixel adjacent, with
    `pad` pixels of zeros around the image.

    Features are the channels of a single pixel.
    """

    channels: int
    height: int = 1
    width: int = 1
    pad: int = 0

    @property
    def row(self) -> int:
        """Distance between rows."""
        return (self.width + 2 * self.pad) * self.channels

    @property
    def start(self) -> int:
        """The first number that is not padding."""
        return self.pad * (self.row + self.channels)

    @property
    def pitch(self) -> int:
        """Distance between samples: whole blocks of a linear layer."""
        return rounded((self.height + 2 * self.pad) * self.row, BLOCK)


class VectorTile(NamedTuple):
    """How a row of a convolution is divided into blocks that fit into the registers."""

    lanes: int
    """numbers in a vector"""
    together: int
    """adjacent pixels that are treated as one with more outputs, so that vectors are
    filled
    """
    vectors: int
    groups: int
    """the number of groups of `vectors` vectors into which the outputs are divided"""
    places: int
    """positions, each of `together` pixels, in a block"""
    terms: int
    """inputs that a row of the kernel reads at such a position"""


@dataclass(frozen=True)
class Window:
    """A convolution of stride 1, the pooling by pool x pool windows after it (1 for
    none), and the activation after that.
    """

    k: int
    pool: int
    activation: int
    before: Grid
    after: Grid

    @property
    def run(self) -> int:
        """Inputs that a row of the kernel reads, in whole vectors; also the distance
        between rows of weights.
        """
        return rounded(self.k * self.before.channels, LANES)

    @property
    def spread(self) -> int:
        """Inputs that a row of the kernel reads at all positions of a window, in whole
        vectors.
        """
        return rounded((self.k + self.pool - 1) * self.before.channels, LANES)

    @property
    def deep(self) -> int:
        """Rows of a kernel with a row of zeros on either side for each step that it can
        move in a window.
        """
        return self.k + 2 * (self.pool - 1)

    @property
    def broad(self) -> int:
        """Numbers in a row of a kernel that is padded with zeros on either side, so
        that it can be read at every shift.
        """
        return rounded(self.spread + (self.pool - 1) * self.before.channels, LANES)

    @property
    def strip(self) -> tuple[int, int]:
        """(samples, rows) whose gradients are collected together, so that their inputs
        stay in the first-level cache.

        Several small samples, or some rows of a large one.
        """
        seen = NEAR // self.before.row - self.k + 1
        if seen < self.after.height * self.pool:
            return 1, max(1, seen // self.pool)
        windows = self.after.height * self.after.width
        samples = min(LIST // windows, NEAR // self.before.pitch)
        return max(1, samples), self.after.height

    @cached_property
    def tile(self) -> VectorTile:
        """The tile, with usual or the longest vectors, that needs the fewest vector
        products for a row.
        """
        columns = self.after.width * self.pool

        def products(tile: VectorTile) -> int:
            blocks = -(-columns // (tile.together * tile.places))
            each = max(tile.places * tile.vectors, IN_FLIGHT)
            return blocks * tile.groups * each * tile.terms

        return min((self._tile(lanes) for lanes in (LANES, LONG)), key=products)

    def _tile(self, lanes: int) -> VectorTile:
        k, outputs, columns = self.k, self.after.channels, self.after.width * self.pool

        def filled(together: int) -> float:
            """Return the share of products that are not with padding."""
            numbers = together * outputs
            return numbers / rounded(numbers, lanes) * k / (k + together - 1)

        together = max(range(1, min(lanes, columns) + 1), key=filled)
        needed = -(-together * outputs // lanes)
        groups = -(-needed // MOST_WIDE)
        vectors = -(-needed // groups)
        # registers hold the sums, the weights, and the inputs of each position: a
        # vector of which one number at a time is used, or, with the longest vectors,
        # one number of each pixel
        seen = 1 if lanes == LANES else together
        fitting = (REGISTERS - 1 - vectors) // (vectors + seen)
        most = max(1, min(columns // together, fitting))

        def effort(places: int) -> tuple[int, int]:
            blocks = -(-columns // (together * places))
            return blocks * max(places * vectors, IN_FLIGHT), -places

        places = min(range(1, most + 1), key=effort)
        terms = (k + together - 1) * self.before.channels
        return VectorTile(lanes, together, vectors, groups, places, terms)
