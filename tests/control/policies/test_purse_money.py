import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import System, View
from headgate.control.policies.budgeted.purse import (
    affordable,
    affordable_by_client,
    ceiling,
    kept_back,
    pace,
    rounds_left,
    within_purse,
)

AMOUNT = st.floats(0.0, 1e6, allow_subnormal=False)


def view(price, spent=0.0, t=1, horizon=100, budget=55.0):
    price = np.atleast_1d(np.asarray(price, dtype=float))
    count, by_client = np.zeros(1, dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
    system = System(np.array([3, 1, 7]), budget, horizon)
    return View(t, price, np.zeros(1), np.array([spent]), count, count, by_client, system, count)


@given(st.floats(1e-3, 1e6), AMOUNT, AMOUNT, st.integers(0, 500))
def test_as_many_as_the_money_buys_and_not_one_more(price, spent, more, wanted):
    most = np.array([spent + more])
    bought = affordable(view(price, spent), np.array([float(wanted)]), most)[0]
    assert bought == int(bought)
    assert 0 <= bought <= wanted
    assert spent + price * bought <= most[0]
    assert bought == wanted or spent + price * (bought + 2) > most[0]


def test_free_samples_are_all_bought_and_dust_is_not_lost():
    assert affordable(view(0.0, 5.0), np.array([11.0]), np.array([5.0]))[0] == 11
    assert affordable(view(1.0), np.array([7 - 1e-12]), np.array([100.0]))[0] == 7  # 7 but for rounding


@given(st.lists(st.floats(0.0, 20.0), min_size=3, max_size=3), st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3), AMOUNT)
def test_prices_per_client_keep_the_money_too(prices, shares, money):
    places = np.array([3, 1, 7])
    wanted, owed = np.array([shares]) * places, np.full((1, 3), 0.5)
    bought, _ = affordable_by_client(view([prices]), wanted, owed, places, np.array([money]))
    assert np.all(bought == np.floor(bought))
    assert np.all((bought >= 0) & (bought <= places))
    assert np.all(bought <= wanted + 1)
    assert (np.array([prices]) * bought).sum() <= money


def test_ceilings_and_paces_with_and_without_a_horizon():
    known, open_end = view(1.0, 500.0, t=51), view(1.0, 500.0, t=51, horizon=None)
    assert ceiling(known, 10) == 5500
    assert ceiling(open_end, 10) == 55 * 61
    assert rounds_left(known) == 50
    assert rounds_left(open_end) == 51
    assert pace(known, 10)[0] == pytest.approx(100.0)
    assert pace(open_end, 10)[0] == pytest.approx(55 + (55 * 60 - 500) / 51)
    assert rounds_left(view(1.0, t=200)) == 1  # beyond its horizon


def test_money_that_is_just_enough_is_enough():
    assert affordable(view(0.5, 2.0), np.array([6.0]), np.array([5.0]))[0] == 6
    assert affordable(view(0.5, 2.0), np.array([6.0]), np.array([4.75]))[0] == 5
    places = np.array([3, 1, 7])
    bought, _ = affordable_by_client(view([[1.0, 2.0, 0.5]]), places * 1.0, np.zeros((1, 3)), places, np.array([8.5]))
    assert bought.tolist() == [[3, 1, 7]]


def test_where_the_quotient_was_rounded_up_one_sample_fewer_is_bought_and_not_none():
    """(33.8 − 5.9)/3.1 is 9 in floating point, but 5.9 + 9·3.1 is more than 33.8."""
    assert affordable(view(3.1, 5.9), np.array([20.0]), np.array([33.8]))[0] == 8
    places, wanted = np.array([20, 1, 7]), np.array([[20.0, 0.0, 0.0]])
    bought, _ = affordable_by_client(view([[3.1, 1.0, 1.0]], 5.9), wanted, np.zeros((1, 3)), places, np.array([33.8]))
    assert bought.tolist() == [[8, 0, 0]]


def test_where_one_fewer_is_lost_in_rounding_nothing_is_bought():
    """Of so many samples, one fewer is the same number; they would cost more than 0.3."""
    assert affordable(view(2.859790725342481e-17), np.array([1e30]), np.array([0.3]))[0] == 0


