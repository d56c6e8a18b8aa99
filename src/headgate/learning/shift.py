"""Images moved at random by a few pixels, differently in every round: a sample that is used again is not quite the same."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError

_ROUND = 1 << 32
"""one 64-bit index addresses a move: round and sample side by side"""


def check_shift(most: int, height: int, width: int) -> None:
    if not 0 <= most < min(height, width):
        raise SettingError(f"training.shift = {most}: must be pixels from 0 on, fewer than the image has, {height} x {width}")


def moves(most: int, seeds: Ints, t: int, samples: Ints) -> Ints:
    """(down, right) from −most to most for each sample of a run with that seed in round t, (2, S); equally likely."""
    side = 2 * most + 1
    draw = (uniform(seeds, Purpose.SHIFT, t * _ROUND + samples) * side**2).astype(np.int64)
    return np.stack(np.divmod(draw, side)) - most


def shifted(images: NDArray[np.uint8], move: Ints, most: int) -> NDArray[np.uint8]:
    """Images (S, C, H, W), each moved by its (down, right) of `move` (2, S), at most `most`; what comes into view is 0.

    >>> shifted(np.array([[[[1, 2], [3, 4]]]], np.uint8), np.array([[1], [0]]), 1).tolist()
    [[[[0, 0], [1, 2]]]]
    """
    beside = (most, most)
    windows = sliding_window_view(np.pad(images, ((0, 0), (0, 0), beside, beside)), images.shape[2:], axis=(2, 3))
    down, right = most - move
    return np.asarray(windows[np.arange(len(images)), :, down, right])
