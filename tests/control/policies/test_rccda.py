"""RCCDA's rule as its source states it, bought with a purse that is never overdrawn."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import Rccda
from headgate.control.policy import PolicyContext
from headgate.control.prices import Fixed, Uniform
from headgate.control.rehearse import rehearse
from headgate.theory.bound import BoundConstants

TWO = System(np.array([10, 10]), 1e6, 40)


def plain(losses, rate, fill, V=10.0, proportional=1.0, derivative=1.0):
    """Which rounds update: the rule word for word. A round's loss is heard before the next; NaN where nobody tells."""
    queue, best, previous, updates = 0.0, None, None, []
    for t, heard in enumerate([math.nan, *losses]):
        loss = previous if math.isnan(heard) else heard
        rise = 0.0
        if loss is not None:
            best, previous = (loss, loss) if best is None else (min(best, loss), previous)
            rise = V * (proportional * (loss - best) + derivative * (loss - previous))
        update = rise > queue + 0.5 - rate or (t == 0 and fill > 0)
        queue, previous = max(queue + update - rate, 0.0), loss
        updates.append(update)
    return updates


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.75, 1.0, 2.0, 8.0, math.nan]), min_size=1, max_size=30),
    st.sampled_from([0.05, 0.25, 1.0]),
    st.sampled_from([0.0, 0.5, 8.0]),
    st.sampled_from([1, 2]),
    st.fixed_dictionaries(
        {},
        optional={
            "V": st.sampled_from([0.5, 2.0]),
            "proportional": st.sampled_from([0.0, 5.0]),
            "derivative": st.sampled_from([0.0, 0.25]),
        },
    ),
)
@example([0.0, 0.046875], 0.03125, 0.0, 1, {"derivative": 0.0})  # just not enough
@example([0.0, 0.046875], 0.03125, 0.0, 1, {"proportional": 0.0})
@example([0.0, 0.5], 0.25, 0.5, 1, {"V": 0.5})  # the filling counts as an update, however small
def test_it_renews_when_the_rule_says_so(losses, rate, fill, probe, setting):
    """Money is no object here, so nothing but the rule decides."""
    controller = Controller(TWO, Rccda(rate=rate, probe=probe / 20, fill=fill, **setting))
    ledger, updates = controller.open(), []
    for loss in [*losses, 0.0]:
        orders = controller.decide(ledger, 1.0)
        assert orders.admitted.sum() in (probe, 20)  # a probe, or all places
        updates.append(orders.admitted.sum() == 20)
        told = np.full((1, 2), loss)
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=Losses(told, told)))
    assert updates == plain(losses, rate, fill, **setting)


def test_a_round_of_which_nobody_tells_leaves_the_loss_as_it_was():
    controller = Controller(TWO, Rccda(rate=0.1, probe=0.1))
    ledger = controller.open()
    for loss in (2.0, np.nan, 3.0):
        orders, told = controller.decide(ledger, 1.0), np.full((1, 2), loss)
        ledger = controller.post(ledger, orders, Report(orders.admitted, losses=Losses(told, told)))
    orders = controller.decide(ledger, 1.0)
    assert (orders.memory["loss"][0], orders.memory["least_loss"][0]) == (3.0, 2.0)


def test_its_rate_spends_the_budget():
    """Renewals at the rate, and probes in between, at the mean price."""
    system, prices = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100), Uniform(1, 10)
    policy = Rccda(probe=0.02).resolved(PolicyContext(system, prices, BoundConstants(), np.arange(2), 100))
    assert 5.5 * 100 * (policy.rate + 0.02 * (1 - policy.rate)) == pytest.approx(55.0)
    poor = Rccda(probe=0.5).resolved(PolicyContext(system, prices, BoundConstants(), np.arange(2), 100))
    assert poor.rate == 0.0
    probes = Rccda(probe=1.0).resolved(PolicyContext(system, prices, BoundConstants(), np.arange(2), 100))
    assert probes.rate == 0.0  # nothing is left for renewals
    assert poor.resolved(PolicyContext(system, prices, BoundConstants(), np.arange(2), 100)) is poor


@pytest.mark.parametrize(("price", "rate"), [(2.0**-7, 0.5 / (100 * 2.0**-7)), (2.0**-8, 1.0)])
def test_where_samples_are_cheap_it_may_renew_in_every_round(price, rate):
    system = System(np.array([40, 60]), 0.5, 100)
    assert Rccda(probe=0.0).resolved(PolicyContext(system, Fixed(price), BoundConstants(), np.arange(2), 100)).rate == rate


def test_a_rehearsal_has_its_probes_alone():
    system = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)
    one = rehearse(system, Rccda(rate=0.1, probe=0.01, fill=1000.0), Uniform(1, 10), np.arange(2), 20)
    assert one.admitted[:, 0].tolist() == [100, 100]
    assert (one.admitted[:, 1:] == 1).all()
