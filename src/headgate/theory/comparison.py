"""The cost-debt queue, its drift and the interval of ACDPP (paper §5.2, §6.2), and its
comparison with the costless oracle: constant admission, p̄^CK, Ω_1..Ω_3, regret and
violations (§6).

Functions of a bound or a penalty return its term for every round 1..T. `regret` sums
the terms.
"""

from math import ceil, e, floor, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.errors import SettingError
from headgate.theory.bound import (
    BoundConstants,
    Floats,
    generalisation_gap,
    learning_error,
    mismatch,
    mismatch_terms,
)
from headgate.theory.labels import paper
from headgate.theory.reuse import ck_counts, ck_uniformity, kstep_uniformity


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


@paper("eq:dpp-upper-2", "eq:J-constant")
def dpp_objective(
    debt: ArrayLike,
    cost: ArrayLike,
    admitted: ArrayLike,
    budget: ArrayLike,
    V: ArrayLike,
    p: ArrayLike,
) -> Floats:
    """Return the objective J_t(Λ) = Z·(c·Λ − C) + V·p."""
    return np.asarray(
        np.asarray(debt) * (np.asarray(cost) * np.asarray(admitted) - budget)
        + np.asarray(V) * p
    )


@paper("eq:lambda-min-max", "eq:lambda-interval")
def admission_interval(
    t: ArrayLike, rate: ArrayLike, rho: ArrayLike
) -> tuple[Floats, Floats]:
    """Return the ends of [Λ_min(t), Λ_max(t)] = [Λ̄·(1 − ρ^t), Λ̄/(1 − ρ^t)].

    >>> [round(float(x), 6) for x in admission_interval(1, 10.0, 0.9)]
    [1.0, 100.0]
    """
    closed = -np.expm1(
        np.asarray(t, dtype=np.float64) * np.log(np.asarray(rho, dtype=np.float64))
    )
    rate = np.asarray(rate, dtype=np.float64)
    with np.errstate(divide="ignore"):  # at t = 0 the upper end is infinite
        return np.asarray(rate * closed), np.asarray(rate / closed)


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


def rounds_to(T: int) -> Floats:
    return np.arange(1, T + 1, dtype=np.float64)


@paper("eq:ck-bound", "eq:ck-bound-detail", "cor:ck-specialization")
def ck_bound(K: int, rate: float, T: int, k: BoundConstants) -> Floats:
    """Return the terms of Ē_T(π^CK), t = 1..T, in Corollary 1, for constant admission
    Λ̄ = rate and retention K.

    The paper uses n = K·Λ̄ from the first round on, although its root is undefined for
    t < K. This function uses n(t) = Λ̄·min(t, K), which is what the policy holds.
    """
    t = rounds_to(T)
    n, N = ck_counts(K, rate, t)
    return learning_error(n, N, ck_uniformity(K, t), k)


@paper("eq:oracle-upper-bound-explicit")
def oracle_bound(buffers: ArrayLike, T: int, k: BoundConstants) -> Floats:
    """Return the terms of Ē_T^oracle, t = 1..T, with B̄ fresh samples in every round,
    each used once.
    """
    total = float(np.sum(buffers))
    return learning_error(total, total * rounds_to(T), 1.0, k)


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


@paper("eq:dpp-regret")
def regret(bound: ArrayLike, oracle: ArrayLike) -> Floats:
    """Return Reg(T) = Ē_T − Ē_T^oracle, from the terms on the last axis."""
    return np.asarray(np.sum(bound, axis=-1) - np.sum(oracle, axis=-1))


@paper("eq:cum-cost-violation", "eq:sampling-cost-constraint")
def cost_violation(spend: ArrayLike, budget: float) -> float:
    """Return Vio^S(T) = [Σ_t E(c·Λ − C)]^+ from the spend per run and round, (R, T); 0:
    eq:sampling-cost-constraint holds.
    """
    spend = np.atleast_2d(np.asarray(spend, dtype=np.float64))
    over = float(spend.sum(axis=-1).mean()) - budget * spend.shape[-1]
    return over if over > 0 else 0.0


@paper("eq:cum-buffer-violation", "eq:avg-buffer-constraint")
def buffer_violation(occupancy: ArrayLike, buffers: ArrayLike, T: int) -> float:
    """Return Vio^B(T) = Σ_m [Σ_t E(n_m − B_m)]^+ from the occupancy per run and client,
    summed over the T rounds, (R, M). 0: eq:avg-buffer-constraint holds for every
    client."""
    held = np.atleast_2d(np.asarray(occupancy, dtype=np.float64)).mean(axis=0)
    return float(
        np.maximum(held - np.asarray(buffers, dtype=np.float64) * T, 0.0).sum()
    )


class Benchmark(NamedTuple):
    """The settings (K, Λ̄) of constant admission."""

    K: int
    rate: float


@paper("eq:ck-cost-constraint", "eq:ck-buffer-constraint")
def saturated(
    K: int, mean_price: float, buffers: ArrayLike, budget: float
) -> Benchmark:
    """Return K with the largest rate Λ̄ for which c̄·Λ̄ ≤ C and K·λ_m ≤ B_m, with λ_m
    in proportion to B_m.
    """
    return Benchmark(K, min(float(np.sum(buffers)) / K, budget / mean_price))


@paper("eq:optimal-K", "cor:optimal-k")
def optimal_K(
    mean_price: float, buffers: ArrayLike, budget: float
) -> tuple[Benchmark, Benchmark]:
    """Return both candidates of Corollary 2, K = ⌈c̄·B̄/C⌉ and K = max(⌊c̄·B̄/C⌋, 1),
    each with the highest rate that fits.

    The paper fills the buffers in both cases. With the smaller K this exceeds the
    budget, so here its rate is at most C/c̄ (studies/paper/errata.md, erratum 7).
    """
    ratio = mean_price * float(np.sum(buffers)) / budget
    nearest = round(ratio)
    if (
        nearest >= 1 and abs(ratio - nearest) < 1e-9 * nearest
    ):  # 10.000000000000002 counts as 10, not 11
        ratio = float(nearest)
    up, down = max(ceil(ratio), 1), max(floor(ratio), 1)
    return saturated(up, mean_price, buffers, budget), saturated(
        down, mean_price, buffers, budget
    )


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
# (studies/paper/regret.md). In all of them R = 1/(1−ρ), which is T^φ for ρ = 1 − T^−φ,
# and the rate times K is the memory, K·Λ̄ = B̄.


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
