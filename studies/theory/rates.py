"""Do the theorems' rates show? Regret, violations and Ω_1..Ω_3 over growing horizons,
with fitted exponents.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from headgate.analysis.curves import COLOURS
from headgate.analysis.formatting import interval
from headgate.analysis.intervals import Estimate
from headgate.control.policies import Acdpp
from headgate.control.policy import better_of_corollary
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import Floats, System
from headgate.experiment import Experiment
from headgate.theory import comparison as c
from headgate.theory.labels import paper
from studies.figures import STYLE, save_figure
from studies.pages import SAID
from studies.paper import theory


@dataclass(frozen=True)
class AtHorizon:
    """What was measured with one T."""

    T: int
    V: float
    rho: float
    regret: float
    cost_violation: float
    """with the luck of the prices taken out: less Λ̄·(mean price − c̄), whose
    expectation is nil
    """
    buffer_violation: float
    omega1: float
    omega2: float
    omega3: float
    ceiling: float
    """Ω_1 + Ω_2 + Ω_3 + Σ_t B_t/V, eq:omega-master with the drift constant of each
    round
    """
    lemma1: float
    """left side over right side of eq:dpp-T-slot-upper, with the drift constant of each
    round
    """


@dataclass(frozen=True)
class Fit:
    """value ≈ factor·T^exponent over the longer half of the horizons, at least four of
    them where there are four.
    """

    quantity: str
    exponent: float | None
    """None where there is none, and `why` says why"""
    low: float | None
    high: float | None
    """the least and the largest exponent from one of these horizons to the next. Not an
    interval of chance: Ω_2 and Ω_3 have none in them, and the others are means over the
    same seeds at every horizon"""
    claim: str
    claimed_exponent: float
    """what the claimed function of T itself would show over these horizons: log T has
    an exponent too
    """
    holds: bool | None
    """whether the whole range is at most `LEEWAY` above that, or above it; None where
    it cannot be told
    """
    why: str = ""
    """there is no exponent"""

    @property
    def value(self) -> Estimate | None:
        """The exponent with its range."""
        return (
            None
            if self.exponent is None
            else Estimate(self.exponent, self.low, self.high)
        )


@dataclass(frozen=True)
class MeasuredRates:
    points: tuple[AtHorizon, ...]
    fits: tuple[Fit, ...]
    gamma: float
    phi: float


def horizons(least: int, most: int) -> list[int]:
    """Two a decade."""
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
    grain: int = 1,
) -> MeasuredRates:
    """ACDPP on the recipe's system with V = T^gamma and ρ = 1 − T^−phi, for every
    horizon; `grain` as in `measure_points`.
    """
    claims = theory.claimed_rates(gamma, phi)

    def choose(system: System, T: int) -> Acdpp:
        K, rate = better_of_corollary(
            system, experiment.prices.mean(T), experiment.bound
        )
        return replace(
            policy, K=K, rate=rate, V=float(T**gamma), rho=float(1 - T**-phi)
        )

    points = measure_points(experiment, Ts, choose, tick, grain)
    wanted: dict[str, tuple[str, Callable[[Floats], Floats]]] = {
        "regret": (
            f"O(T^{1 - gamma:g}) + O(T^{phi:g}) + O(log T)",
            lambda T: T**claims.regret,
        ),
        "cost_violation": (
            f"O(T^{claims.cost_violation:g})",
            lambda T: T**claims.cost_violation,
        ),
        "buffer_violation": ("O(1)", np.ones_like),
        "omega1": ("O(1)", np.ones_like),
        "omega2": (f"O(1/(1-rho)) = O(T^{phi:g})", lambda T: T**phi),
        "omega3": ("O(log T)", np.log),
    }
    fits = tuple(fit_points(points, name, *claim) for name, claim in wanted.items())
    return MeasuredRates(tuple(points), fits, gamma, phi)


def measure_points(
    experiment: Experiment,
    Ts: Sequence[int],
    choose: Callable[[System, int], Acdpp],
    tick: Callable[[int], None] = lambda t: None,
    grain: int = 1,
) -> list[AtHorizon]:
    """One point a horizon, of the policy that `choose` sets there. It decides and is
    charged in parts of a sample, `grain` of them in each: the paper's admissions are
    real numbers, where whole samples may leave memory empty for a round."""
    fine, points = finer(experiment, grain), []
    for T in Ts:
        own = choose(replace(experiment.system, horizon=T), T)
        own = replace(
            own,
            rate=grain * own.required("rate"),
            V=grain**2 * own.required("V"),
            bound=fine.bound,
        )
        result = rehearse(
            replace(fine.system, horizon=T), own, fine.prices, fine.seeds, T, tick
        )
        found = _point(fine, own, result)
        over = {
            name: getattr(found, name) / grain
            for name in ("cost_violation", "buffer_violation")
        }
        points.append(replace(found, V=found.V / grain**2, **over))
    return points


def finer(experiment: Experiment, grain: int) -> Experiment:
    """The same system counted in parts of a sample: with n, N and Pdim times g and σ
    times √g every penalty is what it was; with V times g² the drift-plus-penalty rule
    then decides alike, and money and debt are g times as much."""
    system = replace(
        experiment.system,
        buffer=grain * experiment.system.buffer,
        budget=grain * experiment.system.budget,
    )
    k = experiment.bound
    return replace(
        experiment,
        system=system,
        bound=replace(k, sigma=k.sigma * np.sqrt(grain), pdim=k.pdim * grain),
    )


def _point(experiment: Experiment, policy: Acdpp, result: Rehearsal) -> AtHorizon:
    k, system, T = experiment.bound, result.system, result.rounds
    K, rate, V, rho = (policy.required(name) for name in ("K", "rate", "V", "rho"))
    penalties = result.penalty(k)
    with np.errstate(invalid="ignore"):  # an empty memory has an infinite bound
        uneven = float(theory.omega1(result.bound(k), penalties + k.C2).mean())
    terms = (
        uneven,
        theory.omega2(K, rate, rho, T, k),
        theory.omega3(K, rate, system.buffer, T, k),
    )
    _, highest = c.admission_interval(np.arange(1, T + 1), rate, rho)
    drift = theory.drift_constant(float(result.price.max()) * highest, system.budget)
    debt = result.ledger.debt  # Z(T + 1)
    left = float((debt**2).mean()) / 2 + V * float(penalties.sum(axis=-1).mean())
    right = float(drift.sum()) + V * float(
        theory.ck_penalty_ceiling(K, rate, rho, T, k).sum()
    )
    return AtHorizon(
        T,
        V,
        rho,
        float(result.regret(k).mean()),
        c.cost_violation(
            result.spend - rate * (result.price - experiment.prices.mean(T)),
            system.budget,
        ),
        result.buffer_violation(),
        *terms,
        ceiling=float(theory.omega_master(*terms, constant=drift.mean(), T=T, V=V)),
        lemma1=left / right,
    )


LEEWAY = 0.05
"""how far above what is claimed an exponent may lie: terms of lower order bend a curve
at horizons that can be run
"""
FITTED = 4
"""horizons at least, where there are so many"""


def fit_points(
    points: Sequence[AtHorizon],
    name: str,
    claim: str,
    shape: Callable[[Floats], Floats],
) -> Fit:
    values = np.array([getattr(point, name) for point in points])
    return _fit(
        name,
        np.array([point.T for point in points], dtype=np.float64),
        values,
        claim,
        shape,
    )


def _fit(
    name: str, T: Floats, value: Floats, claim: str, shape: Callable[[Floats], Floats]
) -> Fit:
    """Least squares of log|value| on log T."""
    tail = slice(max(min(len(T) // 2, len(T) - FITTED), 0), None)
    claimed = round(_slope(T[tail], shape(T[tail])), 3)
    y = np.abs(value[tail])
    none = Fit(name, None, None, None, claim, claimed, None)
    if not np.all(np.isfinite(y)):
        return replace(
            none, why="infinite at some horizon: memory was empty in a round"
        )
    if not np.any(y):
        return replace(none, holds=True, why="zero at every horizon")
    if claimed == 0 and not np.any(y[-2:]):
        return replace(
            none, holds=True, why="zero at the two longest horizons: it does not grow"
        )
    if not np.all(y > 0):
        return replace(
            none, why=f"none: zero at {int((y == 0).sum())} of {len(y)} horizons"
        )
    local = np.diff(np.log(y)) / np.diff(np.log(T[tail]))
    low, high, line = float(local.min()), float(local.max()), claimed + LEEWAY
    holds = True if high <= line else False if low > line else None
    return Fit(name, _slope(T[tail], y), low, high, claim, claimed, holds)


def _slope(T: Floats, value: Floats) -> float:
    """Of log value on log T."""
    x = np.log(T) - np.log(T).mean()
    return float(x @ np.log(value) / (x @ x))


SHOWN = SAID["theory"]["quantities"]


def fit_lines(fits: Sequence[Fit]) -> list[list[str]]:
    told = {True: "yes", False: "no", None: "not decided"}
    return [
        [
            SHOWN[fit.quantity],
            fit.claim,
            f"{fit.claimed_exponent + LEEWAY:.2f}",
            fit.why if fit.value is None else interval(fit.value, 2),
            told[fit.holds],
        ]
        for fit in fits
    ]


def draw_rates(rates: MeasuredRates, path: Path) -> None:
    """Measured values over T, each with the slope that the paper claims for it."""
    T = np.array([point.T for point in rates.points], dtype=np.float64)
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
        for axes, fit, colour in zip(grid.flat, rates.fits, COLOURS, strict=False):
            values = np.abs([getattr(point, fit.quantity) for point in rates.points])
            seen = values > 0
            axes.set(title=SHOWN[fit.quantity], xlabel="T", xscale="log")
            measured = (
                "measured"
                if fit.exponent is None
                else f"measured, T^{fit.exponent:.2f}"
            )
            axes.plot(T[seen], values[seen], "o-", color=colour, label=measured)
            if seen.any():
                axes.set(yscale="log")
                anchor = np.flatnonzero(seen)[-1]
                shape = (
                    np.log(T) if fit.claim == "O(log T)" else T**fit.claimed_exponent
                )
                claim = values[anchor] * shape / shape[anchor]
                axes.plot(T, claim, "--", color="grey", label=f"claimed {fit.claim}")
            else:
                axes.annotate(
                    "zero at every T", (0.5, 0.5), xycoords="axes fraction", ha="center"
                )
            if fit.quantity == "regret":
                axes.plot(
                    T,
                    [point.ceiling for point in rates.points],
                    ":",
                    color="black",
                    label="ceiling, eq:omega-master",
                )
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=8)
        save_figure(figure, path)
