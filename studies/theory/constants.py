"""The constants of Theorem 1, read off the runs, and what its variance step leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from numpy.typing import ArrayLike

from headgate.control.types import Floats
from headgate.theory.bound import BoundConstants
from headgate.theory.recursion import local_constants
from studies.theory.population import Population


@dataclass(frozen=True)
class Extremes:
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


def estimate_constants(seen: Extremes, L: float, eta: float, steps: int, rounds: int, pdim: float) -> Constants:
    """The smallest constants that these runs allow, so the tightest bound: each is the largest value that was met.

    D is the largest ‖θ_t − θ*‖ rather than Θ's diameter, because the proof uses D for nothing else; Pdim is stated, not
    measured. C_2 is what the proof collects in it, D²/(2ηT) + (η·C_1 + η³·C_2)/2 with the C_1, C_2 of eq:C1C2-def.
    """
    c = local_constants(seen.gradient, L, seen.distance, steps)
    C2 = seen.distance**2 / (2 * eta * rounds) + (eta * c.C1 + eta**3 * c.C2) / 2
    bound = BoundConstants(D=seen.distance, sigma=sqrt(seen.variance), eta=eta, loss=seen.loss, pdim=pdim, C2=C2)
    return Constants(bound, L, seen.gradient)


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
