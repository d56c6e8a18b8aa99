"""The constants of Theorem 1, read off the runs or off the parameter set, and what its variance step leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
import torch
from numpy.typing import ArrayLike

from headgate.control.types import Floats
from headgate.theory.bound import BoundConstants, generalisation_gap
from headgate.theory.recursion import local_constants
from studies.theory.population import Population


@dataclass(frozen=True)
class Seen:
    """Extremes over all runs and rounds, and θ*."""

    distance: float
    """‖θ_t − θ*‖"""
    variance: float
    """E‖∇ℓ − ∇F‖²"""
    gradient: float
    """‖∇ℓ‖ of one image"""
    loss: float
    """of one image"""
    radius: float
    """‖θ_t‖"""


@dataclass(frozen=True)
class Constants:
    """Everything in Assumptions 1–4, with C_2 filled in from Appendix A."""

    bound: BoundConstants
    L: float
    G: float

    def without_C2(self) -> BoundConstants:
        return replace(self.bound, C2=0.0)


def smoothness(populations: Sequence[Population]) -> float:
    """L of the population risk: the Hessian of softmax cross-entropy is at most ½·λ_max(E[x·xᵀ])."""
    largest = 0.0
    for each in populations:
        features = each.features.double()
        largest = max(largest, float(torch.linalg.eigvalsh((features.T * each.weight) @ features)[-1]))
    return largest / 2


def estimate_constants(seen: Seen, L: float, eta: float, steps: int, rounds: int, pdim: float) -> Constants:
    """The smallest constants that these runs allow, so the tightest bound: each is the largest value that was met.

    D is the largest ‖θ_t − θ*‖ rather than Θ's diameter, because the proof uses D for nothing else; Pdim is stated, not
    measured. C_2 is what the proof collects in it, D²/(2ηT) + (η·C_1 + η³·C_2)/2 with the C_1, C_2 of eq:C1C2-def.
    """
    return _complete(seen.distance, sqrt(seen.variance), seen.loss, seen.gradient, L, eta, steps, rounds, pdim)


def assured_constants(
    populations: Sequence[Population], radius: float, L: float, eta: float, steps: int, rounds: int, pdim: float
) -> Constants:
    """Constants that hold for every θ of the ball, as the assumptions ask.

    ‖∇ℓ‖ = ‖softmax − label‖·‖x‖ ≤ √2·‖x‖, σ ≤ G, and a loss is at most log c + √2·radius·‖x‖.
    """
    longest = max(float(each.norms.max()) for each in populations)
    G = sqrt(2) * longest
    loss = log(populations[0].classes) + radius * G
    return _complete(2 * radius, G, loss, G, L, eta, steps, rounds, pdim)


def _complete(
    D: float, sigma: float, loss: float, G: float, L: float, eta: float, steps: int, rounds: int, pdim: float
) -> Constants:
    c = local_constants(G, L, D, steps)
    C2 = D**2 / (2 * eta * rounds) + (eta * c.C1 + eta**3 * c.C2) / 2
    return Constants(BoundConstants(D=D, sigma=sigma, eta=eta, loss=loss, pdim=pdim, C2=C2), L, G)


def informative_from(pdim: float) -> float:
    """The N from which the pseudo-dimension term, with even reuse, is below the loss bound itself.

    Up to there a round's bound says less than "no loss exceeds B", whatever the other constants are.

    >>> round(informative_from(1.0))
    764
    """
    k = BoundConstants(loss=1.0, pdim=pdim)
    low, high = pdim, 1e6 * pdim
    for _ in range(200):
        middle = sqrt(low * high)
        low, high = (middle, high) if float(generalisation_gap(middle, 1.0, k)) > 1.0 else (low, middle)
    return high


def exact_mismatch(n: ArrayLike, n_eff: ArrayLike) -> Floats:
    """Σ_i (ω_i − 1{i in memory}/n)² for every round, from n(t) and N_eff(t) on the last axis.

    That times the variance is E‖∇F̂_all − ∇F̂_mem‖² of independent samples at a fixed θ; eq:sigma-bar-Neff-app says it is at most
    1/n − 1/N_eff. The sum is 1/N_eff + 1/n − 2·(mean weight in memory), and the use counts of the samples in memory follow
    from how ΣA² grows (`count_uses`). Each image counts once in a memory.
    """
    n, n_eff = np.asarray(n, dtype=np.float64), np.asarray(n_eff, dtype=np.float64)
    uses = np.cumsum(n, axis=-1)
    squares = uses**2 / n_eff
    grown = np.diff(squares, axis=-1, prepend=0.0)
    held = (grown / n + 1) / 2  # mean use count in memory, this round's included
    return np.asarray(1 / n + 1 / n_eff - 2 * held / uses)
