"""What is bought up to which price, from the latest prices and from all of them: both by the same rule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import System, View
from headgate.control.policies.budgeted import all_prices, latest_prices
from headgate.control.policies.budgeted.all_prices import BINS, bin_of
from headgate.control.policies.budgeted.price_limit import SPREAD, edge_of

SYSTEM = System(np.array([3, 4]), 5.0, 10)
PRICES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 7.0]), min_size=1, max_size=30)
BOTH = pytest.mark.parametrize("memory", [all_prices, latest_prices])
MANY = st.lists(st.floats(0.0, 1e9, allow_subnormal=True), min_size=BINS + 1, max_size=BINS + 40, unique=True)


def view(t, cost):
    cost = np.asarray(cost, dtype=float)
    money, by_client = np.zeros(len(cost)), np.zeros((len(cost), 2), dtype=np.int64)
    counts = by_client[:, 0]
    return View(t, cost, money, money, counts, counts, by_client, SYSTEM, counts)


def remember(way, rows):
    """A memory that has seen these prices, (R, t)."""
    memory = way.unseen(len(rows))
    for t, cost in enumerate(np.asarray(rows, dtype=float).T, start=1):
        memory = way.observe(memory, view(t, cost))
    return memory


def edge(prices, spend):
    ordered = np.sort(np.asarray(prices, dtype=float))[None]
    return edge_of(ordered, np.array([len(prices)]), np.array([spend]))


def _wanted(found, prices):
    return np.array([found.wanted(np.array([price]))[0] for price in prices])


# the edge


@given(PRICES, st.floats(0.0, 5.0))
def test_following_the_edge_spends_what_was_asked_for(prices, spend):
    paid = float(np.mean(_wanted(edge(prices, spend), prices) * np.array(prices)))
    assert paid == pytest.approx(min(spend, np.mean(prices)))


@given(PRICES, st.floats(0.0, 5.0))
def test_no_other_rule_with_that_spend_buys_more(prices, spend):
    """The fractional knapsack: the cheapest first."""
    bought = _wanted(edge(prices, spend), prices).sum()
    money, most = spend * len(prices), 0.0
    for price in sorted(prices):
        part = 1.0 if price == 0 else min(1.0, max(money, 0.0) / price)
        most, money = most + part, money - part * price
    assert bought == pytest.approx(most, abs=1e-6)


# both memories


@BOTH
@given(PRICES, st.floats(0.0, 5.0))
def test_todays_price_deserves_what_the_edge_gives_it(memory, prices, spend):
    today = np.array(prices[-1:])
    found = memory.deserved(remember(memory, [prices]), today, np.array([spend]))
    assert found == pytest.approx(edge(prices, spend).wanted(today))


@BOTH
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5])] * 2), min_size=1, max_size=20), st.floats(0.0, 5.0))
def test_so_does_the_price_of_each_client(memory, prices, spend):
    seen = memory.unseen(1)
    for t, pair in enumerate(prices, start=1):
        seen = memory.observe(seen, view(t, np.array([pair])))
    today = np.array([prices[-1]])
    wanted = edge(np.ravel(prices), spend).wanted(today)
    assert memory.deserved(seen, today, np.array([spend])) == pytest.approx(wanted)


@BOTH
def test_of_a_price_per_client_the_ends_and_the_middle_are_kept(memory):
    seen = memory.observe(memory.unseen(1), view(1, np.arange(11.0)[None]))
    assert memory.remembered(seen)[0] == SPREAD
    kept = seen["prices"][0, :SPREAD] if memory is latest_prices else seen["price_sums"][0, :SPREAD]
    assert sorted(kept) == [0.0, 2.0, 5.0, 8.0, 10.0]


@BOTH
def test_runs_never_meet(memory):
    rows = np.random.default_rng(1).uniform(1, 10, (3, 2 * BINS))
    rows[1] = np.round(rows[1])
    spends = np.array([1.0, 2.0, 0.5])
    together = memory.deserved(remember(memory, rows), rows[:, -1], spends)
    for r, spend in enumerate(spends):
        alone = memory.deserved(remember(memory, rows[r : r + 1]), rows[r : r + 1, -1], np.array([spend]))
        assert alone[0] == together[r]


# the latest


def test_the_oldest_prices_are_forgotten():
    memory = latest_prices.unseen(1, 16)
    for t, price in enumerate([9.0] * 50 + [2.0] * 16, start=1):
        memory = latest_prices.observe(memory, view(t, [price]))
    assert latest_prices.remembered(memory)[0] == 16
    assert latest_prices.mean_price(memory)[0] == 2.0


# all of them


@given(st.lists(st.integers(1, 400), min_size=1, max_size=600))
def test_few_different_prices_are_kept_exactly_however_many_come(prices):
    memory = all_prices.remember(all_prices.unseen(1), np.array([prices], dtype=float))
    assert memory["price_bits"][0] == 0
    kept = {
        low: (cost, count)
        for low, cost, count in zip(
            memory["price_bins"].view(float)[0], memory["price_sums"][0], memory["price_counts"][0], strict=True
        )
        if count
    }
    assert kept == {float(price): (price * prices.count(price), prices.count(price)) for price in prices}


@settings(max_examples=30)  # of some five hundred prices each, which take longer to draw than to try
@given(MANY, st.floats(0.0, 2.0))
def test_of_many_what_lies_below_a_bin_is_exact_and_a_bin_counts_as_one_price(prices, part):
    """Against the slow plain way: put every price into its bin, sort, buy the cheapest bins first."""
    memory = all_prices.remember(all_prices.unseen(1), np.array([prices]))
    bits, today, spend = memory["price_bits"], np.array(prices[-1:]), part * np.mean(prices)
    assert bits[0] > 0
    assert all_prices.remembered(memory)[0] == len(prices)
    by_bin = {}
    for price in prices:
        by_bin.setdefault(int(bin_of(np.array([price]), bits)[0]), []).append(price)
    assert len(by_bin) <= BINS
    own = int(bin_of(today, bits)[0])
    below, tied = sum(sum(held) for low, held in by_bin.items() if low < own), sum(by_bin[own])
    with np.errstate(over="ignore"):  # next to nothing is divided by
        expected = 1.0 if tied == 0 else np.clip((spend * len(prices) - below) / tied, 0.0, 1.0)
        rounding = 1e-12 * (below + spend * len(prices)) / tied if tied else 0.0  # of a difference of two large sums
    found = all_prices.deserved(memory, today, np.array([spend]))
    assert found[0] == pytest.approx(expected, abs=rounding)


def test_bins_of_continuous_prices_are_narrow():
    """A bin is at most 2/BINS of the octaves that prices span, relative to its price: here 1.3 %."""
    prices = np.random.default_rng(0).uniform(1, 10, (1, 20_000))
    memory = all_prices.remember(all_prices.unseen(1), prices)
    width = 2.0 ** (memory["price_bits"][0] - 52)
    assert width <= 2 * np.log2(10) / BINS
    assert (memory["price_bins"] != all_prices.NONE).sum() > BINS / 4


def test_a_price_of_minus_zero_is_a_price_of_zero():
    memory = all_prices.remember(all_prices.unseen(1), np.array([[0.0, -0.0, 1.0]]))
    assert memory["price_counts"][0, :2].tolist() == [2, 1]
    assert all_prices.deserved(memory, np.array([-0.0]), np.array([0.0]))[0] == 1.0


@BOTH
def test_a_price_of_next_to_nothing_is_bought_whole(memory):
    """Money over it is more than a float holds."""
    seen = remember(memory, [[5e-324, 1e11]])
    assert memory.deserved(seen, np.array([5e-324]), np.array([1e11])).tolist() == [1.0]
