"""Errata of Lemmas 1 to 4, Theorems 2 and 3 and the remarks: signs, ceilings, orders."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.theory import comparison as c
from headgate.theory.bound import CONVEX_FROM, BoundConstants, generalisation_gap, learning_error, penalty, penalty_slope
from headgate.theory.reuse import ck_counts, ck_uniformity, kstep_uniformity
from studies.paper.errata import Numbers, shows

Floats = NDArray[np.float64]

k = BoundConstants()
K, RATE, MEMORY, BUDGET = 10, 10.0, 100.0, 55.0


def exponent(T: Sequence[int], value: Sequence[float]) -> float:
    """Of T between the first and the last."""
    return float(np.log(value[-1] / value[0]) / np.log(T[-1] / T[0]))


@shows(10)
def sign_of_omega_1() -> Numbers:
    """A policy that meets Lemma 1 with equality and pays 1,000 a round for uneven reuse."""
    T, rho = 50, 0.9
    p = c.ck_penalty_ceiling(K, RATE, rho, T, k)
    regret = float(c.regret(p + 1000.0, c.oracle_bound([MEMORY], T, k)))
    first, rest = float(c.omega1(p + 1000.0, p)), c.omega2(K, RATE, rho, T, k) + c.omega3(K, RATE, [MEMORY], T, k)
    return {"regret": regret, "−Ω_1 + Ω_2 + Ω_3": rest - first, "+Ω_1 + Ω_2 + Ω_3": rest + first}


@shows(12)
def ceiling_that_is_too_low() -> Numbers:
    """Three rounds of Λ_max, then Λ_min, ρ = 0.9: the penalty of round 25 if the server switches to Λ̄ in it; loss bound 10."""
    T, low_loss = 25, BoundConstants(loss=10.0)
    lo, hi = c.admission_interval(np.arange(1, T + 1), RATE, 0.9)
    admitted = np.where(np.arange(T) < 3, hi, lo)
    n, N = c.comparison_counts(admitted[T - K : T - 1].sum(), admitted[: T - 1].sum(), RATE)
    return {
        "p^CK(25)": float(penalty(n, N, low_loss)),
        "p̄^CK(25) as printed": float(c.ck_penalty_ceiling(K, RATE, 0.9, T, low_loss)[-1]),
        "p̄^CK(25) with Σ Λ_max in 1/N": float(repaired_ceiling(K, RATE, 0.9, T, low_loss)[-1]),
    }


def repaired_ceiling(K: int, rate: float, rho: float, T: int, k: BoundConstants) -> Floats:
    """p̄^CK with the upper end of the interval in 1/N too: a ceiling for every path inside it."""
    n, _ = c.interval_lower_counts(K, rate, rho, T)
    upper = np.concatenate(([0.0], np.cumsum(c.admission_interval(np.arange(1, T), rate, rho)[1]))) + rate
    uneven = np.maximum(1 / n - 1 / upper, 0.0)
    wrong, right = BoundConstants(D=k.D, sigma=k.sigma, eta=k.eta, loss=0.0, pdim=k.pdim), k
    of_gap = c.ck_penalty_ceiling(K, rate, rho, T, right) - c.ck_penalty_ceiling(K, rate, rho, T, wrong)
    return np.asarray(k.D * k.sigma * np.sqrt(uneven) + k.eta * k.sigma**2 * uneven + of_gap)


@shows(13)
def drift_constants_in_all() -> Numbers:
    """Σ_t B_t with prices up to 10 and ρ = 1 − T^−φ."""
    found: Numbers = {}
    Ts = [1000, 10_000, 100_000]
    for phi in (0.3, 0.9):
        sums = [
            float(c.drift_constant(10 * c.admission_interval(np.arange(1, T + 1), RATE, 1 - T**-phi)[1], BUDGET).sum())
            for T in Ts
        ]
        found[f"exponent of T in Σ B_t, φ = {phi}"] = exponent(Ts, sums)
    return found


@shows(14)
def growth_of_omega_3() -> Numbers:
    Ts = [10_000, 100_000, 1_000_000]
    values = [c.omega3(K, RATE, [MEMORY], T, k) for T in Ts]
    without = [c.omega3(K, RATE, [MEMORY], T, BoundConstants(loss=0.0)) for T in Ts]
    T = Ts[-1]
    ends = c.admission_interval(np.arange(1, T + 1), RATE, 1 - T**-0.9)
    return {
        "Ω_3(10⁶)/Ω_3(10⁵)": values[2] / values[1],
        "√(T log T)": float(np.sqrt(10 * 6 / 5)),
        "log T": 6 / 5,
        "the mismatch terms alone": without[2] / without[1],
        "Ω_3 for K = 1": c.omega3(1, MEMORY, [MEMORY], 1000, k),
        "regret of always Λ_min, φ = 0.9, T = 10⁶": float(c.regret_of(ends[0], K, MEMORY, k)),
        "regret of always Λ_max": float(c.regret_of(ends[1], K, MEMORY, k)),
    }


@shows(16)
def a_divisor_below_zero() -> Numbers:
    return {f"(1−ρ)t² − t at t = {t}, ρ = 0.9": round(0.1 * t**2 - t, 9) for t in (5, 10, 20)}


@shows(21)
def growth_of_the_violation() -> Numbers:
    """ACDPP with V = T^0.1, ρ = 1 − T^−0.9, prices even from 1 to 10, C = c̄·Λ̄, N(0) = 2·Pdim; the luck of prices taken out."""
    measured = after_a_burst()
    over = [float(x.mean()) for x in measured.overspent]
    return {
        **{f"Vio_S, T = {T:,}": x for T, x in zip(measured.T, over, strict=True)},
        "its exponent": exponent(measured.T, over),
        "claimed, (1 + γ)/2": 0.55,
        "Vio_S/T^0.9 at the longest T": over[-1] / measured.T[-1] ** 0.9,
        "Λ̄·E(c − c̄)⁺, which it does not fall below in the end": RATE * 4.5**2 / 18,
    }


@shows(22)
def any_rule_inside() -> Numbers:
    """Four rules that know nothing of debt, prices or V; T = 10⁴, φ = ½."""
    T, rho = 10_000, 1 - 0.01
    lo, hi = c.admission_interval(np.arange(1, T + 1), RATE, rho)
    draw = np.random.default_rng(0)
    rules = np.stack([lo, hi, np.full(T, RATE), lo + (hi - lo) * draw.random(T)])
    regret, over = c.regret_of(rules, K, MEMORY, k), 5.5 * rules.sum(axis=-1) - BUDGET * T
    return {
        "highest regret of four rules": float(regret.max()),
        "no rule's regret exceeds": c.regret_ceiling(K, RATE, rho, T, k),
        "highest Vio_S of four rules": float(over.max()),
        "no rule's Vio_S exceeds": c.spend_ceiling(RATE, rho, 5.5),
    }


@shows(28)
def feasible_on_average_only() -> Numbers:
    """Prices of 0.1·c̄ in the first half and 1.9·c̄ in the second; ρ = 0.1, so Λ is Λ̄ nearly at once. V = 1, T = 200."""
    T, rho = 200, 0.1
    price = 5.5 * np.where(np.arange(T) < T // 2, 0.1, 1.9)[None]
    path = acdpp_path(price, np.array([T]), K, RATE, np.array([rho]), np.array([1.0]), BUDGET, k)
    N = 2 * k.pdim + np.cumsum(path.admitted, axis=-1)
    left = float(c.lyapunov(path.debt)[0] + penalty(c.held(path.admitted, K), N, k).sum())
    most = c.drift_constant(price.max() * c.admission_interval(1, RATE, rho)[1], BUDGET)
    return {
        "c̄_T·Λ̄ − C": round(float(price.mean()) * RATE - BUDGET, 9),
        "E L(T+1) + V·Σ p": left,
        "Lemma 1's B·T + V·Σ p̄^CK": float(c.t_slot_upper(most, T, 1.0, c.ck_penalty_ceiling(K, RATE, rho, T, k))),
        "Vio_S": c.cost_violation(price * path.admitted, BUDGET),
    }


@shows(29)
def roots_are_not_lipschitz() -> Numbers:
    """What the two proofs bound by a constant over t², times t²; and times t^1.5/√log t, which does stay."""
    t = np.array([1e4, 1e6])
    _, N = ck_counts(K, RATE, t)
    uniform = ck_uniformity(K, t)
    lemma2 = generalisation_gap(N, uniform, k) - generalisation_gap(N, 1.0, k)
    rho, T = 0.9, 1_000_000
    lemma3 = (c.ck_penalty_ceiling(K, RATE, rho, T, k) - c.ck_penalty_limit(K, RATE, T, k))[[9_999, T - 1]]
    found: Numbers = {}
    for name, gap in (("Lemma 2", lemma2), ("Lemma 3", lemma3)):
        found[f"{name}: gap·t² at t = 10⁶ over t = 10⁴"] = float(np.divide(*(gap * t**2)[::-1]))
        found[f"{name}: gap·t^1.5/√log t"] = float(np.divide(*(gap * t**1.5 / np.sqrt(np.log(t)))[::-1]))
    return found


@shows(30)
def constants_on_one_side() -> Numbers:
    one, T = BoundConstants(C2=1.0), 1000
    t = np.arange(1, T + 1)
    n, N = ck_counts(K, RATE, t)
    bound, p = c.ck_bound(K, RATE, T, one), penalty(n, N, one)
    return {"Ω_1(1,000) as defined, C_2 = 1": float(c.omega1(bound, p)), "with C_2 = 0": float(c.omega1(bound - 1.0, p))}


@shows(32)
def two_upper_bounds() -> Numbers:
    """Constant admission and the oracle: their bounds, and their risks with ℓ = (θ − z)²/2, z = ±½, one step of η = 0.1."""
    found: Numbers = {}
    for T in (10_000, 1_000_000):
        oracle, own = (float(terms.sum()) / T for terms in (c.oracle_bound([MEMORY], T, k), c.ck_bound(K, RATE, T, k)))
        found |= {f"Ē/T of the oracle, T = {T:,}": oracle, f"of constant admission, T = {T:,}": own}
    fresh, kept = (risk_in_the_long_run(keep) for keep in (1, K))
    return found | {
        "Dσ/√B̄ + ησ²/B̄": k.D * k.sigma / MEMORY**0.5 + k.eta * k.sigma**2 / MEMORY,
        "excess risk a round in the long run, oracle": fresh,
        "constant admission, K = 10": kept,
    }


def risk_in_the_long_run(keep: int, eta: float = 0.1) -> float:
    """E (θ − θ*)²/2 of θ ← θ − η·(θ − mean over memory); of MEMORY samples a `keep`-th is new in each round; Var z = ¼."""
    steps = eta * (1 - eta) ** np.arange(2000)
    of_a_round = np.convolve(steps, np.full(keep, 1 / keep))  # what the mean of one round's samples weighs in θ later
    return float((of_a_round**2).sum() * 0.25 * keep / MEMORY / 2)


@shows(34)
def omega_1_by_rho() -> Numbers:
    """Always Λ_min, ρ = 1 − T^−0.9, beside ρ = 0.9."""
    found: Numbers = {}
    for T in (10_000, 100_000, 1_000_000):
        for name, rho in (("ρ = 1 − T^−0.9", 1 - T**-0.9), ("ρ = 0.9", 0.9)):
            admitted = c.admission_interval(np.arange(1, T + 1), RATE, rho)[0]
            n, N = c.held(admitted, K), np.cumsum(admitted)
            bound = learning_error(n, N, kstep_uniformity(admitted, K), k)
            found[f"Ω_1, {name}, T = {T:,}"] = float(c.omega1(bound, penalty(n, N, k)))
    return found


@shows(35)
def two_ends_in_one_term() -> Numbers:
    """p̄^CK's last term less the same with Σ Λ_min in its logarithm too, summed over T = 1,000·R rounds; R = 1/(1−ρ)."""
    found: Numbers = {}
    for R in (10, 100, 1000):
        rho, T = 1 - 1 / R, 1000 * R
        _, lower = c.interval_lower_counts(K, RATE, rho, T)
        ceiling = c.ck_penalty_ceiling(K, RATE, rho, T, k)
        own = ceiling - c.ck_penalty_ceiling(K, RATE, rho, T, BoundConstants(loss=0.0)) - generalisation_gap(lower, 1.0, k)
        found[f"its sum over R, R = {R:,}"] = float(own.sum() / R)
        found[f"its sum over √R, R = {R:,}"] = float(own.sum() / R**0.5)
        found[f"largest |p̄^CK − p̄_∞^CK| of a round, R = {R:,}"] = float(
            np.abs(ceiling - c.ck_penalty_limit(K, RATE, T, k)).max()
        )
    return found


# ACDPP in real numbers, where its objective is convex: N(0) ≥ 1.73·Pdim. Policies proper are in headgate.control.


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

        lo, hi = c.admission_interval(t, rate, rho)
        hi = np.where(slope(lo) >= 0, lo, hi)
        lo = np.where(slope(hi) <= 0, hi, lo)
        while ((hi - lo)[on] > 1e-7 * rate).any():
            middle = 0.5 * (lo + hi)
            up = slope(middle) < 0
            lo, hi = np.where(up, middle, lo), np.where(up, hi, middle)
        chosen = 0.5 * (lo + hi)
        admitted[:, t - 1] = np.where(on, chosen, np.nan)
        debt = np.where(on, c.debt_update(debt, price[:, t - 1] * chosen, budget), debt)
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
    overfull = np.nansum(c.held(path.admitted, K) - K * rate, axis=-1)
    return BurstMeasured(Ts, overspent.reshape(len(Ts), seeds), overfull.reshape(len(Ts), seeds))
