"""What is bought up to which price; that both memories do so to the sample is judged in
test_headgate_rule.py.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.policies.budgeted import all_prices, latest_prices
from headgate.control.policies.budgeted.all_prices import BINS
from headgate.control.policies.budgeted.price_limit import edge_of

PRICES = st.lists(
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 7.0]), min_size=1, max_size=30
)


@given(PRICES, st.floats(0.0, 5.0))
def test_following_the_edge_buys_the_most_for_what_was_asked_for(prices, spend):
    """The fractional knapsack: the cheapest first."""
    edge = edge_of(
        np.sort(np.array(prices))[None], np.array([len(prices)]), np.array([spend])
    )
    wanted = np.array([edge.wanted(np.array([price]))[0] for price in prices])
    assert np.mean(wanted * prices) == pytest.approx(min(spend, np.mean(prices)))
    money, most = spend * len(prices), 0.0
    for price in sorted(prices):
        part = 1.0 if price == 0 else min(1.0, max(money, 0.0) / price)
        most, money = most + part, money - part * price
    assert wanted.sum() == pytest.approx(most, abs=1e-6)


def test_bins_of_continuous_prices_are_narrow():
    """A bin is at most 2/BINS of the octaves that prices span, relative to its price:
    here 1.3 %.
    """
    prices = np.random.default_rng(0).uniform(1, 10, (1, 20_000))
    memory = all_prices.remember(all_prices.unseen(1), prices)
    width = 2.0 ** (memory["price_bits"][0] - 52)
    assert width <= 2 * np.log2(10) / BINS
    assert (memory["price_bins"] != all_prices.NONE).sum() > BINS / 4


def test_a_price_of_minus_zero_is_a_price_of_zero():
    memory = all_prices.remember(all_prices.unseen(1), np.array([[0.0, -0.0, 1.0]]))
    assert memory["price_counts"][0, :2].tolist() == [2, 1]
    assert all_prices.deserved(memory, np.array([-0.0]), np.array([0.0]))[0] == 1.0


@pytest.mark.parametrize("memory", [all_prices, latest_prices])
def test_a_price_of_next_to_nothing_is_bought_whole(memory):
    """Money over it is more than a float holds."""
    seen = memory.remember(memory.unseen(1), np.array([[5e-324, 1e11]]))
    assert memory.deserved(seen, np.array([5e-324]), np.array([1e11])).tolist() == [1.0]
