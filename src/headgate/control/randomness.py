"""Draws that are addressed, not consumed: (seed, purpose, client, index) always gives the same number.

All policies therefore meet the same prices and samples, in any order, batch or process, and there
is no generator state to save. The generator is Philox4x32-10 (Salmon et al., SC 2011): the seed is
its key, the rest of the address its counter.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError

Words = NDArray[np.uint64]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)


class Purpose(IntEnum):
    """What a draw is for. Numbers are part of every published result: add, never change."""

    COST = 1
    COST_STATE = 2
    COST_NOISE = 3
    STREAM = 4
    BATCH = 5
    PARTITION = 6


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, Words, Words, Words]:
    """Ten rounds of Philox4x32 on arrays of 32-bit words kept in uint64."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + np.uint64(_WEYL[0])) & _LOW, (k1 + np.uint64(_WEYL[1])) & _LOW
    return c0, c1, c2, c3


def uniform(seed: ArrayLike, purpose: Purpose, index: ArrayLike, client: ArrayLike = 0) -> NDArray[np.float64]:
    """Numbers in [0, 1) with 53 random bits, one for each address; the arguments broadcast.

    >>> bool(uniform(7, Purpose.COST, 3) == uniform([6, 7], Purpose.COST, [3, 3])[1])
    True
    """
    words = [np.asarray(x) for x in (seed, index, client)]
    for name, word in zip(("seed", "index", "client"), words, strict=True):
        if word.dtype.kind not in "iu" or (word.size and word.min() < 0):
            raise SettingError(f"{name} = {np.array2string(word, threshold=8)}: must be whole numbers, zero or more")
    s, i, m = np.broadcast_arrays(*(word.astype(np.uint64) for word in words))
    first, second, _, _ = philox((i & _LOW, i >> _HALF, np.full_like(i, int(purpose)), m & _LOW), (s & _LOW, s >> _HALF))
    return np.asarray(((first >> np.uint64(5)) * 67108864.0 + (second >> np.uint64(6))) / 9007199254740992.0)
