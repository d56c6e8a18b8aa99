import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, learning_error, penalty
from headgate.theory.drift import admission_interval
from headgate.theory.reuse import kstep_uniformity

k = BoundConstants()
BUFFERS = np.array([8, 9, 10, 11, 12] * 2)


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
    lo, hi = admission_interval(np.arange(1, T + 1), rate, rho)
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
    assert n_lb[K - 1 :] == pytest.approx((K * rate - (K - 1) * rate * rho ** (t - K))[K - 1 :])
    assert N_lb == pytest.approx(rate * t - rate * np.array([sum(rho**s for s in range(1, x)) for x in t]))


@pytest.mark.paper("eq:pC-upper-explicit", "eq:pc-infty", "eq:omega2-def")
def test_the_interval_costs_less_and_less():
    gap = c.ck_penalty_ceiling(10, 10.0, 0.9, 4000, k) - c.ck_penalty_limit(10, 10.0, 4000, k)
    assert np.all(gap[100:] >= -1e-9)
    assert gap[-1] < 0.01 * gap[100]
    assert c.omega2(10, 10.0, 0.9, 4000, k) == pytest.approx(gap.sum())


@pytest.mark.paper("eq:pc-infty", "eq:omega3-def")
def test_limit_and_omega3():
    limit = c.ck_penalty_limit(10, 10.0, 300, k)
    assert limit[-1] == pytest.approx(float(penalty(100.0, 3000.0, k)))
    shifted = BoundConstants(C2=5.0)
    assert c.omega3(10, 10.0, BUFFERS, 300, k) == pytest.approx(c.omega3(10, 10.0, BUFFERS, 300, shifted))


@pytest.mark.paper("eq:dpp-regret", "eq:omega1-def", "eq:omega-master")
def test_the_chain_adds_up():
    rng = np.random.default_rng(1)
    T, K, rate, rho = 80, 10, 10.0, 0.9
    bound, p = rng.random((3, T)) + 5, rng.random((3, T)) + 4
    oracle = c.oracle_bound(BUFFERS, T, k)
    slack = c.ck_penalty_ceiling(K, rate, rho, T, k).sum() - p.sum(axis=-1)  # what Lemma 1 bounds by B·T/V
    chain = c.omega_master(c.omega1(bound, p), c.omega2(K, rate, rho, T, k), c.omega3(K, rate, BUFFERS, T, k), 0.0, T, 1.0)
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


@pytest.mark.paper("eq:optimal-K", "cor:optimal-k")
@pytest.mark.parametrize("scale", [1, 2, 4])
def test_the_papers_systems_have_K_10(scale):
    for point in c.optimal_K(5.5, BUFFERS * scale, 55.0 * scale):
        assert point == c.Benchmark(10, 10.0 * scale)


@pytest.mark.paper("eq:optimal-K", "cor:optimal-k", "eq:ck-cost-constraint", "eq:ck-buffer-constraint")
@given(st.floats(0.1, 50), st.lists(st.integers(1, 50), min_size=1, max_size=8), st.floats(0.1, 1000))
def test_both_branches_are_feasible_and_use_something_up(mean_price, buffers, budget):
    up, down = c.optimal_K(mean_price, buffers, budget)
    assert 0 <= up.K - down.K <= 1
    for point in (up, down):
        used = max(mean_price * point.rate / budget, point.K * point.rate / sum(buffers))  # the larger part of both limits
        assert used == pytest.approx(1.0, abs=1e-12)


def test_claimed_rates():
    assert c.claimed_rates(0.5, 0.25) == c.Rates(regret=0.5, cost_violation=0.75)
    assert c.claimed_rates(0.8, 0.4) == pytest.approx((0.4, 0.9))
    with pytest.raises(SettingError, match=r"gamma = 1"):
        c.claimed_rates(1.0, 0.5)
