import numpy as np
import pytest

from headgate.control import System
from headgate.control.policies import Acdpp, Constant, Headgate
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.control.retention import Reservoir
from headgate.testing import a_system
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import (
    admission_interval,
    buffer_violation,
    cost_violation,
)
from studies.paper.theory import (
    ck_penalty_ceiling,
    drift_constant,
    lyapunov,
    omega1,
    omega2,
    omega3,
    omega_master,
    t_slot_upper,
)

k = BoundConstants()
MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)


def test_columns_replay_each_other():
    result = rehearse(MNIST, Acdpp(rate=10, K=10), Uniform(1, 10), np.arange(6), 100)
    assert result.spend == pytest.approx(result.price * result.admitted)
    assert np.array_equal(result.N, np.cumsum(result.admitted, axis=-1))
    assert np.array_equal(result.n[:, 10:], (result.N[:, 10:] - result.N[:, :-10]))
    debt = np.zeros(6)
    for t in range(100):
        assert np.array_equal(result.debt[:, t], debt)
        debt = np.maximum(debt + result.spend[:, t] - 55.0, 0.0)
    assert result.cost_violation() == pytest.approx(cost_violation(result.spend, 55.0))
    assert result.buffer_violation() == pytest.approx(
        buffer_violation(result.occupancy, MNIST.buffer, 100)
    )
    assert np.array_equal(result.occupancy.sum(axis=-1), result.n.sum(axis=-1))
    assert np.array_equal(
        (result.peak_occupancy - MNIST.buffer).max(axis=-1),
        result.peak_excess.max(axis=-1),
    )


def test_samples_that_were_never_trained_on_are_not_counted():
    result = rehearse(
        a_system(), Headgate(rule=Reservoir()), Uniform(1, 10), np.arange(2), 15
    )
    assert np.array_equal(result.N[:, -1], result.ledger.distinct)
    assert np.all(result.N[:, -1] < result.admitted.sum(axis=-1))
    assert np.all(result.n_eff[:, -1] <= result.N[:, -1] + 1e-9)


def test_prices_do_not_depend_on_the_block_they_are_fetched_in(monkeypatch):
    one = rehearse(
        a_system(90), Constant(rate=3, K=4), Uniform(1, 10), np.arange(3), 90
    )
    monkeypatch.setattr("headgate.control.rehearse.BLOCK", 7)
    other = rehearse(
        a_system(90), Constant(rate=3, K=4), Uniform(1, 10), np.arange(3), 90
    )
    assert np.array_equal(one.price, other.price)


@pytest.mark.paper("lem:dpp-T-slot-upper", "eq:dpp-T-slot-upper", "eq:omega-master")
@pytest.mark.parametrize("rho", [0.8, 0.9, 0.95])
def test_lemma_1_and_the_chain_hold_in_a_rehearsal(rho):
    """E[L(T+1) − L(1)] + V·ΣE[p] ≤ ΣB_t + V·Σp̄^CK, with each round's own drift
    constant, and what follows from it.
    """
    T, V, rate, K = 100, 10.0, 10.0, 10
    result = rehearse(
        MNIST, Acdpp(rate=rate, K=K, V=V, rho=rho), Uniform(1, 10), np.arange(40), T
    )
    _, hi = admission_interval(np.arange(1, T + 1), rate, rho)
    constant = drift_constant(10.0 * hi, 55.0).mean()
    comparison = ck_penalty_ceiling(K, rate, rho, T, k)
    gained = (
        lyapunov(result.ledger.debt).mean() + V * result.penalty(k).sum(axis=-1).mean()
    )
    assert gained <= t_slot_upper(constant, T, V, comparison)
    regret = result.regret(k).mean()
    parts = (
        omega1(result.bound(k), result.penalty(k)).mean(),
        omega2(K, rate, rho, T, k),
        omega3(K, rate, MNIST.buffer, T, k),
    )
    assert regret <= omega_master(*parts, constant=constant, T=T, V=V)


def test_empty_rounds_have_an_infinite_bound_and_nothing_breaks():
    result = rehearse(
        a_system(), Constant(rate=0.4, K=1), Uniform(1, 10), np.arange(2), 10
    )
    empty = result.n == 0
    assert empty.any()
    assert np.all(np.isinf(result.bound(k)[empty]))
    assert np.all(np.isfinite(result.bound(k)[~empty]))
    assert np.all(result.uniformity[result.N == 0] == 1.0)
