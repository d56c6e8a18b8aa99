"""Headgate that listens: the same purse and places whatever it is told, and more for those who have more to tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import Headgate, Listening
from headgate.control.policies.budgeted.base import divided
from headgate.control.prices import PerClient, Uniform
from headgate.control.rehearse import rehearse
from headgate.errors import LedgerError, SettingError
from headgate.testing import a_system, check_policy

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)
WORTHS = ("new", "surprise", "oort", "gap")


@pytest.mark.parametrize("by", WORTHS)
def test_every_worth_passes_the_public_check(by):
    check_policy(Listening(by=by), rounds=24)
    check_policy(Listening(by=by, turnover=0.5, fairness=1.0, most=9.0), a_system(None), rounds=24)
    check_policy(Listening(by=by), rounds=12, prices=PerClient(Uniform(1, 10), (0.5, 1.0, 1.0, 1.5, 2.0), 0.3))


@pytest.mark.parametrize("by", WORTHS)
def test_where_nothing_is_heard_it_is_headgate_to_the_bit(by):
    prices, seeds = Uniform(1, 10), np.arange(5)
    one, other = (rehearse(MNIST, policy, prices, seeds, 60) for policy in (Listening(by=by), Headgate()))
    assert np.array_equal(one.admitted, other.admitted)
    assert np.array_equal(one.ledger.admitted, other.ledger.admitted)
    assert np.array_equal(one.spend, other.spend)


def played(policy, prices, losses, system=MNIST):
    """The ledger after prices (T,), where losses(t) is told after round t."""
    controller = Controller(system, policy)
    ledger = controller.open()
    for t, price in enumerate(prices, start=1):
        orders = controller.decide(ledger, price)
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=losses(t)))
    return ledger


LOSS = st.one_of(st.sampled_from([0.0, np.nan, 1e-300, 1.0, 1e300]), st.floats(0.0, 20.0))
THREE = st.lists(LOSS, min_size=3, max_size=3)
ROUND = st.tuples(st.one_of(st.sampled_from([0.0, 1e-12, 1 / 3, 1e9]), st.floats(0.0, 20.0)), THREE, THREE)


@settings(max_examples=40, deadline=None)
@given(st.lists(ROUND, min_size=1, max_size=25), st.sampled_from(WORTHS), st.floats(0.01, 60.0), st.booleans())
def test_it_never_overspends_overfills_or_favours_whatever_it_is_told(rounds, by, budget, free):
    buffer = np.array([3, 1, 7])
    system, policy = System(buffer, budget, len(rounds)), Listening(by=by, most=3.0, fairness=1.0 if free else 0.25)
    controller = Controller(system, policy)
    ledger = controller.open()
    for price, new, held in rounds:
        orders = controller.decide(ledger, price)
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=Losses(np.array([new]), np.array([held]))))
        assert ledger.spent[0] <= budget * len(rounds)
        assert np.all(ledger.occupancy <= buffer)
        admitted, due = ledger.admitted[0], buffer / buffer.sum()
        off = np.abs(admitted - due * admitted.sum())
        assert np.all(off <= policy.fairness * due * admitted.sum() + 2 + 2 * buffer.size * due)


@pytest.mark.parametrize(("by", "loud"), [("new", 0), ("oort", 0), ("surprise", 5)])
def test_clients_with_more_to_learn_buy_more_within_their_bands(by, loud):
    """A client whose new samples lose most, or one whose samples held lose least."""
    new, held = np.ones((1, 10)), np.full((1, 10), 0.5)
    new[0, 0], held[0, 5] = 5.0, 0.01
    held[0, 0] = 4.9
    prices = Uniform(1, 10).path(np.arange(1), 1, 101)[0]
    ledger = played(Listening(by=by, most=2.0), prices, lambda t: Losses(new, held))
    shares = ledger.admitted[0] / ledger.admitted.sum() / (MNIST.buffer / MNIST.memory)
    assert shares.argmax() == loud
    assert 1.1 < shares.max() < 1.3


def test_a_wide_gap_makes_prices_look_lower():
    """The gap opens in round 50: more is bought there than where it stays as it is."""
    prices = Uniform(1, 10).path(np.arange(1), 1, 61)[0]
    ones = np.ones((1, 10))
    opens, stays = (
        played(Listening(by="gap", most=3.0), prices, lambda t, late=late: Losses(ones, ones * (late if t >= 50 else 0.9)))
        for late in (0.1, 0.9)
    )
    assert opens.admitted.sum() > stays.admitted.sum()


def test_losses_are_kept_for_those_who_listen_alone():
    told = Losses(np.ones((1, 10)), np.full((1, 10), np.nan))
    assert played(Headgate(), [3.0], lambda t: told).losses is None
    assert np.array_equal(played(Listening(), [3.0], lambda t: told).losses.new, told.new)
    assert played(Listening(), [3.0], lambda t: None).losses is None


@pytest.mark.parametrize("bad", [np.ones((1, 9)), np.full((1, 10), -1.0), np.full((1, 10), np.inf)])
def test_losses_that_cannot_be_are_refused(bad):
    with pytest.raises(LedgerError, match="round 1: losses must be one for each run and client"):
        played(Listening(), [3.0], lambda t: Losses(np.ones((1, 10)), bad))


@pytest.mark.parametrize("setting", [{"most": 0.5}, {"smoothing": 0.0}, {"smoothing": 1.5}])
def test_settings_without_meaning_are_refused(setting):
    with pytest.raises(SettingError, match=f"{next(iter(setting))} = "):
        Listening(**setting)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0.0, 1.0)), min_size=1, max_size=8), st.floats(0.0, 1.0))
def test_a_total_is_divided_whole_and_nobody_gets_more_than_places(clients, part):
    places = np.array([place for place, _ in clients])
    wanted, total = places * [share for _, share in clients], np.floor(part * places.sum())
    whole = divided(np.array([total]), wanted[None], places)[0]
    assert whole.sum() == total
    assert np.all((whole >= 0) & (whole <= places))
    if wanted.sum() >= total:  # nobody is cut back for others' places
        assert np.all(np.abs(whole - wanted * total / max(wanted.sum(), 1e-12)) <= 1 + 1e-9)
