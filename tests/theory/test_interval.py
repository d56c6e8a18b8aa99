"""studies/paper/regret.md: both sides of each inequality, on rules of every sort inside the interval."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.theory import interval
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import oracle_bound
from headgate.theory.drift import admission_interval
from headgate.theory.reuse import kstep_uniformity

RULES = ["least", "most", "centre", "even", "either", "burst then least", "most to R, then least", "least to R, then most"]


def rule(kind, T, rate, rho, seed):
    lo, hi = admission_interval(np.arange(1, T + 1), rate, rho)
    draw, early = np.random.default_rng(seed), np.arange(1, T + 1) <= 1 / (1 - rho)
    return {
        "least": lo,
        "most": hi,
        "centre": np.full(T, rate),
        "even": lo + (hi - lo) * draw.random(T),
        "either": np.where(draw.random(T) < 0.5, lo, hi),
        "burst then least": np.where(np.arange(T) < 3, hi, lo),
        "most to R, then least": np.where(early, hi, lo),
        "least to R, then most": np.where(early, lo, hi),
    }[kind]


constants = st.builds(
    BoundConstants,
    D=st.sampled_from([0.0, 1.0, 1000.0]),
    sigma=st.sampled_from([0.1, 10.0]),
    eta=st.sampled_from([0.0, 0.5, 50.0]),
    loss=st.sampled_from([0.0, 1.0, 1000.0]),
    pdim=st.sampled_from([1.0, 100.0, 5000.0]),
)
horizons = st.sampled_from([2, 10, 100, 1000, 10_000])


@pytest.mark.paper("thm:dpp-regret", "eq:dpp-regret-rate")
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(RULES),
    horizons,
    st.floats(0.05, 0.95),
    st.integers(1, 20),
    st.floats(0.5, 50),
    constants,
    st.integers(0, 99),
)
def test_no_rule_has_more_regret_than_the_ceiling_nor_less_than_the_floor(kind, T, phi, K, rate, k, seed):
    rho = 1 - T**-phi
    admitted = rule(kind, T, rate, rho, seed)
    found = float(interval.regret_of(admitted, K, K * rate, k))
    slack = 1e-9 * float(oracle_bound([K * rate], T, k).sum())
    assert interval.regret_floor(K, rate, rho, T, k) <= found + slack
    assert found <= interval.regret_ceiling(K, rate, rho, T, k) + slack


@pytest.mark.paper("thm:dpp-cost-constraint", "eq:cost-violation-rate", "rem:buffer-violation")
@settings(max_examples=100, deadline=None)
@given(st.sampled_from(RULES), horizons, st.floats(0.05, 0.95), st.integers(1, 20), st.floats(0.5, 50), st.integers(0, 99))
def test_no_rule_spends_or_holds_more_than_the_ceilings(kind, T, phi, K, rate, seed):
    rho = 1 - T**-phi
    admitted = rule(kind, T, rate, rho, seed)
    price = np.random.default_rng(seed).uniform(0.2, 1.8, T)  # the means of the rounds, which may differ
    budget = rate * price.mean()
    assert (price * admitted - budget).sum() <= interval.spend_ceiling(rate, rho, price.max()) * (1 + 1e-9)
    assert (interval.held(admitted, K) - K * rate).sum() <= interval.occupancy_ceiling(K * rate, rho) * (1 + 1e-9)


@given(st.floats(0.01, 0.9999), st.integers(1, 3000))
def test_fact_a(rho, T):
    R, t = 1 / (1 - rho), np.arange(1, T + 1)
    with np.errstate(over="ignore"):
        d = 1 / np.expm1(-t * np.log(rho))
    assert np.all(d <= R / t * (1 + 1e-9))
    assert d.sum() <= interval.farthest_in_all(rho)


@given(st.sampled_from(RULES), st.integers(1, 12), st.floats(0.1, 0.9), st.integers(0, 99))
def test_facts_b_and_c(kind, K, phi, seed):
    T, rate = 200, 10.0
    rho = 1 - T**-phi
    admitted, t = rule(kind, T, rate, rho, seed), np.arange(1, T + 1)
    N, R = np.cumsum(admitted), 1 / (1 - rho)
    assert np.all(rate * (t - R) <= N * (1 + 1e-12))
    assert np.all(rate * (t + interval.farthest_in_all(rho)) >= N)
    uniform = kstep_uniformity(admitted, K)
    assert np.all(uniform >= 1 / K - 1e-12)
    assert np.all((N * uniform)[K - 1 :] >= N[: T - K + 1] * (1 - 1e-12))


@pytest.mark.paper("thm:dpp-regret")
def test_at_one_half_too_every_rule_has_regret_of_at_least_that_order():
    """φ = ½: the floor is of the order √(T log T), so the remark's O(√T) is false for γ = φ = ½."""
    Ts = [10**4, 10**5, 10**6]
    floor = [interval.regret_floor(10, 10.0, 1 - T**-0.5, T, BoundConstants()) / np.sqrt(T * np.log(T)) for T in Ts]
    assert floor[0] > 0
    assert np.all(np.diff(floor) > 0)


@pytest.mark.paper("thm:dpp-regret")
@pytest.mark.parametrize("phi", [0.1, 0.3])
def test_below_one_half_every_rule_has_regret_of_the_order_of_the_root(phi):
    """The floor grows like √(T log T) itself, so no rule grows more slowly; the ceiling does not grow faster."""
    Ts, k = [10**4, 10**5, 10**6], BoundConstants()
    ends = {
        end: [end(10, 10.0, 1 - T**-phi, T, k) / np.sqrt(T * np.log(T)) for T in Ts]
        for end in (interval.regret_floor, interval.regret_ceiling)
    }
    floor, ceiling = ends.values()
    assert floor[0] > 0
    assert np.all(np.diff(floor) > 0)
    assert np.all(np.diff(ceiling) < 0.1 * ceiling[0])
    assert ceiling[-1] < 6 * floor[-1]


def test_held_is_the_sum_of_the_last_rounds():
    assert interval.held([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 1.0, 1.0]], 2).tolist() == [[1, 3, 6, 12], [1, 2, 2, 2]]
    assert interval.held([1.0, 2.0], 5).tolist() == [1, 3]
