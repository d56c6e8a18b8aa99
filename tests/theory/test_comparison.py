import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.controller import debt_update
from headgate.errors import SettingError
from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, learning_error, penalty
from headgate.theory.reuse import kstep_uniformity

k = BoundConstants()
BUFFERS = np.array([8, 9, 10, 11, 12] * 2)


money = st.floats(0, 1e4)


@pytest.mark.paper("eq:Z-update", "eq:lyapunov-dpp", "eq:lyapunov-drift")
def test_debt_and_drift_by_hand():
    assert debt_update([0.0, 30.0, 30.0], [10.0, 70.0, 5.0], 55.0).tolist() == [
        0.0,
        45.0,
        0.0,
    ]
    assert c.lyapunov(4.0) == 8.0
    assert c.drift(4.0, 6.0) == 10.0


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
    left = c.drift(debt, debt_update(debt, cost * admitted, budget)) + V * p
    right = c.drift_constant(cost * admitted, budget) + c.dpp_objective(
        debt, cost, admitted, budget, V, p
    )
    assert left <= right + 1e-9 * (1 + abs(right))


@pytest.mark.paper("eq:lambda-min-max", "eq:lambda-interval")
@given(st.integers(1, 500), st.floats(0.1, 1e4), st.floats(0.01, 0.999))
def test_interval_closes_on_the_rate(t, rate, rho):
    lo, hi = c.admission_interval(t, rate, rho)
    later_lo, later_hi = c.admission_interval(t + 1, rate, rho)
    assert lo <= later_lo <= rate * (1 + 1e-12)
    assert hi >= later_hi >= rate * (1 - 1e-12)
    assert lo == pytest.approx(rate * (1 - rho**t), rel=1e-9)
    assert hi == pytest.approx(rate / (1 - rho**t), rel=1e-9)


@pytest.mark.paper(
    "eq:dpp-T-slot-upper",
    "lem:dpp-T-slot-upper",
    "eq:penalty-bridge",
    "eq:dpp-drift-sum",
)
def test_t_slot_bound_by_hand():
    assert c.t_slot_upper(5.0, 3, 10.0, [1.0, 2.0, 3.0]) == 75.0


@pytest.mark.paper("eq:ck-bound", "eq:ck-bound-detail", "cor:ck-specialization")
@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 60))
def test_corollary_1_is_theorem_1_under_constant_admission(K, rate, T):
    t = np.arange(1, T + 1)
    uniform = kstep_uniformity(np.full(T, rate), K)
    expected = learning_error(rate * np.minimum(t, K), rate * t, uniform, k)
    assert c.ck_bound(K, rate, T, k) == pytest.approx(expected, rel=1e-10)


@pytest.mark.paper("eq:oracle-upper-bound-explicit")
def test_the_oracle_is_constant_admission_of_whole_buffers_with_K_1():
    assert c.oracle_bound(BUFFERS, 50, k) == pytest.approx(c.ck_bound(1, 100, 50, k))


@pytest.mark.paper("eq:nc-Nc")
def test_comparison_counts():
    n, N = c.comparison_counts(kept=[90, 80], distinct=[500, 600], rate=10)
    assert (n.tolist(), N.tolist()) == ([100.0, 90.0], [510.0, 610.0])


@pytest.mark.paper("eq:nc-lb", "eq:Nc-lb", "eq:app-nNlb")
@given(st.integers(1, 12), st.floats(0.5, 0.98), st.integers(0, 2**32 - 1))
def test_any_policy_inside_the_interval_holds_at_least_the_lower_counts(K, rho, seed):
    T, rate = 40, 10.0
    lo, hi = c.admission_interval(np.arange(1, T + 1), rate, rho)
    admitted = lo + (hi - lo) * np.random.default_rng(seed).random(T) ** 4
    n_lb, N_lb = c.interval_lower_counts(K, rate, rho, T)
    for t in range(1, T + 1):
        kept = admitted[max(t - K, 0) : t - 1].sum()
        n, N = c.comparison_counts(kept, admitted[: t - 1].sum(), rate)
        assert n >= n_lb[t - 1] - 1e-9
        assert N_lb[t - 1] - 1e-9 <= N


@pytest.mark.paper("eq:app-nNlb")
def test_lower_counts_have_the_closed_form_of_the_appendix():
    K, rate, rho, T = 10, 10.0, 0.9, 60
    n_lb, N_lb = c.interval_lower_counts(K, rate, rho, T)
    t = np.arange(1, T + 1)
    assert n_lb[K - 1 :] == pytest.approx(
        (K * rate - (K - 1) * rate * rho ** (t - K))[K - 1 :]
    )
    assert N_lb == pytest.approx(
        rate * t - rate * np.array([sum(rho**s for s in range(1, x)) for x in t])
    )


@pytest.mark.paper("eq:pC-upper-explicit", "eq:pc-infty", "eq:omega2-def")
def test_the_interval_costs_less_and_less():
    gap = c.ck_penalty_ceiling(10, 10.0, 0.9, 4000, k) - c.ck_penalty_limit(
        10, 10.0, 4000, k
    )
    assert np.all(gap[100:] >= -1e-9)
    assert gap[-1] < 0.01 * gap[100]
    assert c.omega2(10, 10.0, 0.9, 4000, k) == pytest.approx(gap.sum())


