"""The base class of policies that renew places of the buffers and never spend more than
the budget allows.
"""

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from headgate.control.apportion import PART_OF_SAMPLE
from headgate.control.checks import a_share, zero_or_more
from headgate.control.policies.budgeted.purse import (
    affordable,
    affordable_by_client,
    in_lots,
)
from headgate.control.policy import AdmissionPolicy
from headgate.control.retention import Fifo, Retention
from headgate.control.types import AdmissionRequest, Arrays, Floats, Ints, System, View
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False, kw_only=True)
class BudgetedPolicy(AdmissionPolicy):
    """Decide in each round which share of the places to renew, and buy as many whole
    samples as the money allows.

    In every run spend ≤ C·T after T rounds; with an open end spend ≤ C·(t + overdraft)
    after every t. With a retention rule of capacity B_m, also n_m(t) ≤ B_m.

    Parameters
    ----------
    rule : Retention, optional
        Rule by which clients drop samples.
    fill : float, optional
        Number of rounds' budgets that round 1 may spend to fill the buffers at any
        price, but at most half of the money. 0: round 1 is like any other. Left out: 8,
        and 3 for `headgate` without `smooth` in runs of more than 256 rounds.
    overdraft : float, default 10.0
        Number of rounds' budgets that may be spent in advance; only with an open end.
    fairness : float, default 0.25
        The largest relative difference between a client's share of the admissions and
        of the buffers, with prices per client.
    """

    rule: Retention = field(default_factory=Fifo)
    fill: float | None = None
    overdraft: float = 10.0
    fairness: float = 0.25

    def __post_init__(self) -> None:
        zero_or_more("overdraft", self.overdraft)
        zero_or_more("fill", self.fill, optional=True)
        a_share("fairness", self.fairness)

    def retention(self, system: System) -> Retention:
        return self.rule

    def places(self, system: System) -> Ints:
        """Return the most samples that each client can be given in a round, (M,)."""
        limit = self.rule.limit(system)
        return (
            system.buffer
            if limit is None or limit is system.buffer
            else np.minimum(limit, system.buffer)
        )

    def all_places(self, system: System) -> int:
        """Return the most samples that all clients together can be given in a round."""
        places = self.places(system)
        return system.all_places if places is system.buffer else int(places.sum())

    def start(self, system: System, runs: int) -> Arrays:
        by_client = (runs, system.clients)
        return {
            "owed": np.zeros(by_client),
            "bought": np.zeros(by_client, dtype=np.int64),
        }

    @abstractmethod
    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        """Return the share of the places to renew and the memory for the next round.
        The share is (R,), or (R, M) if the clients differ, as with a price per client.
        """

    def spending_limit(self, view: View, memory: Arrays) -> Floats:
        """Return the most money that may be spent in all rounds up to this one,
        (R,).
        """
        first = self.money_to_fill(view.system) if view.t == 1 else 0.0
        return np.full(
            view.debt.shape, first or view.system.money(view.t, self.overdraft)
        )

    def money_to_fill(self, system: System, default: float = 8.0) -> float:
        """Return the most money that round 1 may spend to fill the buffers; 0 if it
        does not. `default` stands for `fill`.
        """
        fill = default if self.fill is None else self.fill
        return (
            max(
                min(fill * system.budget, system.money(1, self.overdraft) / 2),
                system.budget,
            )
            if fill
            else 0.0
        )

    @np.errstate(
        over="ignore"
    )  # at a price near zero the money buys infinitely many, which is right
    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        wanted, memory = self.wanted(view, memory)
        share, (runs, clients) = (
            np.asarray(wanted, dtype=np.float64),
            view.kept_by_client.shape,
        )
        needed = dict.fromkeys([view.price.shape, (runs, clients)])
        if share.shape not in needed:
            shapes = " or ".join(map(str, needed))
            raise SettingError(
                f"wanted: shares of shape {share.shape} for {runs} runs and {clients}"
                f" clients; needs {shapes}"
            )
        if not (share.min() >= 0 and share.max() <= 1 + 1e-9):
            worst = share.flat[np.argmax(np.abs(share - 0.5))]
            raise SettingError(
                f"wanted: a share of {worst:g} of the places; must lie between 0 and 1"
            )
        if view.t == 1 and self.money_to_fill(view.system):
            share = np.ones_like(view.price)
        places, most = (
            self.places(view.system),
            np.minimum(self.spending_limit(view, memory), view.money),
        )
        if share.ndim == 1:
            total, owed = self._one_price(
                view, memory["owed"], share * self.all_places(view.system), most
            )
            return AdmissionRequest(total), {**memory, "owed": owed}
        samples = fair(share * places, memory["bought"], places, self.fairness)
        if (
            view.price.ndim == 1
        ):  # the total is paid for and divided into whole samples per client
            total, owed = self._one_price(
                view, memory["owed"], samples.sum(axis=-1), most
            )
            whole = view.lot * divided(
                total / view.lot, samples / view.lot, places // view.lot
            )
        else:
            bought, owed = affordable_by_client(
                view, samples, memory["owed"], places, most
            )
            whole = bought.astype(np.int64)
        memory = {**memory, "owed": owed, "bought": memory["bought"] + whole}
        return AdmissionRequest(np.zeros_like(view.debt), given=whole), memory

    def _one_price(
        self, view: View, owed: Floats, samples: Floats, most: Floats
    ) -> tuple[Floats, Floats]:
        """Return (whole samples in all, remainders of rounding). The first column holds
        the remainder of the total.
        """
        due = np.minimum(samples + owed[:, 0], float(self.all_places(view.system)))
        whole = affordable(view, due, most)
        rest = np.maximum(
            due - in_lots(due + PART_OF_SAMPLE, view.lot), 0.0
        )  # less than a lot; lots that cost too much are not owed
        if (rest != owed[:, 0]).any():
            owed = owed.copy()
            owed[:, 0] = rest
        return whole, owed


