"""The equations that only studies use, by hand and on rules of every sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.controller import debt_update
from headgate.errors import SettingError
from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, penalty
from studies.paper import theory
from studies.paper.theory import (
    cumulative_excess_risk,
    distance_recursion,
    gradient_mismatch,
    kstep_uniformity,
    local_constants,
    optimisation_bound,
)

k = BoundConstants()
K = BoundConstants(D=3.0, sigma=2.0, eta=0.5, loss=4.0, pdim=20.0, C2=7.0)
BUFFERS = np.array([8, 9, 10, 11, 12] * 2)

money = st.floats(0, 1e4)


@pytest.mark.paper("eq:lyapunov-dpp", "eq:lyapunov-drift")
def test_drift_by_hand():
    assert theory.lyapunov(4.0) == 8.0
    assert theory.drift(4.0, 6.0) == 10.0


@pytest.mark.paper("eq:sigma-bar-Neff-app")
def test_mismatch_of_gradients_by_hand():
    assert gradient_mismatch(10.0, 40.0, K) == pytest.approx(4 * (1 / 10 - 1 / 40))


@pytest.mark.paper("eq:cum-excess-risk")
def test_excess_risk_is_the_mean_over_runs_summed_over_rounds():
    assert cumulative_excess_risk(
        [[3.0, 2.0], [5.0, 2.0]], least_risk=1.0
    ) == pytest.approx(3.0 + 1.0)


@pytest.mark.paper("eq:C1C2-def")
def test_local_constants_by_hand():
    constants = local_constants(G=2.0, L=3.0, D=5.0, E=2)
    assert pytest.approx(2 * (10 + 30 * 1.0)) == constants.C1
    assert pytest.approx(4 * 9 * 4 * 0.5) == constants.C2


@pytest.mark.paper(
    "eq:opt-recursion-app",
    "prop:Ropt-bound-app",
    "eq:Ropt-bound-app",
    "eq:opt-step-app",
)
def test_the_recursion_telescopes_into_the_bound():
    eta, D = 0.1, 4.0
    c = local_constants(G=1.5, L=0.7, D=D, E=10)
    rng = np.random.default_rng(0)
    mismatch = rng.random(30)
    gap = rng.random(30) * 0.01
    distance = D**2
    for sigma2, g in zip(mismatch, gap, strict=True):
        distance = distance_recursion(distance, g, sigma2, eta, D, c)
    # Σ gap = (D² − ‖θ^{T+1} − θ*‖² + …)/2η: the bound leaves out only the last distance
    assert gap.sum() + distance / (2 * eta) == pytest.approx(
        float(optimisation_bound(mismatch, eta, D, c))
    )


@pytest.mark.paper("eq:Ropt-Neff-app")
def test_with_the_effective_sample_size_it_is_the_sum_in_theorem_1():
    k = BoundConstants(D=4.0, sigma=3.0, eta=0.1)
    n, n_eff = np.array([10.0, 20.0]), np.array([15.0, 60.0])
    c = local_constants(G=1.0, L=1.0, D=k.D, E=3)
    uneven = 1 / n - 1 / n_eff
    expected = (
        k.D**2 / 0.2
        + (12 * uneven**0.5 + 0.9 * uneven).sum()
        + 2 * (0.1 * c.C1 + 0.001 * c.C2) / 2
    )
    assert optimisation_bound(
        gradient_mismatch(n, n_eff, k), k.eta, k.D, c
    ) == pytest.approx(expected)


@pytest.mark.paper(
    "eq:dpp-objective",
    "eq:dpp-upper-1",
    "eq:dpp-upper-2",
    "eq:dpp-upper-anyd",
    "eq:J-constant",
)
@given(
    money,
    st.floats(0, 50),
    st.floats(0, 100),
    st.floats(0.1, 500),
    st.floats(0.1, 1e4),
    money,
)
def test_drift_plus_penalty_stays_below_its_bound(debt, cost, admitted, budget, V, p):
    left = theory.drift(debt, debt_update(debt, cost * admitted, budget)) + V * p
    right = theory.drift_constant(cost * admitted, budget) + c.dpp_objective(
        debt, cost, admitted, budget, V, p
    )
    assert left <= right + 1e-9 * (1 + abs(right))


@pytest.mark.paper(
    "eq:dpp-T-slot-upper",
    "lem:dpp-T-slot-upper",
    "eq:penalty-bridge",
    "eq:dpp-drift-sum",
)
def test_t_slot_bound_by_hand():
    assert theory.t_slot_upper(5.0, 3, 10.0, [1.0, 2.0, 3.0]) == 75.0


@pytest.mark.paper("eq:nc-Nc")
def test_comparison_counts():
    n, N = theory.comparison_counts(kept=[90, 80], distinct=[500, 600], rate=10)
    assert (n.tolist(), N.tolist()) == ([100.0, 90.0], [510.0, 610.0])


@pytest.mark.paper("eq:nc-lb", "eq:Nc-lb", "eq:app-nNlb")
@given(st.integers(1, 12), st.floats(0.5, 0.98), st.integers(0, 2**32 - 1))
def test_any_policy_inside_the_interval_holds_at_least_the_lower_counts(K, rho, seed):
    T, rate = 40, 10.0
    lo, hi = c.admission_interval(np.arange(1, T + 1), rate, rho)
    admitted = lo + (hi - lo) * np.random.default_rng(seed).random(T) ** 4
    n_lb, N_lb = theory.interval_lower_counts(K, rate, rho, T)
    for t in range(1, T + 1):
        kept = admitted[max(t - K, 0) : t - 1].sum()
        n, N = theory.comparison_counts(kept, admitted[: t - 1].sum(), rate)
        assert n >= n_lb[t - 1] - 1e-9
        assert N_lb[t - 1] - 1e-9 <= N


@pytest.mark.paper("eq:app-nNlb")
def test_lower_counts_have_the_closed_form_of_the_appendix():
    K, rate, rho, T = 10, 10.0, 0.9, 60
    n_lb, N_lb = theory.interval_lower_counts(K, rate, rho, T)
    t = np.arange(1, T + 1)
    assert n_lb[K - 1 :] == pytest.approx(
        (K * rate - (K - 1) * rate * rho ** (t - K))[K - 1 :]
    )
    assert N_lb == pytest.approx(
        rate * t - rate * np.array([sum(rho**s for s in range(1, x)) for x in t])
    )


@pytest.mark.paper("eq:pC-upper-explicit", "eq:pc-infty", "eq:omega2-def")
def test_the_interval_costs_less_and_less():
    gap = theory.ck_penalty_ceiling(10, 10.0, 0.9, 4000, k) - theory.ck_penalty_limit(
        10, 10.0, 4000, k
    )
    assert np.all(gap[100:] >= -1e-9)
    assert gap[-1] < 0.01 * gap[100]
    assert theory.omega2(10, 10.0, 0.9, 4000, k) == pytest.approx(gap.sum())


@pytest.mark.paper("eq:pc-infty", "eq:omega3-def")
def test_limit_and_omega3():
    limit = theory.ck_penalty_limit(10, 10.0, 300, k)
    assert limit[-1] == pytest.approx(float(penalty(100.0, 3000.0, k)))
    shifted = BoundConstants(C2=5.0)
    assert theory.omega3(10, 10.0, BUFFERS, 300, k) == pytest.approx(
        theory.omega3(10, 10.0, BUFFERS, 300, shifted)
    )


@pytest.mark.paper("eq:dpp-regret", "eq:omega1-def", "eq:omega-master")
def test_the_chain_adds_up():
    rng = np.random.default_rng(1)
    T, K, rate, rho = 80, 10, 10.0, 0.9
    bound, p = rng.random((3, T)) + 5, rng.random((3, T)) + 4
    oracle = c.oracle_bound(BUFFERS, T, k)
    slack = theory.ck_penalty_ceiling(K, rate, rho, T, k).sum() - p.sum(
        axis=-1
    )  # what Lemma 1 bounds by B·T/V
    chain = theory.omega_master(
        theory.omega1(bound, p),
        theory.omega2(K, rate, rho, T, k),
        theory.omega3(K, rate, BUFFERS, T, k),
        0.0,
        T,
        1.0,
    )
    assert chain - slack == pytest.approx(c.regret(bound, oracle))
    assert theory.omega_master(1.0, 2.0, 3.0, 4.0, 10, 5.0) == 14.0


def test_claimed_rates():
    assert theory.claimed_rates(0.5, 0.25) == theory.Rates(
        regret=0.5, cost_violation=0.75
    )
    assert theory.claimed_rates(0.8, 0.4) == pytest.approx((0.4, 0.9))
    with pytest.raises(SettingError, match=r"gamma = 1"):
        theory.claimed_rates(1.0, 0.5)


# studies/paper/regret.md: both sides of each inequality, on rules of every sort inside
# the interval


RULES = [
    "least",
    "most",
    "centre",
    "even",
    "either",
    "burst then least",
    "most to R, then least",
    "least to R, then most",
]


def rule(kind, T, rate, rho, seed):
    lo, hi = c.admission_interval(np.arange(1, T + 1), rate, rho)
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
HORIZONS = st.sampled_from([2, 10, 100, 1000, 10_000])
PLAYED = (
    st.sampled_from(RULES),
    HORIZONS,
    st.floats(0.05, 0.95),
    st.integers(1, 20),
    st.floats(0.5, 50),
    st.integers(0, 99),
)
"""rule, T, φ, K, rate, seed"""


@pytest.mark.paper("thm:dpp-regret", "eq:dpp-regret-rate")
@settings(max_examples=150, deadline=None)
@given(*PLAYED, constants)
def test_no_rule_has_more_regret_than_the_ceiling_nor_less_than_the_floor(
    kind, T, phi, K, rate, seed, k
):
    rho = 1 - T**-phi
    admitted = rule(kind, T, rate, rho, seed)
    found = float(theory.regret_of(admitted, K, K * rate, k))
    slack = 1e-9 * float(c.oracle_bound([K * rate], T, k).sum())
    assert theory.regret_floor(K, rate, rho, T, k) <= found + slack
    assert found <= theory.regret_ceiling(K, rate, rho, T, k) + slack


@pytest.mark.paper(
    "thm:dpp-cost-constraint", "eq:cost-violation-rate", "rem:buffer-violation"
)
@settings(max_examples=100, deadline=None)
@given(*PLAYED)
def test_no_rule_spends_or_holds_more_than_the_ceilings(kind, T, phi, K, rate, seed):
    rho = 1 - T**-phi
    admitted = rule(kind, T, rate, rho, seed)
    price = np.random.default_rng(seed).uniform(
        0.2, 1.8, T
    )  # the means of the rounds, which may differ
    budget = rate * price.mean()
    assert (price * admitted - budget).sum() <= theory.spend_ceiling(
        rate, rho, price.max()
    ) * (1 + 1e-9)
    assert (theory.held(admitted, K) - K * rate).sum() <= theory.occupancy_ceiling(
        K * rate, rho
    ) * (1 + 1e-9)


@given(st.floats(0.01, 0.9999), st.integers(1, 3000))
def test_fact_a(rho, T):
    R, t = 1 / (1 - rho), np.arange(1, T + 1)
    with np.errstate(over="ignore"):
        d = 1 / np.expm1(-t * np.log(rho))
    assert np.all(d <= R / t * (1 + 1e-9))
    assert d.sum() <= theory.farthest_in_all(rho)


@given(
    st.sampled_from(RULES), st.integers(1, 12), st.floats(0.1, 0.9), st.integers(0, 99)
)
def test_facts_b_and_c(kind, K, phi, seed):
    T, rate = 200, 10.0
    rho = 1 - T**-phi
    admitted, t = rule(kind, T, rate, rho, seed), np.arange(1, T + 1)
    N, R = np.cumsum(admitted), 1 / (1 - rho)
    assert np.all(rate * (t - R) <= N * (1 + 1e-12))
    assert np.all(rate * (t + theory.farthest_in_all(rho)) >= N)
    uniform = kstep_uniformity(admitted, K)
    assert np.all(uniform >= 1 / K - 1e-12)
    assert np.all((N * uniform)[K - 1 :] >= N[: T - K + 1] * (1 - 1e-12))


@pytest.mark.paper("thm:dpp-regret")
@pytest.mark.parametrize("phi", [0.1, 0.3, 0.5])
def test_up_to_one_half_every_rule_has_regret_of_at_least_that_order(phi):
    """The floor is of the order √(T log T), so the remark's O(√T) is false for γ = φ =
    ½; below, the ceiling is, too.
    """
    Ts = [10**4, 10**5, 10**6]
    floor, ceiling = (
        [end(10, 10.0, 1 - T**-phi, T, k) / np.sqrt(T * np.log(T)) for T in Ts]
        for end in (theory.regret_floor, theory.regret_ceiling)
    )
    assert floor[0] > 0
    assert np.all(np.diff(floor) > 0)
    if phi < 0.5:
        assert np.all(np.diff(ceiling) < 0.1 * ceiling[0])
        assert ceiling[-1] < 6 * floor[-1]


def test_held_is_the_sum_of_the_last_rounds():
    assert theory.held([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 1.0, 1.0]], 2).tolist() == [
        [1, 3, 6, 12],
        [1, 2, 2, 2],
    ]
    assert theory.held([1.0, 2.0], 5).tolist() == [1, 3]
