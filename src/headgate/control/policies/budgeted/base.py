"""The base class of policies that renew places and keep within the budget."""

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from headgate.control.apportion import PART_OF_SAMPLE
from headgate.control.checks import a_share, zero_or_more
from headgate.control.policies.budgeted.purse import (
    JUST_BELOW,
    affordable,
    affordable_by_client,
    in_lots,
)
from headgate.control.policy import AdmissionPolicy
from headgate.control.retention import Fifo, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
from headgate.theory.reuse import quotient

MOST_SHARE = 1 + 1e-9
"""the largest share of the places, 1, with a tolerance for rounding"""


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class BudgetedPolicy(AdmissionPolicy):
    """Decide in each round which share of the places to renew.

    The policy buys as many whole samples as the money allows. In every run spend ≤ C·T
    after T rounds; with an open end spend ≤ C·(t + overdraft) after every t. With a
    retention rule of capacity B_m, also n_m(t) ≤ B_m.

    Parameters
    ----------
    rule : Retention, optional
        Rule by which clients drop samples.
    fill : float, default 4.0
        Number of rounds' budgets that round 1 may spend to fill the buffers at any
        price, but at most half of the money. 0: round 1 is like any other.
    overdraft : float, default 10.0
        Number of rounds' budgets that may be spent in advance; only with an open end.
    fairness : float, default 0.25
        The largest relative difference between a client's share of the admissions and
        of the buffers, with prices per client.
    """

    rule: Retention = field(default_factory=Fifo)
    fill: float = 4.0
    overdraft: float = 10.0
    fairness: float = 0.25

    def __post_init__(self) -> None:
        zero_or_more("overdraft", self.overdraft)
        zero_or_more("fill", self.fill)
        a_share("fairness", self.fairness)

    def retention(self, system: System) -> Retention:
        return self.rule

    def places(self, system: System) -> Ints:
        """Return the most samples that each client can be given in a round.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        array of int
            The number for each client, (M,).
        """
        limit = self.rule.limit(system)
        if limit is None or self.rule.fills_buffer:
            return system.buffer
        return np.minimum(limit, system.buffer)

    def all_places(self, system: System) -> int:
        """Return the most samples that all clients together can be given in a round.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        int
            The number.
        """
        if self.rule.fills_buffer:
            return system.all_places
        return int(self.places(system).sum())

    def start(self, system: System, runs: int) -> Arrays:
        by_client = (runs, system.clients)
        return {
            "owed": np.zeros(by_client),
            "bought": np.zeros(by_client, dtype=np.int64),
        }

    @abstractmethod
    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        """Return the share of the places to renew and the memory for the next round.

        Parameters
        ----------
        view : View
            The information that the server may use.
        memory : dict of str to array
            The memory returned by `start` or by the previous round.

        Returns
        -------
        share, memory : tuple of array and dict
            The share, (R,), or (R, M) if the clients differ, as with a price per
            client; and the memory.
        """

    def spending_limit(self, view: View, memory: Arrays) -> Floats:
        """Return the most money that may be spent up to this round.

        A subclass may lower it; `admit` never lets out more than is approved.

        Parameters
        ----------
        view : View
            The information that the server may use.
        memory : dict of str to array
            The memory.

        Returns
        -------
        array
            The money for all rounds up to this one, (R,).
        """
        most = view.system.money(view.t, self.overdraft)
        if view.t == 1:
            most = self.money_to_fill(view.system) or most
        return np.full(view.debt.shape, most)

    def money_to_fill(self, system: System) -> float:
        """Return the most money that round 1 may spend to fill the buffers.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        float
            The money; 0 if round 1 does not fill the buffers.
        """
        if not self.fill:
            return 0.0
        half = system.money(1, self.overdraft) / 2
        return max(min(self.fill * system.budget, half), system.budget)

    # At a price near zero the money buys infinitely many, which is right.
    @np.errstate(over="ignore")
    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        share, memory = self.wanted(view, memory)
        share = _checked_share(share, view)
        if view.t == 1 and self.money_to_fill(view.system):
            share = np.ones_like(view.price)
        approved = min(view.system.money(view.t, self.overdraft), view.money)
        most = np.minimum(self.spending_limit(view, memory), approved)
        if share.ndim == 1:
            samples = share * self.all_places(view.system)
            total, owed = self._one_price(view, memory["owed"], samples, most)
            return AdmissionRequest(total), {**memory, "owed": owed}

        places = self.places(view.system)
        samples = fair(share * places, memory["bought"], places, self.fairness)
        if view.price.ndim == 1:
            # The total is paid for and divided into whole samples per client.
            together = samples.sum(axis=-1)
            total, owed = self._one_price(view, memory["owed"], together, most)
            lot = view.lot
            whole = lot * divided(total / lot, samples / lot, places // lot)
        else:
            bought, owed = affordable_by_client(
                view, samples, memory["owed"], places, most
            )
            whole = bought.astype(np.int64)
        memory = {**memory, "owed": owed, "bought": memory["bought"] + whole}
        return AdmissionRequest(np.zeros_like(view.debt), given=whole), memory

    def _one_price(
        self,
        view: View,
        owed: Floats,
        samples: Floats,
        most: Floats,
    ) -> tuple[Floats, Floats]:
        """Return the whole samples in all, and the remainders of rounding.

        The first column of the remainders holds that of the total.
        """
        due = np.minimum(samples + owed[:, 0], float(self.all_places(view.system)))
        whole = affordable(view, due, most)
        # The rest is less than a lot; lots that cost too much are not owed.
        rest = np.maximum(due - in_lots(due + PART_OF_SAMPLE, view.lot), 0.0)
        if (rest != owed[:, 0]).any():
            owed = owed.copy()
            owed[:, 0] = rest
        return whole, owed


def _checked_share(share: Floats, view: View) -> Floats:
    """Return the share as floats, or raise SettingError."""
    share = np.asarray(share, dtype=np.float64)
    runs, clients = view.kept_by_client.shape
    needed = dict.fromkeys([view.price.shape, (runs, clients)])
    if share.shape not in needed:
        raise SettingError(
            f"wanted: shares of shape {share.shape} for {runs} runs and {clients}"
            f" clients; needs {' or '.join(map(str, needed))}"
        )
    if not (share.min() >= 0 and share.max() <= MOST_SHARE):
        worst = share.flat[np.argmax(np.abs(share - 0.5))]
        raise SettingError(
            f"wanted: a share of {worst:g} of the places; must lie between 0 and 1"
        )
    return share


def fair(
    wanted: Floats,
    bought: Ints,
    buffer: Ints,
    tolerance: float,
) -> Floats:
    """Return the fair purchase closest to `wanted`, (R, M), of the same size.

    A client's due is B_m/B̄ of all samples ever bought; its share must be within
    `tolerance` of the due, relative to it. A purchase in proportion to the buffers
    moves no share away from its due. From this purchase the function moves along the
    line to `wanted` until the first client reaches its limit. So the limits hold after
    the round if they held before.

    >>> fair(np.array([[10.0, 0.0]]), np.array([[10, 10]]), np.array([10, 10]), 0.2)
    array([[8., 2.]])
    """
    due = buffer / buffer.sum()
    size = wanted.sum(
        axis=-1,
        keepdims=True,
    )
    # Clients without places do not count.
    before = np.where(due > 0, bought, 0).sum(
        axis=-1,
        keepdims=True,
    )
    step = wanted - size * due
    ahead = bought - before * due
    slack = tolerance * due * (before + size) - np.where(step > 0, ahead, -ahead)
    part = quotient(slack, np.abs(step), step != 0, 1.0)
    first = np.clip(
        part.min(
            axis=-1,
            keepdims=True,
        ),
        0.0,
        1.0,
    )
    return np.asarray(size * due + first * step)


def divided(
    total: Floats,
    wanted: Floats,
    places: Ints,
) -> Ints:
    """Divide a whole `total`, (R,), among the clients, within their places.

    The result is the one closest to the proportions of `wanted`, (R, M).

    >>> divided(np.array([6.0]), np.array([[2.6, 2.5, 0.4]]), np.array([3, 3, 3]))
    array([[3, 3, 0]])
    """
    size = wanted.sum(
        axis=-1,
        keepdims=True,
    )
    due = quotient(total[:, None] * wanted, size, size > 0)
    # Rounding never exceeds the total.
    whole = np.minimum(np.floor(due * JUST_BELOW), places)
    left = total - whole.sum(axis=-1)
    while left.any():
        lacking = np.where(whole < places, whole - due, np.inf)
        first = np.argsort(
            lacking,
            axis=-1,
            kind="stable",
        )
        rank = np.argsort(
            first,
            axis=-1,
            kind="stable",
        )
        whole += (rank < left[:, None]) & (whole < places)
        left = total - whole.sum(axis=-1)
    return np.asarray(whole, dtype=np.int64)
