"""The policy of the scripts that were released with the paper."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from headgate.control.checks import inside_unit, positive, zero_or_more
from headgate.control.policies.dpp import BentCurve, minimise_objective
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, System, View
from headgate.limits import SAMPLES
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import admission_interval


def released_penalty(k: BoundConstants) -> BentCurve:
    """Return the penalty of the released scripts.

    It is right for N ≥ Pdim only, because the scripts start from N = Pdim.
    """
    root = k.D * k.sigma
    linear = k.penalty_step * k.sigma**2
    gap = 10.0 * k.loss

    def value(n: Floats, N: Floats) -> Floats:
        u = N / k.pdim
        uneven = root * (n**-0.5 - N**-0.5) + linear * (1 / n - 1 / N)
        return uneven + gap * (1 + 0.5 * np.log(u)) / np.sqrt(u)

    def slope(n: Floats, N: Floats) -> Floats:
        u = N / k.pdim
        of_root = -0.5 * root * (n**-1.5 - N**-1.5)
        of_linear = linear * (n**-2.0 - N**-2.0)
        return of_root - of_linear - 0.25 * gap / k.pdim * np.log(u) * u**-1.5

    def curvature(n: Floats, N: Floats) -> tuple[Floats, Floats]:
        u = N / k.pdim
        of_root = 0.75 * root * (n**-2.5 - N**-2.5)
        of_linear = 2 * linear * (n**-3.0 - N**-3.0)
        bent = 0.125 * gap / k.pdim**2 * (3 * np.log(u) - 2) * u**-2.5
        return of_root + of_linear, bent

    bend = (k.pdim, k.pdim * float(np.exp(2.0 / 3.0)))
    return BentCurve(value, slope, curvature, bend)


@dataclass(frozen=True, eq=False)
class Released(AdmissionPolicy):
    """The policy that the scripts released with the paper call ACDPP.

    It is included so that results can be compared with theirs.

    The scripts differ from the paper (studies/paper/README.md): the interval hardly
    closes, every client gets at least one sample a round, the penalty has 1/√n − 1/√N
    for √(1/n − 1/N) and 1 + ½·log(N/Pdim) for √(1 + log(N/Pdim)), and N starts at Pdim.
    The defaults are those of the MNIST script.

    Parameters
    ----------
    K : int, default 6
        Number of rounds for which a sample is kept.
    V : float, default 1000.0
        Weight of the penalty.
    centre : float, default 40.0
        Centre of the interval, Λ̄.
    base : float, default 0.999
        Base of the interval's width.
    pace : float, default 0.01
        Factor of t: the interval is centre·(1 − base^(pace·t)) to centre/(1 −
        base^(pace·t)).
    width : float, default 10.0
        Least width of the interval.
    cap : float, default 50.0
        The most samples in a round.
    least : int, default 1
        Number of samples that every client is given in every round, at any price.
    capacity : Capacity, optional
        Hard limit on the samples that each client holds, which the scripts lack; left
        out: age alone decides.
    bound : BoundConstants, optional
        Constants of the penalty; left out: those of the experiment.
    """

    K: int = 6
    V: float = 1000.0
    centre: float = 40.0
    base: float = 0.999
    pace: float = 0.01
    width: float = 10.0
    cap: float = 50.0
    least: int = 1
    capacity: Capacity | None = None
    bound: BoundConstants | None = None

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
        n = view.kept.astype(np.float64)
        N = view.distinct + np.float64(k.pdim)
        wanted = minimise_objective(view, self.V, released_penalty(k), n, N, lo, hi)
        each = np.full_like(view.kept_by_client, self.least)
        more = np.maximum(wanted - self.least * view.system.clients, 0.0)
        return AdmissionRequest(more, given=each), memory
