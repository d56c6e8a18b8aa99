"""Before anything runs: which K, which rate, what it will cost and how far from the oracle it will be."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from headgate.control.policies.drift.dpp import Acdpp
from headgate.control.policy import OPEN_END, AdmissionPolicy, PolicyContext
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import Floats, System
from headgate.errors import SettingError
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
    cost_violation: float
    buffer_violation: float
    peak_buffer: int
    """the most that the fullest client ever held"""


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy with all its settings worked out, and what a rehearsal of it showed; for ACDPP also what else was tried."""

    policy: AdmissionPolicy
    rehearsal: Rehearsal
    """one run for each seed"""
    bound: float
    """Ē_T of Theorem 1, mean over the runs"""
    oracle_bound: float
    why: str
    candidates: tuple[Candidate, ...] = ()
    corollary: tuple[Benchmark, Benchmark] | None = None
    """Corollary 2: the ceiling and the floor"""
    search: Benchmark | None = None
    """eq:kstep-opt-problem"""

    @property
    def rounds(self) -> int:
        return self.rehearsal.rounds

    @property
    def regret(self) -> float:
        return self.bound - self.oracle_bound

    @property
    def spend(self) -> float:
        """Money a round."""
        return float(self.rehearsal.spend.mean())

    @property
    def peak_spend(self) -> float:
        """Money that the most costly round of all rehearsed runs took."""
        return float(self.rehearsal.spend.max())

    @property
    def peak_client(self) -> int:
        """The fullest one: it holds most above its buffer or, where all keep theirs, the largest share of it."""
        return _fullest(self.rehearsal)

    @property
    def peak_buffer(self) -> int:
        """The most samples that client ever held."""
        return int(self.rehearsal.peak_occupancy.max(axis=0)[self.peak_client])

    def setting(self, name: str) -> float | None:
        """K, rate, V or rho as planned; None where the policy has none, or follows a schedule."""
        value = getattr(self.policy, name, None)
        return None if value is None or isinstance(value, str) or np.ndim(value) else value


def plan(
    given: PolicyContext,
    policy: AdmissionPolicy,
    gamma: float | None = None,
    phi: float | None = None,
    tick: Callable[[int], None] = lambda t: None,
    search: bool = True,
) -> Plan:
    """What to expect of a policy: all its settings worked out, and a rehearsal. `tick` as in `rehearse`.

    For ACDPP, K and Λ̄ are chosen unless `search` is off, with V = T^gamma and ρ = 1 − T^−phi.
    """
    if isinstance(policy, Acdpp) and search:
        gamma, phi = policy.gamma if gamma is None else gamma, policy.phi if phi is None else phi
        return _plan_acdpp(given, replace(policy, gamma=gamma, phi=phi), tick)
    policy = policy.resolved(given)
    result = rehearse(given.system, policy, given.prices, given.seeds, given.rounds, tick)
    bounds, oracle = _bounds(result, given)
    why = "its settings are as stated, or follow from the system and the prices"
    return Plan(policy, result, float(bounds.mean()), oracle, why)


def _bounds(result: Rehearsal, given: PolicyContext) -> tuple[Floats, float]:
    """Ē_T of each run, and the oracle's."""
    return result.bound(given.bound).sum(axis=-1), float(oracle_bound(given.system.buffer, result.rounds, given.bound).sum())


@paper("rem:buffer-violation")
def _plan_acdpp(given: PolicyContext, policy: Acdpp, tick: Callable[[int], None]) -> Plan:
    """Choose K and Λ̄, and rehearse the neighbours of K in one batch.

    `policy` supplies everything else (burst cap, capacity, N(0), n(0)). Of the candidates whose rehearsed
    buffer violation is nil (Remark 3), the one with the least rehearsed bound is taken.
    """
    system, mean_price, k, seeds = given.system, given.mean_price, given.bound, given.seeds
    rounds = system.horizon or OPEN_END
    if rounds < 2:
        raise SettingError(f"run.rounds = {rounds}: V = T^gamma and rho = 1 - T^-phi need at least 2 rounds")
    corollary = optimal_K(mean_price, system.buffer, system.budget)
    search = best_constant_admission(system, mean_price, k, rounds)
    around = {search.K + step for step in (-2, -1, 0, 1, 2)} | {point.K for point in corollary}
    points = [saturated(K, mean_price, system.buffer, system.budget) for K in sorted(around) if K >= 1]
    repeat = len(seeds)
    chosen_by = replace(policy, V=rounds**policy.gamma, rho=1.0 - rounds**-policy.phi, bound=k)
    batch = replace(
        chosen_by, K=np.repeat([point.K for point in points], repeat), rate=np.repeat([point.rate for point in points], repeat)
    )
    result = rehearse(system, batch, given.prices, np.tile(seeds, len(points)), rounds, tick)
    bounds, oracle = _bounds(result, given)
    rows = [slice(i * repeat, (i + 1) * repeat) for i in range(len(points))]
    candidates = tuple(_candidate(point, result.of_runs(own), bounds[own], k) for point, own in zip(points, rows, strict=True))
    chosen, why = _choose(candidates, given.better_K(), system, mean_price, rounds, k.pdim)
    own = result.of_runs(rows[candidates.index(chosen)])
    made = replace(chosen_by, K=chosen.K, rate=chosen.rate)
    return Plan(made, own, chosen.bound, oracle, why, candidates, corollary, search)


def _candidate(point: Benchmark, result: Rehearsal, bounds: Floats, k: BoundConstants) -> Candidate:
    return Candidate(
        K=point.K,
        rate=point.rate,
        ck_bound=float(ck_bound(point.K, point.rate, result.rounds, k).sum()),
        spend=float(result.spend.mean()),
        bound=float(bounds.mean()),
        cost_violation=result.cost_violation(),
        buffer_violation=result.buffer_violation(),
        peak_buffer=int(result.peak_occupancy.max(axis=0)[_fullest(result)]),
    )


def _fullest(result: Rehearsal) -> int:
    peak, room = result.peak_occupancy.max(axis=0), result.system.buffer
    return int(np.argmax(np.where(peak > room, 1 + peak - room, peak / np.maximum(room, 1))))


def _choose(
    candidates: tuple[Candidate, ...], corollary: int, system: System, mean_price: float, rounds: int, pdim: float
) -> tuple[Candidate, str]:
    """The best candidate that keeps the buffers on average, and one sentence why."""
    # a tenth of the room of one round, however many there are: the luck of the seeds, and O(1) as Remark 3 has it
    keeping = [c for c in candidates if c.buffer_violation <= 0.1 * system.memory]
    best = min(keeping or candidates, key=lambda c: c.bound)
    why = f"K = {best.K} has the least rehearsed bound of all K tried"
    if system.budget * rounds < pdim * mean_price:
        best = next(c for c in candidates if corollary == c.K)
        why = f"the budget buys fewer samples than Pdim = {pdim:g}, where the bound cannot tell, so Corollary 2 decides"
    elif not keeping:
        why += "; none of them kept the buffers on average, so set a burst cap or a capacity"
    elif (least := min(candidates, key=lambda c: c.bound)) is not best:
        why = f"K = {least.K} has the least rehearsed bound but broke the buffers; K = {best.K} is the best that kept them"
    used = []
    if best.rate * mean_price >= system.budget * (1 - 1e-9):
        used.append("the budget")
    if best.rate * min(best.K, rounds) >= system.memory * (1 - 1e-9):  # no sample is kept for longer than there are rounds
        used.append("the buffers")
    return best, f"{why}; {best.rate:.4g} samples a round" + (f" use up {' and '.join(used)}" if used else "")
