import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.learning.local import check_shift, moves, shifted


@given(st.integers(1, 3), st.integers(0, 40), st.integers(1, 50), st.integers(0, 2**31))
def test_moves_are_addressed_and_within_reach(most, samples, t, seed):
    numbers = np.arange(samples)
    move = moves(most, np.full(samples, seed), t, numbers)
    assert move.shape == (2, samples)
    assert np.abs(move).max(initial=0) <= most
    backwards = moves(most, np.full(samples, seed), t, numbers[::-1])
    assert np.array_equal(backwards[:, ::-1], move)  # a sample's move depends on nothing but its address


def test_all_moves_are_equally_likely_and_new_every_round():
    move = moves(2, np.zeros(50_000, dtype=np.int64), 3, np.arange(50_000))
    counts = np.bincount((move[0] + 2) * 5 + move[1] + 2, minlength=25)
    assert abs(counts - 2000).max() < 6 * np.sqrt(2000)
    assert not np.array_equal(move, moves(2, np.zeros(50_000, dtype=np.int64), 4, np.arange(50_000)))


@given(st.integers(0, 2), st.integers(1, 3), st.data())
def test_an_image_is_moved_as_a_plain_loop_moves_it(most, channels, data):
    images = np.random.default_rng(0).integers(1, 255, (4, channels, 5, 6), dtype=np.uint8)
    move = np.array(data.draw(st.lists(st.tuples(*[st.integers(-most, most)] * 2), min_size=4, max_size=4))).T
    found = shifted(images, move, most)
    for s, c, y, x in np.ndindex(images.shape):
        from_y, from_x = y - move[0, s], x - move[1, s]
        inside = 0 <= from_y < 5 and 0 <= from_x < 6
        assert found[s, c, y, x] == (images[s, c, from_y, from_x] if inside else 0)


@pytest.mark.parametrize("most", [-1, 28])
def test_a_shift_out_of_the_picture_is_refused(most):
    with pytest.raises(SettingError, match=f"training.shift = {most}"):
        check_shift(most, 28, 28)
