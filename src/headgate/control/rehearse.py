"""Simulate a whole horizon of control without learning, to predict what a policy would
spend, hold and use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.prices import PriceProcess
from headgate.control.types import Floats, Ints, Ledger, System
from headgate.limits import check_memory
from headgate.theory.bound import BoundConstants, learning_error, penalty
from headgate.theory.comparison import (
    buffer_violation,
    cost_violation,
    oracle_bound,
    regret,
)
from headgate.theory.reuse import effective_sample_size

BLOCK = 4096
"""number of rounds whose prices are fetched together"""
BY_ROUND = 200
"""bytes of memory for each round of a run"""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The results of a rehearsal; arrays are (R, T), per run and round, unless stated
    otherwise.

    Parameters
    ----------
    system : System
        The system.
    price : array of float
        Price of a sample, (R, T): the mean over the clients if each has its own price.
    admitted : array of int
        Samples admitted in round t.
    n : array of int
        Samples in memory, n(t).
    N : array of int
        Distinct samples trained on, N(t).
    n_eff : array of float
        Effective sample size, N_eff(t).
    debt : array of float
        Cost debt Z(t) at the beginning of round t.
    spend : array of float
        Money spent in round t.
    free : array of int
        Samples admitted in round t that are not paid for.
    peak_excess : array of int
        Largest n_m(t) − B_m of any client.
    occupancy : array of int
        Sum over the rounds of the samples that each client holds, n_m(t), (R, M).
    peak_occupancy : array of int
        The most samples that each client held in any round, (R, M).
    ledger : Ledger
        Ledger after the last round.
    admitted_by_client : array of int, optional
        Samples admitted, λ_m(t), (R, T, M); None unless `by_client` was set.
    held_by_client : array of int, optional
        Samples held, n_m(t), (R, T, M); None unless `by_client` was set.
    """

    system: System
    price: Floats
    admitted: Ints
    n: Ints
    N: Ints
    n_eff: Floats
    debt: Floats
    spend: Floats
    free: Ints
    peak_excess: Ints
    occupancy: Ints
    peak_occupancy: Ints
    ledger: Ledger
    admitted_by_client: Ints | None = None
    held_by_client: Ints | None = None

    @property
    def rounds(self) -> int:
        return int(self.price.shape[-1])

    @property
    def uniformity(self) -> Floats:
        """The evenness of reuse, Ṽ(t) = N_eff/N, (R, T); 1 before the first sample."""
        return np.where(self.N > 0, self.n_eff / np.maximum(self.N, 1), 1.0)

    def penalty(self, k: BoundConstants) -> Floats:
        """Return the penalty p(t) of eq:penalty-dpp, (R, T)."""
        return penalty(self.n, self.N, k)

    def bound(self, k: BoundConstants) -> Floats:
        """Return each round's term of the bound of Theorem 1, (R, T)."""
        return learning_error(self.n, self.N, self.uniformity, k)

    def regret(self, k: BoundConstants) -> Floats:
        """Return the regret Reg(T) of each run against the costless oracle, (R,)."""
        return regret(self.bound(k), oracle_bound(self.system.buffer, self.rounds, k))

    def cost_violation(self) -> float:
        return cost_violation(self.spend, self.system.budget)

    def buffer_violation(self) -> float:
        return buffer_violation(self.occupancy, self.system.buffer, self.rounds)