def test_what_rounding_owed_is_bought_only_where_there_is_money_for_it():
    wanted, owed, places = np.array([[1.6, 0.0, 0.0]]), np.array([[0.5, 0.0, 0.0]]), np.array([3, 1, 7])
    one_price = view([[1.0, 1.0, 1.0]])
    assert affordable_by_client(one_price, wanted, owed, places, np.array([2.0]))[0].tolist() == [[2, 0, 0]]
    assert affordable_by_client(one_price, wanted, owed, places, np.array([1.5]))[0].tolist() == [[1, 0, 0]]


def test_less_than_one_of_the_currency_still_buys_what_costs_less():
    assert affordable(view(0.25, 9.5), np.array([4.0]), np.array([10.0]))[0] == 2
    wanted, places = np.array([[4.0, 0.0, 0.0]]), np.array([4, 1, 7])
    bought, _ = affordable_by_client(view([[0.25, 1.0, 1.0]], 9.5), wanted, np.zeros((1, 3)), places, np.array([10.0]))
    assert bought.tolist() == [[2, 0, 0]]


def test_where_money_is_short_every_client_is_cut_by_the_same_part():
    places = np.array([4, 2, 8])
    bought, _ = affordable_by_client(view([[1.0, 1.0, 1.0]], 3.0), places * 1.0, np.zeros((1, 3)), places, np.array([10.0]))
    assert bought.tolist() == [[2, 1, 4]]


def test_what_was_cut_for_want_of_money_is_not_owed():
    places = np.array([5, 3, 9])
    bought, owed = affordable_by_client(view([[1.0] * 3], 3.0), places * 1.0, np.zeros((1, 3)), places, np.array([11.5]))
    assert bought.tolist() == [[2, 1, 4]]
    assert owed.tolist() == [[0.5, 0.5, 0.5]]


def test_what_is_overspent_buys_nothing_and_gives_no_pace():
    assert affordable(view(1.0, 9.0), np.array([5.0]), np.array([8.0]))[0] == 0
    wanted, owed = np.ones((1, 3)), np.zeros((1, 3))
    bought, owed = affordable_by_client(view([[1.0] * 3], 9.0), wanted, owed, np.ones(3), np.array([8.0]))
    assert bought.sum() == owed.sum() == 0
    assert pace(view(1.0, 6000.0, t=51), 10)[0] == 0


def test_a_price_lost_in_rounding_beside_the_money_spent_buys_nothing_that_costs_too_much():
    most = np.nextafter(1e16, 0.0)
    assert affordable(view(1e-3, 1e16), np.array([5.0]), np.array([most]))[0] == 0


def test_with_an_open_end_few_rounds_count_as_twenty():
    assert rounds_left(view(1.0, t=3, horizon=None)) == 20
    assert rounds_left(view(1.0, t=21, horizon=None)) == 21
    assert rounds_left(view(1.0, t=100)) == 1  # the last one


def test_a_total_within_the_purse_is_left_as_it_is_and_a_larger_one_cut_to_what_can_be_paid():
    assert within_purse(view(1.0, 5490.0), np.array([9.25]))[0] == 9.25
    assert within_purse(view(1.0, 5490.0), np.array([12.5]))[0] == 10
    assert within_purse(view(1.0, 50.0, t=1, horizon=None), np.array([12.5]))[0] == 5


def test_money_is_kept_back_only_where_a_sum_may_be_rounded():
    """Whole numbers are exact up to 2^52, quarters up to 2^50; beyond that, six half units an order and six for the sums."""
    for most, amounts in ((2.0**52, [1.0, 0.0, 3.0]), (2.0**50, [1024.0, 0.25]), (1e300, [0.0]), (1e300, [])):
        assert kept_back(most, amounts, 10) == 0.0
    for most, amounts in ((2.0**52 + 1, [1.0, 1024.0]), (2.0**50 + 1, [1024.0, 0.25]), (5500.0, [0.1, 1.0])):
        assert kept_back(most, amounts, 10) == 33 * np.spacing(most)
        assert kept_back(most, amounts, 0) == 3 * np.spacing(most)
