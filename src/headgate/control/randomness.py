"""Random numbers with addresses.

The same (seed, purpose, client, index) always gives the same number. All policies
therefore meet the same prices and samples, in any order, batch or process, and no
generator state needs saving. The generator is Philox4x32-10 (Salmon et al., SC 2011):
the seed is its key, the rest of the address its counter.
"""

from collections.abc import Iterator
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
_BLOCK = 1 << 15
"""number of draws computed together, small enough for the processor's cache"""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], dtype=np.uint64)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], dtype=np.uint64)


class Purpose(IntEnum):
    """The purpose of a draw.

    Published results depend on these numbers: add new ones, but never change one.
    """

    PRICE = 1
    PRICE_STATE = 2
    PRICE_NOISE = 3
    STREAM = 4
    BATCH = 5
    PARTITION = 6
    VALIDATION = 7
    COHORT = 8
    PRICE_CLIENT = 9
    ADMISSION = 10
    RETENTION = 11
    SHIFT = 12
    PRICE_START = 13
    CONCEPT = 14
    CONCEPT_SHARE = 15
    GENERATED = 16
    SELECTION = 17
    TEST = 18
    STREAM_RUN = 19
    DELAY = 20


def philox(
    counter: tuple[Words, Words, Words | np.uint64, Words], key: tuple[Words, Words]
) -> tuple[Words, Words, Words, Words]:
    """Return the words after ten rounds of Philox4x32.

    The arguments hold 32-bit words as uint64 and broadcast.
    """
    shape, of_keys = np.broadcast(*counter, *key).shape, np.broadcast(*key).shape
    ones = [1] * len(shape)
    # Words 0 and 2, and words 1 and 3, together.
    even, odd, products = np.empty((3, 2, *shape), dtype=np.uint64)
    even[0], odd[0], even[1], odd[1] = counter
    keys = np.empty((2, *ones[len(of_keys) :], *of_keys), dtype=np.uint64)
    keys[0], keys[1] = key
    multipliers = _MULTIPLIERS.reshape(2, *ones)
    steps = _WEYL.reshape(2, *ones)
    crossed = products[::-1]
    # In place, because allocating an array takes longer than filling it.
    for _ in range(10):
        np.multiply(even, multipliers, out=products)
        np.right_shift(crossed, _HALF, out=even)
        even ^= odd
        even ^= keys
        np.bitwise_and(crossed, _LOW, out=odd)
        keys += steps
        keys &= _LOW
    return even[0, ...], odd[0, ...], even[1, ...], odd[1, ...]


def uniform(
    seed: ArrayLike,
    purpose: Purpose,
    index: ArrayLike,
    client: ArrayLike = 0,
) -> NDArray[np.float64]:
    """Return a number in [0, 1) with 53 random bits for each address.

    The arguments broadcast.

    >>> bool(uniform(7, Purpose.PRICE, 3) == uniform([6, 7], Purpose.PRICE, [3, 3])[1])
    True
    """
    words = {"seed": seed, "index": index, "client": client}
    s, i, m = (_word(name, value) for name, value in words.items())
    counter = (i & _LOW, i >> _HALF, np.uint64(purpose), m & _LOW)
    first, second, _, _ = philox(counter, (s & _LOW, s >> _HALF))
    high, low = first >> np.uint64(5), second >> np.uint64(6)
    return np.asarray((high * 67108864.0 + low) / 9007199254740992.0)


def _word(name: str, value: ArrayLike) -> Words:
    word = np.asarray(value)
    if word.dtype.kind not in "iu" or (word.size and word.min() < 0):
        raise SettingError(
            f"{name} = {np.array2string(word, threshold=8)}: must be whole numbers,"
            " zero or more"
        )
    return word.astype(np.uint64)


def permutations(
    seed: int,
    purpose: Purpose,
    places: Ints,
    clients: Ints,
    first: ArrayLike = 0,
) -> Iterator[tuple[slice, Ints]]:
    """Yield slices of clients and, for each client, the order of its draws.

    The draws are those at the indices first + places, (·, places). Each step yields a
    limited number of clients, so memory stays bounded for any number of clients.
    """
    begin = np.broadcast_to(np.asarray(first, dtype=np.int64), clients.shape)
    step = max(1, _BLOCK // max(places.size, 1))
    for at in range(0, clients.size, step):
        some = slice(at, at + step)
        draws = uniform(seed, purpose, begin[some, None] + places, clients[some, None])
        yield (
            some,
            np.argsort(
                draws,
                axis=-1,
                kind="stable",
            ),
        )
