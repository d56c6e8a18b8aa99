"""The equations of the paper that the package itself does not use.

These are the optimisation recursion behind Theorem 1, Ṽ under K-step retention, the
drift of the cost debt, the chain of bounds from Lemma 1 to Theorem 2, and results that
hold for every rule that chooses inside the interval of eq:lambda-min-max (regret.md).
What the package uses is in `headgate.theory`.
"""

from math import e, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError
from headgate.theory.bound import (
    BoundConstants,
    generalisation_gap,
    learning_error,
    mismatch,
    mismatch_terms,
)
from headgate.theory.comparison import (
    admission_interval,
    oracle_bound,
    regret,
    rounds_to,
)
from headgate.theory.labels import paper
from headgate.theory.reuse import Floats

# How evenly samples are reused (§4, §5.1)


@paper("eq:Vtilde-def-body")
def uniformity(uses: ArrayLike) -> Floats:
    """Return Ṽ = mean² / (mean² + variance) of the use counts on the last axis.

    >>> float(uniformity([3, 3, 3]))
    1.0
    >>> float(uniformity([1, 3]))
    0.8
    """
    uses = np.asarray(uses, dtype=np.float64)
    squared_mean = uses.mean(axis=-1) ** 2
    return np.asarray(squared_mean / (squared_mean + uses.var(axis=-1)))


