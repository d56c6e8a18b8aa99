"""Clients to whom given numbers of samples arrive, whatever anybody decides."""

from dataclasses import dataclass

import numpy as np

from headgate.control import AdmissionPolicy, AdmissionRequest, Controller, Retention, System

from ..playing import goes_on


@dataclass(frozen=True, eq=False)
class Scripted(AdmissionPolicy):
    """Round t brings arrivals[t − 1], (M,), to the clients of every run."""

    rule: Retention
    arrivals: list

    def retention(self, system):
        return self.rule

    def admit(self, view, memory):
        arriving = np.broadcast_to(np.asarray(self.arrivals[view.t - 1]), view.kept_by_client.shape)
        return AdmissionRequest(np.zeros(view.debt.shape), given=arriving), memory


def played(rule, arrivals, seeds, clients, labels=None):
    """The ledgers after each round, for the same arrivals (T, M) in every run."""
    controller = Controller(System(np.full(clients, 5), 1.0), Scripted(rule, arrivals), len(seeds), np.asarray(seeds), labels)
    return (ledger for _, ledger in goes_on(controller, [1.0] * len(arrivals)))
