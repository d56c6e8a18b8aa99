"""Where the paper's text cannot be taken literally: each erratum of docs/paper.md that can be shown by a number."""

import numpy as np
import pytest

from headgate.control.policies.drift.argmin import Objective, argmin_on
from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, mismatch, penalty, penalty_curvature, penalty_slope
from headgate.theory.drift import admission_interval, drift_constant
from headgate.theory.reuse import ck_uniformity, kstep_uniformity

k = BoundConstants()


@pytest.mark.paper("eq:vck-exact")
def test_1_the_printed_uniformity_of_constant_admission_is_wrong():
    K, t = 5, 20
    printed = (K * t - K * (K - 1) / 2) ** 2 / (t * (K**2 * t - K * (K - 1) * (2 * K - 1) / 6))
    definition = kstep_uniformity(np.ones(t), K)[-1]
    assert round(float(definition), 5) == 0.94186
    assert round(printed, 5) == 0.86170
    assert float(ck_uniformity(K, t)) == pytest.approx(float(definition), rel=1e-14)


def test_3_the_printed_pseudo_dimension_term_rewards_fewer_samples_below_pdim():
    def printed(N):
        return 10 * k.loss * np.sqrt(k.pdim / N) * np.sqrt(1 + np.log(N / k.pdim))

    assert printed(50.0) < printed(100.0)
    with np.errstate(invalid="ignore"):
        assert np.isnan(printed(k.pdim / np.e - 1))
    assert penalty(50.0, 50.0, k) == penalty(100.0, 100.0, k)


def test_5_the_objective_can_have_two_minima_and_the_nearer_one_can_be_wrong():
    kept, seen, V, pull = 20.0, 60.0, 1.0, 12.0

    def slope(x):
        return pull + V * penalty_slope(kept + x, seen + x, k)

    x = np.linspace(0.01, 400, 200_001)
    falling = np.flatnonzero((slope(x)[:-1] < 0) & (slope(x)[1:] >= 0))
    assert len(falling) == 2
    values = pull * x + V * penalty(kept + x, seen + x, k)
    objective = Objective(
        lambda x: pull * x + V * penalty(kept + x, seen + x, k),
        slope,
        lambda x: penalty_curvature(kept + x, seen + x, k),
        (np.array([k.pdim - seen]), np.array([k.pdim * 1.7308 - seen])),
    )
    best = argmin_on(objective, np.array([0.01]), np.array([400.0]))
    assert objective.value(best)[0] <= values.min() + 1e-9
    assert abs(x[falling[0]] - x[falling[1]]) > 50


@pytest.mark.paper("eq:optimal-K")
def test_7_the_floor_of_corollary_2_overspends_with_saturated_buffers():
    buffers, budget, mean_price = [100], 60.0, 5.5
    _, down = c.optimal_K(mean_price, buffers, budget)
    assert down.K == 9
    assert mean_price * sum(buffers) / down.K > budget  # as printed
    assert mean_price * down.rate == pytest.approx(budget)  # as corrected


@pytest.mark.paper("eq:omega-master")
def test_10_the_sign_of_omega_1():
    """With the paper's −Ω_1 the chain's ceiling can lie below the regret it is to bound."""
    T, K, rate, rho = 50, 10, 10.0, 0.9
    oracle = c.oracle_bound([100], T, k)
    p = c.ck_penalty_ceiling(K, rate, rho, T, k)  # a policy that meets Lemma 1 with equality
    bound = p + 1000.0  # and pays for uneven reuse
    others = c.omega2(K, rate, rho, T, k) + c.omega3(K, rate, [100], T, k)
    omega1 = float(c.omega1(bound, p))
    assert -omega1 + others < c.regret(bound, oracle)
    assert c.omega_master(omega1, c.omega2(K, rate, rho, T, k), c.omega3(K, rate, [100], T, k), 0.0, T, 1.0) == pytest.approx(
        float(c.regret(bound, oracle))
    )


