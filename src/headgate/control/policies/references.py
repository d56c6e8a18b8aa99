"""Policies for comparison: the paper's baselines, which ignore prices, a reference that
knows all prices, and a wrapper that limits any policy to the money and the buffers, so
that policies are compared at equal money."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.purse import (
    affordable,
    affordable_by_client,
    within_purse,
)
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, Fifo, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
from headgate.theory.comparison import optimal_K
from headgate.theory.labels import paper

FILLS = ("first", "gradual", "none")


@paper("eq:constant-admission", "def:constant-admission")
@dataclass(frozen=True, eq=False)
class Constant(AdmissionPolicy):
    """π^CK (paper, Definition 2): admits Λ(t) = rate, divided in proportion to the
    buffers, and keeps samples for K rounds.

    Parameters
    ----------
    rate : float, optional
        Samples admitted in every round, Λ̄; left out: the highest rate that satisfies
        both constraints.
    K : int, optional
        Number of rounds for which a sample is kept; left out: the better candidate of
        Corollary 2.
    capacity : Capacity, optional
        Hard limit on the samples that each client holds; left out: age alone decides
        which samples leave.
    rule : Retention, optional
        Another rule by which clients drop samples; K and capacity then have no effect.
    purse : bool, default False
        Whether purchases stop when C·T is spent.
    """

    rate: float | None = None
    K: int | None = None
    capacity: Capacity | None = None
    rule: Retention | None = None
    purse: bool = False

    def __post_init__(self) -> None:
        positive("rate", self.rate, optional=True)
        if self.K is not None:
            KStep(self.K, capacity=self.capacity)  # refuses a bad K or capacity now

    def resolved(self, given: PolicyContext) -> Self:
        K = given.better_K() if self.K is None else self.K
        rate = given.highest_rate(K) if self.rate is None else self.rate
        return replace(self, K=K, rate=rate)

    def retention(self, system: System) -> Retention:
        return self.rule or KStep(self.required("K"), capacity=self.capacity)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.broadcast_to(
            np.asarray(self.required("rate"), dtype=np.float64), view.debt.shape
        )
        return (
            AdmissionRequest(within_purse(view, total) if self.purse else total),
            memory,
        )


@dataclass(frozen=True, eq=False)
class Hybrid(AdmissionPolicy):
    """Some clients train on stale samples only; the others admit samples at a constant
    rate (paper §7).

    The paper does not state how stale clients get their samples and whether these are
    paid for, so both are settings.

    Parameters
    ----------
    rate : float, optional
        Samples that the admitting clients together admit in every round, Λ̄; left out:
        the highest rate that fits.
    K : int, optional
        Number of rounds for which a sample is kept; left out: the K of Corollary 2 for
        the admitting clients.
    stale : tuple of int, optional
        Numbers of the stale clients; left out: the second half of the clients.
    fill : "first", "gradual", "none", default "first"
        How stale clients fill: "first": in round 1; "gradual": over the first K rounds;
        "none": they never hold a sample.
    paid : bool, default False
        Whether the stale clients' samples are paid for.
    """

    rate: float | None = None
    K: int | None = None
    stale: tuple[int, ...] | None = None
    fill: Literal["first", "gradual", "none"] = "first"
    paid: bool = False

    def __post_init__(self) -> None:
        positive("rate", self.rate, optional=True)
        if self.fill not in FILLS:
            raise SettingError(
                f'fill = "{self.fill}": must be one of {", ".join(FILLS)}'
            )
        if self.K is not None:
            KStep(self.K)  # refuses a bad K now

    def resolved(self, given: PolicyContext) -> Self:
        clients = given.system.clients
        stale = (
            tuple(range((clients + 1) // 2, clients))
            if self.stale is None
            else self.stale
        )
        fresh = given.system.buffer[~replace(self, stale=stale).mask(given.system)]
        K = (
            optimal_K(given.mean_price, fresh, given.system.budget)[0].K
            if self.K is None
            else self.K
        )
        return replace(
            self,
            stale=stale,
            K=K,
            rate=given.highest_rate(K, fresh) if self.rate is None else self.rate,
        )

    def mask(self, system: System) -> NDArray[np.bool_]:
        """Return which clients are stale, (M,)."""
        stale = self.required("stale")
        for client in stale:
            if not 0 <= client < system.clients:
                raise SettingError(
                    f"stale = {list(stale)}: there is no client {client}; there are 0"
                    f" to {system.clients - 1}"
                )
        mask = np.isin(np.arange(system.clients), stale)
        if mask.all():
            raise SettingError(
                f"stale = {list(stale)}: names every client, so nobody is left to admit"
            )
        return mask

    def retention(self, system: System) -> Retention:
        self.mask(system)  # raises if `stale` is invalid
        return KStep(self.required("K"), forever=self.required("stale"))

    def shares(self, system: System) -> NDArray[np.int64]:
        return np.where(self.mask(system), 0, system.buffer)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.broadcast_to(
            np.asarray(self.required("rate"), dtype=np.float64), view.debt.shape
        )
        if self.fill == "none":
            return AdmissionRequest(total), memory
        rounds = 1 if self.fill == "first" else self.required("K")
        done, before = (
            np.minimum(t, rounds) * view.system.buffer // rounds
            for t in (view.t, view.t - 1)
        )
        fill = np.broadcast_to(
            np.where(self.mask(view.system), done - before, 0),
            view.kept_by_client.shape,
        )
        return (
            AdmissionRequest(total, given=fill)
            if self.paid
            else AdmissionRequest(total, free=fill)
        ), memory


@dataclass(frozen=True, eq=False)
class Oracle(AdmissionPolicy):
    """The costless oracle fills the buffers with fresh samples in every round, at any
    price, and uses each once (paper §6.1).

    λ_m(t) = B_m and K = 1. It is charged each round's price, so its spend shows what it
    would cost.
    """

    def retention(self, system: System) -> Retention:
        return KStep(1)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        return (
            AdmissionRequest(np.full(view.debt.shape, float(view.system.all_places))),
            memory,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Clairvoyant(BudgetedPolicy):
    """A reference that knows all prices, so it buys the most samples for the money. Run
    r has the prices of the r-th seed.

    Parameters
    ----------
    fill : float, default 0.0
        As for `BudgetedPolicy`; 0: round 1 is like any other.
    given : PolicyContext, optional
        Context of the experiment whose prices the policy knows.
    """

    fill: float = 0.0
    given: PolicyContext | None = field(default=None, metadata={"setting": False})

    def resolved(self, given: PolicyContext) -> Self:
        return replace(self, given=given)

    @property
    def known(self) -> PolicyContext:
        if self.given is None:
            raise SettingError(
                "Clairvoyant: knows no prices yet; headgate.load, or `resolved`,"
                " tells it"
            )
        return self.given

    @cached_property
    def path(self) -> Floats:
        """The prices of all rounds, (seeds, rounds)."""
        return self.known.prices.path(self.known.seeds, 1, self.known.rounds + 1)

    @cached_property
    def _levels(self) -> Ints:
        """The samples bought up to each round, (seeds, rounds)."""
        system = self.known.system
        return np.cumsum(
            [
                cheapest_first(own, system, self.money_to_fill(system))
                for own in self.path
            ],
            axis=-1,
        )

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        if view.t > self.known.rounds:
            raise SettingError(
                f"rounds = {self.known.rounds}: the plan ends there, round {view.t} was"
                " asked for"
            )
        price = view.one_price()
        runs = len(price)
        if not np.array_equal(self.path[:runs, view.t - 1], price):
            raise SettingError(f"round {view.t}: the plan was made for other prices")
        wanted = self._levels[:runs, view.t - 1] - view.admitted
        return np.clip(wanted / self.places(view.system).sum(), 0.0, 1.0), memory


def cheapest_first(prices: Floats, system: System, fill: float = 0.0) -> Ints:
    """Return the samples to buy per round, (T,): first for `fill` in round 1, then
    whole buffers in the cheapest rounds.
    """
    money, bought = system.budget * len(prices), np.zeros(len(prices), dtype=np.int64)
    order = np.argsort(prices, kind="stable")
    if fill:
        order = np.concatenate([[0], order[order != 0]])
    for t in order:
        most = min(money, fill) if fill and t == 0 else money
        bought[t] = (
            system.all_places
            if prices[t] <= 0
            else min(system.all_places, int(max(most, 0.0) / prices[t]))
        )
        money -= bought[t] * prices[t]
    return bought


REFERENCES = (Oracle, Clairvoyant)
"""policies that spend or know what no server can; they are shown for comparison and
never held to limits
"""


@dataclass(frozen=True, eq=False)
class Held(AdmissionPolicy):
    """A policy held to its limits: it stops buying when its money is spent and drops
    the oldest samples of a full buffer.

    In every run spend ≤ C·T after T rounds, or ≤ C·t after every t with an open end,
    and no client holds more than B_m samples. Samples that the policy takes for free
    are paid for. Under K-step retention a sample stays until its place is needed,
    because otherwise the buffers would be empty a few rounds after the money is spent.

    Parameters
    ----------
    policy : AdmissionPolicy
        The policy to hold to its limits; by default constant admission.

    Parameters
    ----------
    policy : AdmissionPolicy, optional
        The policy to limit; by default constant admission.
    """

    policy: AdmissionPolicy = field(default_factory=Constant)

    def __post_init__(self) -> None:
        if self.selection is None:
            object.__setattr__(self, "selection", self.policy.selection)

    @property
    # depends on the wrapped policy
    def listens(self) -> bool:  # type: ignore[override]
        return self.policy.listens

    def resolved(self, given: PolicyContext) -> Self:
        return replace(self, policy=self.policy.resolved(given))

    def retention(self, system: System) -> Retention:
        rule, places = self.policy.retention(system), self.places(system)
        capacity: Capacity = (
            "buffer" if places is system.buffer else tuple(places.tolist())
        )
        return (
            Fifo(capacity=capacity)
            if isinstance(rule, KStep)
            else replace(rule, capacity=capacity)
        )

    def places(self, system: System) -> Ints:
        """Return the most samples that each client can hold, (M,)."""
        limit = self.policy.retention(system).limit(system)
        return system.buffer if limit is None else np.minimum(limit, system.buffer)

    def shares(self, system: System) -> Ints:
        return self.policy.shares(system)

    def start(self, system: System, runs: int) -> Arrays:
        return self.policy.start(system, runs)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        ask, memory = self.policy.admit(view, memory)
        by_client = (
            view if view.price.ndim > 1 else view._replace(price=view.price[:, None])
        )
        most = np.full(view.debt.shape, min(view.system.money(view.t), view.money))
        whole = [each for each in (ask.given, ask.free) if each is not None]
        given, room = None, ask.room
        if whole:
            places = self.places(view.system)
            asked = np.minimum(np.sum(whole, axis=0), places)
            bought, _ = affordable_by_client(
                by_client, asked.astype(np.float64), np.zeros(asked.shape), asked, most
            )
            given = bought.astype(np.int64)
            room = places - given if room is None else np.minimum(room, places - given)
            rounding = 8 * np.spacing(
                most
            )  # the ledger sums both purchases in another order
            most = np.where(
                given.any(axis=-1),
                most - (by_client.price * given).sum(axis=-1) - rounding,
                most,
            )
        # the division of the total among the clients is not known yet, so all of it
        # counts at the highest of their prices
        dearest = view._replace(price=by_client.price.max(axis=-1))
        return (
            AdmissionRequest(
                np.minimum(
                    ask.total, affordable(dearest, np.ceil(ask.total) + view.lot, most)
                ),
                room,
                given,
            ),
            memory,
        )


def held(policy: AdmissionPolicy) -> AdmissionPolicy:
    """Return the policy held to its limits. Return it unchanged if it keeps them anyway
    or is a reference.

    >>> from headgate.control.policies import Constant, Headgate
    >>> type(held(Constant())).__name__, type(held(Headgate())).__name__
    ('Held', 'Headgate')
    """
    keeps = isinstance(policy, BudgetedPolicy) and isinstance(policy.rule.capacity, str)
    return policy if keeps or isinstance(policy, (Held, *REFERENCES)) else Held(policy)
