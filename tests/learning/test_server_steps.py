"""What the server does in a round: its average of models, the weights of updates, and
who trains.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.randomness import Purpose, uniform
from headgate.errors import SettingError
from headgate.learning.server import aggregation_weights, draw_cohort, newest_share

ALPHA = np.array([0.5, 0.25, 0.25])
N = np.array([[2, 4, 0], [0, 0, 0]])


@pytest.mark.paper("eq:global-aggregation")
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("memory", [0.5, 0.5, 0.0]),
        ("alpha", [2 / 3, 1 / 3, 0.0]),
        ("uniform", [0.5, 0.5, 0.0]),
    ],
)
def test_weights(rule, expected):
    weights = aggregation_weights(rule, ALPHA, N)
    assert weights[0] == pytest.approx(expected)
    assert weights[1].tolist() == [0.0, 0.0, 0.0]


def test_an_unknown_rule_is_named():
    with pytest.raises(SettingError, match=r"training.aggregation = median"):
        aggregation_weights("median", ALPHA, N)


@given(st.integers(1, 200), st.floats(0, 20))
def test_the_weights_of_all_rounds_sum_to_one_and_rise(rounds, eta):
    weights = np.zeros(rounds)
    for t in range(1, rounds + 1):
        share = newest_share(t, eta)
        weights *= 1 - share
        weights[t - 1] = share
    assert weights.sum() == pytest.approx(1)
    assert np.all(np.diff(weights) >= -1e-12)


@given(st.integers(1, 60), st.integers(0, 5), st.integers(1, 50), st.data())
def test_a_cohort_is_as_many_different_clients_always_the_same(clients, seed, t, data):
    size = data.draw(st.integers(1, clients))
    cohort = draw_cohort(seed, t, clients, size)
    assert len({*cohort.tolist()} & {*range(clients)}) == cohort.size == size
    assert np.all(np.diff(cohort) > 0)
    assert np.array_equal(cohort, draw_cohort(seed, t, clients, size))


@given(st.integers(2, 40), st.integers(0, 5), st.integers(1, 50), st.data())
def test_it_is_the_first_different_ones_drawn_whatever_is_drawn_at_once(
    clients, seed, t, data
):
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
