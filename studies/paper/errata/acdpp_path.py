"""ACDPP in real numbers, where its objective is convex: N(0) ≥ 1.73·Pdim. Policies proper are in headgate.control."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.theory.bound import CONVEX_FROM, BoundConstants, penalty_slope
from headgate.theory.drift import admission_interval, debt_update
from headgate.theory.interval import held

Floats = NDArray[np.float64]


class AdmittedPath(NamedTuple):
    admitted: Floats
    """Λ(t), (R, T); nan after a run's horizon"""
    debt: Floats
    """Z(T + 1), (R,)"""


def acdpp_path(
    price: Floats, T: Floats, K: int, rate: float, rho: Floats, V: Floats, budget: float, k: BoundConstants
) -> AdmittedPath:
    """Runs (R,) with horizons T, settings ρ and V and prices (R, longest); N(0) = 2·Pdim and n(0) = 0."""
    assert CONVEX_FROM < 2
    runs, longest = price.shape
    admitted, debt, N = np.full((runs, longest), np.nan), np.zeros(runs), np.full(runs, 2 * k.pdim)
    for t in range(1, longest + 1):
        on = t <= T
        kept = np.where(on, admitted[:, max(t - K, 0) : t - 1].sum(axis=-1), 0.0)
        pull = debt * price[:, t - 1] / V

        def slope(x: Floats, kept: Floats = kept, pull: Floats = pull, N: Floats = N) -> Floats:
            return np.asarray(pull + penalty_slope(kept + x, N + x, k))

        lo, hi = admission_interval(t, rate, rho)
        hi = np.where(slope(lo) >= 0, lo, hi)
        lo = np.where(slope(hi) <= 0, hi, lo)
        while ((hi - lo)[on] > 1e-7 * rate).any():
            middle = 0.5 * (lo + hi)
            up = slope(middle) < 0
            lo, hi = np.where(up, middle, lo), np.where(up, hi, middle)
        chosen = 0.5 * (lo + hi)
        admitted[:, t - 1] = np.where(on, chosen, np.nan)
        debt = np.where(on, debt_update(debt, price[:, t - 1] * chosen, budget), debt)
        N = N + chosen
    return AdmittedPath(admitted, debt)


class BurstMeasured(NamedTuple):
    """Per horizon and seed."""

    T: tuple[int, ...]
    overspent: Floats
    """Σ (c·Λ − C) with the luck of the prices, Λ̄·Σ (c − c̄), taken out"""
    overfull: Floats
    """Σ (n − B̄)"""


@cache
def after_a_burst() -> BurstMeasured:
    """ACDPP with γ = 0.1 and φ = 0.9 on Λ̄ = K = 10, prices even from 1 to 10 and C = c̄·Λ̄, 24 seeds."""
    Ts, seeds, K, rate, mean = (125, 500, 2000), 24, 10, 10.0, 5.5
    T = np.repeat(np.array(Ts, dtype=np.float64), seeds)
    price = np.tile(np.random.default_rng(0).uniform(1, 10, (seeds, Ts[-1])), (len(Ts), 1))
    path = acdpp_path(price, T, K, rate, 1 - T**-0.9, T**0.1, mean * rate, BoundConstants())
    overspent = np.nansum(price * path.admitted - rate * (price - mean) - mean * rate, axis=-1)
    overfull = np.nansum(held(path.admitted, K) - K * rate, axis=-1)
    return BurstMeasured(Ts, overspent.reshape(len(Ts), seeds), overfull.reshape(len(Ts), seeds))
