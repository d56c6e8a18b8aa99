"""Simulate a whole horizon of control without learning.

It predicts what a policy would spend, hold and use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.control.controller import Controller
from headgate.control.delays import Delays
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.prices import PriceProcess
from headgate.control.types import Floats, Ints, Ledger, Orders, System
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


@dataclass(
    frozen=True,
    eq=False,
)
class Rehearsal:
    """The results of a rehearsal.

    Arrays are (R, T), per run and round, unless stated otherwise.

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

    @property
    def rounds(self) -> int:
        """The number of rounds, T."""
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
        """Return the violation of the budget, Vio^S(T)."""
        return cost_violation(self.spend, self.system.budget)

    def buffer_violation(self) -> float:
        """Return the violation of the buffers, Vio^B(T)."""
        return buffer_violation(self.occupancy, self.system.buffer, self.rounds)


def rehearse(
    system: System,
    policy: AdmissionPolicy,
    prices: PriceProcess,
    seeds: Ints,
    rounds: int,
    tick: Callable[[int], None] = lambda t: None,
    delays: Delays | None = None,
) -> Rehearsal:
    """Rehearse `rounds` rounds for all seeds together, calling `tick` after each
    round. Samples take `delays` to arrive; None: they are there at once.
    """
    R, T = len(seeds), rounds
    check_memory(f"rounds = {T}: {R} runs of so many rounds take", R * T * BY_ROUND)
    controller = Controller(system, policy, R, seeds, delays=delays)
    ledger = controller.open()
    series = _Series(T, ledger)
    path = np.empty((R, 0))
    for i in range(T):
        if i % BLOCK == 0:
            path = prices.path(seeds, i + 1, min(i + BLOCK, T) + 1)
        orders = controller.decide(ledger, np.ascontiguousarray(path[:, i % BLOCK]))
        after = controller.post(ledger, orders)
        series.add(i, system, ledger, orders, after)
        ledger = after
        tick(after.t)
    return series.result(system, ledger)


class _Series:
    """What is kept of each round of a rehearsal, (T, R)."""

    def __init__(self, rounds: int, ledger: Ledger) -> None:
        runs, clients = ledger.admitted.shape
        shape = (rounds, runs)
        self.money = {name: np.empty(shape) for name in ("price", "debt", "spend")}
        self.counts = {
            name: np.zeros(shape, dtype=np.int64)
            for name in ("admitted", "n", "N", "free", "peak_excess")
        }
        self.uses, self.squared = np.zeros((2, *shape), dtype=np.int64)
        self.occupancy, self.peak = np.zeros((2, runs, clients), dtype=np.int64)

    def add(
        self,
        i: int,
        system: System,
        before: Ledger,
        orders: Orders,
        after: Ledger,
    ) -> None:
        """Add round i + 1."""
        held, price = after.occupancy, orders.price
        self.money["price"][i] = price if price.ndim == 1 else price.mean(axis=-1)
        self.money["debt"][i] = before.debt
        admitted, spend = orders.admitted.sum(axis=-1), orders.charge(orders.admitted)
        if after.pipeline is not None:
            admitted, spend = after.ever - before.ever, after.spent - before.spent
        self.money["spend"][i] = spend
        self.counts["admitted"][i] = admitted
        self.counts["n"][i] = held.sum(axis=-1)
        self.counts["N"][i] = after.distinct
        self.counts["peak_excess"][i] = (held - system.buffer).max(axis=-1)
        if orders.free is not None:
            self.counts["free"][i] = orders.free.sum(axis=-1)
        self.uses[i], self.squared[i] = after.uses, after.squared_uses
        self.occupancy += held
        np.maximum(self.peak, held, out=self.peak)

    def result(self, system: System, ledger: Ledger) -> Rehearsal:
        """Return the series with runs before rounds."""
        series = self.money | self.counts
        series["n_eff"] = effective_sample_size(self.uses, self.squared)
        by_run: dict[str, Any] = {
            name: np.ascontiguousarray(np.moveaxis(rows, 0, 1))
            for name, rows in series.items()
        }
        return Rehearsal(
            system=system,
            occupancy=self.occupancy,
            peak_occupancy=self.peak,
            ledger=ledger,
            **by_run,
        )


@dataclass(
    frozen=True,
    eq=False,
)
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
    at_once : Rehearsal, optional
        Results of the same rehearsal if samples arrived at once; None: they do.
    """

    policy: AdmissionPolicy
    rehearsal: Rehearsal
    bound: float
    oracle_bound: float
    at_once: Rehearsal | None = None

    @property
    def regret(self) -> float:
        """The bound minus the oracle's."""
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
        """The client that exceeds its buffer the most.

        If none exceeds it, it is the one that fills the largest share of its buffer.
        """
        peak = self.rehearsal.peak_occupancy.max(axis=0)
        room = self.rehearsal.system.buffer
        filled = peak / np.maximum(room, 1)
        return int(np.argmax(np.where(peak > room, 1 + peak - room, filled)))

    @property
    def peak_buffer(self) -> int:
        """The most samples that `peak_client` ever held."""
        return int(self.rehearsal.peak_occupancy.max(axis=0)[self.peak_client])

    def setting(self, name: str) -> float | None:
        """Return the planned setting `name`, for example K, rate, V or rho.

        The result is None if the policy has no fixed number for it.
        """
        value = getattr(self.policy, name, None)
        return value if isinstance(value, int | float) else None


def plan(given: PolicyContext, policy: AdmissionPolicy) -> Plan:
    """Work out all settings of a policy, rehearse it, and return the plan."""
    policy = policy.resolved(given)
    process = (given.system, policy, given.prices, given.seeds, given.rounds)
    result = rehearse(*process, delays=given.delays)
    at_once = None if given.delays is None else rehearse(*process)
    bound = float(result.bound(given.bound).sum(axis=-1).mean())
    oracle = float(oracle_bound(given.system.buffer, result.rounds, given.bound).sum())
    return Plan(policy, result, bound, oracle, at_once)
