"""Errata of the rule and its settings: first decision, argmin, whole samples, Corollary 2, memory."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, learning_error, mismatch, penalty
from headgate.theory.reuse import ck_counts, ck_uniformity
from studies.paper.errata import Numbers, shows
from studies.paper.errata.about_the_rates import after_a_burst

Floats = NDArray[np.float64]

k = BoundConstants()


def printed_penalty(n: Floats, N: Floats, k: BoundConstants) -> Floats:
    """eq:penalty-dpp to the letter; nan below Pdim/e."""
    with np.errstate(invalid="ignore"):
        gap = 10 * k.loss * np.sqrt(k.pdim / N * (1 + np.log(N / k.pdim)))
    return np.asarray(k.D * k.sigma * np.sqrt(mismatch(n, N)) + k.penalty_step * k.sigma**2 * mismatch(n, N) + gap)


@shows(4)
def first_decision() -> Numbers:
    found: Numbers = {}
    for rho in (0.9, 0.99, 0.999):
        lo, hi = (float(x) for x in c.admission_interval(1, 10.0, rho))
        x = np.linspace(lo, hi, 200_001)
        found[f"Λ(1) with N(0) = Pdim, ρ = {rho}"] = float(x[np.nanargmin(printed_penalty(x, x + k.pdim, k))])
        found[f"Λ(1) with N(0) = 0, ρ = {rho}"] = float(x[np.nanargmin(printed_penalty(x, x, k))])
    flat = np.linspace(1.0, 100.0, 1001)
    found["max(N, Pdim), N(0) = 0: highest less lowest J(1) on [1, 100]"] = float(np.ptp(penalty(flat, flat, k)))
    return found | {
        "spend in % of C, T = 100, N(0) = Pdim": 100 * spend_share(printed_penalty, k.pdim),
        "max(N, Pdim), N(0) = 0, the largest minimiser": 100 * spend_share(penalty, 0.0),
        "the smallest": 100 * spend_share(penalty, 0.0, largest=False),
        "as printed, N(0) = 0": 100 * spend_share(printed_penalty, 0.0),
    }


def spend_share(p: Callable[[Floats, Floats, BoundConstants], Floats], N0: float, largest: bool = True) -> float:
    """ACDPP's expected spend over the budget on a grid: MNIST system, V = √T, ρ = 1 − 1/√T, 100 seeds, price luck taken out."""
    T, runs, K, rate, mean = 100, 100, 10, 10.0, 5.5
    price, admitted, debt = np.random.default_rng(0).uniform(1, 10, (runs, T)), np.zeros((runs, T)), np.zeros(runs)
    for t in range(T):
        lo, hi = (float(end) for end in c.admission_interval(t + 1, rate, 0.9))
        x = np.linspace(hi, lo, 201) if largest else np.linspace(lo, hi, 201)
        kept, N = admitted[:, max(t - K + 1, 0) : t].sum(axis=-1)[:, None], N0 + admitted.sum(axis=-1)[:, None]
        J = (debt * price[:, t])[:, None] * x + 10.0 * p(kept + x, N + x, k)
        admitted[:, t] = x[np.nanargmin(J, axis=-1)]
        debt = np.maximum(debt + price[:, t] * admitted[:, t] - mean * rate, 0.0)
    return float((price * admitted - rate * (price - mean)).mean() / (mean * rate))


@shows(5)
def two_minima() -> Numbers:
    """5 samples kept, N = Pdim = 100, V = 1, Z·c = 8, D = 30: no extension is needed."""
    x = np.linspace(0, 400, 400_001)
    J = 8.0 * x + printed_penalty(5 + x, 100 + x, BoundConstants(D=30.0))
    inner = np.flatnonzero((J[1:-1] < J[:-2]) & (J[1:-1] < J[2:])) + 1
    return {"local minima": float(len(inner)), **{f"J at Λ = {x[i]:.1f}": float(J[i]) for i in inner}}


