"""The learning-error bound of Theorem 1, term by term, and the surrogate penalty made
from it.

Some terms are undefined in the paper. They are extended as follows:
- a negative 1/n − 1/N_eff counts as 0 (this happens if a few samples are reused far
  more than the rest);
- in the pseudo-dimension term, max(N, Pdim) replaces N, which makes the term monotone
  (studies/paper/errata.md, erratum 3);
- a round without samples has an infinite bound.
"""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError, require
from headgate.limits import NUMBER, TINY
from headgate.theory.labels import paper

Floats = NDArray[np.float64]

CONVEX_FROM = float(np.exp((sqrt(7.0) - 1.0) / 3.0))
"""value of N/Pdim where the pseudo-dimension term changes from concave to convex: 3·L²
+ 2·L = 2 with L = log(N/Pdim)
"""


@dataclass(frozen=True)
class BoundConstants:
    """The constants of Assumptions 1–4 that the bound needs. The paper states no values
    (studies/paper/errata.md, erratum 9); the defaults are the values for MNIST in the
    scripts released with the paper."""

    D: float = 1000.0
    """diameter of the parameter set"""
    sigma: float = 10.0
    """square root of the gradient variance σ²"""
    eta: float = 0.5
    """step size η in Theorem 1 and in all bounds compared with it"""
    loss: float = 1000.0
    """upper limit of the loss, called B in Theorem 1"""
    pdim: float = 100.0
    """pseudo-dimension of the loss class"""
    C2: float = 0.0
    """constant C_2 per round; it is the same for every policy and cancels in every
    regret
    """
    eta_tilde: float | None = None
    """step size η̃ in the penalty, which the paper does not define; left out: eta, as
    Lemma 2 needs (erratum 8)
    """

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None:
                continue
            fits = isfinite(value) and value >= 0 and (value > 0 or name != "pdim")
            require(
                fits,
                name,
                value,
                f"a finite number, {'positive' if name == 'pdim' else 'zero or more'}",
            )
            if value > NUMBER or 0 < value < TINY:
                raise SettingError(
                    f"{name} = {value:g}: must not be beyond {NUMBER:g}, nor below"
                    f" {TINY:g} unless 0"
                )

    @property
    def penalty_step(self) -> float:
        """The step size in the penalty, η̃."""
        return self.eta if self.eta_tilde is None else self.eta_tilde


def mismatch(n: ArrayLike, N_eff: ArrayLike) -> Floats:
    """Return [1/n − 1/N_eff]^+, computed without cancellation; infinite for n = 0."""
    n, N_eff = np.asarray(n, dtype=np.float64), np.asarray(N_eff, dtype=np.float64)
    gap = np.maximum(N_eff - n, 0.0)
    product = n * N_eff
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(product > 0, gap / product, np.inf)


@paper("eq:sigma-bar-Neff-app")
def gradient_mismatch(n: ArrayLike, N_eff: ArrayLike, k: BoundConstants) -> Floats:
    """Return σ²·(1/n − 1/N_eff), a bound on σ̄²(t): how far the gradient of the memory
    is from that of all samples so far.
    """
    return k.sigma**2 * mismatch(n, N_eff)


@paper("eq:gen-gap-Neff-app", "lem:gen-Neff-app", "eq:gen-final-proof")
def generalisation_gap(N: ArrayLike, uniform: ArrayLike, k: BoundConstants) -> Floats:
    """Return 10·B·√(Pdim/(N·Ṽ))·√(1 + log(N/Pdim)), with max(N, Pdim) for N and
    `uniform` for Ṽ.
    """
    u = np.maximum(np.asarray(N, dtype=np.float64), k.pdim) / k.pdim
    with np.errstate(divide="ignore"):
        return np.asarray(
            10.0
            * k.loss
            * np.sqrt((1.0 + np.log(u)) / (u * np.asarray(uniform, dtype=np.float64)))
        )


def mismatch_terms(uneven: Floats, step: float, k: BoundConstants) -> Floats:
    """Return D·σ·√x + η·σ²·x with x = `uneven` and η = `step`; infinite if x is
    infinite, even with constants of zero.
    """
    finite = np.where(np.isinf(uneven), 0.0, uneven)
    return np.where(
        np.isinf(uneven),
        np.inf,
        k.D * k.sigma * np.sqrt(finite) + step * k.sigma**2 * finite,
    )


@paper("eq:cum-regret-bound", "eq:cum-regret-bound_detail", "thm:regret-neff")
def learning_error(
    n: ArrayLike, N: ArrayLike, uniform: ArrayLike, k: BoundConstants
) -> Floats:
    """Return each round's term of Ē_T(π) in Theorem 1. The sum over rounds bounds the
    cumulative excess risk.
    """
    N_eff = np.asarray(N, dtype=np.float64) * np.asarray(uniform, dtype=np.float64)
    return np.asarray(
        mismatch_terms(mismatch(n, N_eff), k.eta, k)
        + generalisation_gap(N, uniform, k)
        + k.C2
    )


@paper("eq:penalty-dpp")
def penalty(n: ArrayLike, N: ArrayLike, k: BoundConstants) -> Floats:
    """Return p(t), the term of Theorem 1 with perfectly even reuse (Ṽ = 1), with η̃ and
    without its constant.
    """
    return np.asarray(
        mismatch_terms(mismatch(n, N), k.penalty_step, k)
        + generalisation_gap(N, 1.0, k)
    )


