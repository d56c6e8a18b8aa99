"""The learning-error bound of Theorem 1, term by term, and the penalty made from it.

Some terms are undefined in the paper. They are extended as follows:
- a negative 1/n − 1/N_eff counts as 0 (this happens if a few samples are reused far
  more than the rest);
- in the pseudo-dimension term, max(N, Pdim) replaces N, which makes the term monotone
  (studies/paper/errata.md, erratum 3);
- a round without samples has an infinite bound.
"""

from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike

from headgate.errors import SettingError, require
from headgate.limits import NUMBER, TINY
from headgate.theory.labels import paper
from headgate.theory.reuse import Floats, floats, quotient

CONVEX_FROM = float(np.exp((sqrt(7.0) - 1.0) / 3.0))
"""value of N/Pdim where the pseudo-dimension term changes from concave to convex: 3·L²
+ 2·L = 2 with L = log(N/Pdim)
"""


@dataclass(frozen=True)
class BoundConstants:
    """The constants of Assumptions 1–4 that the bound needs.

    The paper states no values (studies/paper/errata.md, erratum 9); the defaults are
    the values for MNIST in the scripts released with the paper.

    Parameters
    ----------
    D : float, default 1000.0
        Diameter of the parameter set.
    sigma : float, default 10.0
        Square root of the gradient variance σ².
    eta : float, default 0.5
        Step size η in Theorem 1 and in all bounds compared with it.
    loss : float, default 1000.0
        Upper limit of the loss, called B in Theorem 1.
    pdim : float, default 100.0
        Pseudo-dimension of the loss class.
    C2 : float, default 0.0
        Constant C_2 per round; it is the same for every policy and cancels in every
        regret.
    eta_tilde : float, optional
        Step size η̃ in the penalty, which the paper does not define; left out: eta, as
        Lemma 2 needs (erratum 8).
    """

    D: float = 1000.0
    sigma: float = 10.0
    eta: float = 0.5
    loss: float = 1000.0
    pdim: float = 100.0
    C2: float = 0.0
    eta_tilde: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                self._check(name, value)

    def _check(self, name: str, value: float) -> None:
        if name == "pdim":
            fits, wanted = value > 0, "positive"
        else:
            fits, wanted = value >= 0, "zero or more"
        require(fits and isfinite(value), name, value, f"a finite number, {wanted}")
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
    n = floats(n)
    N_eff = floats(N_eff)
    gap = np.maximum(N_eff - n, 0.0)
    product = n * N_eff
    with np.errstate(
        divide="ignore",
        invalid="ignore",
        over="ignore",
    ):
        return np.where(product > 0, gap / product, np.inf)


@paper("eq:gen-gap-Neff-app", "lem:gen-Neff-app", "eq:gen-final-proof")
def generalisation_gap(
    N: ArrayLike,
    uniform: ArrayLike,
    k: BoundConstants,
) -> Floats:
    """Return 10·B·√(Pdim/(N·Ṽ))·√(1 + log(N/Pdim)).

    max(N, Pdim) replaces N, and `uniform` is Ṽ.
    """
    u = np.maximum(floats(N), k.pdim) / k.pdim
    uniform = floats(uniform)
    with np.errstate(divide="ignore"):
        root = np.sqrt((1.0 + np.log(u)) / (u * uniform))
        return np.asarray(10.0 * k.loss * root)


def mismatch_terms(
    uneven: Floats,
    step: float,
    k: BoundConstants,
) -> Floats:
    """Return D·σ·√x + η·σ²·x with x = `uneven` and η = `step`.

    The result is infinite if x is infinite, even with constants of zero.
    """
    infinite = np.isinf(uneven)
    finite = np.where(infinite, 0.0, uneven)
    terms = k.D * k.sigma * np.sqrt(finite) + step * k.sigma**2 * finite
    return np.where(infinite, np.inf, terms)


