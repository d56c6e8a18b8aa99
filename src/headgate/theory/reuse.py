"""How evenly samples are reused: Ṽ, N_eff, and their values under K-step retention
(paper §4, §5.1).

`uses` are the counts A_i(t): how often each distinct sample has been trained on up to
round t. All counts are integers, so the closed forms can be compared exactly.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.labels import paper

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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


@paper("eq:Neff-def", "eq:omega-l2", "eq:omega-def-opt")
def effective_sample_size(total_uses: ArrayLike, squared_uses: ArrayLike) -> Floats:
    """Return Kish's effective sample size N_eff = N·Ṽ = (ΣA)² / ΣA² = 1/Σω² with ω_i =
    A_i/ΣA; 0 before the first use.

    >>> float(effective_sample_size(4, 10))        # two samples, used once and three times
    1.6
    """
    total = np.asarray(total_uses, dtype=np.float64)
    squares = np.asarray(squared_uses, dtype=np.float64)
    return np.divide(
        total**2,
        squares,
        out=np.zeros(np.broadcast(total, squares).shape),
        where=squares > 0,
    )


@paper("eq:age-evolution")
def count_uses(
    total_uses: ArrayLike,
    squared_uses: ArrayLike,
    uses_in_memory: ArrayLike,
    n: ArrayLike,
) -> tuple[Ints, Ints]:
    """Return ΣA and ΣA² after a round that trained on n samples.

    `uses_in_memory` is the sum of the use counts of these n samples, including their
    use in this round. Each count went from A−1 to A, so its square grew by 2A − 1.
    """
    n = np.asarray(n, dtype=np.int64)
    total = np.asarray(total_uses, dtype=np.int64) + n
    squares = (
        np.asarray(squared_uses, dtype=np.int64)
        + 2 * np.asarray(uses_in_memory, dtype=np.int64)
        - n
    )
    return total, squares


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


@paper("eq:vck-exact")
def ck_uniformity(K: int, t: ArrayLike) -> Floats:
    """Return Ṽ^CK(t) of constant admission under K-step retention.

    The paper prints K(K−1)(2K−1)/6 for the second deficit, but eq:boundary-deficit-2
    gives K(K−1)(4K+1)/6 (studies/paper/errata.md, erratum 1). Before round K no sample
    has left and the counts are 1..t.

    >>> round(float(ck_uniformity(5, 20)), 5)
    0.94186
    """
    t = np.asarray(t, dtype=np.float64)
    growing = 1.5 * (t + 1) / (2 * t + 1)
    settled = (K * t - K * (K - 1) / 2) ** 2 / (
        t * (K**2 * t - K * (K - 1) * (4 * K + 1) / 6)
    )
    return np.where(t < K, growing, settled)


@paper("eq:ck-buffer-occupancy", "eq:ck-training-size", "eq:ck-distinct-samples")
def ck_counts(K: int, rate: ArrayLike, t: ArrayLike) -> tuple[Floats, Floats]:
    """Return n(t) = λ·min(t, K) and N(t) = λ·t under constant admission, for the rate
    of one client or for Λ̄.

    The paper writes n = K·λ "for sufficiently large t", which means t ≥ K.
    """
    rate, t = np.asarray(rate, dtype=np.float64), np.asarray(t, dtype=np.float64)
    return rate * np.minimum(t, K), rate * t
