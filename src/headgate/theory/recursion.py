"""Appendix A: the optimisation recursion behind Theorem 1, and the server's averaging weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.labels import paper

Floats = NDArray[np.float64]


@paper("eq:memory-proportional-weight")
def memory_proportional_weight(alpha: ArrayLike, n: ArrayLike) -> Floats:
    """w_m = α_m·n_m / Σ α_j·n_j over the last axis; all zero when nobody holds a sample, so θ stays as it is.

    >>> memory_proportional_weight([0.5, 0.5], [1, 3]).tolist()
    [0.25, 0.75]
    """
    share = np.asarray(alpha, dtype=np.float64) * np.asarray(n, dtype=np.float64)
    total = share.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(share, total, out=np.zeros_like(share), where=total > 0))


@paper("eq:cum-excess-risk")
def cumulative_excess_risk(risk: ArrayLike, least_risk: float) -> float:
    """E_T(π) = Σ_t E[F(θ^(t)) − F(θ*)] from the risk per run and round (R, T)."""
    return float(np.sum(np.mean(np.atleast_2d(np.asarray(risk, dtype=np.float64)), axis=0) - least_risk))


class LocalConstants(NamedTuple):
    """C_1 and C_2 of eq:C1C2-def; the second is not the C_2 of Theorem 1."""

    C1: float
    C2: float


@paper("eq:C1C2-def")
def local_constants(G: float, L: float, D: float, E: int) -> LocalConstants:
    """C_1 = G·(5G + 2·L·D·√(2(1 − 1/E))), C_2 = 4·L²·G²·(1 − 1/E).

    >>> local_constants(G=1.0, L=2.0, D=3.0, E=1)
    LocalConstants(C1=5.0, C2=0.0)
    """
    drifted = 1.0 - 1.0 / E
    return LocalConstants(G * (5.0 * G + 2.0 * L * D * (2.0 * drifted) ** 0.5), 4.0 * L**2 * G**2 * drifted)


@paper("eq:opt-recursion-app", "prop:Ropt-bound-app")
def distance_recursion(
    distance: ArrayLike, gap: ArrayLike, mismatch: ArrayLike, eta: float, D: float, c: LocalConstants
) -> Floats:
    """Ceiling for E‖θ^(t+1) − θ*‖² from E‖θ^(t) − θ*‖², the empirical gap, and σ̄²(t) (`mismatch`)."""
    mismatch = np.asarray(mismatch, dtype=np.float64)
    return np.asarray(
        np.asarray(distance)
        - 2 * eta * np.asarray(gap)
        + 2 * eta * D * np.sqrt(mismatch)
        + eta**2 * (2 * mismatch + c.C1)
        + eta**4 * c.C2
    )


@paper("eq:Ropt-bound-app", "eq:Ropt-Neff-app", "eq:opt-step-app")
def optimisation_bound(mismatch: ArrayLike, eta: float, D: float, c: LocalConstants) -> Floats:
    """D²/(2η) + D·Σσ̄ + (η/2)·Σ(2σ̄² + C_1) + (η³/2)·C_2·T from σ̄²(t) on the last axis.

    With `gradient_mismatch(n, N_eff)` for σ̄² this is eq:Ropt-Neff-app.
    """
    mismatch = np.asarray(mismatch, dtype=np.float64)
    T = mismatch.shape[-1]
    return np.asarray(
        D**2 / (2 * eta)
        + D * np.sqrt(mismatch).sum(axis=-1)
        + eta * mismatch.sum(axis=-1)
        + T * (eta * c.C1 + eta**3 * c.C2) / 2
    )