@paper("eq:boundary-deficit-1", "eq:boundary-deficit-2")
def boundary_deficits(admitted: ArrayLike, K: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return D_∂^(1)(t) and D_∂^(2)(t) for every round t, from the admissions Λ(1..T)
    on the last axis.

    The sums start at round max(1, t−K+2), because nothing was admitted before round 1.
    """
    admitted = np.asarray(admitted)
    first, second = np.zeros_like(admitted), np.zeros_like(admitted)
    for age in range(
        1, min(K, admitted.shape[-1] + 1)
    ):  # samples of this age have K − age uses left
        of_this_age = admitted[..., : admitted.shape[-1] - age + 1]
        first[..., age - 1 :] += (K - age) * of_this_age
        second[..., age - 1 :] += (K**2 - age**2) * of_this_age
    return first, second


@paper("eq:kstep-vtilde-exact")
def kstep_uniformity(admitted: ArrayLike, K: int) -> Floats:
    """Return Ṽ(t) for every round under K-step retention, in closed form; NaN before
    the first sample.
    """
    N = np.cumsum(np.asarray(admitted), axis=-1)
    first, second = boundary_deficits(admitted, K)
    with np.errstate(invalid="ignore"):
        return np.asarray((K * N - first) ** 2.0 / (N * (K**2 * N - second)))


# The optimisation recursion behind Theorem 1 (Appendix A)


@paper("eq:sigma-bar-Neff-app")
def gradient_mismatch(n: ArrayLike, N_eff: ArrayLike, k: BoundConstants) -> Floats:
    """Return σ²·(1/n − 1/N_eff), a bound on σ̄²(t): how far the gradient of the memory
    is from that of all samples so far.
    """
    return k.sigma**2 * mismatch(n, N_eff)


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


# The drift of the cost debt (§5.2, §6.2)


@paper("eq:lyapunov-dpp")
def lyapunov(debt: ArrayLike) -> Floats:
    """Return the Lyapunov function L = Z²/2."""
    return np.asarray(0.5 * np.asarray(debt, dtype=np.float64) ** 2)


@paper("eq:lyapunov-drift", "eq:dpp-objective")
def drift(debt: ArrayLike, next_debt: ArrayLike) -> Floats:
    """Return L(t+1) − L(t) of one round. Its mean over runs in the same state is
    Δ(O(t)).
    """
    return lyapunov(next_debt) - lyapunov(debt)


@paper("eq:dpp-upper-1", "eq:dpp-upper-anyd")
def drift_constant(most_spend: ArrayLike, budget: ArrayLike) -> Floats:
    """Return the constant of eq:dpp-upper-1 (the paper's second B), the maximum of (C_t
    − C)²/2 over 0 ≤ C_t ≤ most_spend.

    It holds for all rounds only if c(t)·Λ(t) is bounded. In the paper's interval the
    bound is c_max·Λ̄/(1−ρ), so the constant grows like (1−ρ)^{-2}
    (studies/paper/errata.md, erratum 13).
    """
    most_spend, budget = (
        np.asarray(most_spend, dtype=np.float64),
        np.asarray(budget, dtype=np.float64),
    )
    return np.asarray(0.5 * np.maximum((most_spend - budget) ** 2, budget**2))


@paper(
    "eq:dpp-T-slot-upper",
    "lem:dpp-T-slot-upper",
    "eq:dpp-drift-sum",
    "eq:penalty-bridge",
)
def t_slot_upper(
    constant: ArrayLike, rounds: int, V: ArrayLike, comparison: ArrayLike
) -> Floats:
    """Return B·T + V·Σ p̄^CK(t), Lemma 1's bound on E[L(T+1) − L(1)] + V·Σ E[p(t)];
    (result + L(1))/V bounds Σ E[p(t)].
    """
    return np.asarray(
        np.asarray(constant) * rounds + np.asarray(V) * np.sum(comparison, axis=-1)
    )


# The chain of bounds (§6)


@paper("eq:nc-Nc")
def comparison_counts(
    kept: ArrayLike, distinct: ArrayLike, rate: ArrayLike
) -> tuple[Floats, Floats]:
    """Return n^C(t) and N^C(t) if the server switches to Λ̄ in round t: the kept and
    the distinct samples, plus Λ̄ each.

    The paper writes n(t) − Λ(t−K) + Λ̄, but the kept samples are n(t−1) − Λ(t−K)
    (studies/paper/errata.md, erratum 11).
    """
    rate = np.asarray(rate, dtype=np.float64)
    return np.asarray(kept) + rate, np.asarray(distinct) + rate


@paper("eq:nc-lb", "eq:Nc-lb", "eq:app-nNlb")
def interval_lower_counts(
    K: int, rate: float, rho: float, T: int
) -> tuple[Floats, Floats]:
    """Return n_lb(t) and N_lb(t), t = 1..T: lower bounds for any policy inside the
    interval that admits Λ̄ in round t.

    In the paper's formula Λ_min(t−K) is negative for t < K; here it counts as 0.
    """
    t = rounds_to(T)
    lower, _ = admission_interval(np.maximum(t - K, 0.0), rate, rho)
    N_lb = np.cumsum(admission_interval(t, rate, rho)[0])
    return (K - 1) * lower + rate, np.concatenate(([0.0], N_lb[:-1])) + rate


@paper("eq:pC-upper-explicit", "eq:pC-upper")
def ck_penalty_ceiling(
    K: int, rate: float, rho: float, T: int, k: BoundConstants
) -> Floats:
    """Return p̄^CK(t), t = 1..T. The logarithm uses the upper end of the interval, all
    other terms use the lower end.

    It is not always an upper bound, because 1/n − 1/N grows with N
    (studies/paper/errata.md, erratum 12).
    """
    t = rounds_to(T)
    n, N = interval_lower_counts(K, rate, rho, T)
    upper = (
        np.concatenate(([0.0], np.cumsum(admission_interval(t, rate, rho)[1])[:-1]))
        + rate
    )
    uneven = mismatch(n, N)
    inside = 1.0 + np.log(np.maximum(upper, k.pdim) / k.pdim)
    return mismatch_terms(uneven, k.eta, k) + 10.0 * k.loss * np.sqrt(
        k.pdim / np.maximum(N, k.pdim) * inside
    )


@paper("eq:pc-infty")
def ck_penalty_limit(K: int, rate: float, T: int, k: BoundConstants) -> Floats:
    """Return p̄_∞^CK(t), t = 1..T, the penalty with full buffers from round 1 on and N
    = Λ̄·t.
    """
    return learning_error(K * rate, rate * rounds_to(T), 1.0, k) - k.C2


@paper("eq:omega1-def")
def omega1(bound: ArrayLike, penalties: ArrayLike) -> Floats:
    """Return Ω_1(T) = Ē_T − Σ p, the cost of uneven reuse, from terms on the last
    axis.
    """
    return np.asarray(np.sum(bound, axis=-1) - np.sum(penalties, axis=-1))


@paper("eq:omega2-def")
def omega2(K: int, rate: float, rho: float, T: int, k: BoundConstants) -> float:
    """Return Ω_2(T) = Σ p̄^CK − Σ p̄_∞^CK, the cost of the shrinking interval."""
    return float(
        np.sum(ck_penalty_ceiling(K, rate, rho, T, k) - ck_penalty_limit(K, rate, T, k))
    )


@paper("eq:omega3-def")
def omega3(K: int, rate: float, buffers: ArrayLike, T: int, k: BoundConstants) -> float:
    """Return Ω_3(T) = Σ p̄_∞^CK − Ē_T^oracle, the cost of fewer distinct samples."""
    return float(
        np.sum(ck_penalty_limit(K, rate, T, k) + k.C2 - oracle_bound(buffers, T, k))
    )


@paper("eq:omega-master")
def omega_master(
    omega1: ArrayLike,
    omega2: ArrayLike,
    omega3: ArrayLike,
    constant: ArrayLike,
    T: int,
    V: float,
) -> Floats:
    """Return Ω_1 + Ω_2 + Ω_3 + B·T/V, an upper bound on the regret.

    The paper prints −Ω_1, but its definitions give +Ω_1 (studies/paper/errata.md,
    erratum 10).
    """
    first, second, third, drift = (
        np.asarray(x, dtype=np.float64) for x in (omega1, omega2, omega3, constant)
    )
    return np.asarray(first + second + third + drift * T / V)


class Rates(NamedTuple):
    """The exponents of T in two growth rates."""

    regret: float
    cost_violation: float


def claimed_rates(gamma: float, phi: float) -> Rates:
    """Return the exponents claimed in the remark after Theorem 3, for V = T^γ and ρ = 1
    − T^{−φ}.

    The claims are Reg = O(T^max(1−γ, φ)) and Vio^S = O(T^max((1+γ)/2, (γ+φ)/2)). They
    are not always true (studies/paper/errata.md, errata 14 and 21).
    """
    if not (0 < gamma < 1 and 0 < phi < 1):
        raise SettingError(
            f"gamma = {gamma}, phi = {phi}: both must lie strictly between 0 and 1"
        )
    return Rates(max(1 - gamma, phi), max((1 + gamma) / 2, (gamma + phi) / 2))


# Results that hold for every rule that chooses inside the interval of eq:lambda-min-max
# (regret.md). In all of them R = 1/(1−ρ), which is T^φ for ρ = 1 − T^−φ, and the rate
# times K is the memory, K·Λ̄ = B̄.


def farthest_in_all(rho: float) -> float:
    """Return R·(2 + log R), an upper bound on Σ d_t with d_t = ρ^t/(1−ρ^t) ≤ R/t. Every
    rule has |Λ(t) − Λ̄| ≤ d_t·Λ̄.
    """
    R = 1.0 / (1.0 - rho)
    return R * (2.0 + log(R))


def held(admitted: ArrayLike, K: int) -> Floats:
    """Return n(t) for every round under K-step retention, from the admissions Λ(1..T)
    on the last axis.
    """
    N = np.cumsum(np.asarray(admitted, dtype=np.float64), axis=-1)
    gone = np.zeros_like(N)
    gone[..., K:] = N[..., :-K]
    return np.asarray(N - gone)


def regret_of(admitted: ArrayLike, K: int, memory: float, k: BoundConstants) -> Floats:
    """Return Reg(T) from the admissions Λ(1..T), real numbers on the last axis."""
    N = np.cumsum(np.asarray(admitted, dtype=np.float64), axis=-1)
    terms = learning_error(held(admitted, K), N, kstep_uniformity(admitted, K), k)
    return regret(terms, oracle_bound([memory], N.shape[-1], k))


@paper("thm:dpp-regret", "eq:dpp-regret-rate")
def regret_ceiling(K: int, rate: float, rho: float, T: int, k: BoundConstants) -> float:
    """Return an upper bound on Reg(T) of every rule inside the interval, O(R·log R +
    √(T·log T)), independent of V.
    """
    R, memory, most = 1.0 / (1.0 - rho), K * rate, farthest_in_all(rho)
    away = most + 1.0 + log(T)
    inside = 1.0 + log(max(rate * (T + most) / k.pdim, 1.0))
    return (
        k.D * k.sigma * (away / sqrt(memory) + (K - 1) * sqrt(R / rate))
        + k.eta * k.sigma**2 * (away / memory + (K - 1) * R / rate)
        + 20.0 * k.loss * (sqrt(K) * (R + K) + sqrt(2.0 * k.pdim * T / rate * inside))
    )


def regret_floor(K: int, rate: float, rho: float, T: int, k: BoundConstants) -> float:
    """Return a lower bound on Reg(T) of every rule inside the interval; of order
    √(T·log T) if K ≥ 2 and R is at most √T.
    """
    R, memory, most = 1.0 / (1.0 - rho), K * rate, farthest_in_all(rho)
    t = rounds_to(T)
    early = t < 2.0 * most
    more = np.where(
        early, 0.0, generalisation_gap(1.5 * rate * t, 1.0, k)
    ) - generalisation_gap(memory * t, 1.0, k)
    lost = k.D * k.sigma * sqrt(2.0 / memory) + k.eta * k.sigma**2 / memory
    return float(more.sum()) - lost * (
        2.0 * (R + K) + R / (e - 1.0) + 2.0 * K * (1.0 + log(T))
    )


@paper("thm:dpp-cost-constraint", "eq:cost-violation-rate")
def spend_ceiling(rate: float, rho: float, highest_mean: float) -> float:
    """Return an upper bound on Vio^S of every rule if c̄_T·Λ̄ ≤ C; `highest_mean` is
    the largest E c(t) of any round.
    """
    return highest_mean * rate * farthest_in_all(rho)


def occupancy_ceiling(memory: float, rho: float) -> float:
    """Return an upper bound on Vio^B of every rule that gives each client its share
    B_m/B̄.
    """
    return memory * farthest_in_all(rho)
