"""K and Λ̄ where they are not stated: as in the paper, the better of Corollary 2's K, and the highest rate that fits."""

from headgate.control.policy import PolicyContext
from headgate.control.types import Ints, System
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import Benchmark, ck_bound, optimal_K, saturated

OPEN_END = 1000
"""rounds over which an open-ended run is judged"""


def better_of_corollary(system: System, mean_price: float, k: BoundConstants) -> Benchmark:
    """The better of Corollary 2's two candidates, judged by Ē_T(π^CK)."""
    rounds = system.horizon or OPEN_END
    candidates = optimal_K(mean_price, system.buffer, system.budget)
    return min(candidates, key=lambda point: ck_bound(point.K, point.rate, rounds, k).sum())


def highest_rate(K: int, given: PolicyContext, buffer: Ints | None = None) -> float:
    """The Λ̄ at which the money or the places (of all clients, or of those with these buffers) are used up."""
    if K < 1:
        raise SettingError(f"K = {K}: a sample must be kept for at least one round")
    own = given.system.buffer if buffer is None else buffer
    return saturated(K, given.mean_price, own, given.system.budget).rate


def operating_point(K: int | None, rate: float | None, given: PolicyContext) -> tuple[int, float]:
    """(K, Λ̄), each as stated or worked out."""
    K = better_of_corollary(given.system, given.mean_price, given.bound).K if K is None else K
    return K, highest_rate(K, given) if rate is None else rate
