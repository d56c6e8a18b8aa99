"""What the scripts released with the paper do under the name of ACDPP, so that its numbers can be compared.

Facts read from those scripts (studies/paper/README.md lists them): the interval hardly closes, every client gets at
least one sample a round, the penalty has 1/√n − 1/√N for √(1/n − 1/N) and 1 + ½·log(N/Pdim) for
√(1 + log(N/Pdim)), and N starts at Pdim.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from headgate.control.checks import inside_unit, positive, zero_or_more
from headgate.control.policies.drift.dpp import Penalty, minimise_objective
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, System, View
from headgate.limits import SAMPLES
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import admission_interval


def released_penalty(k: BoundConstants) -> Penalty:
    """The scripts' penalty. They start from N = Pdim, so it is needed for N ≥ Pdim only."""
    root, linear, gap = k.D * k.sigma, k.penalty_step * k.sigma**2, 10.0 * k.loss

    def value(n: Floats, N: Floats) -> Floats:
        u = N / k.pdim
        return root * (n**-0.5 - N**-0.5) + linear * (1 / n - 1 / N) + gap * (1 + 0.5 * np.log(u)) / np.sqrt(u)

    def slope(n: Floats, N: Floats) -> Floats:
        u = N / k.pdim
        return -0.5 * root * (n**-1.5 - N**-1.5) - linear * (n**-2.0 - N**-2.0) - 0.25 * gap / k.pdim * np.log(u) * u**-1.5

    def curvature(n: Floats, N: Floats) -> tuple[Floats, Floats]:
        u = N / k.pdim
        convex = 0.75 * root * (n**-2.5 - N**-2.5) + 2 * linear * (n**-3.0 - N**-3.0)
        return convex, 0.125 * gap / k.pdim**2 * (3 * np.log(u) - 2) * u**-2.5

    return Penalty(value, slope, curvature, bend=(k.pdim, k.pdim * float(np.exp(2.0 / 3.0))))


@dataclass(frozen=True, eq=False)
class Released(AdmissionPolicy):
    """Defaults: the MNIST script."""

    K: int = 6
    V: float = 1000.0
    centre: float = 40.0
    base: float = 0.999
    pace: float = 0.01
    """the interval is centre·(1 − base^(pace·t)) to centre/(1 − base^(pace·t))"""
    width: float = 10.0
    """least width of the interval"""
    cap: float = 50.0
    """most samples in one round"""
    least: int = 1
    """samples that every client is given in every round, whatever they cost"""
    capacity: Capacity | None = None
    """hard limit per client, which the scripts do not have; left out: age alone decides"""
    bound: BoundConstants | None = None
    """left out: those of the experiment"""

    def __post_init__(self) -> None:
        for name in ("V", "centre", "pace", "width", "cap"):
            positive(name, getattr(self, name))
        inside_unit("base", self.base)
        zero_or_more("least", self.least, SAMPLES)
        KStep(self.K, capacity=self.capacity)  # refuses a bad K or capacity now

    def resolved(self, given: PolicyContext) -> Self:
        return replace(self, bound=self.bound or given.bound)

    def retention(self, system: System) -> Retention:
        return KStep(self.K, capacity=self.capacity)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        lo, hi = admission_interval(self.pace * view.t, self.centre, self.base)
        lo = np.minimum(np.maximum(lo, 1.0), self.cap)
        hi = np.minimum(np.maximum(hi, lo + self.width), self.cap)
        lo, hi = (np.broadcast_to(x, view.debt.shape) for x in (lo, hi))
        k = self.bound or BoundConstants()
        n, N = view.kept.astype(np.float64), view.distinct + np.float64(k.pdim)
        wanted = minimise_objective(view, self.V, released_penalty(k), n, N, lo, hi)
        each = np.full_like(view.kept_by_client, self.least)
        return AdmissionRequest(np.maximum(wanted - self.least * view.system.clients, 0.0), given=each), memory
