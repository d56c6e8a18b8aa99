"""Plain drift-plus-penalty: minimise J_t(Λ) with no interval around it (paper §5.2; Neely 2010)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.checks import inside_unit, positive, zero_or_more
from headgate.control.policies.budgeted.purse import within_purse
from headgate.control.policies.drift.argmin import Objective, argmin_on
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, KStep, Retention, capacity_of
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
from headgate.theory import bound
from headgate.theory.bound import BoundConstants
from headgate.theory.drift import admission_interval, dpp_objective
from headgate.theory.labels import paper


class Penalty(NamedTuple):
    """A surrogate for the learning error as a function of n and N, with its derivatives along Λ."""

    value: Callable[[Floats, Floats], Floats]
    slope: Callable[[Floats, Floats], Floats]
    curvature: Callable[[Floats, Floats], tuple[Floats, Floats]]
    bend: tuple[float, float]
    """the N between which it need not be convex"""


def paper_penalty(k: bound.BoundConstants) -> Penalty:
    """eq:penalty-dpp."""
    return Penalty(
        value=lambda n, N: bound.penalty(n, N, k),
        slope=lambda n, N: bound.penalty_slope(n, N, k),
        curvature=lambda n, N: bound.penalty_curvature(n, N, k),
        bend=(k.pdim, k.pdim * bound.CONVEX_FROM),
    )


@paper("eq:dpp-policy", "eq:dpp-min-def")
def minimise_objective(view: View, V: ArrayLike, penalty: Penalty, n: Floats, N: Floats, lo: Floats, hi: Floats) -> Floats:
    """argmin of J_t(Λ) = Z·(c·Λ − C) + V·p(n + Λ, N + Λ) over lo ≤ Λ ≤ hi, for every run."""
    weight = np.asarray(V, dtype=np.float64)
    pull = view.debt * view.one_price()

    def value(x: Floats) -> Floats:
        return dpp_objective(view.debt, view.one_price(), x, view.system.budget, weight, penalty.value(n + x, N + x))

    def slope(x: Floats) -> Floats:
        return pull + weight * penalty.slope(n + x, N + x)

    def curvature(x: Floats) -> tuple[Floats, Floats]:
        convex, bent = penalty.curvature(n + x, N + x)
        return weight * convex, weight * bent

    stretch = (penalty.bend[0] - N, penalty.bend[1] - N)
    return argmin_on(Objective(value, slope, curvature, stretch), lo, hi)


def horizon_at(view: View) -> int:
    """T, or for an open end the next power of two after t.

    Doubling without a restart: V only grows, so the drift terms L/V telescope over the epochs. Where an epoch begins
    ρ grows, so the interval opens a little (φ = ½: ρ^t goes from 0.125 to 0.175 at t = 4); it closes on the whole,
    as (1 − T^−φ)^t with t ≥ T/2 falls to 0 (docs/understand/policies.md).
    """
    horizon = view.system.horizon
    return max(horizon, 2) if horizon is not None else int(2 ** ceil(log2(view.t + 1)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Dpp(AdmissionPolicy):
    """K and V may be one number or one per run; V left out is T^gamma.

    Z(1) = 0 makes the first choice blind to its cost, so without an interval only the burst cap bounds it:
    by default no round admits beyond the free places of the buffers, and never more than B̄ samples.
    """

    per_run: ClassVar[tuple[str, ...]] = ("K", "V")
    K: int | Ints | None = None
    """rounds that a sample is kept; left out: the better of Corollary 2's two"""
    V: float | Floats | None = None
    gamma: float = 0.5
    bound: BoundConstants | None = None
    """left out: those of the experiment"""
    N0: float = 0.0
    """N(0): distinct samples taken as already seen"""
    n0: float = 0.0
    """n(0): samples taken as admitted in round 0; under K-step retention they count until round K − 1"""
    burst: float | Literal["buffer", "none"] = "buffer"
    """most samples in one round; "buffer": never beyond the free places; "none": no cap of its own"""
    capacity: Capacity | None = None
    """hard limit per client; left out: age alone decides"""
    purse: bool = False
    """whether spending ends at C·T in all, as the debt alone does not see to it"""

    def __post_init__(self) -> None:
        inside_unit("gamma", self.gamma)
        if self.V is not None:
            positive("V", self.V)
        zero_or_more("N0", self.N0)
        zero_or_more("n0", self.n0)
        if isinstance(self.burst, str):
            if self.burst not in ("buffer", "none"):
                raise SettingError(f'burst = "{self.burst}": must be "buffer", "none" or a number of samples')
        else:
            positive("burst", self.burst)
        if self.K is not None:
            KStep(self.K, capacity=self.capacity)  # refuses a bad K or capacity now

    def resolved(self, given: PolicyContext) -> Self:
        horizon = given.system.horizon
        V = self.V if self.V is not None or horizon is None else max(horizon, 2) ** self.gamma
        K = given.better_K() if self.K is None else self.K
        return replace(self, K=K, V=V, bound=self.bound or given.bound)

    def retention(self, system: System) -> Retention:
        return KStep(self.required("K"), capacity=self.capacity)

    def weight(self, view: View) -> ArrayLike:
        """V, or T^gamma."""
        return self.V if self.V is not None else horizon_at(view) ** self.gamma

    def interval(self, view: View) -> tuple[Floats, Floats]:
        """The least and the most Λ that may be chosen."""
        return np.zeros(()), np.array(float(view.system.memory))

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        lo, hi = self.interval(view)
        room = view.room() if self.burst == "buffer" else None
        limit = capacity_of(self.capacity, view.system)
        for most in (None if isinstance(self.burst, str) else self.burst, limit, room):
            if most is not None:
                hi = np.minimum(hi, np.sum(most, axis=-1))
        if hi.shape != view.debt.shape:
            hi = np.broadcast_to(hi, view.debt.shape)
        lo = np.minimum(lo, hi)
        n = view.kept + np.float64(self.n0) * (view.t < np.asarray(self.K))
        N = view.distinct + np.float64(self.N0)
        total = minimise_objective(
            view, self.weight(view), paper_penalty(self.bound or BoundConstants()), n, N, lo, hi
        )  # eq:dpp-policy
        return AdmissionRequest(within_purse(view, total) if self.purse else total, room), memory


