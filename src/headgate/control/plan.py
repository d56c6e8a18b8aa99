"""Before anything runs: which K, which rate, what it will cost and how far from the oracle it will be."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headgate.control.checks import inside_unit
from headgate.control.policies.drift.acdpp import Acdpp
from headgate.control.policies.operating_point import OPEN_END, better_of_corollary
from headgate.control.prices import PriceProcess
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import Floats, Ints, System
from headgate.errors import InfeasibleError, SettingError
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import Benchmark, ck_bound, optimal_K, oracle_bound, saturated
from headgate.theory.labels import paper


@paper("eq:kstep-opt-problem")
def best_constant_admission(system: System, mean_price: float, k: BoundConstants, rounds: int) -> Benchmark:
    """The (K, Λ̄) with the least Ē_T(π^CK) inside both constraints, for K up to four times c̄·B̄/C.

    For a given K the bound falls with the rate (a test tries many), so the highest that fits is taken.
    """
    longest = min(rounds, 4 * optimal_K(mean_price, system.buffer, system.budget)[0].K)
    points = (saturated(K, mean_price, system.buffer, system.budget) for K in range(1, longest + 1))
    return min(points, key=lambda point: ck_bound(point.K, point.rate, rounds, k).sum())


@dataclass(frozen=True)
class Candidate:
    """ACDPP with one K, rehearsed."""

    K: int
    rate: float
    ck_bound: float
    """Ē_T(π^CK) of Corollary 1"""
    spend: float
    """money a round"""
    bound: float
    """Ē_T of the rehearsed policy"""
    regret: float
    cost_violation: float
    buffer_violation: float
    peak_buffer: int
    """largest n_m(t) of any client in any round and run"""
    peak_client: int


@dataclass(frozen=True)
class Plan:
    """The chosen point, what its rehearsal showed, and the alternatives."""

    chosen: Candidate
    V: float
    rho: float
    oracle_bound: float
    corollary: tuple[Benchmark, Benchmark]
    """Corollary 2: the ceiling and the floor"""
    search: Benchmark
    """eq:kstep-opt-problem"""
    candidates: tuple[Candidate, ...]
    rounds: int
    why: str
    rehearsal: Rehearsal
    """of the chosen point, one run for each seed"""


@paper("rem:buffer-violation")
def plan(
    system: System,
    prices: PriceProcess,
    k: BoundConstants,
    policy: Acdpp,
    seeds: Ints,
    gamma: float,
    phi: float,
    tick: Callable[[int], None] = lambda t: None,
) -> Plan:
    """Choose K and Λ̄, set V = T^gamma and ρ = 1 − T^−phi, rehearse the neighbours of K in one batch.

    `policy` supplies everything else (burst cap, capacity, N(0), n(0)). Of the candidates whose rehearsed
    buffer violation is nil (Remark 3), the one with the least rehearsed bound is taken. `tick` as in `rehearse`.
    """
    inside_unit("gamma", gamma)
    inside_unit("phi", phi)
    rounds = system.horizon or OPEN_END
    mean_price = prices.mean(system.horizon)
    if system.budget * rounds < mean_price:
        raise InfeasibleError(
            f"system.budget = {system.budget:g} a round buys less than one sample in {rounds} rounds "
            f"at a mean price of {mean_price:g}"
        )
    if rounds < 2:
        raise SettingError(f"run.rounds = {rounds}: V = T^gamma and rho = 1 - T^-phi need at least 2 rounds")
    V, rho = rounds**gamma, 1.0 - rounds**-phi
    corollary = optimal_K(mean_price, system.buffer, system.budget)
    search = best_constant_admission(system, mean_price, k, rounds)
    around = {search.K + step for step in (-2, -1, 0, 1, 2)} | {point.K for point in corollary}
    points = [saturated(K, mean_price, system.buffer, system.budget) for K in sorted(around) if K >= 1]
    repeat = len(seeds)
    batch = replace(
        policy,
        K=np.repeat([point.K for point in points], repeat),
        rate=np.repeat([point.rate for point in points], repeat),
        V=V,
        rho=rho,
        bound=k,
    )
    result = rehearse(system, batch, prices, np.tile(seeds, len(points)), rounds, tick)
    if result.rounds < rounds:
        raise KeyboardInterrupt
    bounds = result.bound(k).sum(axis=-1)
    oracle = float(oracle_bound(system.buffer, rounds, k).sum())
    rows = [slice(i * repeat, (i + 1) * repeat) for i in range(len(points))]
    candidates = tuple(
        _candidate(point, _runs(result, own), bounds[own], oracle, k) for point, own in zip(points, rows, strict=True)
    )
    chosen, why = _choose(candidates, better_of_corollary(system, mean_price, k), system, mean_price, rounds, k.pdim)
    rehearsal = _runs(result, rows[candidates.index(chosen)])
    return Plan(chosen, V, rho, oracle, corollary, search, candidates, rounds, why, rehearsal)


def _runs(result: Rehearsal, rows: slice) -> Rehearsal:
    names = ("price", "admitted", "n", "N", "n_eff", "debt", "spend", "free", "peak_excess", "occupancy", "peak_occupancy")
    return replace(result, **{name: getattr(result, name)[rows] for name in names})


def _candidate(point: Benchmark, result: Rehearsal, bounds: Floats, oracle: float, k: BoundConstants) -> Candidate:
    peak = result.peak_occupancy.max(axis=0)
    over = int(np.argmax(peak - result.system.buffer))
    return Candidate(
        K=point.K,
        rate=point.rate,
        ck_bound=float(ck_bound(point.K, point.rate, result.rounds, k).sum()),
        spend=float(result.spend.mean()),
        bound=float(bounds.mean()),
        regret=float(bounds.mean()) - oracle,
        cost_violation=result.cost_violation(),
        buffer_violation=result.buffer_violation(),
        peak_buffer=int(peak[over]),
        peak_client=over,
    )


def _choose(
    candidates: tuple[Candidate, ...], corollary: Benchmark, system: System, mean_price: float, rounds: int, pdim: float
) -> tuple[Candidate, str]:
    """The best candidate that keeps the buffers on average, and one sentence why."""
    tolerance = 1e-3 * system.memory * rounds  # a thousandth of the room: the luck of the seeds
    keeping = [c for c in candidates if c.buffer_violation <= tolerance]
    best = min(keeping or candidates, key=lambda c: c.bound)
    why = f"K = {best.K} has the least rehearsed bound of all K tried"
    if system.budget * rounds < pdim * mean_price:
        best = next(c for c in candidates if c.K == corollary.K)
        why = f"the budget buys fewer samples than Pdim = {pdim:g}, where the bound cannot tell, so Corollary 2 decides"
    elif not keeping:
        why += "; none of them kept the buffers on average, so set a burst cap or a capacity"
    elif (least := min(candidates, key=lambda c: c.bound)) is not best:
        why = f"K = {least.K} has the least rehearsed bound but broke the buffers; K = {best.K} is the best that kept them"
    used = []
    if best.rate * mean_price >= system.budget * (1 - 1e-9):
        used.append("the budget")
    if best.rate * best.K >= system.memory * (1 - 1e-9):
        used.append("the buffers")
    return best, f"{why}; {best.rate:.4g} samples a round use up {' and '.join(used)}"
