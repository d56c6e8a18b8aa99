"""The clairvoyant reference against enumeration, and as a policy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import PolicyContext, System
from headgate.control.policies import Clairvoyant, Headgate, Resolving
from headgate.control.policies.references.clairvoyant import _follow, _levels, convex_minorant, foresee, round_cost
from headgate.control.prices import Uniform, UniformInteger
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants

CONVEX = BoundConstants(D=0.0, loss=100.0, pdim=0.5)
"""the pseudo-dimension term is convex from N = 0.87 on"""
SMALL = System(np.array([1, 2]), 1.0)
PRICES = st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 7.0]), min_size=1, max_size=5)


def enumerated(prices, system, k, money):
    """The least surrogate cost of all purchases of whole samples, by trying each."""
    least = np.inf
    for purchases in product(range(system.memory + 1), repeat=len(prices)):
        if purchases[0] > 0 and np.dot(prices, purchases) <= money:
            least = min(least, round_cost(np.cumsum(purchases), system.memory, k).sum())
    return least


def surrogate(found, system, k):
    """Σ p(t) of the purchases, (R,)."""
    return round_cost(np.cumsum(found.purchases, axis=-1), system.memory, k).sum(axis=-1)


@settings(max_examples=60, deadline=None)
@given(PRICES, st.floats(0.5, 40.0), st.sampled_from([CONVEX, BoundConstants(pdim=2.0), BoundConstants(pdim=100.0)]))
def test_nothing_costs_less_than_the_bound(prices, money, k):
    found = foresee(np.array([prices]), SMALL, k, money)
    least = enumerated(prices, SMALL, k, money)
    assert found.bound[0] <= least * (1 + 1e-9) or np.isinf(least)
    assert surrogate(found, SMALL, k)[0] >= least * (1 - 1e-9) or np.isinf(least)
    assert np.dot(prices, found.purchases[0]) <= money * (1 + 1e-9)
    assert np.all((found.purchases >= 0) & (found.purchases <= SMALL.memory))


@settings(max_examples=60, deadline=None)
@given(PRICES, st.floats(0.01, 200.0))
def test_the_plan_is_the_best_there_is_where_money_comes_out_even(prices, mu):
    """A plan that is optimal for a price of money is optimal for the money it spends."""
    values = convex_minorant(round_cost(np.arange(1, 3 * len(prices) + 1), 3, CONVEX))
    plan = _follow(_levels(np.array(prices), 3, np.append(-np.inf, np.diff(values)), mu), 3)
    money = float(np.dot(prices, plan))
    found = foresee(np.array([prices]), SMALL, CONVEX, money, tolerance=1e-12)
    assert round_cost(np.cumsum(plan), 3, CONVEX).sum() == pytest.approx(enumerated(prices, SMALL, CONVEX, money))
    assert found.bound[0] == pytest.approx(enumerated(prices, SMALL, CONVEX, money))


def test_the_minorant_is_convex_below_and_touches():
    values = round_cost(np.arange(1, 3000), 100, BoundConstants())
    lower = convex_minorant(values)
    assert np.all(lower <= values + 1e-9)
    assert np.all(np.diff(lower, 2) >= -1e-9)
    assert lower[0] == values[0]
    assert np.mean(np.isclose(lower, values)) > 0.3
    assert not np.all(np.diff(values, 2) >= -1e-9)  # the penalty itself is not convex there


def test_without_money_for_one_sample_there_is_no_finite_cost():
    found = foresee(np.array([[5.0, 1.0]]), SMALL, CONVEX, 2.0)
    assert surrogate(found, SMALL, CONVEX)[0] == found.bound[0] == np.inf
    assert not found.purchases.any()


def test_with_money_for_all_everything_is_bought():
    found = foresee(np.array([[5.0, 1.0]]), SMALL, CONVEX, 100.0)
    assert found.purchases.tolist() == [[3, 3]]
    assert surrogate(found, SMALL, CONVEX)[0] == pytest.approx(found.bound[0])


def test_prices_per_client_are_refused():
    with pytest.raises(SettingError, match="one price for each run and round"):
        foresee(np.ones((2, 3, 4)), SMALL, CONVEX)


SYSTEM = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 60)


@pytest.mark.parametrize("prices", [Uniform(1, 10), UniformInteger(1, 10)])
def test_as_a_policy_it_replays_its_plan_and_nobody_does_better(prices):
    k, seeds = BoundConstants(), np.arange(6)
    policy = Clairvoyant().resolved(PolicyContext(SYSTEM, prices, k, seeds, 60))
    result = rehearse(SYSTEM, policy, prices, seeds, 60)
    plans = [foresee(own, SYSTEM, k) for own in prices.path(seeds, 1, 61)[:, None]]
    bound, cost = np.concatenate([plan.bound for plan in plans]), result.penalty(k).sum(axis=-1)
    assert cost == pytest.approx(np.concatenate([surrogate(plan, SYSTEM, k) for plan in plans]), rel=2e-3)
    assert np.all(cost >= bound)
    assert np.all(result.spend.sum(axis=-1) <= 55.0 * 60)
    assert result.peak_excess.max() <= 0
    for other in (Headgate(early=1.0), Resolving()):
        theirs = rehearse(SYSTEM, other, prices, seeds, 60).penalty(k).sum(axis=-1)
        assert np.all(theirs >= bound)


def test_it_refuses_prices_it_did_not_foresee():
    policy = Clairvoyant().resolved(PolicyContext(SYSTEM, Uniform(1, 10), BoundConstants(), np.arange(2), 5))
    with pytest.raises(SettingError, match="knows no prices yet"):
        rehearse(SYSTEM, Clairvoyant(), Uniform(1, 10), np.arange(2), 5)
    with pytest.raises(SettingError, match="made for other prices"):
        rehearse(SYSTEM, policy, Uniform(2, 10), np.arange(2), 5)
    with pytest.raises(SettingError, match="no plan for the others of 3 runs"):
        rehearse(SYSTEM, policy, Uniform(1, 10), np.arange(3), 5)
    with pytest.raises(SettingError, match="the plan ends there"):
        rehearse(SYSTEM, policy, Uniform(1, 10), np.arange(2), 6)


def test_a_run_follows_its_own_plan_whoever_plays_beside_it():
    """Also while the prices of several seeds are still the same."""
    prices, seeds = UniformInteger(1, 9), np.arange(8)

    def played(seeds):
        policy = Clairvoyant().resolved(PolicyContext(SYSTEM, prices, BoundConstants(), seeds, 12))
        return rehearse(SYSTEM, policy, prices, seeds, 12)

    together = played(seeds)
    for seed in seeds:
        alone = played(seeds[seed : seed + 1])
        assert np.array_equal(alone.admitted[0], together.admitted[seed])