def fair(wanted: Floats, bought: Ints, buffer: Ints, tolerance: float) -> Floats:
    """Return the purchase closest to `wanted`, (R, M), of the same size, with every
    client's share near its due.

    A client's due is B_m/B̄ of all samples ever bought; its share must be within
    `tolerance` of the due, relative to it. A purchase in proportion to the buffers
    moves no share away from its due. From this purchase the function moves along the
    line to `wanted` until the first client reaches its limit. So the limits hold after
    the round if they held before.

    >>> fair(np.array([[10.0, 0.0]]), np.array([[10, 10]]), np.array([10, 10]), 0.2)
    array([[8., 2.]])
    """
    due = buffer / buffer.sum()
    size = wanted.sum(axis=-1, keepdims=True)
    before = np.where(due > 0, bought, 0).sum(
        axis=-1, keepdims=True
    )  # clients without places do not count
    step = wanted - size * due
    ahead = bought - before * due
    slack = tolerance * due * (before + size) - np.where(step > 0, ahead, -ahead)
    part = np.divide(slack, np.abs(step), out=np.ones_like(step), where=step != 0)
    return np.asarray(
        size * due + np.clip(part.min(axis=-1, keepdims=True), 0.0, 1.0) * step
    )


def divided(total: Floats, wanted: Floats, places: Ints) -> Ints:
    """Divide a whole `total`, (R,), among the clients, closest to the proportions of
    `wanted`, (R, M), within their places.

    >>> divided(np.array([6.0]), np.array([[2.6, 2.5, 0.4]]), np.array([3, 3, 3]))
    array([[3, 3, 0]])
    """
    size = wanted.sum(axis=-1, keepdims=True)
    due = np.divide(
        total[:, None] * wanted, size, out=np.zeros_like(wanted), where=size > 0
    )
    whole = np.minimum(
        np.floor(due * (1 - 1e-12)), places
    )  # rounding never exceeds the total
    while (left := total - whole.sum(axis=-1)).any():
        first = np.argsort(
            np.where(whole < places, whole - due, np.inf), axis=-1, kind="stable"
        )
        rank = np.argsort(first, axis=-1, kind="stable")
        whole += (rank < left[:, None]) & (whole < places)
    return np.asarray(whole, dtype=np.int64)
