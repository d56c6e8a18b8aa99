"""Means over seeds, their confidence intervals, and tests of differences."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.8
"""the confidence level of intervals and bands, unless another is stated"""


@cache
def t_quantile(dof: int, level: float = LEVEL) -> float:
    """Return t with P(|T| ≤ t) = level for Student's T with `dof` degrees of freedom.

    >>> round(t_quantile(9), 3), round(t_quantile(1), 3), round(t_quantile(39), 3)
    (1.383, 3.078, 1.304)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # bisection of the angle down to the last bit
        middle = (low + high) / 2
        if _within(middle, dof) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(dof) * math.tan(low)


def p_value(t: float, dof: int) -> float:
    """Return the two-sided P(|T| ≥ |t|) for Student's T with `dof` degrees of freedom.

    >>> round(p_value(2.262, 9), 3), round(p_value(0.0, 3), 3)
    (0.05, 1.0)
    """
    return max(0.0, 1.0 - _within(math.atan(abs(t) / math.sqrt(dof)), dof))


def _within(angle: float, dof: int) -> float:
    """Return P(|T| ≤ √dof·tan(angle)) for Student's T.

    It is the incomplete beta function I_x(1/2, dof/2) at x = sin²(angle), a finite sum.
    """
    cosine = math.cos(angle)
    odd = dof % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(dof // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    if odd:
        return (angle + math.sin(angle) * total) * 2 / math.pi
    return math.sin(angle) * total


def means(values: Floats) -> tuple[Floats, Floats]:
    """Return the means over the first axis and half the widths of their intervals.

    NaN is ignored in `values`, and stands for no interval in the result. The interval
    is Student's for the mean of independent normal values: it states how precisely
    these seeds determine the mean, not how far single runs lie apart. A single run has
    no interval.
    """
    seen = ~np.isnan(values)
    count = seen.sum(axis=0)
    # infinite values give no interval, and no values no mean
    with np.errstate(
        invalid="ignore",
        divide="ignore",
    ):
        mean = np.where(seen, values, 0.0).sum(axis=0) / count
        squares = np.where(seen, values - mean, 0.0) ** 2
        error = np.sqrt(squares.sum(axis=0) / (count - 1) / count)

    factor = np.full(count.shape, np.nan)
    for runs in np.unique(count[count > 1]).tolist():
        factor[count == runs] = t_quantile(runs - 1)
    return mean, error * factor


@dataclass(frozen=True)
class Estimate:
    """A mean over runs with its interval, 80 % unless another level is stated; a single
    run has no interval.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    runs: int = 1

    @property
    def half(self) -> float | None:
        """Half the width of the interval; None without one."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2

    @property
    def three(self) -> list[float | None]:
        """The mean, the low end and the high end."""
        return [self.mean, self.low, self.high]

    def to_dict(self) -> dict[str, Any]:
        """Return the mean, half the width of the interval and the number of runs."""
        return {"mean": self.mean, "half": self.half, "runs": self.runs}

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate times a factor above 0."""
        mean = factor * self.mean
        if self.low is None or self.high is None:
            return Estimate(mean, runs=self.runs)
        return Estimate(mean, factor * self.low, factor * self.high, self.runs)


def estimate(values: Floats) -> Estimate:
    """Return the mean over runs, ignoring NaN, with Student's interval."""
    mean, half = (float(value) for value in means(values))
    runs = int((~np.isnan(values)).sum())
    if np.isnan(half):
        return Estimate(mean, runs=runs)
    return Estimate(mean, mean - half, mean + half, runs)


@dataclass(frozen=True)
class Difference(Estimate):
    """A mean of differences over seeds, with its 95 % interval.

    `p` is the two-sided p of Student's paired test.
    """

    p: float | None = None


DECIDED = 0.95
"""the confidence level at which two policies count as different"""


def student(gaps: Floats) -> Difference:
    """Return Student's paired test of the differences, (seeds,).

    A single seed has neither an interval nor a p.
    """
    mean = float(gaps.mean())
    if gaps.size < 2:
        return Difference(mean, runs=gaps.size)
    error = float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    return from_error(mean, error, gaps.size)


def from_error(
    mean: float,
    error: float,
    runs: int,
) -> Difference:
    """Return the test from a mean over at least two runs and its standard error."""
    p = p_value(mean / error, runs - 1) if error > 0 else float(mean == 0)
    half = t_quantile(runs - 1, DECIDED) * error
    return Difference(mean, mean - half, mean + half, runs, p)


def ratio(
    over: Floats,
    under: Floats,
    level: float = LEVEL,
) -> Estimate:
    """Return the mean of `over` divided by that of `under`, both (runs,).

    The interval is Fieller's: every r for which the mean of over − r·under may be zero.
    There is none for a single run, or if the mean of `under` itself may be zero.

    >>> ratio(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).three
    [0.5, 0.5, 0.5]
    """
    runs = over.size
    top, bottom = float(over.mean()), float(under.mean())
    if runs == 1:
        return Estimate(top / bottom)

    squares = np.cov(over, under) * t_quantile(runs - 1, level) ** 2 / runs
    (a, b), (_, c) = squares.tolist()
    square = bottom**2 - c
    if square <= 0:
        return Estimate(top / bottom, runs=runs)
    middle = top * bottom - b
    reach = math.sqrt(max(0.0, middle**2 - square * (top**2 - a)))
    low, high = (middle - reach) / square, (middle + reach) / square
    return Estimate(top / bottom, low, high, runs)
