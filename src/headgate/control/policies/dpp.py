"""Drift-plus-penalty: the paper's policies (paper §5.2; Neely 2010).

They take the global minimum of J_t(Λ) for all runs at once. The objective is convex
outside one interval. Inside it, the curvature is the sum of a positive part and a part
that starts negative and rises to zero, and their ratio is log-convex. (For the paper's
penalty the interval is Pdim ≤ N ≤ 1.73·Pdim; studies/paper/argmin.md has the proof.) So
the curvature changes sign at most twice, and the objective has at most two local
minima, one on each side of the concave part. The code finds that part and minimises
over both convex sides, which is exact.

The iteration of each row stops independently, so the results of a run have the same
bits in every batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from headgate.control.checks import inside_unit, positive, zero_or_more
from headgate.control.policies.budgeted.purse import within_purse
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, KStep, Retention
from headgate.control.types import (
    AdmissionRequest,
    Arrays,
    Floats,
    Ints,
    System,
    View,
)
from headgate.errors import SettingError
from headgate.theory import bound
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import admission_interval, dpp_objective
from headgate.theory.labels import paper

GOLDEN = (5.0**0.5 - 1.0) / 2.0


class BentCurve(NamedTuple):
    """A function to minimise, with its derivatives.

    It is a function of x, (R,), or of n and N with derivatives along Λ.

    Parameters
    ----------
    value : Callable[..., array of float]
        The function.
    slope : Callable[..., array of float]
        Its first derivative.
    curvature : Callable[..., tuple[array of float, array of float]]
        Function that returns two parts of the second derivative: the part that is never
        negative, and the rest.
    bend : tuple[Any, Any]
        Ends of the interval outside which the function is convex, in x, (R,) each, or
        in N.
    """

    value: Callable[..., Floats]
    slope: Callable[..., Floats]
    curvature: Callable[..., tuple[Floats, Floats]]
    bend: tuple[Any, Any]


def paper_penalty(k: bound.BoundConstants) -> BentCurve:
    """Return the penalty of eq:penalty-dpp with its derivatives."""
    return BentCurve(
        value=lambda n, N: bound.penalty(n, N, k),
        slope=lambda n, N: bound.penalty_slope(n, N, k),
        curvature=lambda n, N: bound.penalty_curvature(n, N, k),
        bend=(k.pdim, k.pdim * bound.CONVEX_FROM),
    )


@paper("eq:dpp-policy", "eq:dpp-min-def")
def minimise_objective(
    view: View,
    V: float,
    penalty: BentCurve,
    n: Floats,
    N: Floats,
    lo: Floats,
    hi: Floats,
) -> Floats:
    """Return the argmin of J_t(Λ) over lo ≤ Λ ≤ hi for every run, (R,).

    J_t(Λ) = Z·(c·Λ − C) + V·p(n + Λ, N + Λ).
    """
    price, budget = view.one_price(), view.system.budget
    pull = view.debt * price

    def value(x: Floats) -> Floats:
        p = penalty.value(n + x, N + x)
        return dpp_objective(view.debt, price, x, budget, V, p)

    def slope(x: Floats) -> Floats:
        return pull + V * penalty.slope(n + x, N + x)

    def curvature(x: Floats) -> tuple[Floats, Floats]:
        convex, bent = penalty.curvature(n + x, N + x)
        return V * convex, V * bent

    bend = (penalty.bend[0] - N, penalty.bend[1] - N)
    return argmin_on(BentCurve(value, slope, curvature, bend), lo, hi)


def horizon_at(view: View) -> int:
    """Return T, or with an open end the next power of two after t.

    This is doubling without a restart: V only grows, so the drift terms L/V telescope
    over the epochs. At the start of an epoch ρ grows, so the interval widens a little
    (φ = ½: ρ^t goes from 0.125 to 0.175 at t = 4). In the long run it closes, because
    (1 − T^−φ)^t with t ≥ T/2 falls to 0 (contributing/policies.md).
    """
    horizon = view.system.horizon
    if horizon is None:
        return int(2 ** ceil(log2(view.t + 1)))
    return max(horizon, 2)


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Dpp(AdmissionPolicy):
    """Drift-plus-penalty without an interval. If V is left out, it is T^gamma.

    Because Z(1) = 0, the first decision ignores cost, so only the burst cap limits it:
    by default no round admits more samples than the buffers have free places, and never
    more than B̄ samples.

    Parameters
    ----------
    K : int, optional
        Number of rounds for which a sample is kept; left out: the better candidate of
        Corollary 2.
    V : float, optional
        Weight of the penalty; left out: T^gamma.
    gamma : float, default 0.5
        Exponent of V.
    bound : BoundConstants, optional
        Constants of the penalty; left out: those of the experiment.
    N0 : float, default 0.0
        N(0): number of distinct samples assumed to be seen before round 1.
    n0 : float, default 0.0
        N(0): number of samples assumed to be admitted in round 0; under K-step
        retention they count until round K − 1.
    burst : float or "buffer", "none", default "buffer"
        The most samples in a round; "buffer": as many as there are free places; "none":
        no cap.
    capacity : Capacity, optional
        Hard limit on the samples that each client holds; left out: age alone decides
        which samples leave.
    purse : bool, default False
        Whether purchases stop when C·T is spent, which the debt alone does not ensure.
    """

    K: int | None = None
    V: float | None = None
    gamma: float = 0.5
    bound: BoundConstants | None = None
    N0: float = 0.0
    n0: float = 0.0
    burst: float | Literal["buffer", "none"] = "buffer"
    capacity: Capacity | None = None
    purse: bool = False

    def __post_init__(self) -> None:
        inside_unit("gamma", self.gamma)
        positive("V", self.V, optional=True)
        zero_or_more("N0", self.N0)
        zero_or_more("n0", self.n0)
        self._check_burst()
        if self.K is not None:
            KStep(self.K, capacity=self.capacity)  # refuses a bad K or capacity now

    def _check_burst(self) -> None:
        if not isinstance(self.burst, str):
            positive("burst", self.burst)
        elif self.burst not in ("buffer", "none"):
            raise SettingError(
                f'burst = "{self.burst}": must be "buffer", "none" or a number of'
                " samples"
            )

    def resolved(self, given: PolicyContext) -> Self:
        horizon = given.system.horizon
        V = self.V
        if V is None and horizon is not None:
            V = max(horizon, 2) ** self.gamma
        K = given.better_K() if self.K is None else self.K
        return replace(
            self,
            K=K,
            V=V,
            bound=self.bound or given.bound,
        )

    def retention(self, system: System) -> Retention:
        return KStep(self.required("K"), capacity=self.capacity)

    def interval(self, view: View) -> tuple[Floats, Floats]:
        """Return the lower and the upper limit of Λ.

        Parameters
        ----------
        view : View
            The information that the server may use.

        Returns
        -------
        lower, upper : tuple of array
            The limits.
        """
        return np.zeros(()), np.array(float(view.system.all_places))

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        room = view.room() if self.burst == "buffer" else None
        lo, hi = self._within_caps(view, room)
        n0 = self.n0 if view.t < self.required("K") else 0.0
        n = view.kept + np.float64(n0)
        N = view.distinct + np.float64(self.N0)
        V = horizon_at(view) ** self.gamma if self.V is None else self.V
        penalty = paper_penalty(self.bound or BoundConstants())
        total = minimise_objective(view, V, penalty, n, N, lo, hi)
        if self.purse:
            total = within_purse(view, total)
        return AdmissionRequest(total, room), memory

    def _within_caps(self, view: View, room: Ints | None) -> tuple[Floats, Floats]:
        """Return the limits of Λ within the burst cap and the places, (R,)."""
        lo, hi = self.interval(view)
        if not isinstance(self.burst, str):
            hi = np.minimum(hi, self.burst)
        if self.capacity is not None:
            limit = self.retention(view.system).limit(view.system)
            hi = np.minimum(hi, np.sum(limit, axis=-1))  # type: ignore[arg-type]
        if room is not None:
            hi = np.minimum(hi, np.sum(room, axis=-1))
        hi = np.broadcast_to(hi, view.debt.shape)
        return np.minimum(lo, hi), hi


@paper("eq:dpp-policy", "alg:acdpp")
@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Acdpp(Dpp):
    """ACDPP: drift-plus-penalty inside an interval that shrinks towards the rate Λ̄
    (paper §5, Algorithm 1).

    If rho is left out, it is 1 − T^−phi.

    Without a burst cap the first round admits Λ̄/(1−ρ) samples at any price, as the
    rule in the paper states.

    Parameters
    ----------
    rate : float, optional
        Λ̄, the rate to which the interval shrinks; left out: the highest rate that
        satisfies both constraints.
    rho : float, optional
        Base of the interval's width, ρ; left out: 1 − T^−phi.
    phi : float, default 0.5
        Exponent of ρ.
    burst : float or "buffer", "none", default "none"
        As for `Dpp`.
    """

    rate: float | None = None
    rho: float | None = None
    phi: float = 0.5
    burst: float | Literal["buffer", "none"] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("rate", self.rate, optional=True)
        inside_unit("phi", self.phi)
        if self.rho is not None:
            inside_unit("rho", self.rho)

    def resolved(self, given: PolicyContext) -> Self:
        known = super().resolved(given)
        horizon = given.system.horizon
        rate, rho = self.rate, self.rho
        if rate is None:
            rate = given.highest_rate(int(known.required("K")))
        if rho is None and horizon is not None:
            rho = 1.0 - max(horizon, 2) ** -self.phi
        return replace(
            known,
            rate=rate,
            rho=rho,
        )

    def interval(self, view: View) -> tuple[Floats, Floats]:
        rho = self.rho
        if rho is None:
            rho = 1.0 - horizon_at(view) ** -self.phi
        return admission_interval(view.t, self.required("rate"), rho)


# the argmin


def argmin_on(
    objective: BentCurve,
    lo: Floats,
    hi: Floats,
) -> Floats:
    """Return the minimiser on [lo, hi], (R,).

    If two are equally good, it is the larger one.
    """
    start, end = (np.minimum(np.maximum(edge, lo), hi) for edge in objective.bend)
    if not (start < end).any():
        return convex_argmin(objective, lo, hi)
    left_end, right_start = concave_part(objective, start, end)
    left = convex_argmin(objective, lo, left_end)
    right = convex_argmin(objective, right_start, hi)
    return np.where(objective.value(right) <= objective.value(left), right, left)


def convex_argmin(
    objective: BentCurve,
    lo: Floats,
    hi: Floats,
) -> Floats:
    """Return where the slope crosses zero, by Newton steps inside a bracket.

    The result is lo if the slope is always positive, hi if it is always negative.
    """
    at_lo, at_hi = objective.slope(np.stack([lo, hi]))
    x = np.where(at_hi > 0, lo, hi)
    inside = (at_hi > 0) & (at_lo < 0)
    if not inside.any():
        return x
    low, high = lo.copy(), hi.copy()
    x = np.where(inside, 0.5 * (lo + hi), x)
    for _ in range(200):
        slope = objective.slope(x)
        curvature = sum(objective.curvature(x))
        low = np.where(inside & (slope < 0), x, low)
        high = np.where(inside & (slope > 0), x, high)
        with np.errstate(
            divide="ignore",
            invalid="ignore",
        ):
            step = x - slope / curvature
        middle = 0.5 * (low + high)
        better = np.where((step > low) & (step < high), step, middle)
        small = np.abs(better - x) <= 4e-16 * np.abs(x)
        closed = (middle <= low) | (middle >= high)
        inside &= ~((slope == 0) | small | closed)
        x = np.where(inside, better, x)
        if not inside.any():
            break
    return x


def concave_part(
    objective: BentCurve,
    start: Floats,
    end: Floats,
) -> tuple[Floats, Floats]:
    """Return the ends of the part of [start, end] where the curvature is negative.

    They are (end, end) if it never is. The ratio of the curvature's two parts falls and
    then rises. A golden-section search finds its lowest point; then bisection finds
    both edges.
    """

    def excess(x: Floats) -> Floats:
        """Return the log of the ratio, negative if the objective is concave."""
        convex, bent = objective.curvature(x)
        with np.errstate(
            divide="ignore",
            invalid="ignore",
        ):
            return np.where(bent < 0, np.log(convex) - np.log(-bent), np.inf)

    low, high = start.copy(), end.copy()
    a = high - GOLDEN * (high - low)
    b = low + GOLDEN * (high - low)
    at_a, at_b = excess(a), excess(b)
    for _ in range(48):
        go_left = at_a <= at_b
        low, high = np.where(go_left, low, a), np.where(go_left, b, high)
        new_a = high - GOLDEN * (high - low)
        new_b = low + GOLDEN * (high - low)
        at_new = excess(np.where(go_left, new_a, new_b))
        a, b = np.where(go_left, new_a, b), np.where(go_left, a, new_b)
        at_a, at_b = np.where(go_left, at_new, at_b), np.where(go_left, at_a, at_new)
    lowest = np.where(at_a <= at_b, a, b)
    for edge in (start, end):
        lowest = np.where(excess(edge) < excess(lowest), edge, lowest)
    left, right = _edge(excess, np.stack([lowest, lowest]), np.stack([start, end]))
    concave = excess(lowest) < 0
    return np.where(concave, left, end), np.where(concave, right, end)


def _edge(
    excess: Callable[[Floats], Floats],
    within: Floats,
    beyond: Floats,
) -> Floats:
    """Return the last point from `within` to `beyond` where `excess` is negative.

    It is negative at `within`.
    """
    reaches = excess(beyond) < 0
    within = np.where(reaches, beyond, within)
    for _ in range(56):
        middle = 0.5 * (within + beyond)
        negative = excess(middle) < 0
        within = np.where(negative, middle, within)
        beyond = np.where(negative, beyond, middle)
    return within