@pytest.mark.paper("eq:pc-infty", "eq:omega3-def")
def test_limit_and_omega3():
    limit = c.ck_penalty_limit(10, 10.0, 300, k)
    assert limit[-1] == pytest.approx(float(penalty(100.0, 3000.0, k)))
    shifted = BoundConstants(C2=5.0)
    assert c.omega3(10, 10.0, BUFFERS, 300, k) == pytest.approx(
        c.omega3(10, 10.0, BUFFERS, 300, shifted)
    )


@pytest.mark.paper("eq:dpp-regret", "eq:omega1-def", "eq:omega-master")
def test_the_chain_adds_up():
    rng = np.random.default_rng(1)
    T, K, rate, rho = 80, 10, 10.0, 0.9
    bound, p = rng.random((3, T)) + 5, rng.random((3, T)) + 4
    oracle = c.oracle_bound(BUFFERS, T, k)
    slack = c.ck_penalty_ceiling(K, rate, rho, T, k).sum() - p.sum(
        axis=-1
    )  # what Lemma 1 bounds by B·T/V
    chain = c.omega_master(
        c.omega1(bound, p),
        c.omega2(K, rate, rho, T, k),
        c.omega3(K, rate, BUFFERS, T, k),
        0.0,
        T,
        1.0,
    )
    assert chain - slack == pytest.approx(c.regret(bound, oracle))
    assert c.omega_master(1.0, 2.0, 3.0, 4.0, 10, 5.0) == 14.0


@pytest.mark.paper("eq:cum-cost-violation", "eq:sampling-cost-constraint")
def test_cost_violation_is_of_the_mean_over_runs():
    assert c.cost_violation([[60, 60], [40, 60]], 50.0) == 10.0
    assert c.cost_violation([[60, 20]], 50.0) == 0.0


@pytest.mark.paper("eq:cum-buffer-violation", "eq:avg-buffer-constraint")
def test_buffer_violation_does_not_net_clients_against_each_other():
    assert c.buffer_violation([[30, 10], [10, 10]], [8, 10], T=2) == pytest.approx(4.0)
    assert c.buffer_violation([[16, 0]], [8, 10], T=2) == 0.0


@pytest.mark.paper(
    "eq:optimal-K", "cor:optimal-k", "eq:ck-cost-constraint", "eq:ck-buffer-constraint"
)
@given(
    st.floats(0.1, 50),
    st.lists(st.integers(1, 50), min_size=1, max_size=8),
    st.floats(0.1, 1000),
)
def test_both_branches_are_feasible_and_use_something_up(mean_price, buffers, budget):
    up, down = c.optimal_K(mean_price, buffers, budget)
    assert 0 <= up.K - down.K <= 1
    for point in (up, down):
        used = max(
            mean_price * point.rate / budget, point.K * point.rate / sum(buffers)
        )  # the larger part of both limits
        assert used == pytest.approx(1.0, abs=1e-12)


def test_claimed_rates():
    assert c.claimed_rates(0.5, 0.25) == c.Rates(regret=0.5, cost_violation=0.75)
    assert c.claimed_rates(0.8, 0.4) == pytest.approx((0.4, 0.9))
    with pytest.raises(SettingError, match=r"gamma = 1"):
        c.claimed_rates(1.0, 0.5)


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
    found = float(c.regret_of(admitted, K, K * rate, k))
    slack = 1e-9 * float(c.oracle_bound([K * rate], T, k).sum())
    assert c.regret_floor(K, rate, rho, T, k) <= found + slack
    assert found <= c.regret_ceiling(K, rate, rho, T, k) + slack


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
    assert (price * admitted - budget).sum() <= c.spend_ceiling(
        rate, rho, price.max()
    ) * (1 + 1e-9)
    assert (c.held(admitted, K) - K * rate).sum() <= c.occupancy_ceiling(
        K * rate, rho
    ) * (1 + 1e-9)


@given(st.floats(0.01, 0.9999), st.integers(1, 3000))
def test_fact_a(rho, T):
    R, t = 1 / (1 - rho), np.arange(1, T + 1)
    with np.errstate(over="ignore"):
        d = 1 / np.expm1(-t * np.log(rho))
    assert np.all(d <= R / t * (1 + 1e-9))
    assert d.sum() <= c.farthest_in_all(rho)


@given(
    st.sampled_from(RULES), st.integers(1, 12), st.floats(0.1, 0.9), st.integers(0, 99)
)
def test_facts_b_and_c(kind, K, phi, seed):
    T, rate = 200, 10.0
    rho = 1 - T**-phi
    admitted, t = rule(kind, T, rate, rho, seed), np.arange(1, T + 1)
    N, R = np.cumsum(admitted), 1 / (1 - rho)
    assert np.all(rate * (t - R) <= N * (1 + 1e-12))
    assert np.all(rate * (t + c.farthest_in_all(rho)) >= N)
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
        for end in (c.regret_floor, c.regret_ceiling)
    )
    assert floor[0] > 0
    assert np.all(np.diff(floor) > 0)
    if phi < 0.5:
        assert np.all(np.diff(ceiling) < 0.1 * ceiling[0])
        assert ceiling[-1] < 6 * floor[-1]


def test_held_is_the_sum_of_the_last_rounds():
    assert c.held([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 1.0, 1.0]], 2).tolist() == [
        [1, 3, 6, 12],
        [1, 2, 2, 2],
    ]
    assert c.held([1.0, 2.0], 5).tolist() == [1, 3]
