"""What the interval of eq:lambda-min-max gives by itself, whatever rule chooses inside it (studies/paper/regret.md).

Everywhere R = 1/(1−ρ); with ρ = 1 − T^−φ that is T^φ. The rate times K is the memory: K·Λ̄ = B̄.
"""

from math import e, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.bound import BoundConstants, learning_error
from headgate.theory.comparison import oracle_bound, regret
from headgate.theory.labels import paper
from headgate.theory.reuse import kstep_uniformity

Floats = NDArray[np.float64]


def farthest_in_all(rho: float) -> float:
    """R·(2 + log R): what d_t = ρ^t/(1−ρ^t) sum to at most. No rule's Λ(t) is farther from Λ̄ than d_t·Λ̄, at most R/t of it."""
    R = 1.0 / (1.0 - rho)
    return R * (2.0 + log(R))


def held(admitted: ArrayLike, K: int) -> Floats:
    """n(t) of every round under K-step retention, from Λ(1..T) on the last axis."""
    N = np.cumsum(np.asarray(admitted, dtype=np.float64), axis=-1)
    gone = np.zeros_like(N)
    gone[..., K:] = N[..., :-K]
    return np.asarray(N - gone)


def regret_of(admitted: ArrayLike, K: int, memory: float, k: BoundConstants) -> Floats:
    """Reg(T) of the admissions Λ(1..T) on the last axis, real numbers."""
    N = np.cumsum(np.asarray(admitted, dtype=np.float64), axis=-1)
    terms = learning_error(held(admitted, K), N, kstep_uniformity(admitted, K), k)
    return regret(terms, oracle_bound([memory], N.shape[-1], k))


def _shape(N: Floats, k: BoundConstants) -> Floats:
    """The pseudo-dimension term over 10·B with even reuse: √((1 + log u)/u), u = max(N, Pdim)/Pdim."""
    u = np.maximum(N / k.pdim, 1.0)
    return np.sqrt((1.0 + np.log(u)) / u)


@paper("thm:dpp-regret", "eq:dpp-regret-rate")
def regret_ceiling(K: int, rate: float, rho: float, T: int, k: BoundConstants) -> float:
    """What Reg(T) of no rule inside the interval exceeds: O(R·log R + √(T·log T)), for every V; T/V is not in it."""
    R, memory, most = 1.0 / (1.0 - rho), K * rate, farthest_in_all(rho)
    away = most + 1.0 + log(T)
    inside = 1.0 + log(max(rate * (T + most) / k.pdim, 1.0))
    return (
        k.D * k.sigma * (away / sqrt(memory) + (K - 1) * sqrt(R / rate))
        + k.eta * k.sigma**2 * (away / memory + (K - 1) * R / rate)
        + 20.0 * k.loss * (sqrt(K) * (R + K) + sqrt(2.0 * k.pdim * T / rate * inside))
    )


def regret_floor(K: int, rate: float, rho: float, T: int, k: BoundConstants) -> float:
    """What Reg(T) of every rule inside the interval reaches; for K ≥ 2 of the order √(T·log T) where R is at most √T."""
    R, memory, most = 1.0 / (1.0 - rho), K * rate, farthest_in_all(rho)
    t = np.arange(1, T + 1, dtype=np.float64)
    early = t < 2.0 * most
    more = np.where(early, 0.0, _shape(1.5 * rate * t, k)) - _shape(memory * t, k)
    lost = k.D * k.sigma * sqrt(2.0 / memory) + k.eta * k.sigma**2 / memory
    return 10.0 * k.loss * float(more.sum()) - lost * (2.0 * (R + K) + R / (e - 1.0) + 2.0 * K * (1.0 + log(T)))


@paper("thm:dpp-cost-constraint", "eq:cost-violation-rate")
def spend_ceiling(rate: float, rho: float, highest_mean: float) -> float:
    """What Vio_S of no rule exceeds where c̄_T·Λ̄ ≤ C; `highest_mean` is the largest E c(t) of any round."""
    return highest_mean * rate * farthest_in_all(rho)


def occupancy_ceiling(memory: float, rho: float) -> float:
    """What Vio_B of no rule exceeds that gives each client its share B_m/B̄."""
    return memory * farthest_in_all(rho)
