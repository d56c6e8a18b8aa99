"""How work is cut into blocks: everything is done, and a block fits into the registers."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.kernels import compiled_shapes
from headgate.kernels.compiled_shapes import BLOCK, LIST, MOST_MOVED, NEAR, SAMPLES, WIDE, Grid, Window, zeros

small = st.integers(1, 12)
vectors = st.sampled_from([(4, 4, 32), (4, 4, 16), (8, 8, 32), (8, 8, 16), (8, 16, 32)])


def of(lanes, long, registers):
    return mock.patch.multiple(compiled_shapes, LANES=lanes, LONG=long, REGISTERS=registers)


@given(st.integers(1, 200), st.sampled_from([np.float32, np.float64, np.uint16]))
def test_zeros_begin_with_a_line(size, dtype):
    made = zeros(size, dtype)
    assert (made.shape, made.dtype, made.any()) == ((size,), dtype, False)
    assert made.ctypes.data % 64 == 0
    assert made.flags.c_contiguous


def test_a_block_is_of_whole_vectors_and_holds_whole_rows_of_sums():
    assert BLOCK == WIDE * compiled_shapes.LANES
    assert SAMPLES % WIDE == 0


@given(small, small, small, st.integers(0, 3))
def test_a_grid_holds_its_pixels_between_its_padding(channels, height, width, pad):
    grid = Grid(channels, height, width, pad)
    last = grid.start + (height - 1) * grid.row + width * channels
    assert last + pad * (grid.row + channels) <= grid.pitch  # as much behind the last pixel as before the first
    assert grid.pitch % BLOCK == 0
    assert grid.row - width * channels == 2 * pad * channels


@given(vectors=vectors, k=small, inputs=small, outputs=st.integers(1, 70), pool=st.integers(1, 4), width=st.integers(1, 40))
def test_a_tile_covers_all_outputs_and_fits(vectors, k, inputs, outputs, pool, width):
    (lanes, long, registers), window = (
        vectors,
        Window(k, pool, True, Grid(inputs, 1, width * pool + k - 1), Grid(outputs, 1, width)),
    )
    with of(*vectors):
        tile = window.tile
        assert window.run % lanes == window.spread % lanes == window.broad % lanes == 0
        assert window.broad >= window.spread + (pool - 1) * inputs
        assert window.spread >= (k + pool - 1) * inputs
    assert tile.lanes in (lanes, long)
    filled = tile.vectors * tile.lanes
    assert tile.groups * filled >= tile.together * outputs > (tile.groups - 1) * filled
    assert 1 <= tile.places * tile.together <= width * pool
    assert tile.places * tile.vectors + tile.places + tile.vectors < registers
    assert tile.terms == (k + tile.together - 1) * inputs


@given(k=small, inputs=st.integers(1, 300), pool=st.integers(1, 4), height=small, width=st.integers(1, 40))
def test_a_strip_is_of_whole_samples_or_of_rows_that_are_near(k, inputs, pool, height, width):
    before = Grid(inputs, height * pool + k - 1, width * pool + k - 1)
    window = Window(k, pool, True, before, Grid(1, height, width))
    samples, rows = window.strip
    assert samples >= 1
    assert 1 <= rows <= height
    assert rows == height or samples == 1
    assert rows == 1 or (rows * pool + k - 1) * before.row <= NEAR
    assert samples == 1 or (samples * before.pitch <= NEAR and samples * height * width <= LIST)


FIRST, SECOND = Window(5, 2, True, Grid(1, 28, 28, 2), Grid(6, 14, 14)), Window(5, 2, True, Grid(6, 14, 14), Grid(16, 5, 5))
"""LeNet's"""


@pytest.mark.parametrize(
    ("vectors", "first", "second"),
    [
        # six outputs fill one and a half vectors, so that two pixels together fill three
        ((4, 4, 32), (4, 2, 3, 1, 7, 6), (4, 1, 4, 1, 5, 30)),
        ((8, 8, 32), (8, 1, 1, 1, 14, 5), (8, 1, 2, 1, 5, 30)),
        ((8, 8, 16), (8, 1, 1, 1, 7, 5), (8, 1, 2, 1, 4, 30)),
        ((8, 16, 32), (16, 2, 1, 1, 8, 6), (16, 1, 1, 1, 10, 30)),
    ],
)
def test_the_tiles_of_lenet(vectors, first, second):
    with of(*vectors):
        assert (replace(FIRST).tile, replace(SECOND).tile) == (first, second)


@pytest.mark.parametrize("lanes", [4, 8])
def test_a_large_image_is_done_in_strips_and_a_small_one_is_not(lanes):
    with of(lanes, lanes, 32):
        large = Window(3, 2, True, Grid(51, 16, 15), Grid(6, 7, 6))
        assert large.strip == (1, 4)
        assert large.moved > MOST_MOVED
        assert SECOND.strip == (6, 5)
        assert SECOND.moved <= MOST_MOVED
