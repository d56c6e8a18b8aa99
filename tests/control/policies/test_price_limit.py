import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import System, View
from headgate.control.policies.buying.price_limit import (
    SPREAD,
    WINDOW,
    deserved,
    edge,
    edge_of,
    mean_price,
    observe,
    remembered,
    unseen,
)

SYSTEM = System(np.array([3, 4]), 5.0, 10)
PRICES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 7.0]), min_size=1, max_size=30)


def view(t, cost):
    cost = np.asarray(cost, dtype=float)
    money, counts, by_client = (
        np.zeros(len(cost)),
        np.zeros(len(cost), dtype=np.int64),
        np.zeros((len(cost), 2), dtype=np.int64),
    )
    return View(t, cost, money, money, counts, counts, by_client, SYSTEM, counts)


def remember(rows):
    """A memory that has seen these prices, (R, t)."""
    memory = unseen(len(rows))
    for t, cost in enumerate(np.asarray(rows, dtype=float).T, start=1):
        memory = observe(memory, view(t, cost))
    return memory


@given(PRICES, st.floats(0.0, 5.0))
def test_following_the_edge_spends_what_was_asked_for(prices, spend):
    found = edge(remember([prices]), np.array([spend]))
    bought = _wanted(found, prices)
    paid = float(np.mean(bought * np.array(prices)))
    assert paid == pytest.approx(min(spend, np.mean(prices)))


def _wanted(found, prices):
    return np.array([found.wanted(np.array([price]))[0] for price in prices])


@given(PRICES, st.floats(0.0, 5.0))
def test_no_other_rule_with_that_spend_buys_more(prices, spend):
    """The fractional knapsack: the cheapest first."""
    bought = _wanted(edge(remember([prices]), np.array([spend])), prices).sum()
    money, most = spend * len(prices), 0.0
    for price in sorted(prices):
        part = 1.0 if price == 0 else min(1.0, max(money, 0.0) / price)
        most, money = most + part, money - part * price
    assert bought == pytest.approx(most, abs=1e-6)


@given(PRICES, st.floats(0.0, 5.0))
def test_todays_price_deserves_what_the_edge_gives_it(prices, spend):
    memory, today = remember([prices]), np.array(prices[-1:])
    wanted = edge(memory, np.array([spend])).wanted(today)
    assert deserved(memory, today, np.array([spend])) == pytest.approx(wanted)


def test_an_even_price_is_shared_out():
    found = edge(remember([[5.0] * 20]), np.array([0.5]))
    assert found.price[0] == 5.0
    assert found.share[0] == pytest.approx(0.1)


def test_enough_money_buys_at_any_price():
    found = edge(remember([[1.0, 2.0, 9.0]]), np.array([4.0]))
    assert found.price[0] == np.inf
    assert found.wanted(np.array([1e9]))[0] == 1.0


def test_the_oldest_prices_are_forgotten():
    memory = remember([np.r_[np.full(50, 9.0), np.full(WINDOW, 2.0)]])
    assert remembered(memory)[0] == WINDOW
    assert mean_price(memory)[0] == 2.0
    assert set(memory["prices"][0]) == {2.0}


def test_observing_changes_nothing_that_was_given():
    memory = unseen(2)
    observe(memory, view(1, [1.0, 2.0]))
    assert not memory["prices"].any()
    assert not memory["prices_seen"].any()


def test_of_a_price_per_client_the_ends_and_the_middle_are_kept():
    memory = observe(unseen(1), view(1, np.arange(11.0)[None]))
    assert remembered(memory)[0] == SPREAD
    assert sorted(memory["prices"][0, :SPREAD]) == [0.0, 2.0, 5.0, 8.0, 10.0]


def test_runs_never_meet():
    rows = np.array([[1.0, 5.0, 3.0], [9.0, 9.0, 2.0]])
    together = edge(remember(rows), np.array([1.0, 2.0]))
    for r, spend in enumerate((1.0, 2.0)):
        alone = edge(remember(rows[r : r + 1]), np.array([spend]))
        assert (alone.price[0], alone.share[0]) == (together.price[r], together.share[r])


def test_edges_of_sorted_prices():
    limit, share = edge_of(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([4]), np.array([1.0]))
    assert limit[0] == 3.0
    assert share[0] == pytest.approx(1 / 3)
