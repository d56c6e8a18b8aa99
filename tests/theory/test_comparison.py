import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.controller import debt_update
from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, learning_error
from studies.paper.theory import kstep_uniformity

k = BoundConstants()
BUFFERS = np.array([8, 9, 10, 11, 12] * 2)


money = st.floats(0, 1e4)


@pytest.mark.paper("eq:Z-update")
def test_debt_by_hand():
    assert debt_update([0.0, 30.0, 30.0], [10.0, 70.0, 5.0], 55.0).tolist() == [
        0.0,
        45.0,
        0.0,
    ]


@pytest.mark.paper("eq:lambda-min-max", "eq:lambda-interval")
@given(st.integers(1, 500), st.floats(0.1, 1e4), st.floats(0.01, 0.999))
def test_interval_closes_on_the_rate(t, rate, rho):
    lo, hi = c.admission_interval(t, rate, rho)
    later_lo, later_hi = c.admission_interval(t + 1, rate, rho)
    assert lo <= later_lo <= rate * (1 + 1e-12)
    assert hi >= later_hi >= rate * (1 - 1e-12)
    assert lo == pytest.approx(rate * (1 - rho**t), rel=1e-9)
    assert hi == pytest.approx(rate / (1 - rho**t), rel=1e-9)


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
