"""How evenly samples are reused: N_eff, and Ṽ of constant admission (paper §4, §5.1).

Use counts A_i(t) state how often each distinct sample has been trained on up to round
t. All counts are integers, so the closed forms can be compared exactly.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.theory.labels import paper

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def floats(values: ArrayLike) -> Floats:
    """Return the values as an array of floats."""
    return np.asarray(values, dtype=np.float64)


def quotient(
    over: ArrayLike,
    under: ArrayLike,
    where: NDArray[np.bool_],
    otherwise: float = 0.0,
) -> Floats:
    """Return over/under where `where` is true, and `otherwise` elsewhere.

    >>> prices = np.array([0.0, 4.0])
    >>> quotient(1.0, prices, prices > 0, np.inf).tolist()
    [inf, 0.25]
    """
    found = np.full(np.broadcast(over, under).shape, otherwise)
    np.divide(
        over,
        under,
        out=found,
        where=where,
    )
    return found


@paper("eq:Neff-def", "eq:omega-l2", "eq:omega-def-opt")
def effective_sample_size(total_uses: ArrayLike, squared_uses: ArrayLike) -> Floats:
    """Return Kish's effective sample size, N_eff = N·Ṽ = (ΣA)² / ΣA².

    It is 1/Σω² with ω_i = A_i/ΣA, and 0 before the first use.

    Examples
    --------
    Two samples, used once and three times:

    >>> float(effective_sample_size(4, 10))
    1.6
    """
    total = floats(total_uses)
    squares = floats(squared_uses)
    return quotient(total**2, squares, squares > 0)


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
    in_memory = np.asarray(uses_in_memory, dtype=np.int64)
    total = np.asarray(total_uses, dtype=np.int64) + n
    squares = np.asarray(squared_uses, dtype=np.int64) + 2 * in_memory - n
    return total, squares


@paper("eq:vck-exact")
def ck_uniformity(K: int, t: ArrayLike) -> Floats:
    """Return Ṽ^CK(t) of constant admission under K-step retention.

    The paper prints K(K−1)(2K−1)/6 for the second deficit, but eq:boundary-deficit-2
    gives K(K−1)(4K+1)/6 (studies/paper/errata.md, erratum 1). Before round K no sample
    has left and the counts are 1..t.

    >>> round(float(ck_uniformity(5, 20)), 5)
    0.94186
    """
    t = floats(t)
    growing = 1.5 * (t + 1) / (2 * t + 1)
    deficit = K * (K - 1) / 2
    squared_deficit = K * (K - 1) * (4 * K + 1) / 6
    settled = (K * t - deficit) ** 2 / (t * (K**2 * t - squared_deficit))
    return np.where(t < K, growing, settled)


@paper("eq:ck-buffer-occupancy", "eq:ck-training-size", "eq:ck-distinct-samples")
def ck_counts(
    K: int,
    rate: ArrayLike,
    t: ArrayLike,
) -> tuple[Floats, Floats]:
    """Return n(t) = λ·min(t, K) and N(t) = λ·t under constant admission.

    `rate` is λ of one client, or Λ̄. The paper writes n = K·λ "for sufficiently large
    t", which means t ≥ K.
    """
    rate = floats(rate)
    t = floats(t)
    return rate * np.minimum(t, K), rate * t
