"""Policies for comparison, and a wrapper that limits any policy to money and buffers.

They are the paper's baselines, which ignore prices, and references that know all prices
or spend at any price. The wrapper lets policies be compared at equal money.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.purse import (
    affordable,
    affordable_by_client,
    within_purse,
)
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, Fifo, KStep, Retention
from headgate.control.types import (
    AdmissionRequest,
    Arrays,
    Bools,
    Floats,
    Ints,
    System,
    View,
)
from headgate.errors import SettingError
from headgate.theory.comparison import optimal_K
from headgate.theory.labels import paper

FILLS = ("first", "gradual", "none")


@paper("eq:constant-admission", "def:constant-admission")
@dataclass(
    frozen=True,
    eq=False,
)
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
        return replace(
            self,
            K=K,
            rate=rate,
        )

    def retention(self, system: System) -> Retention:
        return self.rule or KStep(self.required("K"), capacity=self.capacity)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.full(view.debt.shape, float(self.required("rate")))
        if self.purse:
            total = within_purse(view, total)
        return AdmissionRequest(total), memory


@dataclass(
    frozen=True,
    eq=False,
)
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
        stale, K, rate = self.stale, self.K, self.rate
        if stale is None:
            stale = tuple(range((clients + 1) // 2, clients))
        fresh = given.system.buffer[~replace(self, stale=stale).mask(given.system)]
        if K is None:
            K = optimal_K(given.mean_price, fresh, given.system.budget)[0].K
        if rate is None:
            rate = given.highest_rate(K, fresh)
        return replace(
            self,
            stale=stale,
            K=K,
            rate=rate,
        )

    def mask(self, system: System) -> Bools:
        """Return which clients are stale.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        array of bool
            Whether each client is stale, (M,).

        Raises
        ------
        SettingError
            If `stale` names a client that does not exist, or every client.
        """
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

    def shares(self, system: System) -> Ints:
        return np.where(self.mask(system), 0, system.buffer)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.full(view.debt.shape, float(self.required("rate")))
        if self.fill == "none":
            return AdmissionRequest(total), memory
        rounds = 1 if self.fill == "first" else self.required("K")
        buffer = view.system.buffer
        now = np.minimum(view.t, rounds) * buffer // rounds
        before = np.minimum(view.t - 1, rounds) * buffer // rounds
        fill = np.where(self.mask(view.system), now - before, 0)
        fill = np.broadcast_to(fill, view.kept_by_client.shape)
        if self.paid:
            return AdmissionRequest(total, given=fill), memory
        return AdmissionRequest(total, free=fill), memory


@dataclass(
    frozen=True,
    eq=False,
)
class Oracle(AdmissionPolicy):
    """The costless oracle fills the buffers with fresh samples in every round.

    It does so at any price, and uses each sample once (paper §6.1). λ_m(t) = B_m and K
    = 1. It is charged each round's price, so its spend shows what it would cost.
    """

    def retention(self, system: System) -> Retention:
        return KStep(1)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        total = np.full(view.debt.shape, float(view.system.all_places))
        return AdmissionRequest(total), memory


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Clairvoyant(BudgetedPolicy):
    """A reference that knows all prices, so it buys the most samples for the money.

    Run r has the prices of the r-th seed.

    Parameters
    ----------
    fill : float, default 0.0
        As for `BudgetedPolicy`; 0: round 1 is like any other.
    given : PolicyContext, optional
        Context of the experiment whose prices the policy knows.
    """

    fill: float = 0.0
    given: PolicyContext | None = field(
        default=None,
        metadata={"setting": False},
    )

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
        fill = self.money_to_fill(system)
        bought = [cheapest_first(prices, system, fill) for prices in self.path]
        return np.cumsum(bought, axis=-1)

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


def cheapest_first(
    prices: Floats,
    system: System,
    fill: float = 0.0,
) -> Ints:
    """Return the samples to buy per round, (T,).

    They are first bought for `fill` in round 1, then in whole buffers in the cheapest
    rounds.
    """
    bought = np.zeros(len(prices), dtype=np.int64)
    money, places = system.budget * len(prices), system.all_places
    order = np.argsort(prices, kind="stable")
    if fill:
        order = np.concatenate([[0], order[order != 0]])
    for t in order:
        most = min(money, fill) if fill and t == 0 else money
        bought[t] = places
        if prices[t] > 0:
            bought[t] = min(places, int(max(most, 0.0) / prices[t]))
        money -= bought[t] * prices[t]
    return bought


REFERENCES = (Oracle, Clairvoyant)
"""policies that spend or know what no server can; they are shown for comparison and
never limited
"""


@dataclass(
    frozen=True,
    eq=False,
)
class Held(AdmissionPolicy):
    """A policy within its limits of money and places.

    It stops buying when its money is spent and drops the oldest samples of a full
    buffer. In every run spend ≤ C·T after T rounds, or ≤ C·t after every t with an open
    end, and no client holds more than B_m samples. Samples that the policy takes for
    free are paid for. Under K-step retention a sample stays until its place is needed,
    because otherwise the buffers would be empty a few rounds after the money is spent.

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
        rule = self.policy.retention(system)
        limit = rule.limit(system)
        capacity: Capacity = "buffer"
        if limit is not None and np.any(limit < system.buffer):
            capacity = tuple(self.places(system).tolist())
        if isinstance(rule, KStep):
            return Fifo(capacity=capacity)
        return replace(rule, capacity=capacity)

    def places(self, system: System) -> Ints:
        """Return the most samples that each client can hold.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        array of int
            The number for each client, (M,).
        """
        limit = self.policy.retention(system).limit(system)
        if limit is None:
            return system.buffer
        return np.minimum(limit, system.buffer)

    def shares(self, system: System) -> Ints:
        return self.policy.shares(system)

    def start(self, system: System, runs: int) -> Arrays:
        return self.policy.start(system, runs)

    def price_limit(self, view: View, memory: Arrays) -> Floats | None:
        return self.policy.price_limit(view, memory)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        request, memory = self.policy.admit(view, memory)
        most = np.full(view.debt.shape, min(view.system.money(view.t), view.money))
        price = view.price if view.price.ndim > 1 else view.price[:, None]
        given, room = None, request.room
        whole = [each for each in (request.given, request.free) if each is not None]
        if whole:
            places = self.places(view.system)
            asked = np.minimum(np.sum(whole, axis=0), places)
            given = _affordable(view._replace(price=price), asked, most)
            left = places - given
            room = left if room is None else np.minimum(room, left)
            # The ledger sums both purchases in another order.
            rounding = 8 * np.spacing(most)
            after = most - (price * given).sum(axis=-1) - rounding
            most = np.where(given.any(axis=-1), after, most)

        # The division of the total among the clients is not known yet, so all of it
        # counts at the highest of their prices.
        dearest = view._replace(price=price.max(axis=-1))
        fits = affordable(dearest, np.ceil(request.total) + view.lot, most)
        return AdmissionRequest(np.minimum(request.total, fits), room, given), memory


def _affordable(
    view: View,
    asked: Ints,
    most: Floats,
) -> Ints:
    """Return the whole samples of those asked for that the money buys, (R, M)."""
    nothing = np.zeros(asked.shape)
    wanted = asked.astype(np.float64)
    bought, _ = affordable_by_client(view, wanted, nothing, asked, most)
    return bought.astype(np.int64)


def held(policy: AdmissionPolicy) -> AdmissionPolicy:
    """Return the policy within its limits.

    It is returned unchanged if it keeps them anyway or is a reference.

    >>> from headgate.control.policies import Constant, Headgate
    >>> type(held(Constant())).__name__, type(held(Headgate())).__name__
    ('Held', 'Headgate')
    """
    if isinstance(policy, (Held, *REFERENCES)):
        return policy
    if isinstance(policy, BudgetedPolicy) and policy.rule.fills_buffer:
        return policy
    return Held(policy)
