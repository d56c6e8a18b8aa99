from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.policies import Acdpp, Clairvoyant, Constant, Dpp
from headgate.control.policies.references.clairvoyant import cheapest_first
from headgate.control.policy import PolicyContext
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.control.types import System
from headgate.theory.bound import BoundConstants

from ..playing import played

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


def test_foresight_for_samples_follows_its_plan():
    seeds, prices = np.arange(4), Uniform(1, 10)
    known = PolicyContext(SYSTEM, prices, BoundConstants(), seeds, 30)
    policy = Clairvoyant(aim="samples", fill=8.0).resolved(known)
    result = rehearse(SYSTEM, policy, prices, seeds, 30)
    plan = [cheapest_first(own, SYSTEM, 8 * SYSTEM.budget).sum() for own in policy.path]
    assert result.N[:, -1].tolist() == plan
