import numpy as np
import pytest

from headgate.theory import recursion as r
from headgate.theory.bound import BoundConstants, gradient_mismatch


@pytest.mark.paper("eq:memory-proportional-weight")
def test_weights_follow_memory_and_an_empty_round_weighs_nothing():
    weights = r.memory_proportional_weight([0.2, 0.3, 0.5], [[10, 0, 4], [0, 0, 0]])
    assert weights[0] == pytest.approx([0.5, 0.0, 0.5])
    assert weights[1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.paper("eq:cum-excess-risk")
def test_excess_risk_is_the_mean_over_runs_summed_over_rounds():
    assert r.cumulative_excess_risk([[3.0, 2.0], [5.0, 2.0]], least_risk=1.0) == pytest.approx(3.0 + 1.0)


@pytest.mark.paper("eq:C1C2-def")
def test_local_constants_by_hand():
    constants = r.local_constants(G=2.0, L=3.0, D=5.0, E=2)
    assert pytest.approx(2 * (10 + 30 * 1.0)) == constants.C1
    assert pytest.approx(4 * 9 * 4 * 0.5) == constants.C2


@pytest.mark.paper("eq:opt-recursion-app", "prop:Ropt-bound-app", "eq:Ropt-bound-app", "eq:opt-step-app")
def test_the_recursion_telescopes_into_the_bound():
    eta, D = 0.1, 4.0
    c = r.local_constants(G=1.5, L=0.7, D=D, E=10)
    rng = np.random.default_rng(0)
    mismatch = rng.random(30)
    gap = rng.random(30) * 0.01
    distance = D**2
    for sigma2, g in zip(mismatch, gap, strict=True):
        distance = r.distance_recursion(distance, g, sigma2, eta, D, c)
    # Σ gap = (D² − ‖θ^{T+1} − θ*‖² + …)/2η: the bound leaves out only the last distance
    assert gap.sum() + distance / (2 * eta) == pytest.approx(float(r.optimisation_bound(mismatch, eta, D, c)))


@pytest.mark.paper("eq:Ropt-Neff-app")
def test_with_the_effective_sample_size_it_is_the_sum_in_theorem_1():
    k = BoundConstants(D=4.0, sigma=3.0, eta=0.1)
    n, n_eff = np.array([10.0, 20.0]), np.array([15.0, 60.0])
    c = r.local_constants(G=1.0, L=1.0, D=k.D, E=3)
    uneven = 1 / n - 1 / n_eff
    expected = k.D**2 / 0.2 + (12 * uneven**0.5 + 0.9 * uneven).sum() + 2 * (0.1 * c.C1 + 0.001 * c.C2) / 2
    assert r.optimisation_bound(gradient_mismatch(n, n_eff, k), k.eta, k.D, c) == pytest.approx(expected)
