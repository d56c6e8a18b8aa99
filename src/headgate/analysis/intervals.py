"""Means over seeds and how well they are known."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.8
"""of every interval and band"""


@cache
def t_quantile(dof: int, level: float = LEVEL) -> float:
    """The t with P(|T| ≤ t) = level for Student's T with `dof` degrees of freedom.

    >>> round(t_quantile(9), 3), round(t_quantile(1), 3), round(t_quantile(39), 3)
    (1.383, 3.078, 1.304)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # halves the angle's range down to the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, dof) < level else (low, middle)
    return math.sqrt(dof) * math.tan(low)


def p_value(t: float, dof: int) -> float:
    """P(|T| ≥ |t|) for Student's T with `dof` degrees of freedom: two-sided.

    >>> round(p_value(2.262, 9), 3), round(p_value(0.0, 3), 3)
    (0.05, 1.0)
    """
    return max(0.0, 1.0 - _within(math.atan(abs(t) / math.sqrt(dof)), dof))


def _within(angle: float, dof: int) -> float:
    """P(|T| ≤ √dof·tan(angle)): the incomplete beta function I_x(1/2, dof/2) at x = sin²(angle), a finite sum for whole dof."""
    cosine, odd = math.cos(angle), dof % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(dof // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total


def means(values: Floats) -> tuple[Floats, Floats]:
    """Means over the first axis, leaving out NaN, and half the width of their intervals; NaN where there is none.

    The interval is Student's for the mean of independent normal values: it says how well the mean is known from these seeds,
    not how far single runs lie apart. One run has none."""
    seen = ~np.isnan(values)
    count = seen.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # an infinite value has no interval, no value no mean
        mean = np.where(seen, values, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(seen, values - mean, 0.0) ** 2).sum(axis=0) / (count - 1) / count)
        factor = np.array([t_quantile(int(c) - 1) if c > 1 else np.nan for c in count.ravel()]).reshape(count.shape)
        return mean, spread * factor


@dataclass(frozen=True)
class Estimate:
    """A mean over runs with its interval, 80 % unless said; one run has none."""

    mean: float
    low: float | None = None
    high: float | None = None
    runs: int = 1

    @property
    def half(self) -> float | None:
        """Half the interval's width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def three(self) -> list[float | None]:
        """Mean, low and high."""
        return [self.mean, self.low, self.high]

    def to_dict(self) -> dict[str, Any]:
        """Return mean, half the interval's width and the number of runs."""
        return {"mean": self.mean, "half": self.half, "runs": self.runs}

    def scaled(self, factor: float) -> "Estimate":
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Estimate(factor * self.mean, low, high, self.runs)


def estimate(values: Floats) -> Estimate:
    """The mean over runs with Student's interval, leaving out NaN."""
    mean, half = (float(value) for value in means(values))
    runs = int((~np.isnan(values)).sum())
    return Estimate(mean, None, None, runs) if np.isnan(half) else Estimate(mean, mean - half, mean + half, runs)


@dataclass(frozen=True)
class Difference(Estimate):
    """A mean of differences, seed by seed, with its 95 % interval and the two-sided p of Student's paired test."""

    p: float | None = None


DECIDED = 0.95
"""level at which two policies count as different"""


def student(gaps: Floats) -> Difference:
    """Student's paired test of differences, seed by seed; one seed has neither an interval nor a p."""
    if gaps.size < 2:
        return Difference(float(gaps.mean()), runs=gaps.size)
    return from_error(float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size)), gaps.size)


def from_error(mean: float, error: float, runs: int) -> Difference:
    """The same from a mean over at least two runs and its standard error."""
    p = p_value(mean / error, runs - 1) if error > 0 else float(mean == 0)
    half = t_quantile(runs - 1, DECIDED) * error
    return Difference(mean, mean - half, mean + half, runs, p)


def ratio(over: Floats, under: Floats, level: float = LEVEL) -> Estimate:
    """Mean of `over` by mean of `under`, run by run, with Fieller's interval: every r for which the mean of over − r·under may
    be zero. It has no ends where the mean of `under` may be zero itself, and one run has no interval.

    >>> ratio(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).three
    [0.5, 0.5, 0.5]
    """
    runs, (top, bottom) = over.size, (float(over.mean()), float(under.mean()))
    if runs == 1:
        return Estimate(top / bottom)
    (a, b), (_, c) = (np.cov(over, under) * t_quantile(runs - 1, level) ** 2 / runs).tolist()
    square = bottom**2 - c
    if square <= 0:
        return Estimate(top / bottom, runs=runs)
    middle = top * bottom - b
    reach = math.sqrt(max(0.0, middle**2 - square * (top**2 - a)))
    return Estimate(top / bottom, (middle - reach) / square, (middle + reach) / square, runs)
