"""Errata of Theorem 1 and Corollary 1: reuse, the pseudo-dimension term, the variance of gradients."""

from itertools import product
from math import e, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.bound import BoundConstants, mismatch
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
