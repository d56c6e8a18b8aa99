"""Every sample of a run followed one by one, beside what the ledger counts."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from headgate.control import AdmissionPolicy, AdmissionRequest, Controller, Retention
from headgate.control.policy import PolicyContext
from headgate.control.prices import Uniform
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import SampleView
from headgate.testing import a_system
from headgate.theory.bound import BoundConstants
from headgate.theory.reuse import effective_sample_size

from .playing import goes_on

RUNS = 3


def labels(runs, clients, positions):
    """Three unequal classes."""
    drawn = 6 * uniform(0, Purpose.PARTITION, positions, clients)
    return np.take([0, 0, 0, 1, 1, 2], drawn.astype(np.int64))


@dataclass(frozen=True, eq=False)
class AllSizes(AdmissionPolicy):
    """Admissions of all sizes, with empty rounds and bursts."""

    rule: Retention
    seed: int

    def retention(self, system):
        return self.rule

    def admit(self, view, memory):
        draw = uniform(self.seed, Purpose.PRICE, view.t, np.arange(view.debt.size))
        places = float(view.system.all_places)
        sizes = np.array([0.0, 0.4, 1.0, 3.3, places, 2.5 * places])
        return AdmissionRequest(sizes[(draw * len(sizes)).astype(int)]), memory


def follow_rule(rule, rounds, scores=None):
    for seed in range(3):
        policy = AllSizes(rule, seed)
        controller = Controller(a_system(rounds), policy, RUNS)
        follow(controller, np.ones((rounds, RUNS)), SampleView(labels, scores))


def follow_policy(policy, system=None, rounds=40, prices=None):
    system, prices = system or a_system(rounds), prices or Uniform(1.0, 10.0)
    runs = np.arange(RUNS)
    policy = policy.resolved(
        PolicyContext(system, prices, BoundConstants(), runs, rounds)
    )
    path = prices.path(runs, 1, rounds + 1)
    follow(Controller(system, policy, RUNS), path.swapaxes(0, 1), SampleView(labels))


def in_memory(ledger, run, client):
    """The positions in a client's stream of the samples that it holds."""
    if ledger.places is None:
        return list(range(ledger.dropped[run, client], ledger.admitted[run, client]))
    return [int(place) for place in ledger.places[run, client] if place >= 0]


def follow(controller, prices, samples):
    """Dropped samples stay away, the ledger counts what is there, and N_eff is
    Kish's.
    """
    before = controller.open()
    uses = [Counter() for _ in range(controller.runs)]
    for orders, after in goes_on(controller, prices, before, samples=samples):
        assert np.array_equal(orders.first, after.dropped)
        for run, client in np.ndindex(after.admitted.shape):
            held = in_memory(after, run, client)
            new = range(before.admitted[run, client], after.admitted[run, client])
            assert held == sorted(set(held))
            assert len(held) == after.occupancy[run, client]
            assert {*held} <= {*in_memory(before, run, client), *new}
            uses[run].update((client, sample) for sample in held)
        before = after
    for run, used in enumerate(uses):
        counts = np.array(list(used.values()), dtype=np.int64)
        total, squares = counts.sum(), (counts**2).sum()
        assert counts.size == before.distinct[run]
        assert total == before.uses[run]
        assert squares == before.squared_uses[run]
        kish = effective_sample_size(before.uses, before.squared_uses)[run]
        assert kish == total**2 / max(squares, 1)