@paper("eq:cum-regret-bound", "eq:cum-regret-bound_detail", "thm:regret-neff")
def learning_error(
    n: ArrayLike,
    N: ArrayLike,
    uniform: ArrayLike,
    k: BoundConstants,
) -> Floats:
    """Return each round's term of Ē_T(π) in Theorem 1.

    The sum over rounds bounds the cumulative excess risk.
    """
    N_eff = floats(N) * floats(uniform)
    uneven = mismatch_terms(mismatch(n, N_eff), k.eta, k)
    return np.asarray(uneven + generalisation_gap(N, uniform, k) + k.C2)


@paper("eq:penalty-dpp")
def penalty(
    n: ArrayLike,
    N: ArrayLike,
    k: BoundConstants,
) -> Floats:
    """Return p(t), the term of Theorem 1 with perfectly even reuse (Ṽ = 1).

    It has η̃ for η, and no constant.
    """
    uneven = mismatch_terms(mismatch(n, N), k.penalty_step, k)
    return np.asarray(uneven + generalisation_gap(N, 1.0, k))


def penalty_slope(
    n: ArrayLike,
    N: ArrayLike,
    k: BoundConstants,
) -> Floats:
    """Return dp/dΛ, which is −∞ before the first sample.

    An admitted sample adds one to both n and N.
    """
    n = floats(n)
    N = floats(N)
    uneven = mismatch(n, N)
    u = np.maximum(N, k.pdim) / k.pdim
    log_u = np.log(u)

    with np.errstate(
        divide="ignore",
        invalid="ignore",
        over="ignore",
    ):
        root = 0.5 * k.D * k.sigma * np.sqrt(uneven)
        linear = k.penalty_step * k.sigma**2 * uneven
        finite = -(1.0 / n + 1.0 / N) * (root + linear)
    falling = np.where(np.isinf(uneven), -np.inf, finite)
    convex = np.where(uneven > 0, falling, 0.0)
    flattening = u * np.sqrt(u * (1.0 + log_u))
    return np.asarray(convex - 5.0 * k.loss / k.pdim * log_u / flattening)


def penalty_curvature(
    n: ArrayLike,
    N: ArrayLike,
    k: BoundConstants,
) -> tuple[Floats, Floats]:
    """Return d²p/dΛ² in two parts.

    The part of the mismatch terms is never negative; the other is that of the
    pseudo-dimension term.
    """
    n = floats(n)
    N = floats(N)
    uneven = mismatch(n, N)
    u = N / k.pdim

    with np.errstate(
        divide="ignore",
        invalid="ignore",
        over="ignore",
    ):
        a, b = 1.0 / n, 1.0 / N
        root = k.D * k.sigma * np.sqrt(uneven)
        of_root = root * (0.75 * (a * a + b * b) + 0.5 * a * b)
        linear = 2.0 * k.penalty_step * k.sigma**2 * uneven
        of_linear = linear * (a * a + a * b + b * b)

        log_u = np.log(u)
        shape = 3.0 * log_u**2 + 2.0 * log_u - 2.0
        scale = 2.5 * k.loss / k.pdim**2
        bend = scale * shape / (u * (1.0 + log_u)) ** 1.5 / u
    convex = np.where(uneven > 0, of_root + of_linear, 0.0)
    return convex, np.where(u >= 1.0, bend, 0.0)


@paper("eq:memory-proportional-weight")
def memory_proportional_weight(alpha: ArrayLike, n: ArrayLike) -> Floats:
    """Return the server's averaging weights w_m = α_m·n_m / Σ α_j·n_j.

    The sum is over the last axis. All weights are zero if no client holds a sample, so
    that θ does not change.

    >>> memory_proportional_weight([0.5, 0.5], [1, 3]).tolist()
    [0.25, 0.75]
    """
    share = floats(alpha) * floats(n)
    total = share.sum(
        axis=-1,
        keepdims=True,
    )
    return quotient(share, total, total > 0)
