"""What the theorems say beside their main rates: other settings of V and ρ, a planned K, and formulas that can be computed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headgate.control.plan import plan
from headgate.control.policies import Acdpp
from headgate.control.policy import PolicyContext, better_of_corollary
from headgate.control.types import System
from headgate.experiment import Experiment, load
from headgate.theory.bound import BoundConstants, mismatch
from headgate.theory.comparison import ck_bound
from headgate.theory.reuse import ck_uniformity
from studies.paper.errata.about_the_bound import FRESH, printed_uniformity, stale_over_fresh
from studies.theory.rates import AtHorizon, Fit, MeasuredRates, Setting, fit_points, horizons, measure, measure_points

Tick = Callable[[int], None]
OTHER = ((0.7, 0.3), (0.3, 0.6), (0.1, 0.8), (0.1, 0.9))
"""(γ, φ) beside the (½, ½) of the main table"""
GRAIN = 1000
"""parts of a sample that they are counted in: with a large φ whole ones leave memory empty for a round, the bound infinite"""
FIXED = (10.0, 0.9)
"""V and ρ that do not follow T: those of T = 100"""
SEEDS = 4
BUDGETS = tuple(range(40, 81))
"""for which Corollary 2's candidates are looked at"""


@dataclass(frozen=True)
class Checks:
    """Measured or computed; no verdicts yet."""

    other: tuple[MeasuredRates, ...]
    fixed_points: tuple[AtHorizon, ...]
    fixed: tuple[Fit, Fit]
    """regret and cost violation with V and ρ fixed"""
    planned_points: tuple[AtHorizon, ...]
    planned: Fit
    """buffer violation with the K that `plan` finds at each horizon"""
    planned_K: tuple[int, ...]
    uniformity: float
    """the printed eq:vck-exact against the right one: largest deviation, as a share"""
    floor_spend: float
    """what Corollary 2's better candidate costs at most, as a share of C"""
    fresh: dict[int, float]
    """by T: bound of the first buffers kept for ever, over that of always fresh samples, all N above Pdim"""
    uneven: float
    """least cumulative penalty of a memory that goes up and down, over that of a constant one"""


def rehearsed(quick: bool) -> tuple[Experiment, Acdpp]:
    experiment = load("mnist", ['run.policies=["acdpp"]', f"run.seeds={2 if quick else SEEDS}"])
    policy = experiment.policies["acdpp"]
    assert isinstance(policy, Acdpp)
    return experiment, policy


def check_horizons(quick: bool) -> list[int]:
    return horizons(10, 100) if quick else horizons(100, 10_000)


def check(quick: bool, tick: Tick = lambda t: None) -> Checks | None:
    """All of them; None if interrupted."""
    experiment, policy = rehearsed(quick)
    Ts, costs, k = check_horizons(quick), experiment.prices, experiment.bound
    other = tuple(measure(experiment, policy, Ts, *pair, tick=tick, grain=GRAIN) for pair in OTHER)

    def fixed(system: System, T: int) -> Setting:
        K, rate = better_of_corollary(system, costs.mean(T), k)
        return Setting(K, rate, *FIXED)

    chosen: list[int] = []

    def planned(system: System, T: int) -> Setting:
        found = plan(PolicyContext(system, costs, k, experiment.seeds, T), policy, 0.5, 0.5)
        K, rate, V, rho = (found.setting(name) or 0.0 for name in ("K", "rate", "V", "rho"))
        chosen.append(int(K))
        return Setting(int(K), rate, V, rho)

    by_fixed = measure_points(experiment, policy, Ts, fixed, tick)
    by_plan = measure_points(experiment, policy, Ts, planned, tick)
    if min(len(points) for points in (by_fixed, by_plan, *(rates.points for rates in other))) < len(Ts):
        return None
    return Checks(
        other=other,
        fixed_points=tuple(by_fixed),
        fixed=(
            fit_points(by_fixed, "regret", "O(T/V) + O(1/(1-rho)) + O(log T)", lambda T: T),
            fit_points(by_fixed, "cost_violation", "O(√(V·T + V/(1-rho)))", np.sqrt),
        ),
        planned_points=tuple(by_plan),
        planned=fit_points(by_plan, "buffer_violation", "O(1)", np.ones_like),
        planned_K=tuple(chosen),
        uniformity=printed_uniformity_error(10, 100),
        floor_spend=dearest_candidate(experiment),
        fresh={rounds: stale_over_fresh(FRESH, rounds) for rounds in (50, 100_000)},
        uneven=uneven_over_constant(k),
    )


def printed_uniformity_error(K: int, T: int) -> float:
    """Of eq:vck-exact as the paper prints it, over t = K..T."""
    t = np.arange(K, T + 1, dtype=np.float64)
    return float(np.abs(printed_uniformity(K, t) / ck_uniformity(K, t) - 1).max())


def dearest_candidate(experiment: Experiment, rounds: int = 1000) -> float:
    """Corollary 2 as printed, with saturated buffers, for many budgets."""
    memory, price, spends = experiment.system.memory, experiment.prices.mean(rounds), []
    for budget in BUDGETS:
        ratio = price * memory / budget
        candidates = {int(np.ceil(ratio)), max(int(np.floor(ratio)), 1)}
        best = min(candidates, key=lambda K: float(ck_bound(K, memory / K, rounds, experiment.bound).sum()))
        spends.append(price * memory / best / budget)
    return max(spends)


def uneven_over_constant(k: BoundConstants, n: float = 100.0, N: float = 1000.0) -> float:
    """Rounds with n·(1 + d) and n·(1 − d) samples in turn, beside n in every one, long after the beginning."""
    swings = np.linspace(0.05, 0.9, 18)
    terms = [_terms(n * (1 + side * swings), N, k) for side in (1, -1)]
    return float(((terms[0] + terms[1]) / (2 * _terms(np.array([n]), N, k))).min())


def _terms(n: np.ndarray, N: float, k: BoundConstants) -> np.ndarray:
    gap = mismatch(n, N)
    return np.asarray(k.D * k.sigma * np.sqrt(gap) + k.eta * k.sigma**2 * gap)
