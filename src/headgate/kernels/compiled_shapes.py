"""How the compiled executor's numbers lie in memory, and how its kernels cut their work into blocks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.kernels.processor import vector_registers

LANES, LONG, REGISTERS = vector_registers()
"""Numbers in a vector of float32, in the longest, for blocks that fill it, and vectors that a core can keep."""
BLOCK = 16
"""Numbers side by side in a block of a linear layer."""
WIDE, LONG_WIDE = BLOCK // LANES, BLOCK // LONG
"""The same in vectors."""
SAMPLES = 4 * LONG // LANES
"""Samples in a block of a linear layer, a multiple of WIDE."""
LINE = 64
"""Bytes that memory gives at once: a vector that lies in two lines is read twice."""
IN_FLIGHT = 8
"""Sums that a core works on at a time; a block of fewer takes as long."""
MOST_WIDE = 5
"""Vectors in a block of a convolution; with more, too few pixels fit beside them."""
LIST = 256
"""Windows whose slopes are gathered before they are multiplied."""
NEAR = 8192
"""Numbers that are near: half of a first-level cache of 64 KiB, in float32."""
SLACK = 32 * LANES
"""Numbers behind the last of an array, as whole vectors are read and written."""


def zeros(size: int, dtype: Any) -> NDArray[Any]:
    """Zeros that begin at the beginning of a line."""
    unit = LINE // np.dtype(dtype).itemsize
    whole = np.zeros(size + unit, dtype)
    first = -(whole.ctypes.data // whole.itemsize) % unit
    return whole[first : first + size]


def rounded(number: int, unit: int) -> int:
    """Up to a multiple of the unit."""
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Grid:
    """A sample: row by row, pixel by pixel, its channels side by side, with `pad` pixels of zeros around it.

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
    """How a row of a convolution is cut into blocks that fit into the registers."""

    lanes: int
    """numbers in a vector"""
    together: int
    """pixels side by side that are seen as one with more outputs, so that vectors are filled"""
    vectors: int
    groups: int
    """outputs are done in groups of so many vectors"""
    places: int
    """(of several pixels together) in a block"""
    terms: int
    """numbers that a row of the kernel sees from such a place"""


@dataclass(frozen=True)
class Window:
    """A convolution of stride 1, the pooling by pool x pool windows after it (1 for none), and the activation after that."""

    k: int
    pool: int
    activation: int
    before: Grid
    after: Grid

    @property
    def run(self) -> int:
        """Numbers that a row of the kernel sees, in whole vectors; rows of weights are as far apart."""
        return rounded(self.k * self.before.channels, LANES)

    @property
    def spread(self) -> int:
        """Numbers that a row of the kernel can see from anywhere in a window, in whole vectors."""
        return rounded((self.k + self.pool - 1) * self.before.channels, LANES)

    @property
    def deep(self) -> int:
        """Rows of a kernel with as many rows of zeros on either side as it can move in a window."""
        return self.k + 2 * (self.pool - 1)

    @property
    def broad(self) -> int:
        """Numbers of a row of a kernel with zeros on either side, from anywhere in which a window can be read."""
        return rounded(self.spread + (self.pool - 1) * self.before.channels, LANES)

    @property
    def moved(self) -> int:
        """Numbers of all kernels with zeros around them."""
        return self.after.channels * self.deep * self.broad

    @property
    def strip(self) -> tuple[int, int]:
        """(samples, rows): windows whose slopes are gathered together, so that what they see stays in the first-level cache.

        Small samples several at a time, large ones some rows at a time.
        """
        seen = NEAR // self.before.row - self.k + 1
        if seen < self.after.height * self.pool:
            return 1, max(1, seen // self.pool)
        return max(1, min(LIST // (self.after.height * self.after.width), NEAR // self.before.pitch)), self.after.height

    @cached_property
    def tile(self) -> VectorTile:
        """Of the width by which a row takes the fewest products of vectors."""
        columns = self.after.width * self.pool

        def products(tile: VectorTile) -> int:
            blocks = -(-columns // (tile.together * tile.places))
            return blocks * tile.groups * max(tile.places * tile.vectors, IN_FLIGHT) * tile.terms

        return min((self._tile(lanes) for lanes in (LANES, LONG)), key=products)

    def _tile(self, lanes: int) -> VectorTile:
        k, outputs, columns = self.k, self.after.channels, self.after.width * self.pool

        def filled(together: int) -> float:
            """The share of products that count."""
            return together * outputs / rounded(together * outputs, lanes) * k / (k + together - 1)

        together = max(range(1, min(lanes, columns) + 1), key=filled)
        needed = -(-together * outputs // lanes)
        groups = -(-needed // MOST_WIDE)
        vectors = -(-needed // groups)
        # in registers: the sums, what is seen from each place, and the weights they are multiplied with; a vector whose numbers
        # are taken one by one is seen, or, where vectors are longer than that, each pixel's number by itself
        seen = 1 if lanes == LANES else together
        most = max(1, min(columns // together, (REGISTERS - 1 - vectors) // (vectors + seen)))
        places = min(range(1, most + 1), key=lambda p: (-(-columns // (together * p)) * max(p * vectors, IN_FLIGHT), -p))
        return VectorTile(lanes, together, vectors, groups, places, (k + together - 1) * self.before.channels)
