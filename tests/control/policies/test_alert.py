"""Headgate that is on the alert: the same purse and places whatever it is told, and old places renewed on an alarm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import Alert, Headgate
from headgate.control.prices import PerClient, Uniform
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.testing import a_system, check_policy

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)
PER_CLIENT = PerClient(Uniform(1, 10), (0.5, 1.0, 1.0, 1.5, 2.0), 0.3)


def test_it_passes_the_public_check():
    check_policy(Alert(), rounds=24)
    check_policy(Alert(false_alarms=5.0, probe=0.3, smooth=0.5), rounds=24)
    check_policy(Alert(turnover=0.5, reserve=0.5), a_system(None), rounds=24)
    check_policy(Alert(probe=0.2), rounds=12, prices=PER_CLIENT)


LOSS = st.one_of(st.sampled_from([0.0, np.nan, 1e-300, 1.0, 1e300]), st.floats(0.0, 20.0))
THREE = st.lists(LOSS, min_size=3, max_size=3)
PRICES = st.lists(st.one_of(st.sampled_from([0.0, 1e-12, 1 / 3, 1e9]), st.floats(0.0, 20.0)), min_size=3, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(PRICES, THREE), min_size=1, max_size=25),
    st.sampled_from([0.01, 1.0, 1e9]),
    st.floats(0.01, 60.0),
    st.booleans(),
    st.booleans(),
)
def test_it_never_overspends_or_overfills_whatever_it_is_told(rounds, false_alarms, budget, own_prices, open_end):
    buffer = np.array([3, 1, 7])
    system = System(buffer, budget, None if open_end else len(rounds))
    policy = Alert(false_alarms=false_alarms, probe=0.4)
    controller = Controller(system, policy)
    ledger = controller.open()
    for t, (prices, new) in enumerate(rounds, 1):
        orders = controller.decide(ledger, np.array([prices]) if own_prices else prices[0])
        losses = Losses(np.array([new]), np.full((1, 3), np.nan))
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=losses))
        assert ledger.spent[0] <= budget * (t + policy.overdraft if open_end else len(rounds))
        assert np.all(ledger.occupancy <= buffer)


def played(policy, prices, level, system=MNIST):
    """The ledgers after prices (T,), where new samples lose level(t) in round t."""
    controller = Controller(system, policy)
    ledgers = [controller.open()]
    for t, price in enumerate(prices, start=1):
        orders = controller.decide(ledgers[-1], price)
        new = np.where(orders.admitted > 0, level(t), np.nan)
        ledgers.append(controller.post(ledgers[-1], orders, Report(orders.admitted, losses=Losses(new, new))))
    return ledgers


def bought(ledgers):
    return np.diff([ledger.admitted.sum() for ledger in ledgers])


@pytest.mark.parametrize("smooth", [0.0, 0.25])
def test_on_an_alarm_the_places_that_are_older_than_the_change_are_renewed_at_any_price(smooth):
    """Whole buffers at 2, probes of ten at 5; from round 42 on new samples lose nine times as much, which the next
    probes tell. What they brought is of the new world; the other places are renewed at 9, where it would buy nothing."""
    prices, policy = np.tile([2.0, 5.0, 5.0, 5.0, 9.0], 20), Alert(probe=0.1, smooth=smooth)
    calm, moved = (played(policy, prices, lambda t, high=high: high if t >= 42 else 1.0) for high in (1.0, 9.0))
    assert calm[-1].memory["alarms"][0] == 0
    rung = int(moved[-1].memory["last_alarm"][0])
    fresh = bought(moved)[41 : rung - 1].sum()  # rounds 42 to rung − 1
    assert moved[rung].memory["alarms"][0] == 1
    assert 43 <= rung <= 45
    assert 10 <= fresh <= 33
    assert np.array_equal(bought(calm)[: rung - 1], bought(moved)[: rung - 1])
    assert bought(moved)[rung - 1] == 100 - fresh
    assert bought(moved)[rung] <= 10  # once: then as before
    assert moved[-1].spent[0] <= 5500


def test_where_all_places_are_renewed_already_it_does_as_headgate_does():
    """The first samples of the new world are a whole buffer, at a low price: there is nothing left to hurry for."""
    prices = np.tile([9.0, 9.0, 9.0, 9.0, 2.0], 20)
    moved = played(Alert(), prices, lambda t: 9.0 if t >= 50 else 1.0)
    assert moved[-1].memory["alarms"][0] >= 1
    assert np.array_equal(bought(moved), bought(played(Headgate(), prices, lambda t: 1.0)))


def test_no_more_is_renewed_in_a_round_than_the_turnover():
    prices = np.tile([2.0, 5.0, 5.0, 5.0, 9.0], 20)
    moved = played(Alert(probe=0.1, turnover=0.5), prices, lambda t: 9.0 if t >= 42 else 1.0)
    assert moved[-1].memory["alarms"][0] >= 1
    assert bought(moved)[1:].max() <= 51  # rounding owes at most one


@pytest.mark.parametrize("reserve", [0.0, 0.3])
def test_what_no_alarm_takes_is_spent_by_the_end(reserve):
    one = rehearse(MNIST, Alert(reserve=reserve), Uniform(1, 10), np.arange(20), 100)
    spend = one.spend.mean(axis=0)
    assert 0.97 * 5500 < spend.sum() <= 5500
    early = spend[1:40].sum()  # without the filling
    assert early < 1900 if reserve else early > 1900


def test_probes_are_bought_at_prices_that_are_not_high():
    """At 5, below the mean but above what it may cost to renew all places: a twentieth of them. At 9 nothing."""
    prices = np.tile([2.5, 9.0, 9.0, 5.0], 25)
    with_probes, without = (played(Alert(probe=probe), prices, lambda t: 1.0) for probe in (0.05, 0.0))
    assert set(bought(with_probes)[43:90:4]) <= {4, 5, 6}
    assert not bought(with_probes)[41::4].any()
    assert not bought(without)[43:80:4].any()


def test_an_even_price_is_not_above_its_mean():
    """Nothing is cheaper than what it always costs: probes are bought in every round, as long as there is money."""
    ledgers = played(Alert(probe=0.2, fill=False), np.full(20, 500.0), lambda t: 1.0, System(MNIST.buffer, 2500.0, 20))
    assert bought(ledgers)[:4].tolist() == [20] * 4


def test_what_is_evidence_of_something_is_no_alarm_yet_unless_false_ones_are_welcome():
    noise, prices = np.exp(0.5 * np.random.default_rng(0).normal(size=61)), np.full(60, 1.0)
    alarms = {
        expected: int(played(Alert(false_alarms=expected), prices, lambda t: noise[t])[-1].memory["alarms"][0])
        for expected in (0.3, 100 / np.e, 1e9)
    }
    assert alarms[0.3] == 0
    assert 1 <= alarms[100 / np.e] < alarms[1e9] < 59  # in the end any evidence suffices, but there must be some


def test_the_mean_of_prices_of_ones_own_is_by_places():
    controller = Controller(System([1, 3], 100.0, 10), Alert())
    orders = controller.decide(controller.open(), np.array([[8.0, 4.0]]))
    assert orders.memory["sum_of_prices"].tolist() == [5.0]


@pytest.mark.parametrize(
    "setting",
    [{"false_alarms": 0.0}, {"reserve": 1.0}, {"reserve": -0.1}, {"probe": 1.5}],
)
def test_what_means_nothing_is_refused(setting):
    with pytest.raises(SettingError, match=f"{next(iter(setting))} = "):
        Alert(**setting)
