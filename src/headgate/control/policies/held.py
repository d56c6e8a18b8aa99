"""Any policy held to the money and to the buffers, so that all are compared at equal money."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.purse import affordable, affordable_by_client, ceiling
from headgate.control.policies.references.clairvoyant import Clairvoyant
from headgate.control.policies.references.constant import Constant, Oracle
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.retention import Capacity, Fifo, KStep, Retention
from headgate.control.types import AdmissionRequest, Arrays, Ints, System, View
from headgate.errors import SettingError

REFERENCES = (Oracle, Clairvoyant)
"""policies that spend or know what no server can: they are shown beside the others and never held"""


@dataclass(frozen=True, eq=False)
class Held(AdmissionPolicy):
    """A policy that stops buying where its money ends and drops its oldest samples where a buffer is full.

    In every run spend ≤ C·T after T rounds, or C·t after every t where the end is open, and no client holds more than B_m.
    Samples that the policy takes for free are paid for. Under K-step retention a sample stays until its place is needed:
    otherwise the buffers would be empty a few rounds after the money is spent.

    Parameters
    ----------
    policy : AdmissionPolicy
        The policy that decides; by default constant admission.
    """

    policy: AdmissionPolicy = field(default_factory=Constant)

    def __post_init__(self) -> None:
        for name in self.policy.per_run:
            if np.ndim(getattr(self.policy, name)):
                raise SettingError(f"policy.{name}: must be one number, not one for each run")
        if self.selection is None:
            object.__setattr__(self, "selection", self.policy.selection)

    @property
    def listens(self) -> bool:  # type: ignore[override]  # depends on the policy inside
        return self.policy.listens

    def resolved(self, given: PolicyContext) -> Self:
        return replace(self, policy=self.policy.resolved(given))

    def retention(self, system: System) -> Retention:
        rule, places = self.policy.retention(system), self.places(system)
        capacity: Capacity = "buffer" if places is system.buffer else tuple(places.tolist())
        return Fifo(capacity=capacity) if isinstance(rule, KStep) else replace(rule, capacity=capacity)

    def places(self, system: System) -> Ints:
        """The most samples that each client can hold, (M,)."""
        limit = self.policy.retention(system).limit(system)
        return system.buffer if limit is None else np.minimum(limit, system.buffer)

    def shares(self, system: System) -> Ints:
        return self.policy.shares(system)

    def start(self, system: System, runs: int) -> Arrays:
        return self.policy.start(system, runs)

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        ask, memory = self.policy.admit(view, memory)
        by_client = view if view.price.ndim > 1 else view._replace(price=view.price[:, None])
        most = np.full(view.debt.shape, min(ceiling(view, overdraft=0.0), view.money))
        whole = [each for each in (ask.given, ask.free) if each is not None]
        given, room = None, ask.room
        if whole:
            places = self.places(view.system)
            asked = np.minimum(np.sum(whole, axis=0), places)
            bought, _ = affordable_by_client(by_client, asked.astype(np.float64), np.zeros(asked.shape), asked, most)
            given = bought.astype(np.int64)
            room = places - given if room is None else np.minimum(room, places - given)
            rounding = 8 * np.spacing(most)  # the ledger forms the sum of both purchases in another order
            most = np.where(given.any(axis=-1), most - (by_client.price * given).sum(axis=-1) - rounding, most)
        # how the total will be divided among the clients is not known yet, so it is paid at the highest of their prices
        dearest = view._replace(price=by_client.price.max(axis=-1))
        return AdmissionRequest(
            np.minimum(ask.total, affordable(dearest, np.ceil(ask.total) + view.lot, most)), room, given
        ), memory


def held(policy: AdmissionPolicy) -> AdmissionPolicy:
    """Return the policy held to its limits; one that keeps them anyway, and a reference, is returned as it is.

    >>> from headgate.control.policies import Constant, Headgate
    >>> type(held(Constant())).__name__, type(held(Headgate())).__name__
    ('Held', 'Headgate')
    """
    keeps = isinstance(policy, BudgetedPolicy) and isinstance(policy.rule.capacity, str)
    return policy if keeps or isinstance(policy, (Held, *REFERENCES)) else Held(policy)
