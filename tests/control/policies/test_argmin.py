"""The argmin is global: never worse than a grid of 20,000 points, for any state,
interval and constants.
"""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.control.policies.dpp import (
    minimise_objective,
    paper_penalty,
)
from headgate.control.types import System, View
from headgate.theory.bound import BoundConstants
from studies.zoo.released import released_penalty

GRID = 20_001


def state(debt, price, budget):
    zeros = np.zeros(1, dtype=np.int64)
    system = System(np.array([10]), budget)
    return View(
        1,
        np.array([price]),
        np.array([debt]),
        np.zeros(1),
        zeros,
        zeros,
        zeros[:, None],
        system,
        zeros,
    )


magnitudes = st.floats(-6, 6).map(lambda x: 10.0**x)
constants = st.builds(
    BoundConstants,
    D=st.one_of(st.just(0.0), magnitudes),
    sigma=st.one_of(st.just(0.0), magnitudes),
    eta=st.one_of(st.just(0.0), magnitudes),
    loss=st.one_of(st.just(0.0), magnitudes),
    pdim=st.floats(0, 4).map(lambda x: 10.0**x),
)
debts = st.one_of(st.just(0.0), magnitudes)


def samples(most):
    """None, or at least a millionth of one."""
    return st.one_of(st.just(0.0), st.floats(1e-6, most))


def compare(penalty, V, view, n, N, lo, hi):
    n, N, lo, hi = (np.array([float(x)]) for x in (n, N, lo, hi))
    best = minimise_objective(view, V, penalty, n, N, lo, hi)
    assert lo[0] <= best[0] <= hi[0]
    grid = np.linspace(lo[0], hi[0], GRID)

    def J(x):
        return view.debt * (view.price * x - view.system.budget) + V * penalty.value(
            n + x, N + x
        )

    values = J(grid)
    least = values[np.isfinite(values)].min() if np.isfinite(values).any() else np.inf
    # rounding of J itself: its parts are larger than their sum, and n + x and N + x are
    # known to their last bit alone, which is much where N − n is small beside them
    own, lower, higher = (
        float(penalty.value(a, b)[0])
        for a, b in (
            (n + best, N + best),
            (np.nextafter(n + best, 0), N + best),
            (n + best, np.nextafter(N + best, np.inf)),
        )
    )
    scale = abs(view.debt[0]) * (view.price[0] * hi[0] + view.system.budget) + V * abs(
        own
    )
    blurred = (
        V * (abs(lower - own) + abs(higher - own))
        if np.isfinite([own, lower, higher]).all()
        else 0.0
    )
    assert J(best)[0] <= least + 1e-12 * scale + 2 * blurred
    return float(best[0])


@pytest.mark.paper("eq:dpp-policy", "eq:dpp-min-def")
@settings(max_examples=150, deadline=None)
@given(
    debts, st.floats(0, 50), magnitudes, constants,
    samples(500), samples(3000), samples(500), samples(2000),
)  # fmt: skip
@example(
    1.0, 12.0, 1.0, BoundConstants(), 20.0, 40.0, 0.01, 400.0
)  # two minima, the right one better
@example(
    1.0, 13.0, 1.0, BoundConstants(), 20.0, 40.0, 0.01, 400.0
)  # two minima, the left one better
def test_never_worse_than_brute_force(debt, cost, V, k, kept, older, lo, width):
    compare(
        paper_penalty(k), V, state(debt, cost, 55.0), kept, kept + older, lo, lo + width
    )


@settings(max_examples=100, deadline=None)
@given(
    debts,
    st.floats(0, 50),
    magnitudes,
    st.floats(0.5, 300),
    samples(3000),
    st.floats(0.01, 60),
    samples(1000),
)
def test_never_worse_for_the_released_penalty(debt, cost, V, kept, older, lo, width):
    k = BoundConstants()
    compare(
        released_penalty(k),
        V,
        state(debt, cost, 55.0),
        kept,
        k.pdim + kept + older,
        lo,
        lo + width,
    )


def test_without_debt_the_largest_of_equals_is_taken():
    """N(0) = 0 and less than Pdim in sight: J is flat, and admitting costs nothing in
    it.
    """
    assert (
        compare(
            paper_penalty(BoundConstants(pdim=1e6)),
            1.0,
            state(0.0, 5.0, 55.0),
            0,
            0,
            1.0,
            100.0,
        )
        == 100.0
    )