def penalty_slope(n: ArrayLike, N: ArrayLike, k: BoundConstants) -> Floats:
    """Return dp/dΛ. An admitted sample adds one to both n and N. The slope is −∞ before
    the first sample.
    """
    n, N = np.asarray(n, dtype=np.float64), np.asarray(N, dtype=np.float64)
    uneven = mismatch(n, N)
    u = np.maximum(N, k.pdim) / k.pdim
    log_u = np.log(u)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        convex = -(1.0 / n + 1.0 / N) * (
            0.5 * k.D * k.sigma * np.sqrt(uneven) + k.penalty_step * k.sigma**2 * uneven
        )
    convex = np.where(uneven > 0, np.where(np.isinf(uneven), -np.inf, convex), 0.0)
    return np.asarray(
        convex - 5.0 * k.loss / k.pdim * log_u / (u * np.sqrt(u * (1.0 + log_u)))
    )


def penalty_curvature(
    n: ArrayLike, N: ArrayLike, k: BoundConstants
) -> tuple[Floats, Floats]:
    """Return d²p/dΛ² in two parts: of the mismatch terms, which is never negative, and
    of the pseudo-dimension term.
    """
    n, N = np.asarray(n, dtype=np.float64), np.asarray(N, dtype=np.float64)
    uneven = mismatch(n, N)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = 1.0 / n, 1.0 / N
        of_root = (
            k.D * k.sigma * np.sqrt(uneven) * (0.75 * (a * a + b * b) + 0.5 * a * b)
        )
        of_linear = 2.0 * k.penalty_step * k.sigma**2 * uneven * (a * a + a * b + b * b)
    convex = np.where(uneven > 0, of_root + of_linear, 0.0)
    u = N / k.pdim
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_u = np.log(u)
        bend = (
            2.5
            * k.loss
            / k.pdim**2
            * (3.0 * log_u**2 + 2.0 * log_u - 2.0)
            / (u * (1.0 + log_u)) ** 1.5
            / u
        )
    return convex, np.where(u >= 1.0, bend, 0.0)


# Appendix A: the optimisation recursion behind Theorem 1, and the server's averaging
# weights


@paper("eq:memory-proportional-weight")
def memory_proportional_weight(alpha: ArrayLike, n: ArrayLike) -> Floats:
    """Return w_m = α_m·n_m / Σ α_j·n_j over the last axis; all zero if no client holds
    a sample, so that θ does not change.

    >>> memory_proportional_weight([0.5, 0.5], [1, 3]).tolist()
    [0.25, 0.75]
    """
    share = np.asarray(alpha, dtype=np.float64) * np.asarray(n, dtype=np.float64)
    total = share.sum(axis=-1, keepdims=True)
    return np.asarray(
        np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    )


@paper("eq:cum-excess-risk")
def cumulative_excess_risk(risk: ArrayLike, least_risk: float) -> float:
    """Return E_T(π) = Σ_t E[F(θ^(t)) − F(θ*)] from the risk per run and round, (R,
    T).
    """
    return float(
        np.sum(
            np.mean(np.atleast_2d(np.asarray(risk, dtype=np.float64)), axis=0)
            - least_risk
        )
    )


class LocalConstants(NamedTuple):
    """The constants C_1 and C_2 of eq:C1C2-def. This C_2 is not the C_2 of Theorem
    1.
    """

    C1: float
    C2: float


@paper("eq:C1C2-def")
def local_constants(G: float, L: float, D: float, E: int) -> LocalConstants:
    """Return C_1 = G·(5G + 2·L·D·√(2(1 − 1/E))) and C_2 = 4·L²·G²·(1 − 1/E).

    >>> local_constants(G=1.0, L=2.0, D=3.0, E=1)
    LocalConstants(C1=5.0, C2=0.0)
    """
    drifted = 1.0 - 1.0 / E
    return LocalConstants(
        G * (5.0 * G + 2.0 * L * D * (2.0 * drifted) ** 0.5),
        4.0 * L**2 * G**2 * drifted,
    )


@paper("eq:opt-recursion-app", "prop:Ropt-bound-app")
def distance_recursion(
    distance: ArrayLike,
    gap: ArrayLike,
    mismatch: ArrayLike,
    eta: float,
    D: float,
    c: LocalConstants,
) -> Floats:
    """Return an upper bound on E‖θ^(t+1) − θ*‖² from E‖θ^(t) − θ*‖² (`distance`), the
    empirical `gap` and `mismatch` σ̄²(t).
    """
    mismatch = np.asarray(mismatch, dtype=np.float64)
    return np.asarray(
        np.asarray(distance)
        - 2 * eta * np.asarray(gap)
        + 2 * eta * D * np.sqrt(mismatch)
        + eta**2 * (2 * mismatch + c.C1)
        + eta**4 * c.C2
    )


@paper("eq:Ropt-bound-app", "eq:Ropt-Neff-app", "eq:opt-step-app")
def optimisation_bound(
    mismatch: ArrayLike, eta: float, D: float, c: LocalConstants
) -> Floats:
    """Return D²/(2η) + D·Σσ̄ + (η/2)·Σ(2σ̄² + C_1) + (η³/2)·C_2·T, from σ̄²(t) on the
    last axis of `mismatch`.

    If σ̄² comes from `gradient_mismatch(n, N_eff)`, this is eq:Ropt-Neff-app.
    """
    mismatch = np.asarray(mismatch, dtype=np.float64)
    T = mismatch.shape[-1]
    return np.asarray(
        D**2 / (2 * eta)
        + D * np.sqrt(mismatch).sum(axis=-1)
        + eta * mismatch.sum(axis=-1)
        + T * (eta * c.C1 + eta**3 * c.C2) / 2
    )