@paper("eq:dpp-policy", "alg:acdpp")
@dataclass(frozen=True, eq=False, kw_only=True)
class Acdpp(Dpp):
    """ACDPP: drift-plus-penalty inside an interval that shrinks towards the rate Λ̄ (paper §5, Algorithm 1).

    rate and rho may be one number or one per run; rho left out is 1 − T^−phi.

    Without a burst cap the first round admits Λ̄/(1−ρ), whatever it costs: that is the literal rule.
    """

    per_run: ClassVar[tuple[str, ...]] = ("K", "V", "rate", "rho")
    rate: float | Floats | None = None
    """Λ̄, the rate on which the interval closes; left out: the highest that fits both constraints"""
    rho: float | Floats | None = None
    phi: float = 0.5
    burst: float | Literal["buffer", "none"] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None:
            positive("rate", self.rate)
        inside_unit("phi", self.phi)
        if self.rho is not None:
            inside_unit("rho", self.rho)

    def resolved(self, given: PolicyContext) -> Self:
        known = super().resolved(given)
        horizon = given.system.horizon
        rho = self.rho if self.rho is not None or horizon is None else 1.0 - max(horizon, 2) ** -self.phi
        return replace(known, rate=given.highest_rate(int(known.required("K"))) if self.rate is None else self.rate, rho=rho)

    def interval(self, view: View) -> tuple[Floats, Floats]:
        rho = self.rho if self.rho is not None else 1.0 - horizon_at(view) ** -self.phi
        return admission_interval(view.t, self.required("rate"), rho)  # eq:lambda-min-max
