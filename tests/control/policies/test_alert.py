"""Headgate that is on the alert: the same purse and places whatever it is told, and old places renewed on an alarm."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import Alert, Headgate
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse

from .plain_alarm import PlainAlarm, told_of

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)


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


LOUD = st.tuples(st.sampled_from([0.4, 1.0, 2.9, 3.1, 9.0, 30.0]), st.sampled_from([0, 1, 2, 7, 19, 20, 40]))


@settings(max_examples=200, deadline=None)
@given(st.lists(LOUD, min_size=1, max_size=40), st.sampled_from([0.1, 1.0, 40.0]))
@example([(30.0, 40), *[(1.0, 0)] * 11], 1.0)  # it is given up, and what is usual is learnt from the beginning
def test_alarms_are_on_as_the_plain_one_says(rounds, stated):
    system, policy = System(np.array([90]), 1.0, 100), Alert(false_alarms=stated)
    memory, plain, admitted, t = policy.start(system, 2), PlainAlarm(math.log(100 / stated)), 0, 0
    for loss, count in ((1.0, 90), *rounds):
        t, admitted = t + 1, admitted + count
        losses = [loss if count else math.nan]
        seen = told_of(system, np.array([losses] * 2), np.full(2, admitted))
        seen.t = t
        memory, _ = policy._listen(seen, memory)
        plain.round(t, losses, system.buffer, count)
        assert memory["on"].tolist() == [plain.on] * 2
        assert memory["last_alarm"].tolist() == [plain.rang] * 2
        assert memory["before_rise"].tolist() == [plain.rise] * 2
        assert memory["evidence"] == pytest.approx([plain.evidence] * 2, rel=1e-9, abs=1e-9)
        assert memory["usual"] == pytest.approx([plain.usual] * 2, rel=1e-9, abs=1e-12)


def test_without_a_purchase_in_round_1_the_first_probe_comes_in_round_5():
    dear = played(Alert(fill=0.0), np.full(6, 100.0), lambda t: 1.0, System(np.array([100]), 1.0, 1000))
    assert bought(dear).tolist() == [0, 0, 0, 0, 2, 0]


SELDOM = np.tile([2.0, *[9.0] * 11], 8)
"""one low price in twelve, where headgate renews and nowhere else"""
PLENTY = System(MNIST.buffer, 16.0, 96)


def moved_in(t, high=9.0, until=10_000):
    """What new samples lose where the world changes in round t."""
    return lambda now: high if t <= now < until else 1.0


def test_where_low_prices_stay_away_a_probe_is_bought_in_every_fifth_round():
    with_probes, without = (bought(played(Alert(probe=probe), SELDOM, lambda t: 1.0, PLENTY)) for probe in (0.03, 0.0))
    assert not without[1:12].any()
    assert with_probes[1:12].tolist() == [0, 0, 0, 0, 3, 0, 0, 0, 0, 3, 0]
    assert with_probes[37:48].tolist() == with_probes[1:12].tolist()


@pytest.mark.parametrize("smooth", [0.0, 0.25])
def test_on_an_alarm_the_places_that_are_older_than_the_change_are_renewed_at_any_price(smooth):
    """The world changes in round 26, after a low price. The probe of round 30 loses nine times the usual, so 40 more are
    bought, at 9; they ring, and all places but those 42 are renewed, at 9 again. Then nothing is left to hurry for."""
    calm, moved = (played(Alert(smooth=smooth), SELDOM, moved_in(26, high), PLENTY) for high in (1.0, 9.0))
    assert calm[-1].memory["alarms"][0] == 0
    assert [int(ledger.memory["alarms"][0]) for ledger in moved[30:33]] == [0, 0, 1]
    assert np.array_equal(bought(calm)[:30], bought(moved)[:30])
    assert bought(moved)[29:33].tolist() == [2, 40, 58, 0]
    assert moved[-1].spent[0] <= 16 * 96


def test_where_all_places_are_renewed_already_it_does_as_headgate_does():
    """The first samples of the new world are a whole buffer, at a low price: there is nothing left to hurry for."""
    prices = np.tile([9.0, 9.0, 9.0, 9.0, 2.0], 20)
    moved = played(Alert(), prices, moved_in(50, until=51))
    assert moved[-1].memory["alarms"][0] == 1
    assert moved[51].memory["last_alarm"][0] == 51
    assert np.array_equal(bought(moved), bought(played(Headgate(), prices, lambda t: 1.0)))


def test_a_change_that_is_over_is_heard_again_as_soon():
    """What samples lost while the model learnt is not the usual afterwards: the second change rings like the first."""
    system, prices = System(MNIST.buffer, 100.0, 96), np.full(96, 5.0)
    ledgers = played(Alert(), prices, lambda t: 9.0 if 40 <= t < 44 or 60 <= t < 64 else 1.0, system)
    rung = [int(ledger.memory["last_alarm"][0]) for ledger in ledgers]
    assert rung[39] == 0
    assert rung[44] - 40 == rung[64] - 60 > 0
    assert not ledgers[59].memory["on"][0]


def test_no_more_is_renewed_in_a_round_than_the_turnover():
    moved = played(Alert(turnover=0.5), SELDOM, moved_in(26), PLENTY)
    assert moved[-1].memory["alarms"][0] >= 1
    assert bought(moved)[1:].max() <= 51  # rounding owes at most one


@pytest.mark.parametrize("reserve", [0.0, 0.3])
def test_what_no_alarm_takes_is_spent_by_the_end(reserve):
    one = rehearse(MNIST, Alert(reserve=reserve), Uniform(1, 10), np.arange(20), 100)
    spend = one.spend.mean(axis=0)
    assert 0.97 * 5500 < spend.sum() <= 5500
    early = spend[1:40].sum()  # without the filling
    assert early < 1900 if reserve else early > 1900
