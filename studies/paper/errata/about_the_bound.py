"""Errata of Theorem 1, Lemma 5 and Corollary 1: reuse, the pseudo-dimension term, the variance of gradients, the recursion."""

from itertools import product
from math import e, log, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.bound import BoundConstants, distance_recursion, local_constants, memory_proportional_weight, mismatch
from headgate.theory.comparison import oracle_bound
from headgate.theory.reuse import ck_counts, ck_uniformity, kstep_uniformity
from studies.paper.errata import Numbers, shows

Floats = NDArray[np.float64]


def printed_gap(N: float, pdim: float) -> float:
    """√(Pdim/N)·√(1 + log(N/Pdim)) as it is printed, 10·B left out; nan below Pdim/e."""
    return sqrt(pdim / N * (1 + log(N / pdim))) if pdim / e <= N else float("nan")


def printed_uniformity(K: int, t: ArrayLike) -> Floats:
    """eq:vck-exact to the letter."""
    t = np.asarray(t, dtype=np.float64)
    return np.asarray((K * t - K * (K - 1) / 2) ** 2 / (t * (K**2 * t - K * (K - 1) * (2 * K - 1) / 6)))


@shows(1)
def uniformity_of_constant_admission() -> Numbers:
    exact, printed = kstep_uniformity(np.ones(20), 5)[-1], printed_uniformity(5, 20)
    return {"by definition, K = 5, t = 20": float(exact), "as printed": float(printed)}


@shows(2)
def uniformity_before_round_K() -> Numbers:
    K, t = 10, 3
    age = np.arange(1, K)
    first, second = (K - age).sum(), (K**2 - age**2).sum()
    return {
        "by definition, K = 10, t = 3": 6**2 / (3 * 14),
        "sums from round 1": float(kstep_uniformity(np.ones(t), K)[-1]),
        "sums from round t − K + 2 = −5": float((K * t - first) ** 2 / (t * (K**2 * t - second))),
    }


@shows(3)
def generalisation_below_pdim() -> Numbers:
    """All functions from 106 points to {0, B}, the points equally likely: Pdim = 106, and 39 samples leave some unseen."""
    pdim, N = 106, 39
    return {
        "sup of the gap in units of B, Pdim = 106, N = 39": (1 - 1 / pdim) ** N,
        "Lemma 6 as printed": 10 * printed_gap(N, pdim),
        "with max(N, Pdim)": 10 * printed_gap(pdim, pdim),
        "printed at N = 50 over N = 100, Pdim = 100": printed_gap(50, 100) / printed_gap(100, 100),
    }


@shows(15)
def roots_before_round_K() -> Numbers:
    K, rate, rho, t = 10, 10.0, 0.9, 3
    uniform = float(ck_uniformity(K, t))
    return {
        "under the root of eq:ck-bound-detail, K = 10, t = 3": 1 / (rate * K) - 1 / (rate * t * uniform),
        "Λ_min(t − K) of eq:pC-upper-explicit, ρ = 0.9": rate * (1 - rho ** (t - K)),
    }


@shows(17)
def effective_sizes_below_memory() -> Numbers:
    found: Numbers = {}
    for K in (10, 20):
        t = np.arange(1, 200)
        n, N = ck_counts(K, 1.0, t)
        below = t[N * ck_uniformity(K, t) < n * (1 - 1e-12)]
        found |= {f"first round with N_eff < n, K = {K}": float(below[0]), f"last, K = {K}": float(below[-1])}
    return found


FRESH = BoundConstants(D=100.0, sigma=1.0, eta=0.1, loss=1.0, pdim=10.0)
"""with which fresh samples are not best: the first buffers hold ten times Pdim, so no N is below it"""


def stale_over_fresh(k: BoundConstants, T: int) -> float:
    """The bound of the first buffers, 100 samples, kept for ever, over that of fresh ones in every round."""
    stale = 10 * k.loss * printed_gap(100, k.pdim)  # n = N = N_eff = 100: no mismatch
    return T * stale / float(oracle_bound([100], T, k).sum())


@shows(18)
def staleness_against_freshness() -> Numbers:
    return {f"bound of stale over fresh samples, T = {T:,}": stale_over_fresh(FRESH, T) for T in (50, 100_000)}


@shows(19)
def variance_of_the_difference() -> Numbers:
    """Constant admission: Var of (mean over memory − mean over all uses), in units of σ²/Λ̄, beside 1/n − 1/N_eff."""
    K, t = 10, np.arange(1, 10_001, dtype=np.float64)
    true, printed = true_and_printed_variance(K, t)
    found = {"true over printed, K = 10, t = 100": float(true[99] / printed[99])}
    for T in (100, 1000, 10_000):
        found[f"summed to T = {T:,}"] = float(true[:T].sum() / printed[:T].sum())
    return found


def true_and_printed_variance(K: int, t: Floats) -> tuple[Floats, Floats]:
    n, N = ck_counts(K, 1.0, t)
    n_eff = N * ck_uniformity(K, t)
    oldest = np.minimum(t, K)
    uses = np.where(t < K, t * (t + 1) / 2, K * t - K * (K - 1) / 2)
    share = (oldest + 1) / 2 / uses  # of all uses, that of a sample in memory, on average
    return 1 / n + 1 / n_eff - 2 * share, mismatch(n, n_eff)


