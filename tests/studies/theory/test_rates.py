import numpy as np
import pytest

from headgate.experiment import load
from headgate.theory.bound import penalty
from studies.theory.rates import _fit, finer, horizons, measure


@pytest.fixture(scope="module")
def rates():
    e = load("mnist", ["run.seeds=4"])
    return measure(e, e.policies["acdpp"], horizons(30, 3000), 0.5, 0.5)


@pytest.mark.paper(
    "lem:omega1-order",
    "eq:omega1-order",
    "lem:omega2-order",
    "eq:omega2-order",
    "lem:omega3-order",
    "eq:omega3-order",
)
def test_which_of_the_claimed_orders_show(rates):
    fits = {fit.quantity: fit for fit in rates.fits}
    assert fits["omega1"].exponent < 0.05
    assert fits["omega1"].holds is not False  # four horizons leave a wide interval
    assert (
        fits["omega3"].holds is False
    )  # O(log T) is claimed, the root of T is measured
    assert rates.fits[-1].exponent > 0.5
    assert [point.T for point in rates.points] == [30, 95, 300, 949, 3000]
    for point in rates.points:
        assert point.regret <= point.ceiling
        assert (point.V, point.rho) == pytest.approx((point.T**0.5, 1 - point.T**-0.5))


def test_exponents_are_found_again():
    T = np.geomspace(100, 1e5, 7)
    fit = _fit("x", T, 3 * T**0.7, "O(T^0.5)", np.sqrt)
    assert fit.exponent == pytest.approx(0.7)
    assert (fit.low, fit.high) == (pytest.approx(0.7), pytest.approx(0.7))
    assert fit.holds is False
    assert _fit("x", T, 3 * T**0.5, "O(T^0.5)", np.sqrt).holds
    noisy = 3 * T**0.5 * np.array([1, 1, 1, 1.5, 0.7, 1.4, 0.8])
    unsure = _fit("x", T, noisy, "O(T^0.5)", np.sqrt)
    assert unsure.holds is None
    assert unsure.low < 0.5 < unsure.high
    assert unsure.low < unsure.exponent < unsure.high
    assert (
        _fit("x", T, np.sqrt(T * np.log(T)), "O(log T)", np.log).holds is False
    )  # bent, but nowhere as flat as log T
    assert _fit("x", T, np.log(T), "O(log T)", np.log).holds
    assert _fit("x", T, 0 * T, "O(1)", np.ones_like).holds
    assert _fit("x", T, np.where(T > 1e4, 1.0, 0.0), "O(1)", np.ones_like).holds is None


@pytest.mark.long
def test_parts_of_a_sample_change_nothing_but_the_rounding():
    """Where whole samples are many the two agree; where they leave memory empty only
    the parts have a finite bound.
    """
    e = load("mnist", ["run.seeds=2"])
    k, fine = e.bound, finer(e, 100)
    n, N = np.array([3.0, 40.0, 90.0]), np.array([10.0, 400.0, 1000.0])
    assert penalty(100 * n, 100 * N, fine.bound) == pytest.approx(penalty(n, N, k))
    whole, parts = (
        measure(e, e.policies["acdpp"], [60, 80, 100], 0.5, 0.5, grain=grain)
        for grain in (1, 100)
    )
    for one, other in zip(whole.points, parts.points, strict=True):
        assert (one.V, one.rho) == pytest.approx((other.V, other.rho))
        assert other.regret == pytest.approx(one.regret, rel=0.02)
        assert other.lemma1 == pytest.approx(one.lemma1, rel=0.02)
        assert other.cost_violation == pytest.approx(one.cost_violation, rel=0.1)
    empty, never = (
        measure(e, e.policies["acdpp"], [300, 600, 3162], 0.1, 0.9, grain=grain)
        for grain in (1, 1000)
    )
    assert np.isinf(empty.points[-1].regret)
    assert np.isfinite(never.points[-1].regret)


def test_what_has_no_exponent_says_why():
    T = np.geomspace(100, 1000, 3)
    grows = _fit(
        "buffer_violation", T, np.array([0.0, 24.0, 329.0]), "O(1)", np.ones_like
    )
    assert (grows.exponent, grows.holds, grows.why) == (
        None,
        None,
        "none: zero at 1 of 3 horizons",
    )
    gone = _fit("buffer_violation", T, np.array([5.0, 0.0, 0.0]), "O(1)", np.ones_like)
    assert (gone.holds, gone.why) == (
        True,
        "zero at the two longest horizons: it does not grow",
    )
    assert _fit("x", T, 0 * T, "O(T^0.5)", np.sqrt).why == "zero at every horizon"
    assert "infinite" in _fit("x", T, T * np.inf, "O(1)", np.ones_like).why


@pytest.mark.parametrize(("count", "left_out"), [(7, 3), (12, 6), (3, 0)])
def test_the_longer_half_is_fitted_and_at_least_four_horizons(count, left_out):
    T = np.geomspace(100, 1e5, count)
    assert _fit(
        "x", T, np.where(np.arange(count) < left_out, 9.0, T), "O(T)", lambda T: T
    ).exponent == pytest.approx(1)
