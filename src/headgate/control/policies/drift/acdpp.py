"""ACDPP: drift-plus-penalty inside an interval that shrinks towards the rate Λ̄ (paper §5, Algorithm 1)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from headgate.control.checks import inside_unit, positive
from headgate.control.policies.drift.dpp import Dpp, horizon_at
from headgate.control.policies.operating_point import highest_rate
from headgate.control.policy import PolicyContext
from headgate.control.types import Floats, View
from headgate.theory.drift import admission_interval
from headgate.theory.labels import paper


@paper("eq:dpp-policy", "alg:acdpp")
@dataclass(frozen=True, eq=False, kw_only=True)
class Acdpp(Dpp):
    """As in the paper. rate and rho may be one number or one per run; rho left out is 1 − T^−phi.

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
        return replace(known, rate=highest_rate(int(known.required("K")), given) if self.rate is None else self.rate, rho=rho)

    def interval(self, view: View) -> tuple[Floats, Floats]:
        rho = self.rho if self.rho is not None else 1.0 - horizon_at(view) ** -self.phi
        return admission_interval(view.t, self.required("rate"), rho)  # eq:lambda-min-max
