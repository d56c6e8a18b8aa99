"""What may still be spent, what it buys, and that nobody with a purse spends more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import System, View
from headgate.control.policies import Clairvoyant
from headgate.control.policies.budgeted.purse import (
    affordable,
    affordable_by_client,
    kept_back,
    pace,
    within_purse,
)
from headgate.control.policies.references import cheapest_first
from headgate.control.policy import PolicyContext
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants
from studies.zoo.prices import Integer

AMOUNT = st.floats(0.0, 1e6, allow_subnormal=False)


def view(price, spent=0.0, t=1, horizon=100, budget=55.0):
    price = np.atleast_1d(np.asarray(price, dtype=float))
    count, by_client = np.zeros(1, dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
    system = System(np.array([3, 1, 7]), budget, horizon)
    return View(
        t, price, np.zeros(1), np.array([spent]), count, count, by_client, system, count
    )


@given(st.floats(1e-3, 1e6), AMOUNT, AMOUNT, st.integers(0, 500))
def test_as_many_as_the_money_buys_and_not_one_more(price, spent, more, wanted):
    most = np.array([spent + more])
    bought = affordable(view(price, spent), np.array([float(wanted)]), most)[0]
    assert bought == int(bought)
    assert 0 <= bought <= wanted
    assert spent + price * bought <= most[0]
    assert bought == wanted or spent + price * (bought + 2) > most[0]


@given(
    st.lists(st.floats(0.0, 20.0), min_size=3, max_size=3),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
    AMOUNT,
)
def test_prices_per_client_keep_the_money_too(prices, shares, money):
    places = np.array([3, 1, 7])
    wanted, owed = np.array([shares]) * places, np.full((1, 3), 0.5)
    bought, _ = affordable_by_client(
        view([prices]), wanted, owed, places, np.array([money])
    )
    assert np.all(bought == np.floor(bought))
    assert np.all((bought >= 0) & (bought <= places))
    assert np.all(bought <= wanted + 1)
    assert (np.array([prices]) * bought).sum() <= money


@pytest.mark.parametrize(
    ("price", "spent", "wanted", "most", "bought"),
    [
        (1.0, 0.0, 7 - 1e-12, 100.0, 7),  # 7 but for rounding
        (1.0, 9.0, 5.0, 8.0, 0),  # overspent
        (
            3.1,
            5.9,
            20.0,
            33.8,
            8,
        ),  # (33.8 − 5.9)/3.1 is 9 in floating point, but 5.9 + 9·3.1 is more than 33.8
        (
            2.859790725342481e-17,
            0.0,
            1e30,
            0.3,
            0,
        ),  # of so many, one fewer is the same number, and would cost more than 0.3
        (
            1e-3,
            1e16,
            5.0,
            np.nextafter(1e16, 0.0),
            0,
        ),  # a price that is lost in rounding beside the money spent
    ],
)
def test_what_the_money_buys(price, spent, wanted, most, bought):
    assert (
        affordable(view(price, spent), np.array([wanted]), np.array([most]))[0]
        == bought
    )


@pytest.mark.parametrize("prices", [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
def test_after_overspending_nothing_is_bought_even_at_a_price_of_0(prices):
    """As after a cut below what is spent. At one price for all it is the same."""
    bought, _ = affordable_by_client(
        view([prices], 9.0),
        np.array([[3.0, 1.0, 7.0]]),
        np.zeros((1, 3)),
        np.array([3, 1, 7]),
        np.array([8.0]),
    )
    assert not bought.any()
    assert affordable(view(0.0, 9.0), np.array([5.0]), np.array([8.0]))[0] == 0


def test_a_total_beyond_the_purse_is_cut_to_what_can_be_paid():
    assert within_purse(view(1.0, 5490.0), np.array([9.25]))[0] == 9.25
    assert within_purse(view(1.0, 5490.0), np.array([12.5]))[0] == 10
    assert within_purse(view(1.0, 50.0, t=1, horizon=None), np.array([12.5]))[0] == 5
    assert pace(view(1.0, 6000.0, t=51), 10)[0] == 0  # overspent


def test_money_is_kept_back_only_where_a_sum_may_be_rounded():
    """Whole numbers are exact up to 2^52, quarters up to 2^50; beyond that, six half
    units an order and six for the sums.
    """
    for most, amounts in (
        (2.0**52, [1.0, 0.0, 3.0]),
        (2.0**50, [1024.0, 0.25]),
        (1e300, [0.0]),
        (1e300, []),
    ):
        assert kept_back(most, amounts, 10) == 0.0
    for most, amounts in (
        (2.0**52 + 1, [1.0, 1024.0]),
        (2.0**50 + 1, [1024.0, 0.25]),
        (5500.0, [0.1, 1.0]),
    ):
        assert kept_back(most, amounts, 10) == 33 * np.spacing(most)
        assert kept_back(most, amounts, 0) == 3 * np.spacing(most)


SYSTEM = System(np.array([3, 1, 7, 4]), budget=11.0, horizon=30)


@pytest.mark.parametrize("fill", [0.0, 50.0, 1000.0])
def test_cheapest_first_buys_the_most_samples_that_the_money_can(fill):
    prices = Uniform(1, 10).path(np.arange(20), 1, 31)
    for own in prices:
        bought = cheapest_first(own, SYSTEM, fill)
        money = SYSTEM.budget * 30
        assert bought @ own <= money + 1e-9
        assert bought.max() <= SYSTEM.all_places
        more = (bought < SYSTEM.all_places) & ((np.arange(30) > 0) | (fill == 0))
        assert money - bought @ own < own[more].min()  # not one sample more
        dearest = own[(bought > 0) & (np.arange(30) > 0)].max()
        assert np.all(
            bought[(own < dearest) & (np.arange(30) > 0)] == SYSTEM.all_places
        )
        assert bought[0] == min(SYSTEM.all_places, fill // own[0]) or not fill


def foreseeing(prices, seeds, rounds=30, **settings):
    return Clairvoyant(**settings).resolved(
        PolicyContext(SYSTEM, prices, BoundConstants(), seeds, rounds)
    )


def test_foresight_follows_its_plan_whoever_plays_beside_it():
    """Also while the prices of several seeds are still the same."""
    seeds, prices = np.arange(4), Integer(1, 9)
    policy = foreseeing(prices, seeds, fill=8.0)
    together = rehearse(SYSTEM, policy, prices, seeds, 30)
    plan = [cheapest_first(own, SYSTEM, 8 * SYSTEM.budget).sum() for own in policy.path]
    assert together.N[:, -1].tolist() == plan
    for seed in seeds:
        alone = rehearse(
            SYSTEM,
            foreseeing(prices, seeds[[seed]], fill=8.0),
            prices,
            seeds[[seed]],
            30,
        )
        assert np.array_equal(alone.admitted[0], together.admitted[seed])


def test_prices_that_were_not_foreseen_are_refused():
    policy, prices = foreseeing(Uniform(1, 10), np.arange(2), 5), Uniform(1, 10)
    for own, process, runs, rounds, says in (
        (Clairvoyant(), prices, 2, 5, "knows no prices yet"),
        (policy, Uniform(2, 10), 2, 5, "made for other prices"),
        (policy, prices, 3, 5, "made for other prices"),
        (policy, prices, 2, 6, "the plan ends there"),
    ):
        with pytest.raises(SettingError, match=says):
            rehearse(SYSTEM, own, process, np.arange(runs), rounds)
