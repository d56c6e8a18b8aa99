"""The learning-error bound of Theorem 1, term by term, and the surrogate penalty made from it.

Where the paper's term is undefined it is continued, in one place and for everybody:
- 1/n − 1/N_eff is taken as 0 where it is negative (a few samples reused far more than the rest);
- inside the pseudo-dimension term N is replaced by max(N, Pdim), which makes it monotone
  (studies/paper/errata.md, erratum 3);
- a round without any sample has an infinite bound.
"""

from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError
from headgate.limits import NUMBER, TINY
from headgate.theory.labels import paper

Floats = NDArray[np.float64]

CONVEX_FROM = float(np.exp((sqrt(7.0) - 1.0) / 3.0))
"""N/Pdim at which the pseudo-dimension term turns from concave to convex: 3·L² + 2·L = 2, L = log(N/Pdim)."""


@dataclass(frozen=True)
class BoundConstants:
    """The constants of Assumptions 1–4 that the bound needs. The paper gives no values (studies/paper/errata.md, erratum 9);
    the defaults are those of the scripts released with it, for MNIST."""

    D: float = 1000.0
    """diameter of the parameter set"""
    sigma: float = 10.0
    """root of the gradient variance σ²"""
    eta: float = 0.5
    """η, the step size in Theorem 1 and in all that is compared with it"""
    loss: float = 1000.0
    """bound on the loss; the paper's B in Theorem 1"""
    pdim: float = 100.0
    """pseudo-dimension of the loss class"""
    C2: float = 0.0
    """the paper's per-round constant C_2; it is the same for every policy and cancels in every regret"""
    eta_tilde: float | None = None
    """η̃, the step size in the penalty, which the paper does not define; left out: eta, as its Lemma 2 needs (erratum 8)"""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None:
                continue
            if not isfinite(value) or value < 0 or (name == "pdim" and value == 0):
                wanted = "positive" if name == "pdim" else "zero or more"
                raise SettingError(f"{name} = {value}: must be a finite number, {wanted}")
            if value > NUMBER or 0 < value < TINY:
                raise SettingError(f"{name} = {value:g}: must not be beyond {NUMBER:g}, nor below {TINY:g} unless 0")

    @property
    def penalty_step(self) -> float:
        """η̃."""
        return self.eta if self.eta_tilde is None else self.eta_tilde


def mismatch(n: ArrayLike, N_eff: ArrayLike) -> Floats:
    """[1/n − 1/N_eff]^+, written so that it does not cancel; infinite for n = 0."""
    n, N_eff = np.asarray(n, dtype=np.float64), np.asarray(N_eff, dtype=np.float64)
    gap = np.maximum(N_eff - n, 0.0)
    product = n * N_eff
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(product > 0, gap / product, np.inf)


@paper("eq:sigma-bar-Neff-app")
def gradient_mismatch(n: ArrayLike, N_eff: ArrayLike, k: BoundConstants) -> Floats:
    """σ̄²(t) ≤ σ²·(1/n − 1/N_eff): how far memory's gradient is from that of all samples so far."""
    return k.sigma**2 * mismatch(n, N_eff)


@paper("eq:gen-gap-Neff-app", "lem:gen-Neff-app", "eq:gen-final-proof")
def generalisation_gap(N: ArrayLike, uniform: ArrayLike, k: BoundConstants) -> Floats:
    """10·B·√(Pdim/(N·Ṽ))·√(1 + log(N/Pdim)), with N replaced by max(N, Pdim)."""
    u = np.maximum(np.asarray(N, dtype=np.float64), k.pdim) / k.pdim
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * k.loss * np.sqrt((1.0 + np.log(u)) / (u * np.asarray(uniform, dtype=np.float64))))


def _mismatch_terms(uneven: Floats, step: float, k: BoundConstants) -> Floats:
    """D·σ·√x + η·σ²·x, η = `step`; infinite without a sample, also where the constants are zero."""
    finite = np.where(np.isinf(uneven), 0.0, uneven)
    return np.where(np.isinf(uneven), np.inf, k.D * k.sigma * np.sqrt(finite) + step * k.sigma**2 * finite)


@paper("eq:cum-regret-bound", "eq:cum-regret-bound_detail", "thm:regret-neff")
def learning_error(n: ArrayLike, N: ArrayLike, uniform: ArrayLike, k: BoundConstants) -> Floats:
    """One round's term of Ē_T(π), Theorem 1; its sum over rounds bounds the cumulative excess risk."""
    N_eff = np.asarray(N, dtype=np.float64) * np.asarray(uniform, dtype=np.float64)
    return np.asarray(_mismatch_terms(mismatch(n, N_eff), k.eta, k) + generalisation_gap(N, uniform, k) + k.C2)


@paper("eq:penalty-dpp")
def penalty(n: ArrayLike, N: ArrayLike, k: BoundConstants) -> Floats:
    """p(t): Theorem 1's term with perfectly even reuse (Ṽ = 1), with η̃ and without its constant."""
    return np.asarray(_mismatch_terms(mismatch(n, N), k.penalty_step, k) + generalisation_gap(N, 1.0, k))


def penalty_slope(n: ArrayLike, N: ArrayLike, k: BoundConstants) -> Floats:
    """dp/dΛ, where one more admitted sample adds one to n and one to N; the first sample is worth everything."""
    n, N = np.asarray(n, dtype=np.float64), np.asarray(N, dtype=np.float64)
    uneven = mismatch(n, N)
    u = np.maximum(N, k.pdim) / k.pdim
    log_u = np.log(u)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        convex = -(1.0 / n + 1.0 / N) * (0.5 * k.D * k.sigma * np.sqrt(uneven) + k.penalty_step * k.sigma**2 * uneven)
    convex = np.where(uneven > 0, np.where(np.isinf(uneven), -np.inf, convex), 0.0)
    return np.asarray(convex - 5.0 * k.loss / k.pdim * log_u / (u * np.sqrt(u * (1.0 + log_u))))


def penalty_curvature(n: ArrayLike, N: ArrayLike, k: BoundConstants) -> tuple[Floats, Floats]:
    """d²p/dΛ² in two parts: of the mismatch terms (never negative) and of the pseudo-dimension term."""
    n, N = np.asarray(n, dtype=np.float64), np.asarray(N, dtype=np.float64)
    uneven = mismatch(n, N)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = 1.0 / n, 1.0 / N
        of_root = k.D * k.sigma * np.sqrt(uneven) * (0.75 * (a * a + b * b) + 0.5 * a * b)
        of_linear = 2.0 * k.penalty_step * k.sigma**2 * uneven * (a * a + a * b + b * b)
    convex = np.where(uneven > 0, of_root + of_linear, 0.0)
    u = N / k.pdim
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_u = np.log(u)
        bend = 2.5 * k.loss / k.pdim**2 * (3.0 * log_u**2 + 2.0 * log_u - 2.0) / (u * (1.0 + log_u)) ** 1.5 / u
    return convex, np.where(u >= 1.0, bend, 0.0)
