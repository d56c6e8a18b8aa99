import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.theory import drift

money = st.floats(0, 1e4)


@pytest.mark.paper("eq:Z-update", "eq:lyapunov-dpp", "eq:lyapunov-drift")
def test_debt_and_drift_by_hand():
    assert drift.debt_update([0.0, 30.0, 30.0], [10.0, 70.0, 5.0], 55.0).tolist() == [0.0, 45.0, 0.0]
    assert drift.lyapunov(4.0) == 8.0
    assert drift.drift(4.0, 6.0) == 10.0


@pytest.mark.paper("eq:dpp-objective", "eq:dpp-upper-1", "eq:dpp-upper-2", "eq:dpp-upper-anyd", "eq:J-constant")
@given(money, st.floats(0, 50), st.floats(0, 100), st.floats(0.1, 500), st.floats(0.1, 1e4), money)
def test_drift_plus_penalty_stays_below_its_bound(debt, cost, admitted, budget, V, p):
    left = drift.drift(debt, drift.debt_update(debt, cost * admitted, budget)) + V * p
    right = drift.drift_constant(cost * admitted, budget) + drift.dpp_objective(debt, cost, admitted, budget, V, p)
    assert left <= right + 1e-9 * (1 + abs(right))


@pytest.mark.paper("eq:lambda-min-max", "eq:lambda-interval")
@given(st.integers(1, 500), st.floats(0.1, 1e4), st.floats(0.01, 0.999))
def test_interval_closes_on_the_rate(t, rate, rho):
    lo, hi = drift.admission_interval(t, rate, rho)
    later_lo, later_hi = drift.admission_interval(t + 1, rate, rho)
    assert lo <= later_lo <= rate * (1 + 1e-12)
    assert hi >= later_hi >= rate * (1 - 1e-12)
    assert lo == pytest.approx(rate * (1 - rho**t), rel=1e-9)
    assert hi == pytest.approx(rate / (1 - rho**t), rel=1e-9)


@pytest.mark.paper("eq:dpp-T-slot-upper", "lem:dpp-T-slot-upper", "eq:penalty-bridge", "eq:dpp-drift-sum")
def test_t_slot_bound_by_hand():
    assert drift.t_slot_upper(5.0, 3, 10.0, [1.0, 2.0, 3.0]) == 75.0