def rehearse(
    system: System,
    policy: AdmissionPolicy,
    prices: PriceProcess,
    seeds: Ints,
    rounds: int,
    tick: Callable[[int], None] = lambda t: None,
    by_client: bool = False,
) -> Rehearsal:
    """Rehearse `rounds` rounds for all seeds together, calling `tick` after each round.
    With `by_client`, the result also holds what every client admitted and held in every
    round."""
    R, T, M = len(seeds), rounds, system.clients
    check_memory(
        f"rounds = {T}: {R} runs of so many rounds take",
        R * T * (BY_ROUND + (32 * M if by_client else 0)),
    )
    controller = Controller(system, policy, R, seeds)
    ledger = controller.open()
    money = {name: np.empty((T, R)) for name in ("price", "debt", "spend")}
    counts = {
        name: np.zeros((T, R), dtype=np.int64)
        for name in ("admitted", "n", "N", "free", "peak_excess")
    }
    uses, squared = np.zeros((2, T, R), dtype=np.int64)
    occupancy, peak = np.zeros((2, R, M), dtype=np.int64)
    clients = np.zeros((2, T, R, M), dtype=np.int64) if by_client else None
    path = np.empty((R, 0))
    for i in range(T):
        if i % BLOCK == 0:
            path = prices.path(seeds, i + 1, min(i + BLOCK, T) + 1)
        orders = controller.decide(ledger, np.ascontiguousarray(path[:, i % BLOCK]))
        after = controller.post(ledger, orders)
        held = after.occupancy
        money["price"][i] = (
            orders.price if orders.price.ndim == 1 else orders.price.mean(axis=-1)
        )
        money["debt"][i], money["spend"][i] = (
            ledger.debt,
            orders.charge(orders.admitted),
        )
        counts["admitted"][i], counts["n"][i] = (
            orders.admitted.sum(axis=-1),
            held.sum(axis=-1),
        )
        counts["N"][i], counts["peak_excess"][i] = (
            after.distinct,
            (held - system.buffer).max(axis=-1),
        )
        uses[i], squared[i] = after.uses, after.squared_uses
        if orders.free is not None:
            counts["free"][i] = orders.free.sum(axis=-1)
        if clients is not None:
            clients[:, i] = orders.admitted, held
        ledger, occupancy, peak = after, occupancy + held, np.maximum(peak, held)
        tick(after.t)

    def by_run(rounds_first: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(np.moveaxis(rounds_first, 0, 1))

    return Rehearsal(
        system=system,
        **{name: by_run(rows) for name, rows in (money | counts).items()},
        n_eff=by_run(effective_sample_size(uses, squared)),
        occupancy=occupancy,
        peak_occupancy=peak,
        ledger=ledger,
        admitted_by_client=None if clients is None else by_run(clients[0]),
        held_by_client=None if clients is None else by_run(clients[1]),
    )


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy with all its settings worked out, and the results of its rehearsal.

    Parameters
    ----------
    policy : AdmissionPolicy
        The policy.
    rehearsal : Rehearsal
        Results of the rehearsal, with one run for each seed.
    bound : float
        Bound Ē_T of Theorem 1, averaged over the runs.
    oracle_bound : float
        Bound of the costless oracle, Ē_T^oracle.
    """

    policy: AdmissionPolicy
    rehearsal: Rehearsal
    bound: float
    oracle_bound: float

    @property
    def regret(self) -> float:
        return self.bound - self.oracle_bound

    @property
    def spend(self) -> float:
        """The mean money spent per round."""
        return float(self.rehearsal.spend.mean())

    @property
    def peak_spend(self) -> float:
        """The most money spent in a round of any rehearsed run."""
        return float(self.rehearsal.spend.max())

    @property
    def peak_client(self) -> int:
        """The client that exceeds its buffer the most or, if none exceeds it, fills the
        largest share of its buffer.
        """
        peak, room = (
            self.rehearsal.peak_occupancy.max(axis=0),
            self.rehearsal.system.buffer,
        )
        return int(
            np.argmax(
                np.where(peak > room, 1 + peak - room, peak / np.maximum(room, 1))
            )
        )

    @property
    def peak_buffer(self) -> int:
        """The most samples that `peak_client` ever held."""
        return int(self.rehearsal.peak_occupancy.max(axis=0)[self.peak_client])

    def setting(self, name: str) -> float | None:
        """Return the planned setting `name`, for example K, rate, V or rho; None if the
        policy has no fixed number for it.
        """
        value = getattr(self.policy, name, None)
        return value if isinstance(value, int | float) else None


def plan(given: PolicyContext, policy: AdmissionPolicy) -> Plan:
    """Work out all settings of a policy, rehearse it, and return the plan."""
    policy = policy.resolved(given)
    result = rehearse(given.system, policy, given.prices, given.seeds, given.rounds)
    oracle = float(oracle_bound(given.system.buffer, result.rounds, given.bound).sum())
    return Plan(
        policy, result, float(result.bound(given.bound).sum(axis=-1).mean()), oracle
    )
