"""How work is cut into blocks: everything is done, and a block fits into the registers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulation.executors.compiled_shapes import LANES, LIST, NEAR, REGISTERS, WIDE, Grid, Window

small = st.integers(1, 12)


@given(small, small, small, st.integers(0, 3))
def test_a_grid_holds_its_pixels_between_its_padding(channels, height, width, pad):
    grid = Grid(channels, height, width, pad)
    last = grid.start + (height - 1) * grid.row + width * channels
    assert last + pad * (grid.row + channels) <= grid.pitch  # as much behind the last pixel as before the first
    assert grid.pitch % (WIDE * LANES) == 0
    assert grid.row - width * channels == 2 * pad * channels


@given(k=small, inputs=small, outputs=st.integers(1, 70), pool=st.integers(1, 4), width=st.integers(1, 40))
def test_a_tile_covers_all_outputs_and_fits(k, inputs, outputs, pool, width):
    window = Window(k, pool, True, Grid(inputs, 1, width * pool + k - 1), Grid(outputs, 1, width))
    tile = window.tile
    assert tile.groups * tile.vectors * LANES >= tile.together * outputs > (tile.groups - 1) * tile.vectors * LANES
    assert 1 <= tile.places * tile.together <= width * pool
    assert tile.places * tile.vectors + tile.places + tile.vectors < REGISTERS
    assert tile.terms == (k + tile.together - 1) * inputs
    assert window.run % LANES == window.spread % LANES == 0
    assert window.spread >= (k + pool - 1) * inputs


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


@pytest.mark.parametrize(
    ("window", "tile"),
    [
        # LeNet's: six outputs fill one and a half vectors, so that two pixels together fill three
        (Window(5, 2, True, Grid(1, 28, 28, 2), Grid(6, 14, 14)), (2, 3, 1, 7, 6)),
        (Window(5, 2, True, Grid(6, 14, 14), Grid(16, 5, 5)), (1, 4, 1, 5, 30)),
    ],
)
def test_the_tiles_of_lenet(window, tile):
    assert window.tile == tile


def test_a_large_image_is_done_in_strips_and_a_small_one_is_not():
    large = Window(3, 2, True, Grid(51, 16, 15), Grid(6, 7, 6))
    assert large.strip == (1, 4)
    assert large.moved > NEAR
    lenet = Window(5, 2, True, Grid(6, 14, 14), Grid(16, 5, 5))
    assert lenet.strip == (6, 5)
    assert lenet.moved <= NEAR
