"""The value at a place is that of the sorted values, wherever the sample says to look."""

import numpy as np
import pytest

from headgate.control.nth import MANY, SAMPLE, nth

MANY_VALUES = 2 * MANY
KINDS = {
    "all different": lambda draw: draw.permutation(MANY_VALUES).astype(float),
    "a few": lambda draw: draw.integers(0, 5, MANY_VALUES).astype(float),
    "all alike": lambda draw: np.ones(MANY_VALUES),
    "half infinite": lambda draw: np.where(draw.random(MANY_VALUES) < 0.5, np.inf, draw.random(MANY_VALUES)),
    "ascending": lambda draw: np.sort(draw.random(MANY_VALUES)),
    "a sample that says nothing": lambda draw: np.where(
        np.arange(MANY_VALUES) % (MANY_VALUES // SAMPLE | 1), draw.random(MANY_VALUES), 2.0
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_as_after_sorting(kind):
    draw = np.random.default_rng(0)
    values = KINDS[kind](draw)
    before, ordered = values.copy(), np.sort(values)
    for n in (0, 1, MANY_VALUES // 3, MANY_VALUES - 1, *draw.integers(0, MANY_VALUES, 5)):
        assert nth(values, int(n)) == ordered[n]
    assert np.array_equal(values, before)


def test_of_few_likewise():
    assert [nth(np.array([3.0, 1.0, 2.0]), n) for n in range(3)] == [1.0, 2.0, 3.0]
