"""Headgate that is on the alert: the same purse and places whatever it is told, and more for new samples that surprise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System, View
from headgate.control.policies import Alert, Headgate
from headgate.control.prices import PerClient, Uniform
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.testing import a_system, check_policy

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)
PER_CLIENT = PerClient(Uniform(1, 10), (0.5, 1.0, 1.0, 1.5, 2.0), 0.3)


def test_it_passes_the_public_check():
    check_policy(Alert(), rounds=24)
    check_policy(Alert(false_alarms=5.0, probe=0.3, haste=9.0, smooth=0.5), rounds=24)
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
    policy = Alert(false_alarms=false_alarms, haste=20.0, probe=0.4)
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


def test_after_an_alarm_it_buys_sooner_and_then_as_before():
    """The loss jumps in round 50. In the seven rounds after the alarm it spends more than where nothing happens, in those
    before it the same, and by the end as much."""
    prices = Uniform(1, 10).path(np.arange(1), 1, 101)[0]
    calm, moved = (played(Alert(), prices, lambda t, high=high: high if t >= 50 else 1.0) for high in (1.0, 9.0))
    assert calm[-1].memory["alarms"][0] == 0
    assert moved[-1].memory["alarms"][0] == 1
    rung = int(moved[-1].memory["last_alarm"][0])
    assert 51 <= rung <= 60
    spent = np.array([[ledger.spent[0] for ledger in ledgers] for ledgers in (calm, moved)])
    assert np.array_equal(spent[0, :rung], spent[1, :rung])
    soon = spent[:, rung + 6] - spent[:, rung - 1]
    assert soon[1] > 1.3 * soon[0]
    assert spent[:, -1].min() > 0.97 * 5500


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
    bought = np.diff([ledger.admitted.sum() for ledger in with_probes])
    assert set(bought[43::4]) <= {4, 5, 6}
    assert not bought[41::4].any()
    assert not np.diff([ledger.admitted.sum() for ledger in without])[43:80:4].any()


def test_an_even_price_is_not_above_its_mean():
    """Nothing is cheaper than what it always costs: probes are bought in every round, as long as there is money."""
    ledgers = played(Alert(probe=0.2, fill=False), np.full(20, 500.0), lambda t: 1.0, System(MNIST.buffer, 2500.0, 20))
    assert np.diff([ledger.admitted.sum() for ledger in ledgers])[:4].tolist() == [20] * 4


def pace_of(policy, last_alarm, rounds):
    """What each of these rounds may cost, as a part of what it may cost headgate."""
    zero, none, by_client = np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros((1, 10), dtype=np.int64)
    views = [View(t, np.ones(1), zero, zero, none, none, by_client, MNIST, none) for t in rounds]
    memory = {"last_alarm": np.array([last_alarm])}
    return [float(policy.allowed(view, memory)[0] / Headgate().allowed(view, memory)[0]) for view in views]


def test_the_pace_is_highest_at_an_alarm_and_falls_back_round_by_round():
    policy = Alert(haste=4.0, soon=4, reserve=0.1)
    assert pace_of(policy, 10, range(10, 16)) == pytest.approx([4.0, 3.25, 2.5, 1.75, 0.9, 0.9])
    assert pace_of(policy, 0, range(1, 4)) == pytest.approx([0.9] * 3)  # there was none yet
    assert pace_of(Alert(haste=4.0, soon=1, reserve=0.1), 10, (10, 11)) == pytest.approx([4.0, 0.9])
    assert pace_of(Alert(haste=1.0, soon=2, reserve=0.1), 10, (10, 11, 12)) == pytest.approx([1.0, 1.0, 0.9])


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
    [{"false_alarms": 0.0}, {"reserve": 1.0}, {"reserve": -0.1}, {"haste": 0.5}, {"soon": 0}, {"probe": 1.5}],
)
def test_what_means_nothing_is_refused(setting):
    with pytest.raises(SettingError, match=f"{next(iter(setting))} = "):
        Alert(**setting)
