"""The cost debt, the interval of ACDPP, and what policies are compared with.

These are the cost-debt queue and the interval (paper §5.2), constant admission and the
costless oracle (§6), and regret and violations. Functions of a bound return its term
for every round 1..T; `regret` sums the terms.
"""

from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.theory.bound import BoundConstants, learning_error
from headgate.theory.labels import paper
from headgate.theory.reuse import Floats, ck_counts, ck_uniformity, floats

EXACT = 1e-9
"""relative difference below which a ratio counts as a whole number: 10.000000000000002
counts as 10, not 11
"""


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
    over = np.asarray(cost) * np.asarray(admitted) - budget
    return np.asarray(np.asarray(debt) * over + np.asarray(V) * p)


@paper("eq:lambda-min-max", "eq:lambda-interval")
def admission_interval(
    t: ArrayLike,
    rate: ArrayLike,
    rho: ArrayLike,
) -> tuple[Floats, Floats]:
    """Return the ends of [Λ_min(t), Λ_max(t)] = [Λ̄·(1 − ρ^t), Λ̄/(1 − ρ^t)].

    >>> [round(float(x), 6) for x in admission_interval(1, 10.0, 0.9)]
    [1.0, 100.0]
    """
    t = floats(t)
    rho = floats(rho)
    rate = floats(rate)
    closed = -np.expm1(t * np.log(rho))
    with np.errstate(divide="ignore"):  # at t = 0 the upper end is infinite
        return np.asarray(rate * closed), np.asarray(rate / closed)


def rounds_to(T: int) -> Floats:
    """Return the rounds 1..T as floats."""
    return np.arange(1, T + 1, dtype=np.float64)


@paper("eq:ck-bound", "eq:ck-bound-detail", "cor:ck-specialization")
def ck_bound(
    K: int,
    rate: float,
    T: int,
    k: BoundConstants,
) -> Floats:
    """Return the terms of Ē_T(π^CK), t = 1..T, in Corollary 1.

    Constant admission has Λ̄ = rate and retention K. The paper uses n = K·Λ̄ from the
    first round on, although its root is undefined for t < K. This function uses n(t) =
    Λ̄·min(t, K), which is what the policy holds.
    """
    t = rounds_to(T)
    n, N = ck_counts(K, rate, t)
    return learning_error(n, N, ck_uniformity(K, t), k)


@paper("eq:oracle-upper-bound-explicit")
def oracle_bound(
    buffers: ArrayLike,
    T: int,
    k: BoundConstants,
) -> Floats:
    """Return the terms of Ē_T^oracle, t = 1..T.

    The oracle has B̄ fresh samples in every round and uses each once.
    """
    total = float(np.sum(buffers))
    return learning_error(total, total * rounds_to(T), 1.0, k)


@paper("eq:dpp-regret")
def regret(bound: ArrayLike, oracle: ArrayLike) -> Floats:
    """Return Reg(T) = Ē_T − Ē_T^oracle, from the terms on the last axis."""
    return np.asarray(np.sum(bound, axis=-1) - np.sum(oracle, axis=-1))


@paper("eq:cum-cost-violation", "eq:sampling-cost-constraint")
def cost_violation(spend: ArrayLike, budget: float) -> float:
    """Return Vio^S(T) = [Σ_t E(c·Λ − C)]^+ from the spend per run and round, (R, T).

    A violation of 0 means that eq:sampling-cost-constraint holds.
    """
    spend = np.atleast_2d(floats(spend))
    over = float(spend.sum(axis=-1).mean()) - budget * spend.shape[-1]
    return over if over > 0 else 0.0


@paper("eq:cum-buffer-violation", "eq:avg-buffer-constraint")
def buffer_violation(
    occupancy: ArrayLike,
    buffers: ArrayLike,
    T: int,
) -> float:
    """Return Vio^B(T) = Σ_m [Σ_t E(n_m − B_m)]^+.

    `occupancy` is summed over the T rounds, (R, M). A violation of 0 means that
    eq:avg-buffer-constraint holds for every client.
    """
    occupancy = np.atleast_2d(floats(occupancy))
    allowed = floats(buffers) * T
    return float(np.maximum(occupancy.mean(axis=0) - allowed, 0.0).sum())


class Benchmark(NamedTuple):
    """The settings (K, Λ̄) of constant admission."""

    K: int
    rate: float


@paper("eq:ck-cost-constraint", "eq:ck-buffer-constraint")
def saturated(
    K: int,
    mean_price: float,
    buffers: ArrayLike,
    budget: float,
) -> Benchmark:
    """Return K with the largest rate Λ̄ for which c̄·Λ̄ ≤ C and K·λ_m ≤ B_m.

    λ_m is in proportion to B_m.
    """
    return Benchmark(K, min(float(np.sum(buffers)) / K, budget / mean_price))


@paper("eq:optimal-K", "cor:optimal-k")
def optimal_K(
    mean_price: float,
    buffers: ArrayLike,
    budget: float,
) -> tuple[Benchmark, Benchmark]:
    """Return both candidates of Corollary 2, each with the highest rate that fits.

    They are K = ⌈c̄·B̄/C⌉ and K = max(⌊c̄·B̄/C⌋, 1). The paper fills the buffers in
    both cases. With the smaller K this exceeds the budget, so here its rate is at most
    C/c̄ (studies/paper/errata.md, erratum 7).
    """
    ratio = mean_price * float(np.sum(buffers)) / budget
    nearest = round(ratio)
    if nearest >= 1 and abs(ratio - nearest) < EXACT * nearest:
        ratio = float(nearest)
    up = saturated(max(ceil(ratio), 1), mean_price, buffers, budget)
    down = saturated(max(floor(ratio), 1), mean_price, buffers, budget)
    return up, down
