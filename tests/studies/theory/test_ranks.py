import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from studies.theory.judge import agreement, spearman

values = st.lists(st.integers(-5, 5), min_size=3, max_size=12)


def test_known_values():
    a, b = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 3, 5])
    assert spearman(a, b) == pytest.approx(0.8)
    assert np.isnan(spearman(a, np.ones(5)))


@given(values, st.randoms())
def test_agreement_is_symmetric_blind_to_scale_and_turns_with_the_order(given_values, random):
    x = np.array(given_values, dtype=np.float64)
    y = np.array(random.sample(given_values, len(given_values)), dtype=np.float64)
    found = spearman(x, y)
    if np.isnan(found):
        assert len(set(given_values)) == 1
        return
    assert found == pytest.approx(stats.spearmanr(x, y).statistic)
    assert spearman(np.exp(x), y) == pytest.approx(found)
    assert spearman(-x, y) == pytest.approx(-found)


def test_intervals_hold_the_value_and_close_where_seeds_agree():
    generator = np.random.default_rng(1)
    order = np.arange(8.0)[:, None]
    sure = agreement(np.repeat(order, 6, axis=1), np.repeat(order**3, 6, axis=1))
    assert sure.three == [1.0] * 3
    unsure = agreement(np.repeat(order, 6, axis=1), order + 8 * generator.standard_normal((8, 6)))
    assert unsure.low < unsure.high
    assert unsure.low <= unsure.mean <= unsure.high
