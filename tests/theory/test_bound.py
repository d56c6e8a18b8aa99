import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.theory.bound import (
    CONVEX_FROM,
    BoundConstants,
    generalisation_gap,
    learning_error,
    memory_proportional_weight,
    mismatch,
    penalty,
    penalty_curvature,
    penalty_slope,
)

K = BoundConstants(D=3.0, sigma=2.0, eta=0.5, loss=4.0, pdim=20.0, C2=7.0)
counts = st.tuples(st.integers(1, 500), st.integers(0, 5000)).map(
    lambda x: (float(x[0]), float(x[0] + x[1]))
)


@pytest.mark.paper(
    "eq:cum-regret-bound_detail", "eq:cum-regret-bound", "thm:regret-neff"
)
def test_theorem_1_by_hand():
    # n = 10, N = 50, Ṽ = 0.8: N_eff = 40, 1/n − 1/N_eff = 0.075
    expected = (
        3 * 2 * 0.075**0.5
        + 0.5 * 4 * 0.075
        + 10 * 4 * (20 / 40) ** 0.5 * (1 + np.log(50 / 20)) ** 0.5
        + 7
    )
    assert learning_error(10, 50, 0.8, K) == pytest.approx(expected, rel=1e-14)


@pytest.mark.paper("eq:penalty-dpp")
@given(counts)
def test_penalty_is_theorem_1_with_even_reuse_and_no_constant(pair):
    n, N = pair
    assert penalty(n, N, K) == pytest.approx(
        float(learning_error(n, N, 1.0, K)) - K.C2, rel=1e-12
    )


def test_mismatch_does_not_cancel():
    assert float(mismatch(1e9, 1e9 + 1)) == pytest.approx(
        1e-18, rel=1e-6
    )  # 1/n − 1/N would lose every digit
    assert float(mismatch(10, 10)) == 0.0
    assert float(mismatch(10, 4)) == 0.0  # reuse so uneven that N_eff < n
    assert np.isinf(mismatch(0, 10))
    assert np.isinf(mismatch(0, 0))


@pytest.mark.paper("eq:gen-gap-Neff-app", "lem:gen-Neff-app", "eq:gen-final-proof")
def test_generalisation_gap_is_continued_below_pdim():
    assert generalisation_gap([1, 5, 20], 1.0, K) == pytest.approx([40.0, 40.0, 40.0])
    N = np.linspace(1, 400, 1000)
    assert np.all(np.diff(generalisation_gap(N, 1.0, K)) <= 0)
    assert generalisation_gap(50.0, 0.25, K) == pytest.approx(
        2 * float(generalisation_gap(50.0, 1.0, K))
    )


@given(counts, st.floats(0.01, 3.0))
def test_slope_and_curvature_are_the_derivatives(pair, step):
    n, N = pair
    n, N = n + step, N + step
    if abs(N - K.pdim) < 0.1:  # the curvature jumps there
        return
    h = 1e-4 * n
    numeric = (penalty(n + h, N + h, K) - penalty(n - h, N - h, K)) / (2 * h)
    assert float(penalty_slope(n, N, K)) == pytest.approx(
        float(numeric), rel=1e-5, abs=1e-7
    )
    if min(abs(N - h - K.pdim), abs(N + h - K.pdim)) > 0.1 or (K.pdim < N) == (
        N - h > K.pdim
    ) == (N + h > K.pdim):
        numeric = (penalty_slope(n + h, N + h, K) - penalty_slope(n - h, N - h, K)) / (
            2 * h
        )
        convex, bent = penalty_curvature(n, N, K)
        assert convex >= 0
        assert float(convex + bent) == pytest.approx(float(numeric), rel=1e-4, abs=1e-7)


def test_the_pseudo_dimension_term_turns_convex_where_it_says():
    at = K.pdim * np.array([1.0, CONVEX_FROM * 0.999, CONVEX_FROM * 1.001])
    _, bent = penalty_curvature(at, at, K)
    assert (bent < 0).tolist() == [True, True, False]


def test_the_curvature_ratio_is_log_convex():
    """What makes the argmin exact (studies/paper/argmin.md): log(convex/−bent) is
    convex on the bend, for any n ≤ N.
    """
    N = np.linspace(K.pdim, K.pdim * CONVEX_FROM * 0.9995, 4000)
    for behind in (0.001, 0.5, 5.0, 15.0, 19.99):
        for constants in (
            K,
            BoundConstants(D=0.0, pdim=20.0),
            BoundConstants(eta=0.0, pdim=20.0),
        ):
            convex, bent = penalty_curvature(N - behind, N, constants)
            ratio = np.log(convex) - np.log(-bent)
            assert np.all(np.diff(ratio, 2) > -1e-9)


@pytest.mark.parametrize(
    "name", ["D", "sigma", "eta", "eta_tilde", "loss", "pdim", "C2"]
)
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e16, 1e-200])
def test_constants_are_refused_by_name(name, value):
    """1e16 and 1e-200: no square or inverse stands them."""
    says = (
        r"must not be beyond 1e\+15, nor below 1e-100 unless 0"
        if 0 < value < np.inf
        else "must be a finite number"
    )
    with pytest.raises(SettingError, match=rf"^{name} = .*: {says}"):
        BoundConstants(**{name: value})
    if name == "pdim":
        with pytest.raises(SettingError, match=r"pdim = 0"):
            BoundConstants(pdim=0)
    else:
        assert getattr(BoundConstants(**{name: 0.0}), name) == 0


def test_next_to_nothing_is_worth_everything_without_a_warning():
    assert float(penalty_slope(1e-160, 2e-160, K)) == -np.inf


@pytest.mark.paper("eq:memory-proportional-weight")
def test_weights_follow_memory_and_an_empty_round_weighs_nothing():
    weights = memory_proportional_weight([0.2, 0.3, 0.5], [[10, 0, 4], [0, 0, 0]])
    assert weights[0] == pytest.approx([0.5, 0.0, 0.5])
    assert weights[1].tolist() == [0.0, 0.0, 0.0]
