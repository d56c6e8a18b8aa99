"""The global minimum of a one-dimensional objective on an interval, for all runs at once.

The objective is convex outside one stretch. Inside it, its curvature is a positive part plus a
part that starts negative and rises to zero, and their ratio is log-convex. (For the paper's penalty the
stretch is Pdim ≤ N ≤ 1.73·Pdim; studies/paper/argmin.md has the proof.) So the curvature changes sign at most
twice, the objective has at most two local minima, and one lies on each side of the concave part: finding
that part and minimising the two convex sides is exact.

Rows stop on their own, never because of their neighbours: a run gives the same bits in every batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headgate.control.types import Floats

Function = Callable[[Floats], Floats]
GOLDEN = (5.0**0.5 - 1.0) / 2.0


class Objective(NamedTuple):
    """J as a function of x (R,), with what is needed to minimise it."""

    value: Function
    slope: Function
    curvature: Callable[[Floats], tuple[Floats, Floats]]
    """its never negative part, and the rest"""
    bend: tuple[Floats, Floats]
    """the stretch outside which the objective is convex, (R,) each"""


def argmin_on(objective: Objective, lo: Floats, hi: Floats) -> Floats:
    """The minimiser on [lo, hi]; the larger one where two are equally good."""
    start, end = (np.minimum(np.maximum(edge, lo), hi) for edge in objective.bend)
    if not (start < end).any():
        return convex_argmin(objective, lo, hi)
    left_end, right_start = concave_part(objective, start, end)
    left = convex_argmin(objective, lo, left_end)
    right = convex_argmin(objective, right_start, hi)
    return np.where(objective.value(right) <= objective.value(left), right, left)


def convex_argmin(objective: Objective, lo: Floats, hi: Floats) -> Floats:
    """Where the slope crosses zero, by Newton steps that never leave the bracket; hi if it never does."""
    at_lo, at_hi = objective.slope(np.stack([lo, hi]))
    x = np.where(at_hi > 0, lo, hi)
    inside = (at_hi > 0) & (at_lo < 0)
    if not inside.any():
        return x
    low, high = lo.copy(), hi.copy()
    x = np.where(inside, 0.5 * (lo + hi), x)
    for _ in range(200):
        slope = objective.slope(x)
        curvature = sum(objective.curvature(x))
        low = np.where(inside & (slope < 0), x, low)
        high = np.where(inside & (slope > 0), x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - slope / curvature
        middle = 0.5 * (low + high)
        better = np.where((step > low) & (step < high), step, middle)
        arrived = (slope == 0) | (np.abs(better - x) <= 4e-16 * np.abs(x)) | (middle <= low) | (middle >= high)
        x = np.where(inside & ~arrived, better, x)
        inside &= ~arrived
        if not inside.any():
            break
    return x


def concave_part(objective: Objective, start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Where within [start, end] the curvature is negative; (end, end) where it never is.

    The ratio of the curvature's two parts falls and then rises: its lowest point by golden section,
    then both edges by bisection.
    """

    def excess(x: Floats) -> Floats:  # log of the ratio; negative where the objective is concave
        convex, bent = objective.curvature(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(bent < 0, np.log(convex) - np.log(-bent), np.inf)

    low, high = start.copy(), end.copy()
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_a, at_b = excess(a), excess(b)
    for _ in range(48):
        go_left = at_a <= at_b
        low, high = np.where(go_left, low, a), np.where(go_left, b, high)
        new_a, new_b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        at_new = excess(np.where(go_left, new_a, new_b))
        a, b = np.where(go_left, new_a, b), np.where(go_left, a, new_b)
        at_a, at_b = np.where(go_left, at_new, at_b), np.where(go_left, at_a, at_new)
    lowest = np.where(at_a <= at_b, a, b)
    for edge in (start, end):
        lowest = np.where(excess(edge) < excess(lowest), edge, lowest)
    left, right = _edge(excess, np.stack([lowest, lowest]), np.stack([start, end]))
    concave = excess(lowest) < 0
    return np.where(concave, left, end), np.where(concave, right, end)


def _edge(excess: Function, within: Floats, beyond: Floats) -> Floats:
    """Between a point where `excess` is negative and one where it may not be: the last negative one."""
    reaches = excess(beyond) < 0
    within = np.where(reaches, beyond, within)
    for _ in range(56):
        middle = 0.5 * (within + beyond)
        negative = excess(middle) < 0
        within, beyond = np.where(negative, middle, within), np.where(negative, beyond, middle)
    return within
