"""Errata of Lemmas 1 to 4, Theorems 2 and 3 and the remarks. Each test fails if its erratum is untrue."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, penalty
from headgate.theory.comparison import admission_interval, debt_update
from studies.paper.errata import about_the_rates as errata

k = BoundConstants()


@pytest.mark.paper("eq:omega-master")
def test_10_the_sign_of_omega_1():
    bound, p, ceiling, limit, oracle, drift = sympy.symbols("bound p ceiling limit oracle drift")
    first, second, third = bound - p, ceiling - limit, limit - oracle  # the three definitions
    regret = (bound - oracle).subs(p, p)
    at_lemma_1 = {p: ceiling + drift}  # eq:penalty-bridge with equality
    assert sympy.simplify((first + second + third + drift - regret).subs(at_lemma_1)) == 0
    assert sympy.simplify((-first + second + third + drift - regret).subs(at_lemma_1)) != 0
    regret, minus, plus = errata.sign_of_omega_1().values()
    assert minus < regret == pytest.approx(plus)
    omegas = (50_000.0, c.omega2(10, 10.0, 0.9, 50, k), c.omega3(10, 10.0, [100], 50, k))
    assert float(c.omega_master(*omegas, constant=0.0, T=50, V=1.0)) == pytest.approx(plus)


@pytest.mark.paper("eq:pC-upper", "eq:pC-upper-explicit")
def test_12_the_penalty_does_not_fall_with_N_and_the_ceiling_can_be_too_low():
    reached, printed, mended = errata.ceiling_that_is_too_low().values()
    assert printed < reached <= mended
    assert (reached, printed) == (pytest.approx(998.9, abs=0.1), pytest.approx(919.2, abs=0.1))


@given(st.integers(1, 12), st.floats(0.5, 0.98), st.sampled_from([0.0, 10.0, 1000.0]), st.integers(0, 2**32 - 1))
def test_12_the_mended_ceiling_holds_on_every_path(K, rho, loss, seed):
    T, rate, own = 40, 10.0, BoundConstants(loss=loss)
    lo, hi = admission_interval(np.arange(1, T + 1), rate, rho)
    draw = np.random.default_rng(seed)
    admitted = np.where(draw.random(T) < 0.5, lo + (hi - lo) * draw.random(T) ** 4, np.where(draw.random(T) < 0.5, lo, hi))
    ceiling = errata.repaired_ceiling(K, rate, rho, T, own)
    for t in range(1, T + 1):
        n, N = c.comparison_counts(admitted[max(t - K, 0) : t - 1].sum(), admitted[: t - 1].sum(), rate)
        assert float(penalty(n, N, own)) <= ceiling[t - 1] * (1 + 1e-9) + 1e-9


def test_12_mending_it_leaves_the_order_of_omega_2():
    T, opened = 20_000, np.array([10.0, 100.0, 1000.0])  # 1/(1−ρ)
    mended = np.array([errata.repaired_ceiling(10, 10.0, 1 - 1 / R, T, k).sum() for R in opened])
    printed = np.array([c.ck_penalty_ceiling(10, 10.0, 1 - 1 / R, T, k).sum() for R in opened])
    limit = c.ck_penalty_limit(10, 10.0, T, k).sum()
    assert (mended - printed) / np.sqrt(opened) == pytest.approx([6500] * 3, rel=0.1)  # what it adds
    assert np.all(np.diff((mended - limit) / opened) < 0)


def test_13_the_drift_constants_of_all_rounds_grow_like_T_to_the_2_phi():
    small, large = errata.drift_constants_in_all().values()
    assert small <= 1.01
    assert large == pytest.approx(1.8, abs=0.02)


@pytest.mark.paper("eq:omega3-def", "lem:omega3-order")
def test_14_omega_3_grows_like_the_root_of_T_not_like_its_logarithm():
    ratio, root, logarithm, mismatches, for_one, least, most = errata.growth_of_omega_3().values()
    assert ratio == pytest.approx(root, rel=0.06)
    assert ratio > 10**0.5 > logarithm
    assert mismatches == pytest.approx(logarithm, abs=0.02)  # the part that does grow so
    assert for_one == 0
    assert most < 0 < least  # φ = 0.9: either sign


def test_16_the_appendix_divides_by_zero_at_one_over_one_minus_rho():
    before, at, after = errata.a_divisor_below_zero().values()
    assert before < 0 == at < after


@pytest.mark.paper("thm:dpp-cost-constraint")
def test_21_the_violation_grows_faster_than_the_remark_allows():
    *over, exponent, claimed, last, floor = errata.growth_of_the_violation().values()
    assert exponent > claimed + 0.2
    assert np.all(np.diff(np.divide(over, np.power([125, 500, 2000], claimed))) > 0)
    assert last > floor


def test_21_the_path_is_that_of_the_rule():
    """The first round takes Λ_max, blind to its cost; every Λ minimises J on its interval, and Z is the replay of it."""
    T, rate, rho, V = 60, 10.0, 0.95, 30.0
    price = np.random.default_rng(3).uniform(1, 10, (1, T))
    path = errata.acdpp_path(price, np.array([T]), 10, rate, np.array([rho]), np.array([V]), 55.0, k)
    debt = np.zeros(1)
    for t in range(1, T + 1):
        lo, hi = admission_interval(t, rate, rho)
        grid = np.linspace(float(lo), float(hi), 5001)
        kept, N = path.admitted[0, max(t - 10, 0) : t - 1].sum(), 2 * k.pdim + path.admitted[0, : t - 1].sum()

        def J(x, kept=kept, N=N, pull=debt[0] * price[0, t - 1]):
            return pull * x + V * penalty(kept + x, N + x, k)

        assert lo - 1e-6 <= path.admitted[0, t - 1] <= hi + 1e-6
        assert J(path.admitted[0, t - 1]) <= J(grid).min() * (1 + 1e-9)
        debt = debt_update(debt, price[:, t - 1] * path.admitted[:, t - 1], 55.0)
    assert path.admitted[0, 0] == pytest.approx(rate / (1 - rho), rel=1e-6)
    assert path.debt == pytest.approx(debt)


@pytest.mark.paper("thm:dpp-regret", "thm:dpp-cost-constraint")
def test_22_rules_that_know_nothing_stay_below_both_ceilings():
    regret, most_regret, over, most_over = errata.any_rule_inside().values()
    assert 0 < regret < most_regret
    assert 0 < over < most_over


@pytest.mark.paper("lem:dpp-T-slot-upper")
def test_28_lemma_1_fails_where_prices_are_feasible_on_average_only():
    slack, left, right, over = errata.feasible_on_average_only().values()
    assert slack == pytest.approx(0, abs=1e-9)
    assert left > 5 * right
    assert over < 1  # what the queue was to show holds nevertheless


@pytest.mark.paper("lem:omega1-order", "lem:omega2-order")
def test_29_lemmas_2_and_3_differ_by_more_than_one_over_t_squared_and_sum_all_the_same():
    shown = list(errata.roots_are_not_lipschitz().values())
    assert all(x > 10 for x in shown[::2])
    assert shown[1::2] == pytest.approx([1, 1], abs=0.1)


@pytest.mark.paper("eq:omega1-def")
def test_30_omega_1_as_defined_has_C2_in_every_round():
    with_it, without = errata.constants_on_one_side().values()
    assert with_it - without == pytest.approx(1000)


@pytest.mark.paper("eq:dpp-regret")
def test_32_each_bound_is_linear_in_T_while_the_regret_is_not():
    Ts = [10**4, 10**5, 10**6]
    oracle, own = (
        np.array([f(T).sum() for T in Ts])
        for f in (lambda T: c.oracle_bound([100], T, k), lambda T: c.ck_bound(10, 10.0, T, k))
    )
    limit = k.D * k.sigma / 10 + k.eta * k.sigma**2 / 100
    for bound in (oracle, own):
        assert np.all(bound / Ts > limit)
        assert bound[-1] / Ts[-1] < 1.25 * limit
    assert np.all(np.diff((own - oracle) / Ts) < 0)
    assert (own - oracle)[-1] / (own - oracle)[0] < 20  # where T grows a hundredfold
    *shown, slope, _, _ = errata.two_upper_bounds().values()
    assert slope == limit
    assert shown == pytest.approx([oracle[0] / Ts[0], own[0] / Ts[0], oracle[2] / Ts[2], own[2] / Ts[2]])


def test_32_risks_can_differ_by_an_amount_that_is_linear_in_T():
    """The quadratic example, played: 100 places, 100 or 10 new samples a round."""
    *_, fresh, kept = errata.two_upper_bounds().values()
    draw, runs, rounds = np.random.default_rng(0), 400, 300
    for new, keep, expected in ((100, 1, fresh), (10, 10, kept)):
        means = draw.choice([-0.5, 0.5], (runs, rounds, new)).mean(axis=-1)
        memory = np.stack([means[:, t : rounds - keep + 1 + t] for t in range(keep)]).mean(axis=0)
        theta, risks = np.zeros(runs), []
        for mean in memory.T:
            theta = theta - 0.1 * (theta - mean)
            risks.append((theta**2 / 2).mean())
        early, late = np.mean(risks[100:180]), np.mean(risks[180:])
        assert [early, late] == pytest.approx([expected] * 2, rel=0.15)  # the same in every late round: linear in all
    assert kept > 5 * fresh


@pytest.mark.paper("lem:omega1-order")
def test_34_omega_1_grows_where_rho_goes_to_one():
    shown = list(errata.omega_1_by_rho().values())
    opened, fixed = shown[::2], shown[1::2]
    assert opened[1] < 0 < opened[0]
    assert opened[2] < 5 * opened[1]
    assert np.ptp(fixed) < 0.05 * fixed[-1]


@pytest.mark.paper("eq:pC-upper-explicit", "lem:omega2-order")
def test_35_both_ends_of_the_interval_add_more_than_the_root_of_R_and_less_than_R():
    shown = np.reshape(list(errata.two_ends_in_one_term().values()), (3, 3))  # R by what is shown
    over_R, over_root, largest = shown.T
    assert np.all(np.diff(over_R) < 0)
    assert np.all(np.diff(over_root) > 0)
    assert np.all(np.diff(largest) > 5000)  # no uniform bound
