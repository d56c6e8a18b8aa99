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
        low, high = (middle, high) if _within(middle, dof) < level else (low, middle)
    return math.sqrt(dof) * math.tan(low)


def p_value(t: float, dof: int) -> float:
    """Return the two-sided P(|T| ≥ |t|) for Student's T with `dof` degrees of freedom.

    >>> round(p_value(2.262, 9), 3), round(p_value(0.0, 3), 3)
    (0.05, 1.0)
    """
    return max(0.0, 1.0 - _within(math.atan(abs(t) / math.sqrt(dof)), dof))


def _within(angle: float, dof: int) -> float:
    """Return P(|T| ≤ √dof·tan(angle)), the incomplete beta function I_x(1/2, dof/2) at
    x = sin²(angle), as a finite sum.
    """
    cosine, odd = math.cos(angle), dof % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(dof // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    return (
        (angle + math.sin(angle) * total) * 2 / math.pi
        if odd
        else math.sin(angle) * total
    )


def means(values: Floats) -> tuple[Floats, Floats]:
    """Return the means over the first axis, ignoring NaN, and half the widths of their
    intervals; NaN stands for no interval.

    The interval is Student's for the mean of independent normal values: it states how
    precisely these seeds determine the mean, not how far single runs lie apart. A
    single run has no interval."""
    seen = ~np.isnan(values)
    count = seen.sum(axis=0)
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # infinite values give no interval, and no values no mean
        mean = np.where(seen, values, 0.0).sum(axis=0) / count
        spread = np.sqrt(
            (np.where(seen, values - mean, 0.0) ** 2).sum(axis=0) / (count - 1) / count
        )
        factor = np.array(
            [t_quantile(int(c) - 1) if c > 1 else np.nan for c in count.ravel()]
        ).reshape(count.shape)
        return mean, spread * factor


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
        return (
            None
            if self.low is None or self.high is None
            else (self.high - self.low) / 2
        )

    @property
    def three(self) -> list[float | None]:
        """The mean, the low end and the high end."""
        return [self.mean, self.low, self.high]

    def to_dict(self) -> dict[str, Any]:
        """Return the mean, half the width of the interval and the number of runs."""
        return {"mean": self.mean, "half": self.half, "runs": self.runs}

    def scaled(self, factor: float) -> "Estimate":
        low, high = (
            None if end is None else factor * end for end in (self.low, self.high)
        )
        return Estimate(factor * self.mean, low, high, self.runs)


def estimate(values: Floats) -> Estimate:
    """Return the mean over runs, ignoring NaN, with Student's interval."""
    mean, half = (float(value) for value in means(values))
    runs = int((~np.isnan(values)).sum())
    return (
        Estimate(mean, None, None, runs)
        if np.isnan(half)
        else Estimate(mean, mean - half, mean + half, runs)
    )


@dataclass(frozen=True)
class Difference(Estimate):
    """A mean of differences over seeds, with its 95 % interval and the two-sided p of
    Student's paired test.
    """

    p: float | None = None


DECIDED = 0.95
"""the confidence level at which two policies count as different"""


def student(gaps: Floats) -> Difference:
    """Return Student's paired test of the differences, (seeds,); a single seed has
    neither an interval nor a p.
    """
    if gaps.size < 2:
        return Difference(float(gaps.mean()), runs=gaps.size)
    return from_error(
        float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size)), gaps.size
    )


def from_error(mean: float, error: float, runs: int) -> Difference:
    """Return the same test from a mean over at least two runs and its standard
    error.
    """
    p = p_value(mean / error, runs - 1) if error > 0 else float(mean == 0)
    half = t_quantile(runs - 1, DECIDED) * error
    return Difference(mean, mean - half, mean + half, runs, p)


def ratio(over: Floats, under: Floats, level: float = LEVEL) -> Estimate:
    """Return the mean of `over` divided by that of `under`, both (runs,), with
    Fieller's interval: every r for which the mean of over − r·under may be zero. There
    is none for a single run, or if the mean of `under` itself may be zero.

    >>> ratio(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).three
    [0.5, 0.5, 0.5]
    """
    runs, (top, bottom) = over.size, (float(over.mean()), float(under.mean()))
    if runs == 1:
        return Estimate(top / bottom)
    (a, b), (_, c) = (
        np.cov(over, under) * t_quantile(runs - 1, level) ** 2 / runs
    ).tolist()
    square = bottom**2 - c
    if square <= 0:
        return Estimate(top / bottom, runs=runs)
    middle = top * bottom - b
    reach = math.sqrt(max(0.0, middle**2 - square * (top**2 - a)))
    return Estimate(
        top / bottom, (middle - reach) / square, (middle + reach) / square, runs
    )
