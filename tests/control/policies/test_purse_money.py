"""What may still be spent, what it buys, and that nobody with a purse spends more."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import System, View
from headgate.control.policies import Acdpp, Clairvoyant, Constant, Dpp
from headgate.control.policies.budgeted.purse import (
    affordable,
    affordable_by_client,
    kept_back,
    pace,
    rounds_left,
    within_purse,
)
from headgate.control.policies.references import cheapest_first
from headgate.control.policy import PolicyContext
from headgate.control.prices import Uniform, UniformInteger
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants

from ..playing import played

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
    assert known.system.money(known.t, 10) == 5500
    assert open_end.system.money(open_end.t, 10) == 55 * 61
    assert rounds_left(known) == 50
    assert rounds_left(open_end) == 51
    assert pace(known, 10)[0] == pytest.approx(100.0)
    assert pace(open_end, 10)[0] == pytest.approx(55 + (55 * 60 - 500) / 51)
    assert pace(view(1.0, 6000.0, t=51), 10)[0] == 0  # overspent
    left = {(100, 100): 1, (200, 100): 1, (3, None): 20, (21, None): 21}  # the last one; beyond the end; few count as twenty
    assert {(t, end): rounds_left(view(1.0, t=t, horizon=end)) for t, end in left} == left


@pytest.mark.parametrize(
    ("price", "spent", "wanted", "most", "bought"),
    [
        (0.0, 5.0, 11.0, 5.0, 11),  # free
        (1.0, 0.0, 7 - 1e-12, 100.0, 7),  # 7 but for rounding
        (0.5, 2.0, 6.0, 5.0, 6),  # just enough
        (0.5, 2.0, 6.0, 4.75, 5),
        (0.25, 9.5, 4.0, 10.0, 2),  # less than one of the currency is left
        (1.0, 9.0, 5.0, 8.0, 0),  # overspent
        (3.1, 5.9, 20.0, 33.8, 8),  # (33.8 − 5.9)/3.1 is 9 in floating point, but 5.9 + 9·3.1 is more than 33.8
        (2.859790725342481e-17, 0.0, 1e30, 0.3, 0),  # of so many, one fewer is the same number, and would cost more than 0.3
        (1e-3, 1e16, 5.0, np.nextafter(1e16, 0.0), 0),  # a price that is lost in rounding beside the money spent
    ],
)
def test_what_the_money_buys(price, spent, wanted, most, bought):
    assert affordable(view(price, spent), np.array([wanted]), np.array([most]))[0] == bought


@pytest.mark.parametrize(
    ("prices", "spent", "wanted", "owed", "places", "most", "bought", "owes"),
    [
        ([1.0, 2.0, 0.5], 0.0, [3, 1, 7], 0.0, [3, 1, 7], 8.5, [3, 1, 7], [0, 0, 0]),  # just enough
        ([3.1, 1.0, 1.0], 5.9, [20, 0, 0], 0.0, [20, 1, 7], 33.8, [8, 0, 0], None),
        ([0.25, 1.0, 1.0], 9.5, [4, 0, 0], 0.0, [4, 1, 7], 10.0, [2, 0, 0], [0, 0, 0]),
        ([1.0] * 3, 9.0, [1, 1, 1], 0.0, [1, 1, 1], 8.0, [0, 0, 0], [0, 0, 0]),  # overspent
        ([1.0] * 3, 3.0, [4, 2, 8], 0.0, [4, 2, 8], 10.0, [2, 1, 4], [0, 0, 0]),  # all are cut by the same part
        ([1.0] * 3, 3.0, [5, 3, 9], 0.0, [5, 3, 9], 11.5, [2, 1, 4], [0.5, 0.5, 0.5]),  # what was cut is not owed
        ([1.0] * 3, 0.0, [1.6, 0, 0], 0.5, [3, 0, 0], 2.0, [2, 0, 0], None),  # what rounding owed, where there is money
        ([1.0] * 3, 0.0, [1.6, 0, 0], 0.5, [3, 0, 0], 1.5, [1, 0, 0], None),
    ],
)
def test_what_it_buys_at_a_price_per_client(prices, spent, wanted, owed, places, most, bought, owes):
    found, rest = affordable_by_client(
        view([prices], spent), np.array([wanted], dtype=float), np.full((1, 3), owed), np.array(places), np.array([most])
    )
    assert found.tolist() == [bought]
    assert owes is None or rest.tolist() == [owes]


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


SYSTEM = System(np.array([3, 1, 7, 4]), budget=11.0, horizon=30)
HELD = {"capacity": SYSTEM.buffer, "purse": True}
PURSED = {
    "acdpp": Acdpp(K=4, rate=3.0, burst="buffer", **HELD),
    "acdpp, V": Acdpp(K=4, rate=3.0, V=1e6, rho=0.999, burst="buffer", **HELD),
    "dpp": Dpp(K=4, V=1e6, **HELD),
    "constant": Constant(6.5, 4, **HELD),
}


@pytest.mark.parametrize("policy", PURSED.values(), ids=PURSED)
@settings(max_examples=25, deadline=None)
@given(prices=st.lists(st.sampled_from([0.0, 1e-9, 0.3, 1.0, 3.7, 10.0, 1e6]), min_size=30, max_size=30))
def test_a_purse_is_never_overdrawn_and_no_buffer_overfilled(policy, prices):
    for _, ledger in played(SYSTEM, policy, prices):
        assert ledger.spent[0] <= SYSTEM.budget * 30
        assert np.all(ledger.occupancy <= SYSTEM.buffer)


def test_a_purse_changes_nothing_while_there_is_money():
    prices, seeds = Uniform(1, 2), np.arange(3)
    for purse in (Constant(3.0, 4), Acdpp(K=4, rate=2.0)):
        a, b = (rehearse(SYSTEM, each, prices, seeds, 30) for each in (purse, replace(purse, purse=True)))
        assert np.array_equal(a.spend, b.spend)


@pytest.mark.parametrize("fill", [0.0, 50.0, 1000.0])
def test_cheapest_first_buys_the_most_samples_that_the_money_can(fill):
    prices = Uniform(1, 10).path(np.arange(20), 1, 31)
    for own in prices:
        bought = cheapest_first(own, SYSTEM, fill)
        money = SYSTEM.budget * 30
        assert bought @ own <= money + 1e-9
        assert bought.max() <= SYSTEM.memory
        more = (bought < SYSTEM.memory) & ((np.arange(30) > 0) | (fill == 0))
        assert money - bought @ own < own[more].min()  # not one sample more
        dearest = own[(bought > 0) & (np.arange(30) > 0)].max()
        assert np.all(bought[(own < dearest) & (np.arange(30) > 0)] == SYSTEM.memory)
        assert bought[0] == min(SYSTEM.memory, fill // own[0]) or not fill


def foreseeing(prices, seeds, rounds=30, **settings):
    return Clairvoyant(**settings).resolved(PolicyContext(SYSTEM, prices, BoundConstants(), seeds, rounds))


def test_foresight_follows_its_plan_whoever_plays_beside_it():
    """Also while the prices of several seeds are still the same."""
    seeds, prices = np.arange(4), UniformInteger(1, 9)
    policy = foreseeing(prices, seeds, fill=8.0)
    together = rehearse(SYSTEM, policy, prices, seeds, 30)
    plan = [cheapest_first(own, SYSTEM, 8 * SYSTEM.budget).sum() for own in policy.path]
    assert together.N[:, -1].tolist() == plan
    for seed in seeds:
        alone = rehearse(SYSTEM, foreseeing(prices, seeds[[seed]], fill=8.0), prices, seeds[[seed]], 30)
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
