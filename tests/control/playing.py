"""Policies that are played at given prices; a price is as `decide` takes it."""

from dataclasses import dataclass

import numpy as np

from headgate.control import (
    AdmissionPolicy,
    AdmissionRequest,
    Controller,
    Retention,
    System,
)
from headgate.control.types import UNSEEN, SampleView
from headgate.testing import a_system


def goes_on(
    controller, prices, ledger=None, report=lambda orders: None, samples=UNSEEN
):
    """(orders, the ledger after them) of each round, from this ledger on; `report` says
    what clients did of their orders.
    """
    ledger = ledger or controller.open()
    for price in prices:
        orders = controller.decide(ledger, price)
        ledger = controller.post(ledger, orders, report(orders), samples)
        yield orders, ledger


def after(controller, prices, ledger=None):
    """The ledger after the last round."""
    *_, (_, last) = goes_on(controller, prices, ledger)
    return last


def by_client(experiment, name):
    """What each client admits and holds in every round, (R, T, M), and what each run
    has spent after every round, (R, T).
    """
    seeds, policy = experiment.seeds, experiment.policies[name]
    controller = Controller(experiment.system, policy, len(seeds), seeds)
    path = experiment.prices.path(seeds, 1, experiment.rounds + 1)
    rounds = list(goes_on(controller, np.moveaxis(path, 1, 0)))
    admitted = np.stack([orders.admitted for orders, _ in rounds], axis=1)
    held = np.stack([ledger.occupancy for _, ledger in rounds], axis=1)
    return admitted, held, np.stack([ledger.spent for _, ledger in rounds], axis=1)


def played(system, policy, prices, runs=1):
    return goes_on(Controller(system, policy, runs), prices)


def begun(policy, price=2.0):
    """A controller, its ledger before round 1, and its orders for that round."""
    controller = Controller(a_system(), policy)
    ledger = controller.open()
    return controller, ledger, controller.decide(ledger, price)


@dataclass(frozen=True, eq=False)
class Scripted(AdmissionPolicy):
    """Round t brings arrivals[t − 1], (M,), to the clients of every run."""

    rule: Retention
    arrivals: list

    def retention(self, system):
        return self.rule

    def admit(self, view, memory):
        arriving = np.broadcast_to(
            np.asarray(self.arrivals[view.t - 1]), view.kept_by_client.shape
        )
        return AdmissionRequest(np.zeros(view.debt.shape), given=arriving), memory


def arriving(rule, arrivals, seeds, clients, labels=None):
    """The ledgers after each round in which given numbers of samples arrive, (T, M),
    the same in every run.
    """
    controller = Controller(
        System(np.full(clients, 5), 1.0),
        Scripted(rule, arrivals),
        len(seeds),
        np.asarray(seeds),
    )
    rounds = goes_on(controller, [1.0] * len(arrivals), samples=SampleView(labels))
    return (ledger for _, ledger in rounds)
