"""Local training of a client on its buffer: gradient descent on the full batch or in
addressed mini-batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from headgate.control.checks import positive, whole, zero_or_more
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError, require

# One 64-bit index addresses a sample's place in a batch order: round, epoch and
# position side by side.
_ROUND_BITS, _EPOCH_BITS, _POSITION_BITS = 24, 16, 24

Rows = slice | Ints
"""the rows of a client's buffer that a gradient step uses"""


@dataclass(frozen=True)
class LocalTraining:
    """Local training of one round; it starts from the global model, with a velocity of
    zero.

    Without `batch_size`, a step is one gradient step on the whole buffer. With it, each
    of the `steps` is an epoch: one pass over the buffer in batches of at most
    `batch_size`, in the order of `batch_order`.

    A gradient step is that of torch.optim.SGD: g = gradient + weight_decay·θ, v ←
    momentum·v + g, θ ← θ − lr·v.
    """

    lr: float
    steps: int
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: int | None = None

    def __post_init__(self) -> None:
        positive("lr", self.lr, most=np.inf)
        whole("steps", self.steps)
        if self.batch_size is not None:
            whole("batch_size", self.batch_size)
        zero_or_more("momentum", self.momentum)
        require(self.momentum < 1, "momentum", self.momentum, "less than 1")
        zero_or_more("weight_decay", self.weight_decay)
        if self.batch_size is not None and self.steps > 1 << _EPOCH_BITS:
            raise SettingError(
                f"steps = {self.steps}: at most {1 << _EPOCH_BITS} epochs of"
                " mini-batches"
            )


def batch_order(
    seed: int,
    client: int,
    t: int,
    epoch: int,
    n: int,
) -> Ints:
    """Return the order in which a client passes over its n samples in an epoch of round
    t; the arguments determine it.

    >>> batch_order(seed=7, client=2, t=1, epoch=0, n=5)
    array([0, 2, 1, 3, 4])
    """
    for name, value, bits in (
        ("t", t, _ROUND_BITS),
        ("epoch", epoch, _EPOCH_BITS),
        ("n", n, _POSITION_BITS),
    ):
        if not 0 <= value < 1 << bits:
            raise SettingError(
                f"{name} = {value}: mini-batches are addressed for 0 to"
                f" {(1 << bits) - 1}"
            )
    first = np.uint64((t << _EPOCH_BITS | epoch) << _POSITION_BITS)
    draws = uniform(seed, Purpose.BATCH, first + np.arange(n, dtype=np.uint64), client)
    return np.argsort(draws, kind="stable")


def schedule(
    training: LocalTraining,
    seed: int,
    client: int,
    t: int,
    n: int,
) -> Iterator[Rows]:
    """Yield the rows of a client's buffer for each gradient step of round t: all rows,
    or those of one batch.
    """
    for epoch in range(training.steps):
        if training.batch_size is None:
            yield slice(None)
        else:
            order = batch_order(seed, client, t, epoch, n)
            for first in range(0, n, training.batch_size):
                yield order[first : first + training.batch_size]


# images shifted at random by a few pixels, by new draws in every round


def moves(
    most: int,
    seeds: Ints,
    t: int,
    samples: Ints,
) -> Ints:
    """Draw the shift (down, right) of each sample in round t, (2, S), uniformly from
    −most to most.
    """
    side = 2 * most + 1
    index = (t << 32) + samples  # round and sample side by side
    draw = (uniform(seeds, Purpose.SHIFT, index) * side**2).astype(np.int64)
    return np.stack(np.divmod(draw, side)) - most


def shifted(
    images: NDArray[np.uint8],
    move: Ints,
    most: int,
) -> NDArray[np.uint8]:
    """Shift each of the images (S, C, H, W) by its (down, right) in `move` (2, S), at
    most `most`; new pixels are 0.

    >>> image = np.array([[[[1, 2], [3, 4]]]], np.uint8)
    >>> shifted(image, np.array([[1], [0]]), most=1).tolist()
    [[[[0, 0], [1, 2]]]]
    """
    beside = (most, most)
    windows = sliding_window_view(
        np.pad(images, ((0, 0), (0, 0), beside, beside)), images.shape[2:], axis=(2, 3)
    )
    down, right = most - move
    return windows[np.arange(len(images)), :, down, right]