@shows(6)
def rounds_without_whole_samples() -> Numbers:
    t = np.arange(1, 200)
    lo, hi = c.admission_interval(t, 100 / 11, 0.9)
    none = np.floor(hi) < lo
    return {"first round whose interval holds no whole number, Λ̄ = 100/11, ρ = 0.9": float(t[none][0])}


@shows(7)
def floor_of_corollary_2() -> Numbers:
    mean_price, memory, budget = 5.5, 100.0, 60.0
    up, down = c.optimal_K(mean_price, [memory], budget)
    return {
        "c̄·B̄/C": mean_price * memory / budget,
        f"spend a round with K = {down.K} and full buffers, C = 60": mean_price * memory / down.K,
        f"with K = {up.K}": mean_price * memory / up.K,
    }


@shows(8)
def two_step_sizes() -> Numbers:
    """Constant admission with η̃ = η/2."""
    apart = BoundConstants(eta_tilde=k.eta / 2)
    found: Numbers = {}
    for T in (1000, 10_000):
        t = np.arange(1, T + 1)
        n, N = ck_counts(10, 10.0, t)
        bound = learning_error(n, N, ck_uniformity(10, t), apart)
        found[f"Ω_1 with η̃ = η/2 less Ω_1 with η̃ = η, T = {T:,}"] = float(
            c.omega1(bound, penalty(n, N, apart)) - c.omega1(bound, penalty(n, N, k))
        )
    return found


@shows(9)
def all_to_one_client() -> Numbers:
    """Two buffers of 50, Λ̄ = 10, K = 10, T = 100: J depends on the total alone."""
    T, rates = 100, {"even": (5, 5), "all to one": (10, 0)}
    n = {name: [c.held(np.full(T, x), 10).sum() for x in rate] for name, rate in rates.items()}
    return {f"Vio_B, {name}": c.buffer_violation([held_], [50, 50], T) for name, held_ in n.items()}


@shows(11)
def counted_twice() -> Numbers:
    admitted, K, rate = [7, 3, 5, 11], 2, 10
    n = [7, 10, 8, 16]
    t = 3  # the fourth round
    return {
        "n^C of the fourth round, counted": float(c.comparison_counts(admitted[t - 1], 15, rate)[0]),
        "as printed": float(n[t] - admitted[t - K] + rate),
        "with n(t − 1)": float(n[t - 1] - admitted[t - K] + rate),
    }


@shows(36)
def dropped_before_or_after_training() -> Numbers:
    """Λ̄ = 10 a round; a sample whose age is K = 10 is dropped before the round's training, or after it."""
    K, rate = 10, 10
    found: Numbers = {}
    for order in ("after", "before"):
        ages: list[int] = []  # of the samples of each round that are in memory
        for _ in range(3 * K):
            trained = [age for age in (*(age + 1 for age in ages), 1) if order == "after" or age != K]
            ages = [age for age in trained if age != K]
        found[f"uses of a sample that is dropped {order} training"] = float(max(trained))
        found[f"n(t), dropped {order} training"] = float(rate * len(trained))
    return found | {"n of eq:ck-training-size": float(ck_counts(K, rate, 100)[0])}


@shows(23)
def another_K() -> Numbers:
    """K = 9 beside Corollary 2's K = 10, Λ̄ = 10, B̄ = 100."""
    T, measured = 100_000, after_a_burst()
    more = c.ck_bound(9, 10.0, T, k)[T // 2 :] - c.ck_bound(10, 10.0, T, k)[T // 2 :]
    over = [max(float(x.mean()), 0.0) for x in measured.overfull]
    return {
        "regret a round with K = 9 less with K = 10, constant admission, rounds 50,001 to 100,000": float(more.mean()),
        "Dσ(1/√90 − 1/√100) + ησ²(1/90 − 1/100)": k.D * k.sigma * (90**-0.5 - 0.1) + k.eta * k.sigma**2 * (1 / 90 - 0.01),
        **{f"Vio_B of ACDPP with K = 10, γ = 0.1, φ = 0.9, T = {T:,}": x for T, x in zip(measured.T, over, strict=True)},
        "Vio_B of no rule exceeds, ρ = 0.9, any T": c.occupancy_ceiling(100.0, 0.9),
    }