@shows(20)
def two_mixtures() -> Numbers:
    """Losses θ·B at client 1 and (1 − θ)·B at client 2, α = (½, ½), B_m = (8, 12): Pdim = 1."""
    shares, N = np.array([8, 12]) / 20, 1_000_000
    theta = np.linspace(0, 1, 101)
    gap = np.abs(0.5 - (shares[0] * theta + shares[1] * (1 - theta))).max()
    return {"sup of the gap in units of B, however large N": float(gap), "Lemma 6, N = 1,000,000": 10 * printed_gap(N, 1)}


@shows(31)
def supremum_inside_the_mean() -> Numbers:
    """Oracle, n = 1, N = 2: at each of two parameters a gradient's noise is ±σ, independently."""
    apart = [max((a - b) ** 2, (x - y) ** 2) / 4 for a, b, x, y in product((-1, 1), repeat=4)]
    at_one = [(a - b) ** 2 / 4 for a, b in product((-1, 1), repeat=2)]
    return {
        "E sup over two parameters, in units of σ²": float(np.mean(apart)),
        "E at either": float(np.mean(at_one)),
        "1/n − 1/N_eff": float(mismatch(1, 2)),
    }


# Lemma 5 and the constant of Theorem 1: the optimisation recursion


@shows(24)
def minimum_of_the_wrong_objective() -> Numbers:
    """ℓ = (θ − z)²/2 on [−1, 1], z = ±½: θ* = 0. One sample, θ(1) = θ*, one step of η = 0.01."""
    eta, z = 0.01, 0.5
    c = local_constants(G=1.5, L=1.0, D=2.0, E=1)
    of_sample, least = z**2 / 2, 0.0
    return {
        "‖θ(2) − θ*‖²": (eta * z) ** 2,
        "eq:opt-recursion-app": float(distance_recursion(0.0, of_sample - least, 0.0, eta, 2.0, c)),
        "with F̂_all(θ*) for its minimum": float(distance_recursion(0.0, 0.0, 0.0, eta, 2.0, c)),
    }


@shows(25)
def steps_of_a_round() -> Numbers:
    """ℓ = 1 + z·θ on [−1, 1], z = ±1: F_P is constant, so θ(1) = 0 is a θ*. E steps of η = 0.1 on one sample."""
    eta = 0.1
    found: Numbers = {}
    for E in (2, 3, 10):
        c = local_constants(G=1.0, L=0.0, D=2.0, E=E)
        found[f"‖θ(2) − θ*‖², E = {E}"] = (E * eta) ** 2
        found[f"recursion with F̂_all(θ*), E = {E}"] = float(distance_recursion(0.0, 0.0, 0.0, eta, 2.0, c))
    return found


@shows(26)
def without_convexity() -> Numbers:
    """ℓ = (1 + cos πθ)/2 on [−1, 1], the same for every sample: gradient descent stays at θ(1) = 0, its highest point."""
    eta, G, L, D = 0.01, pi / 2, pi**2 / 2, 2.0
    gap = 1.0
    after = float(distance_recursion(1.0, gap, 0.0, eta, D, local_constants(G, L, D, E=1)))
    return {"‖θ(2) − θ*‖², where θ* = 1": 1.0, "recursion": after, "excess risk of every round": gap}


@shows(27)
def constant_inside_the_sum() -> Numbers:
    G = D = 1.0
    eta = np.geomspace(1e-4, 1e4, 100_001)
    with_all = D**2 / (2 * eta) + eta * local_constants(G, 0.0, D, E=1).C1 / 2
    T = 10_000
    spread = D**2 / (2 * eta * T) + eta * local_constants(G, 0.0, D, E=1).C1 / 2
    return {
        "least C_2 of any η over G·D, D²/2η in every round": float(with_all.min()),
        "√5": sqrt(5),
        "D²/2η once in T = 10,000 rounds": float(spread.min()),
    }


@shows(33)
def weights_of_the_server() -> Numbers:
    """ℓ = (θ − z)²/2 on [0, 1], z = 0 at client 1 and 1 at client 2; α = (0.8, 0.2) and n_m in proportion to it, η = 0.001.

    Samples of a client are alike, so F̂_all = F̂_mem = F_P and σ̄ = 0.
    """
    alpha, eta = np.array([0.8, 0.2]), 0.001
    weights = memory_proportional_weight(alpha, 10 * alpha)
    best, rest = alpha[1], weights[1]  # where F_P is least, and where the weighted steps come to rest
    away, gap = float((rest - best) ** 2), float((rest - best) ** 2 / 2)
    return {
        "weight of client 1": float(weights[0]),
        "its share in memory and target": float(alpha[0]),
        "‖θ(t+1) − θ*‖² where steps come to rest": away,
        "recursion": float(distance_recursion(away, gap, 0.0, eta, 1.0, local_constants(1.0, 1.0, 1.0, E=1))),
        "excess risk of every later round": gap,
    }


@shows(37)
def two_islands() -> Numbers:
    """Θ = [0, 1] ∪ [2, 3], loss 1 on the first and 0 on the second: G = σ = 0, Pdim = 1, D = 3; 100 fresh samples, η = 10."""
    D, eta, T, memory = 3.0, 10.0, 10_000, 100
    N = memory * np.arange(1, T + 1)
    return {
        "excess risk of 10,000 rounds from θ(1) = 0": float(T),
        "Theorem 1 as printed, D²/2η in every round": float(T * D**2 / (2 * eta) + (10 * np.sqrt((1 + np.log(N)) / N)).sum()),
        "G·D": 0.0,
    }
