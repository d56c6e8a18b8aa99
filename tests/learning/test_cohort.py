import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.randomness import Purpose, uniform
from headgate.learning.server import draw_cohort


@given(st.integers(1, 60), st.integers(0, 5), st.integers(1, 50), st.data())
def test_a_cohort_is_as_many_different_clients_always_the_same(clients, seed, t, data):
    size = data.draw(st.integers(1, clients))
    cohort = draw_cohort(seed, t, clients, size)
    assert cohort.size == size
    assert np.all(np.diff(cohort) > 0)
    assert cohort[0] >= 0
    assert cohort[-1] < clients
    assert np.array_equal(cohort, draw_cohort(seed, t, clients, size))


@given(st.integers(2, 40), st.integers(0, 5), st.integers(1, 50), st.data())
def test_it_is_the_first_different_ones_drawn_whatever_is_drawn_at_once(clients, seed, t, data):
    size = data.draw(st.integers(1, clients // 2))
    chosen: dict[int, None] = {}
    i = 0
    while len(chosen) < size:
        chosen[int(uniform(seed, Purpose.COHORT, t * 2**32 + i) * clients)] = None
        i += 1
    assert draw_cohort(seed, t, clients, size).tolist() == sorted(chosen)


@pytest.mark.parametrize("size", [2, 7])
def test_every_client_is_drawn_as_often(size):
    """Below and above half of them; 3000 rounds, within four standard deviations."""
    counts = np.zeros(9)
    for t in range(1, 3001):
        counts[draw_cohort(3, t, 9, size)] += 1
    share = size / 9
    assert abs(counts - 3000 * share).max() < 4 * (3000 * share * (1 - share)) ** 0.5


def test_rounds_and_seeds_differ():
    cohorts = [tuple(draw_cohort(seed, t, 10**6, 5)) for seed in range(5) for t in range(1, 6)]
    assert len(set(cohorts)) == 25
