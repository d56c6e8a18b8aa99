"""J_t(Λ) as a function of how much is admitted, and its global minimiser."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.policies.drift.argmin import Objective, argmin_on
from headgate.control.types import Floats, View
from headgate.theory import bound
from headgate.theory.drift import dpp_objective
from headgate.theory.labels import paper


class Penalty(NamedTuple):
    """A surrogate for the learning error as a function of n and N, with its derivatives along Λ."""

    value: Callable[[Floats, Floats], Floats]
    slope: Callable[[Floats, Floats], Floats]
    curvature: Callable[[Floats, Floats], tuple[Floats, Floats]]
    bend: tuple[float, float]
    """the N between which it need not be convex"""


def paper_penalty(k: bound.BoundConstants) -> Penalty:
    """eq:penalty-dpp."""
    return Penalty(
        value=lambda n, N: bound.penalty(n, N, k),
        slope=lambda n, N: bound.penalty_slope(n, N, k),
        curvature=lambda n, N: bound.penalty_curvature(n, N, k),
        bend=(k.pdim, k.pdim * bound.CONVEX_FROM),
    )


@paper("eq:dpp-policy", "eq:dpp-min-def")
def minimise_objective(view: View, V: ArrayLike, penalty: Penalty, n: Floats, N: Floats, lo: Floats, hi: Floats) -> Floats:
    """argmin of J_t(Λ) = Z·(c·Λ − C) + V·p(n + Λ, N + Λ) over lo ≤ Λ ≤ hi, for every run."""
    weight = np.asarray(V, dtype=np.float64)
    pull = view.debt * view.one_price()

    def value(x: Floats) -> Floats:
        return dpp_objective(view.debt, view.one_price(), x, view.system.budget, weight, penalty.value(n + x, N + x))

    def slope(x: Floats) -> Floats:
        return pull + weight * penalty.slope(n + x, N + x)

    def curvature(x: Floats) -> tuple[Floats, Floats]:
        convex, bent = penalty.curvature(n + x, N + x)
        return weight * convex, weight * bent

    stretch = (penalty.bend[0] - N, penalty.bend[1] - N)
    return argmin_on(Objective(value, slope, curvature, stretch), lo, hi)