@pytest.mark.paper("eq:nc-Nc")
def test_11_what_is_kept_is_counted_from_the_round_before():
    admitted, K, rate = [7, 3, 5, 11], 2, 10
    n = [7, 10, 8, 16]  # sums of the last two
    t = 3  # the last round, where the server switches to Λ̄
    assert c.comparison_counts(kept=admitted[t - 1], distinct=15, rate=rate)[0] == n[t - 1] - admitted[t - K] + rate
    assert n[t] - admitted[t - K] + rate != admitted[t - 1] + rate  # as printed it counts Λ(t) as well


@pytest.mark.paper("eq:pC-upper", "eq:pC-upper-explicit")
def test_12_the_penalty_does_not_fall_with_N_and_the_ceiling_can_be_too_low():
    assert penalty(100.0, 2000.0, BoundConstants(loss=0.0)) > penalty(100.0, 200.0, BoundConstants(loss=0.0))
    K, rate, rho, T = 10, 10.0, 0.9, 25
    lo, hi = admission_interval(np.arange(1, T + 1), rate, rho)
    admitted = np.where(np.arange(T) < 3, hi, lo)  # generous for three rounds, then as little as allowed
    n, N = c.comparison_counts(admitted[T - K : T - 1].sum(), admitted[: T - 1].sum(), rate)
    mismatch_only = BoundConstants(loss=0.0)
    assert penalty(n, N, mismatch_only) > c.ck_penalty_ceiling(K, rate, rho, T, mismatch_only)[-1]


def test_13_the_drift_constant_grows_as_the_interval_opens():
    first = [float(drift_constant(10 * admission_interval(1, 10.0, 1 - eps)[1], 55.0)) for eps in (1e-1, 1e-2, 1e-3)]
    assert np.diff(np.log10(first)) == pytest.approx([2, 2], abs=0.1)  # (1−ρ)^{-2}


@pytest.mark.paper("eq:omega3-def")
def test_14_omega_3_grows_like_the_root_of_T_not_like_its_logarithm():
    values = [c.omega3(10, 10.0, [100], T, k) for T in (10**4, 10**5, 10**6)]
    ratios = np.divide(values[1:], values[:-1])
    assert np.all(ratios > 10**0.5)  # a logarithm would grow by 1.25 and 1.2
    only_mismatch = [c.omega3(10, 10.0, [100], T, BoundConstants(loss=0.0)) for T in (10**4, 10**5, 10**6)]
    assert np.divide(only_mismatch[1:], only_mismatch[:-1]) == pytest.approx([1.25, 1.2], abs=0.1)  # the part that does


@pytest.mark.paper("eq:ck-bound-detail", "eq:pC-upper-explicit")
def test_15_before_round_K_the_printed_formulas_have_no_value():
    K, rate, t = 10, 10.0, 3
    assert 1 / (rate * K) - 1 / (rate * t) < 0  # under the root of eq:ck-bound-detail
    assert rate * (1 - 0.9 ** (t - K)) < 0  # Λ_min(t − K)
    assert np.all(np.isfinite(c.ck_bound(K, rate, t, k)))
    assert np.all(np.isfinite(c.ck_penalty_ceiling(K, rate, 0.9, t, k)))


def test_16_the_appendix_divides_by_zero_at_one_over_one_minus_rho():
    rho = 0.9
    values = [(1 - rho) * t**2 - t for t in (5, 10, 20)]
    assert values[0] < 0
    assert values[1] == pytest.approx(0, abs=1e-12)
    assert values[2] > 0


@pytest.mark.paper("eq:ck-bound-detail", "eq:kstep-opt-problem")
def test_18_below_pdim_the_bound_favours_staleness():
    """Fewer distinct samples make 1/n − 1/N_eff smaller, and below Pdim nothing weighs against it."""
    assert c.ck_bound(52, 6.5 / 52, 200, k).sum() < c.ck_bound(13, 6.5 / 13, 200, k).sum()  # 25 samples beat 100
    assert c.ck_bound(52, 650 / 52, 200, k).sum() > c.ck_bound(13, 650 / 13, 200, k).sum()  # well above Pdim they do not


def test_17_a_few_samples_used_for_ever_make_n_eff_smaller_than_n():
    uses = np.array([1000] + [1] * 100)
    n_eff = uses.sum() ** 2 / (uses**2).sum()
    assert n_eff < 101
    assert mismatch(101, n_eff) == 0.0
