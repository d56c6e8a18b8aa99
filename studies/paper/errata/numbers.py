"""Where the paper's text cannot be taken literally: the numbers that show it.
`shows_N_...` returns those of erratum N, in the order of `shown` in errata.toml, which
says what each of them is."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.control import Controller, System
from headgate.control.controller import debt_update
from headgate.control.policies import Acdpp
from headgate.theory import comparison as c
from headgate.theory.bound import (
    BoundConstants,
    generalisation_gap,
    learning_error,
    memory_proportional_weight,
    mismatch,
    penalty,
)
from headgate.theory.reuse import ck_counts, ck_uniformity
from studies.paper import theory
from studies.paper.theory import distance_recursion, kstep_uniformity, local_constants

Floats = NDArray[np.float64]
Numbers = Sequence[float]

k = BoundConstants()
K, RATE, MEMORY, BUDGET = 10, 10.0, 100.0, 55.0


# Theorem 1, Lemma 5 and Corollary 1: reuse, the pseudo-dimension term, the variance of
# gradients, the recursion


def printed_gap(N: ArrayLike, pdim: float) -> Floats:
    """√(Pdim/N)·√(1 + log(N/Pdim)) as it is printed, 10·B left out; nan below
    Pdim/e.
    """
    u = np.asarray(N, dtype=np.float64) / pdim
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt((1 + np.log(u)) / u))


def printed_uniformity(K: int, t: ArrayLike) -> Floats:
    """eq:vck-exact to the letter."""
    t = np.asarray(t, dtype=np.float64)
    return np.asarray(
        (K * t - K * (K - 1) / 2) ** 2
        / (t * (K**2 * t - K * (K - 1) * (2 * K - 1) / 6))
    )


def shows_1_uniformity_of_constant_admission() -> Numbers:
    return float(kstep_uniformity(np.ones(20), 5)[-1]), float(printed_uniformity(5, 20))


def shows_2_uniformity_before_round_K() -> Numbers:
    t, age = 3, np.arange(1, K)
    first, second = (K - age).sum(), (K**2 - age**2).sum()
    from_before = float((K * t - first) ** 2 / (t * (K**2 * t - second)))
    return 6**2 / (3 * 14), float(kstep_uniformity(np.ones(t), K)[-1]), from_before


def shows_3_generalisation_below_pdim() -> Numbers:
    """All functions from 106 points to {0, B}, the points equally likely: Pdim = 106,
    and 39 samples leave some unseen.
    """
    pdim, N = 106, 39
    printed, extended = (
        10 * float(printed_gap(samples, pdim)) for samples in (N, pdim)
    )
    return (
        (1 - 1 / pdim) ** N,
        printed,
        extended,
        float(printed_gap(50, 100) / printed_gap(100, 100)),
    )


def shows_15_roots_before_round_K() -> Numbers:
    rho, t = 0.9, 3
    return 1 / MEMORY - 1 / (RATE * t * float(ck_uniformity(K, t))), RATE * (
        1 - rho ** (t - K)
    )


def shows_17_effective_sizes_below_memory() -> Numbers:
    t, found = np.arange(1, 200), []
    for K in (10, 20):
        n, N = ck_counts(K, 1.0, t)
        below = t[N * ck_uniformity(K, t) < n * (1 - 1e-12)]
        found += [float(below[0]), float(below[-1])]
    return found


FRESH = BoundConstants(D=100.0, sigma=1.0, eta=0.1, loss=1.0, pdim=10.0)
"""with which fresh samples are not best: the first buffers hold ten times Pdim, so no N
is below it
"""


def stale_over_fresh(k: BoundConstants, T: int) -> float:
    """The bound of the first buffers, 100 samples, kept for ever, over that of fresh
    ones in every round.
    """
    stale = (
        10 * k.loss * float(printed_gap(100, k.pdim))
    )  # n = N = N_eff = 100: no mismatch
    return T * stale / float(c.oracle_bound([100], T, k).sum())


def shows_18_staleness_against_freshness() -> Numbers:
    return [stale_over_fresh(FRESH, T) for T in (50, 100_000)]


def shows_19_variance_of_the_difference() -> Numbers:
    """Constant admission: Var of (mean over memory − mean over all uses), in units of
    σ²/Λ̄, beside 1/n − 1/N_eff.
    """
    t = np.arange(1, 10_001)
    n, N = ck_counts(K, 1.0, t)
    true, printed = (
        variance(n, N * ck_uniformity(K, t)) for variance in (exact_mismatch, mismatch)
    )
    return [
        float(true[99] / printed[99]),
        *(float(true[:T].sum() / printed[:T].sum()) for T in (100, 1000, 10_000)),
    ]


def exact_mismatch(n: ArrayLike, n_eff: ArrayLike) -> Floats:
    """Σ_i (ω_i − 1{i in memory}/n)² for every round, from n(t) and N_eff(t) on the last
    axis.

    That times the variance is E‖∇F̂_all − ∇F̂_mem‖² of independent samples at a fixed
    θ; eq:sigma-bar-Neff-app says it is at most 1/n − 1/N_eff. The sum is 1/N_eff + 1/n
    − 2·(mean weight in memory), and the use counts of the samples in memory follow from
    how ΣA² grows (`count_uses`). Each image counts once in a memory.
    """
    n, n_eff = np.asarray(n, dtype=np.float64), np.asarray(n_eff, dtype=np.float64)
    uses = np.cumsum(n, axis=-1)
    squares = uses**2 / n_eff
    grown = np.diff(squares, axis=-1, prepend=0.0)
    held = (grown / n + 1) / 2  # mean use count in memory, this round's included
    return np.asarray(1 / n + 1 / n_eff - 2 * held / uses)


def shows_20_two_mixtures() -> Numbers:
    """Losses θ·B at client 1 and (1 − θ)·B at client 2, α = (½, ½), B_m = (8, 12): Pdim
    = 1.
    """
    shares, N = np.array([8, 12]) / 20, 1_000_000
    theta = np.linspace(0, 1, 101)
    gap = float(np.abs(0.5 - (shares[0] * theta + shares[1] * (1 - theta))).max())
    return gap, 10 * float(printed_gap(N, 1))


def shows_31_supremum_inside_the_mean() -> Numbers:
    """Oracle, n = 1, N = 2: at each of two parameters a gradient's noise is ±σ,
    independently.
    """
    apart = [
        max((a - b) ** 2, (x - y) ** 2) / 4 for a, b, x, y in product((-1, 1), repeat=4)
    ]
    at_one = [(a - b) ** 2 / 4 for a, b in product((-1, 1), repeat=2)]
    return float(np.mean(apart)), float(np.mean(at_one)), float(mismatch(1, 2))


# Lemma 5 and the constant of Theorem 1: the optimisation recursion


def shows_24_minimum_of_the_wrong_objective() -> Numbers:
    """ℓ = (θ − z)²/2 on [−1, 1], z = ±½: θ* = 0. One sample, θ(1) = θ*, one step of η =
    0.01.
    """
    eta, z = 0.01, 0.5
    c = local_constants(G=1.5, L=1.0, D=2.0, E=1)
    of_sample, least = z**2 / 2, 0.0
    printed, mended = (
        float(distance_recursion(0.0, gap, 0.0, eta, 2.0, c))
        for gap in (of_sample - least, 0.0)
    )
    return (eta * z) ** 2, printed, mended


def shows_25_steps_of_a_round() -> Numbers:
    """ℓ = 1 + z·θ on [−1, 1], z = ±1: F_P is constant, so θ(1) = 0 is a θ*. E steps of
    η = 0.1 on one sample.
    """
    eta, found = 0.1, []
    for E in (2, 3, 10):
        c = local_constants(G=1.0, L=0.0, D=2.0, E=E)
        found += [(E * eta) ** 2, float(distance_recursion(0.0, 0.0, 0.0, eta, 2.0, c))]
    return found


def shows_26_without_convexity() -> Numbers:
    """ℓ = (1 + cos πθ)/2 on [−1, 1], the same for every sample: gradient descent stays
    at θ(1) = 0, its highest point.
    """
    eta, G, L, D = 0.01, pi / 2, pi**2 / 2, 2.0
    gap = 1.0
    after = float(
        distance_recursion(1.0, gap, 0.0, eta, D, local_constants(G, L, D, E=1))
    )
    return 1.0, after, gap


def shows_27_constant_inside_the_sum() -> Numbers:
    G = D = 1.0
    eta, C1 = np.geomspace(1e-4, 1e4, 100_001), local_constants(G, 0.0, D, E=1).C1
    every_round, once = (
        float((D**2 / (2 * eta * T) + eta * C1 / 2).min()) for T in (1, 10_000)
    )
    return every_round, sqrt(5), once


def shows_33_weights_of_the_server() -> Numbers:
    """ℓ = (θ − z)²/2 on [0, 1], z = 0 at client 1 and 1 at client 2; α = (0.8, 0.2) and
    n_m in proportion to it, η = 0.001.

    Samples of a client are alike, so F̂_all = F̂_mem = F_P and σ̄ = 0.
    """
    alpha, eta = np.array([0.8, 0.2]), 0.001
    weights = memory_proportional_weight(alpha, 10 * alpha)
    best, rest = (
        alpha[1],
        weights[1],
    )  # where F_P is least, and where the weighted steps come to rest
    away, gap = float((rest - best) ** 2), float((rest - best) ** 2 / 2)
    recursion = float(
        distance_recursion(
            away, gap, 0.0, eta, 1.0, local_constants(1.0, 1.0, 1.0, E=1)
        )
    )
    return float(weights[0]), float(alpha[0]), away, recursion, gap


def shows_37_two_islands() -> Numbers:
    """Θ = [0, 1] ∪ [2, 3], loss 1 on the first and 0 on the second: G = σ = 0, Pdim =
    1, D = 3; 100 fresh samples, η = 10.
    """
    D, eta, T, memory = 3.0, 10.0, 10_000, 100
    N = memory * np.arange(1, T + 1)
    return float(T), float(T * D**2 / (2 * eta) + 10 * printed_gap(N, 1).sum()), 0.0


# the rule and its settings: first decision, argmin, whole samples, Corollary 2, memory


def printed_penalty(n: Floats, N: Floats, k: BoundConstants) -> Floats:
    """eq:penalty-dpp to the letter; nan below Pdim/e."""
    gap = 10 * k.loss * printed_gap(N, k.pdim)
    return np.asarray(
        k.D * k.sigma * np.sqrt(mismatch(n, N))
        + k.penalty_step * k.sigma**2 * mismatch(n, N)
        + gap
    )


def shows_4_first_decision() -> Numbers:
    found = []
    for rho in (0.9, 0.99, 0.999):
        lo, hi = (float(x) for x in c.admission_interval(1, 10.0, rho))
        x = np.linspace(lo, hi, 200_001)
        found += [
            float(x[np.nanargmin(printed_penalty(x, x + N0, k))])
            for N0 in (k.pdim, 0.0)
        ]
    flat = np.linspace(1.0, 100.0, 1001)
    shares = [
        spend_share(printed_penalty, k.pdim),
        spend_share(penalty, 0.0),
        spend_share(penalty, 0.0, largest=False),
        spend_share(printed_penalty, 0.0),
    ]
    return [
        *found,
        float(np.ptp(penalty(flat, flat, k))),
        *(100 * share for share in shares),
    ]


def spend_share(
    p: Callable[[Floats, Floats, BoundConstants], Floats],
    N0: float,
    largest: bool = True,
) -> float:
    """ACDPP's expected spend over the budget on a grid: MNIST system, V = √T, ρ = 1 −
    1/√T, 100 seeds, price luck taken out.
    """
    T, runs = 100, 100
    price, admitted, debt = (
        np.random.default_rng(0).uniform(1, 10, (runs, T)),
        np.zeros((runs, T)),
        np.zeros(runs),
    )
    for t in range(T):
        lo, hi = (float(end) for end in c.admission_interval(t + 1, RATE, 0.9))
        x = np.linspace(hi, lo, 201) if largest else np.linspace(lo, hi, 201)
        kept, N = (
            admitted[:, max(t - K + 1, 0) : t].sum(axis=-1)[:, None],
            N0 + admitted.sum(axis=-1)[:, None],
        )
        J = (debt * price[:, t])[:, None] * x + 10.0 * p(kept + x, N + x, k)
        admitted[:, t] = x[np.nanargmin(J, axis=-1)]
        debt = debt_update(debt, price[:, t] * admitted[:, t], BUDGET)
    return float((price * (admitted - RATE)).mean() / BUDGET + 1)


def shows_5_two_minima() -> Numbers:
    """5 samples kept, N = Pdim = 100, V = 1, Z·c = 8, D = 30: no extension is
    needed.
    """
    x = np.linspace(0, 400, 400_001)
    J = 8.0 * x + printed_penalty(5 + x, 100 + x, BoundConstants(D=30.0))
    inner = np.flatnonzero((J[1:-1] < J[:-2]) & (J[1:-1] < J[2:])) + 1
    return [float(len(inner)), *map(float, J[inner])]


def shows_6_rounds_without_whole_samples() -> Numbers:
    lo, hi = c.admission_interval(np.arange(1, 200), 100 / 11, 0.9)
    return [1.0 + int(np.argmax(np.floor(hi) < lo))]


def shows_7_floor_of_corollary_2() -> Numbers:
    full, budget = 5.5 * MEMORY, 60.0
    up, down = c.optimal_K(5.5, [MEMORY], budget)
    return full / budget, full / down.K, full / up.K


def shows_8_two_step_sizes() -> Numbers:
    """Constant admission with η̃ = η/2. Ω_1 is Corollary 1's bound, the same for both,
    less Σ p.
    """
    n, N = ck_counts(K, RATE, np.arange(1, 10_001))
    less = penalty(n, N, k) - penalty(n, N, replace(k, eta_tilde=k.eta / 2))
    return [float(less[:T].sum()) for T in (1000, 10_000)]


def shows_9_all_to_one_client() -> Numbers:
    """Two buffers of 50, Λ̄ = 10, K = 10, T = 100: J depends on the total alone."""
    T, even, to_one = 100, (5, 5), (10, 0)
    held = (
        [theory.held(np.full(T, rate), K).sum() for rate in both]
        for both in (even, to_one)
    )
    return [c.buffer_violation([both], [50, 50], T) for both in held]


def shows_11_counted_twice() -> Numbers:
    admitted, K, rate = [7, 3, 5, 11], 2, 10
    n = [7, 10, 8, 16]
    t = 3  # the fourth round
    printed, mended = (
        float(before - admitted[t - K] + rate) for before in (n[t], n[t - 1])
    )
    return (
        float(theory.comparison_counts(admitted[t - 1], 15, rate)[0]),
        printed,
        mended,
    )


def shows_36_dropped_before_or_after_training() -> Numbers:
    """Λ̄ = 10 a round; a sample whose age is K = 10 is dropped before the round's
    training, or after it.
    """
    K, rate, found = 10, 10, []
    for order in ("after", "before"):
        ages: list[int] = []  # of the samples of each round that are in memory
        for _ in range(3 * K):
            trained = [
                age
                for age in (*(age + 1 for age in ages), 1)
                if order == "after" or age != K
            ]
            ages = [age for age in trained if age != K]
        found += [float(max(trained)), float(rate * len(trained))]
    return [*found, float(ck_counts(K, rate, 100)[0])]


def shows_23_another_K() -> Numbers:
    """K = 9 beside Corollary 2's K = 10, Λ̄ = 10, B̄ = 100."""
    T, (_, _, over) = 100_000, after_a_burst()
    more = c.ck_bound(9, 10.0, T, k)[T // 2 :] - c.ck_bound(10, 10.0, T, k)[T // 2 :]
    limit = k.D * k.sigma * (90**-0.5 - 0.1) + k.eta * k.sigma**2 * (1 / 90 - 0.01)
    return [float(more.mean()), limit, *over, theory.occupancy_ceiling(100.0, 0.9)]


# Lemmas 1 to 4, Theorems 2 and 3 and the remarks: signs, ceilings, orders


def exponent(T: Sequence[int], value: Sequence[float]) -> float:
    """Of T between the first and the last."""
    return float(np.log(value[-1] / value[0]) / np.log(T[-1] / T[0]))


def shows_10_sign_of_omega_1() -> Numbers:
    """A policy that meets Lemma 1 with equality and pays 1,000 a round for uneven
    reuse.
    """
    T, rho = 50, 0.9
    p = theory.ck_penalty_ceiling(K, RATE, rho, T, k)
    regret = float(c.regret(p + 1000.0, c.oracle_bound([MEMORY], T, k)))
    first, rest = (
        float(theory.omega1(p + 1000.0, p)),
        theory.omega2(K, RATE, rho, T, k) + theory.omega3(K, RATE, [MEMORY], T, k),
    )
    return regret, rest - first, rest + first


def shows_12_ceiling_that_is_too_low() -> Numbers:
    """Three rounds of Λ_max, then Λ_min, ρ = 0.9: the penalty of round 25 if the server
    switches to Λ̄ in it; loss bound 10.
    """
    T, low_loss = 25, BoundConstants(loss=10.0)
    lo, hi = c.admission_interval(np.arange(1, T + 1), RATE, 0.9)
    admitted = np.where(np.arange(T) < 3, hi, lo)
    n, N = theory.comparison_counts(
        admitted[T - K : T - 1].sum(), admitted[: T - 1].sum(), RATE
    )
    printed, mended = (
        float(p(K, RATE, 0.9, T, low_loss)[-1])
        for p in (theory.ck_penalty_ceiling, repaired_ceiling)
    )
    return float(penalty(n, N, low_loss)), printed, mended


def repaired_ceiling(
    K: int, rate: float, rho: float, T: int, k: BoundConstants
) -> Floats:
    """p̄^CK with the upper end of the interval in 1/N too: a ceiling for every path
    inside it.
    """
    n, _ = theory.interval_lower_counts(K, rate, rho, T)
    upper = (
        np.concatenate(
            ([0.0], np.cumsum(c.admission_interval(np.arange(1, T), rate, rho)[1]))
        )
        + rate
    )
    uneven = np.maximum(1 / n - 1 / upper, 0.0)
    of_gap = theory.ck_penalty_ceiling(K, rate, rho, T, replace(k, D=0.0, sigma=0.0))
    return np.asarray(
        k.D * k.sigma * np.sqrt(uneven) + k.eta * k.sigma**2 * uneven + of_gap
    )


def shows_13_drift_constants_in_all() -> Numbers:
    """Σ_t B_t with prices up to 10 and ρ = 1 − T^−φ."""
    Ts, found = [1000, 10_000, 100_000], []
    for phi in (0.3, 0.9):
        most = (
            10 * c.admission_interval(np.arange(1, T + 1), RATE, 1 - T**-phi)[1]
            for T in Ts
        )
        found.append(
            exponent(
                Ts, [float(theory.drift_constant(each, BUDGET).sum()) for each in most]
            )
        )
    return found


def shows_14_growth_of_omega_3() -> Numbers:
    Ts = [10_000, 100_000, 1_000_000]
    values = [theory.omega3(K, RATE, [MEMORY], T, k) for T in Ts]
    without = [
        theory.omega3(K, RATE, [MEMORY], T, BoundConstants(loss=0.0)) for T in Ts
    ]
    T = Ts[-1]
    ends = c.admission_interval(np.arange(1, T + 1), RATE, 1 - T**-0.9)
    root, logarithm = float(np.sqrt(10 * 6 / 5)), 6 / 5  # of √(T log T) and log T
    for_one = theory.omega3(1, MEMORY, [MEMORY], 1000, k)
    least, most = (float(theory.regret_of(end, K, MEMORY, k)) for end in ends)
    return (
        values[2] / values[1],
        root,
        logarithm,
        without[2] / without[1],
        for_one,
        least,
        most,
    )


def shows_16_a_divisor_below_zero() -> Numbers:
    return [round(0.1 * t**2 - t, 9) for t in (5, 10, 20)]


def shows_21_growth_of_the_violation() -> Numbers:
    """ACDPP with V = T^0.1, ρ = 1 − T^−0.9, prices even from 1 to 10, C = c̄·Λ̄, N(0) =
    2·Pdim; the luck of prices taken out.
    """
    Ts, over, _ = after_a_burst()
    claimed, floor = 0.55, RATE * 4.5**2 / 18
    return [*over, exponent(Ts, over), claimed, over[-1] / Ts[-1] ** 0.9, floor]


def shows_22_any_rule_inside() -> Numbers:
    """Four rules that know nothing of debt, prices or V; T = 10⁴, φ = ½."""
    T, rho = 10_000, 1 - 0.01
    lo, hi = c.admission_interval(np.arange(1, T + 1), RATE, rho)
    draw = np.random.default_rng(0)
    rules = np.stack([lo, hi, np.full(T, RATE), lo + (hi - lo) * draw.random(T)])
    regret, over = (
        theory.regret_of(rules, K, MEMORY, k),
        5.5 * rules.sum(axis=-1) - BUDGET * T,
    )
    return (
        float(regret.max()),
        theory.regret_ceiling(K, RATE, rho, T, k),
        float(over.max()),
        theory.spend_ceiling(RATE, rho, 5.5),
    )


def shows_28_feasible_on_average_only() -> Numbers:
    """Prices of 0.1·c̄ in the first half and 1.9·c̄ in the second; ρ = 0.1, so Λ is Λ̄
    nearly at once. V = 1, T = 200.
    """
    T, rho = 200, 0.1
    price = 5.5 * np.where(np.arange(T) < T // 2, 0.1, 1.9)[None]
    admitted, debt = acdpp_path(price, rho, 1.0)
    N = 2 * k.pdim + np.cumsum(admitted, axis=-1)
    left = float(
        theory.lyapunov(debt)[0] + penalty(theory.held(admitted, K), N, k).sum()
    )
    most = theory.drift_constant(
        price.max() * c.admission_interval(1, RATE, rho)[1], BUDGET
    )
    right = float(
        theory.t_slot_upper(most, T, 1.0, theory.ck_penalty_ceiling(K, RATE, rho, T, k))
    )
    return (
        round(float(price.mean()) * RATE - BUDGET, 9),
        left,
        right,
        c.cost_violation(price * admitted, BUDGET),
    )


def shows_29_roots_are_not_lipschitz() -> Numbers:
    """What the two proofs bound by a constant over t², times t²; and times t^1.5/√log
    t, which does stay.
    """
    t = np.array([1e4, 1e6])
    _, N = ck_counts(K, RATE, t)
    uniform = ck_uniformity(K, t)
    lemma2 = generalisation_gap(N, uniform, k) - generalisation_gap(N, 1.0, k)
    rho, T = 0.9, 1_000_000
    lemma3 = (
        theory.ck_penalty_ceiling(K, RATE, rho, T, k)
        - theory.ck_penalty_limit(K, RATE, T, k)
    )[[9_999, T - 1]]
    scaled = [
        gap * order
        for gap in (lemma2, lemma3)
        for order in (t**2, t**1.5 / np.sqrt(np.log(t)))
    ]
    return [float(late / early) for early, late in scaled]


def shows_30_constants_on_one_side() -> Numbers:
    one, T = BoundConstants(C2=1.0), 1000
    bound, p = (
        c.ck_bound(K, RATE, T, one),
        penalty(*ck_counts(K, RATE, np.arange(1, T + 1)), one),
    )
    return float(theory.omega1(bound, p)), float(theory.omega1(bound - 1.0, p))


def shows_32_two_upper_bounds() -> Numbers:
    """Constant admission and the oracle: their bounds, and their risks with ℓ = (θ −
    z)²/2, z = ±½, one step of η = 0.1.
    """
    found = []
    for T in (10_000, 1_000_000):
        found += [
            float(terms.sum()) / T
            for terms in (c.oracle_bound([MEMORY], T, k), c.ck_bound(K, RATE, T, k))
        ]
    slope = k.D * k.sigma / MEMORY**0.5 + k.eta * k.sigma**2 / MEMORY
    return [*found, slope, *(risk_in_the_long_run(keep) for keep in (1, K))]


def risk_in_the_long_run(keep: int, eta: float = 0.1) -> float:
    """E (θ − θ*)²/2 of θ ← θ − η·(θ − mean over memory); of MEMORY samples a `keep`-th
    is new in each round; Var z = ¼.
    """
    steps = eta * (1 - eta) ** np.arange(2000)
    of_a_round = np.convolve(
        steps, np.full(keep, 1 / keep)
    )  # what the mean of one round's samples weighs in θ later
    return float((of_a_round**2).sum() * 0.25 * keep / MEMORY / 2)


def shows_34_omega_1_by_rho() -> Numbers:
    """Always Λ_min, ρ = 1 − T^−0.9, beside ρ = 0.9."""
    found = []
    for T in (10_000, 100_000, 1_000_000):
        for rho in (1 - T**-0.9, 0.9):
            admitted = c.admission_interval(np.arange(1, T + 1), RATE, rho)[0]
            n, N = theory.held(admitted, K), np.cumsum(admitted)
            bound = learning_error(n, N, kstep_uniformity(admitted, K), k)
            found.append(float(theory.omega1(bound, penalty(n, N, k))))
    return found


def shows_35_two_ends_in_one_term() -> Numbers:
    """p̄^CK's last term less the same with Σ Λ_min in its logarithm too, summed over T
    = 1,000·R rounds; R = 1/(1−ρ).
    """
    found = []
    for R in (10, 100, 1000):
        rho, T = 1 - 1 / R, 1000 * R
        _, lower = theory.interval_lower_counts(K, RATE, rho, T)
        away = theory.ck_penalty_ceiling(K, RATE, rho, T, k) - theory.ck_penalty_limit(
            K, RATE, T, k
        )
        own = theory.ck_penalty_ceiling(
            K, RATE, rho, T, replace(k, sigma=0.0)
        ) - generalisation_gap(lower, 1.0, k)
        found += [
            float(own.sum() / R),
            float(own.sum() / R**0.5),
            float(np.abs(away).max()),
        ]
    return found


# ACDPP in real numbers


def acdpp_path(
    price: Floats, rho: float, V: float, grain: int = 10_000
) -> tuple[Floats, Floats]:
    """Λ(t), (R, T), and Z(T + 1), (R,), of ACDPP with K = Λ̄ = 10, C = 55 and N(0) =
    2·Pdim at these prices, (R, T).

    The policy admits whole numbers; so it counts in parts of a sample, `grain` of them
    in each, as in `studies.theory.rates`.
    """
    fine = replace(k, sigma=k.sigma * sqrt(grain), pdim=grain * k.pdim)
    policy = Acdpp(
        K=K, rate=grain * RATE, rho=rho, V=grain**2 * V, N0=2 * fine.pdim, bound=fine
    )
    controller = Controller(
        System(np.array([grain * int(MEMORY)]), grain * BUDGET, price.shape[1]),
        policy,
        len(price),
    )
    ledger, admitted = controller.open(), []
    for today in price.T:
        orders = controller.decide(ledger, today)
        ledger = controller.post(ledger, orders)
        admitted.append(orders.admitted[:, 0] / grain)
    return np.transpose(admitted), ledger.debt / grain


@cache
def after_a_burst() -> tuple[tuple[int, ...], list[float], list[float]]:
    """ACDPP with γ = 0.1 and φ = 0.9, prices even from 1 to 10: the horizons; for each
    the mean over 24 seeds of Σ (c·Λ − C) with the luck of the prices, Λ̄·Σ (c − c̄),
    taken out; and of Σ (n − B̄)."""
    Ts, overspent, overfull = (125, 500, 2000), [], []
    prices = np.random.default_rng(0).uniform(1, 10, (24, Ts[-1]))
    for price, T in ((prices[:, :T], T) for T in Ts):
        admitted, _ = acdpp_path(price, 1 - T**-0.9, T**0.1)
        overspent.append(float((price * (admitted - RATE)).sum(axis=-1).mean()))
        overfull.append(float((theory.held(admitted, K) - MEMORY).sum(axis=-1).mean()))
    return Ts, overspent, overfull
