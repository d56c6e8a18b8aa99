from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headgate.theory.bound import generalisation_gap, gradient_mismatch, learning_error, mismatch
from headgate.theory.recursion import local_constants, optimisation_bound
from headgate.theory.reuse import effective_sample_size
from studies.theory.population import (
    Extremes,
    Population,
    estimate_constants,
    exact_mismatch,
    gradients,
    risk,
    smoothness,
)


def on_axes(lengths):
    """One image along each axis, without a bias: E[x·xᵀ] is diagonal."""
    n = len(lengths)
    weight = torch.full((n,), 1 / n, dtype=torch.float64)
    return Population(torch.diag(torch.tensor(lengths)), torch.arange(n) % 2, weight, 2)


def test_smoothness_of_a_known_problem():
    population = on_axes([3.0, 1.0])
    assert smoothness([population]) == pytest.approx(9 / 2 / 2)
    assert smoothness([population, on_axes([4.0, 1.0])]) == pytest.approx(4.0)
    # two classes: the curvature at zero along the steepest direction (u, −u)/√2 reaches it
    step, matrix = 1e-2, torch.zeros(3, 2, 2)
    for i, s in enumerate((-step, 0.0, step)):
        matrix[i, 0, 0], matrix[i, 1, 0] = s / sqrt(2), -s / sqrt(2)
    flat = torch.cat([matrix[:, :, :-1].flatten(1), matrix[:, :, -1]], dim=1).double()
    wide = Population(population.features.double(), population.labels, population.weight, 2)
    low, middle, high = risk(wide, flat).mean
    assert (low - 2 * middle + high) / step**2 == pytest.approx(9 / 2 / 2, rel=1e-3)


def test_variance_of_a_known_problem():
    # at zero softmax − label is (∓½, ±½), so ∇ℓ is ±½·(x, −x): its squared norm is ‖x‖²/2
    spread = gradients(on_axes([3.0, 1.0]), torch.zeros(1, 4))
    assert spread.largest[0] == pytest.approx(3 / sqrt(2))
    assert spread.variance[0] == pytest.approx((9 + 1) / 2 / 2 - (9 + 1) / 2 / 4)


def test_the_constants_are_the_extremes_that_were_seen():
    seen = Extremes(distance=2.0, variance=9.0, gradient=5.0, loss=7.0, radius=1.5)
    c = estimate_constants(seen, L=4.0, eta=0.1, steps=10, rounds=50, pdim=30.0)
    assert (c.bound.D, c.bound.sigma, c.bound.loss, c.bound.eta, c.bound.pdim) == (2.0, 3.0, 7.0, 0.1, 30.0)
    assert (c.L, c.G) == (4.0, 5.0)
    assert c.without_C2().C2 == 0.0
    # with its C_2 Theorem 1 is the proof's optimisation bound and the generalisation gap, nothing twice and nothing lost
    n, N, uniform = np.full(50, 20.0), 20.0 * np.arange(2, 52), 0.9
    total = learning_error(n, N, uniform, c.bound).sum()
    optimisation = optimisation_bound(gradient_mismatch(n, N * uniform, c.bound), 0.1, 2.0, local_constants(5.0, 4.0, 2.0, 10))
    assert total == pytest.approx(optimisation + generalisation_gap(N, uniform, c.bound).sum())


def k_step_uses(admitted, K):
    """(use counts, which samples are in memory) after every round."""
    entered = np.repeat(np.arange(len(admitted)), admitted)
    for t in range(len(admitted)):
        age = t - entered + 1
        yield np.clip(age, 0, K), (age >= 1) & (age <= K)


@given(admitted=st.lists(st.integers(1, 6), min_size=1, max_size=15), K=st.integers(1, 6))
def test_the_exact_mismatch_from_counts(admitted, K):
    n, n_eff, expected = [], [], []
    for uses, held in k_step_uses(admitted, K):
        n.append(held.sum())
        n_eff.append(effective_sample_size(uses.sum(), (uses**2).sum()))
        expected.append(((uses / uses.sum() - held / held.sum()) ** 2).sum())
    assert exact_mismatch(n, n_eff) == pytest.approx(np.array(expected), abs=1e-12)


def test_the_variance_step_of_the_proof_fails_by_counter_example():
    """Two samples, the first used twice: weights 2/3, 1/3 against memory's 1/2, 1/2. N_eff = 9/5 < n = 2 allows nothing."""
    n, n_eff = np.array([1.0, 2.0]), np.array([1.0, 9 / 5])
    assert mismatch(n, n_eff)[1] == 0.0
    assert exact_mismatch(n, n_eff)[1] == pytest.approx(2 * (1 / 6) ** 2)
    draws = np.random.default_rng(0).standard_normal((100_000, 2))  # independent gradients of variance one
    gap = draws @ np.array([2 / 3, 1 / 3]) - draws.mean(axis=1)
    assert (gap**2).mean() == pytest.approx(1 / 18, rel=0.03)


def test_fresh_samples_every_round_meet_the_variance_step_exactly():
    n, n_eff = np.full(20, 5.0), 5.0 * np.arange(1, 21)
    assert exact_mismatch(n, n_eff) == pytest.approx(mismatch(n, n_eff), abs=1e-15)
