"""Do the theorems' rates show? Regret, violations and Ω_1..Ω_3 over growing horizons, with fitted exponents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headgate.config import Experiment
from headgate.control.plan import better_of_corollary
from headgate.control.policies import Acdpp
from headgate.control.rehearse import rehearse
from headgate.control.types import Floats
from headgate.errors import SettingError
from headgate.theory.comparison import claimed_rates, omega1, omega2, omega3, omega_master
from headgate.theory.drift import admission_interval, drift_constant
from headgate.theory.labels import paper

QUANTITIES = ("regret", "cost_violation", "buffer_violation", "omega1", "omega2", "omega3")


@dataclass(frozen=True)
class Point:
    """One horizon."""

    T: int
    V: float
    rho: float
    regret: float
    cost_violation: float
    buffer_violation: float
    omega1: float
    omega2: float
    omega3: float
    ceiling: float
    """Ω_1 + Ω_2 + Ω_3 + Σ_t B_t/V, eq:omega-master with the drift constant of each round"""


@dataclass(frozen=True)
class Fit:
    """value ≈ factor·T^exponent over the upper part of the horizons; None where it is zero there."""

    quantity: str
    exponent: float | None
    half_width: float | None
    """half the 95 % interval of the exponent"""
    claim: str
    claimed_exponent: float
    holds: bool | None
    """whether the measured exponent is at or below the claimed one; None where it cannot be told"""


@dataclass(frozen=True)
class Rates:
    points: tuple[Point, ...]
    fits: tuple[Fit, ...]
    gamma: float
    phi: float


def horizons(least: int, most: int) -> list[int]:
    """Two a decade, from 10² to 10⁵ by default."""
    if least < 10 or most < 10 * least:
        raise SettingError(f"rounds from {least} to {most}: needs at least 10 rounds and a decade between them")
    count = 1 + round(2 * np.log10(most / least))
    return [round(T) for T in np.geomspace(least, most, count)]


@paper(
    "lem:omega1-order",
    "eq:omega1-order",
    "lem:omega2-order",
    "eq:omega2-order",
    "lem:omega3-order",
    "eq:omega3-order",
)
def measure(
    experiment: Experiment,
    policy: Acdpp,
    Ts: Sequence[int],
    gamma: float,
    phi: float,
    tick: Callable[[int], None] = lambda t: None,
) -> Rates:
    """ACDPP on the recipe's system with V = T^gamma and ρ = 1 − T^−phi, for every horizon.

    After Ctrl-C the horizons done so far come back; fits need three.
    """
    claims = claimed_rates(gamma, phi)
    k, costs = experiment.bound, experiment.costs
    points = []
    for T in Ts:
        system = replace(experiment.system, horizon=T)
        V, rho = float(T**gamma), float(1 - T**-phi)
        K, rate = better_of_corollary(system, costs.mean(T), k)
        result = rehearse(system, replace(policy, K=K, rate=rate, V=V, rho=rho, bound=k), costs, experiment.seeds, T, tick)
        if result.rounds < T:
            break
        terms = (
            float(omega1(result.bound(k), result.penalty(k) + k.C2).mean()),
            omega2(K, rate, rho, T, k),
            omega3(K, rate, system.buffer, T, k),
        )
        _, highest = admission_interval(np.arange(1, T + 1), rate, rho)
        drift = drift_constant(costs.most(T) * highest, system.budget).mean()
        points.append(
            Point(
                T,
                V,
                rho,
                float(result.regret(k).mean()),
                result.cost_violation(),
                result.buffer_violation(),
                *terms,
                ceiling=float(omega_master(*terms, constant=drift, T=T, V=V)),
            )
        )
    wanted = {
        "regret": (f"O(T^{1 - gamma:g}) + O(T^{phi:g}) + O(log T)", claims.regret),
        "cost_violation": (f"O(T^{claims.cost_violation:g})", claims.cost_violation),
        "buffer_violation": ("O(1)", 0.0),
        "omega1": ("O(1)", 0.0),
        "omega2": (f"O(1/(1-rho)) = O(T^{phi:g})", phi),
        "omega3": ("O(log T)", 0.0),
    }
    series = {name: np.array([getattr(point, name) for point in points]) for name in QUANTITIES}
    done = np.array([point.T for point in points], dtype=np.float64)
    fits = tuple(_fit(name, done, series[name], *wanted[name]) for name in QUANTITIES if len(points) >= 3)
    return Rates(tuple(points), fits, gamma, phi)


LEEWAY = 0.05
"""how far above the claim an exponent may lie before the claim is said not to hold: logarithms hide in it"""


def _fit(name: str, T: Floats, value: Floats, claim: str, claimed: float) -> Fit:
    """Least squares of log|value| on log T over the upper half of the horizons (at least three)."""
    tail = slice(min(len(T) // 2, len(T) - 3), None)
    x, y = np.log(T[tail]), np.abs(value[tail])
    if not np.all(y > 0):
        holds = True if not np.any(y) else None
        return Fit(name, None, None, claim, claimed, holds)
    y = np.log(y)
    x = x - x.mean()
    exponent = float(x @ y / (x @ x))
    residual = y - y.mean() - exponent * x
    error = float(np.sqrt(residual @ residual / max(len(x) - 2, 1) / (x @ x)))
    return Fit(name, exponent, 1.96 * error, claim, claimed, exponent <= claimed + LEEWAY)
