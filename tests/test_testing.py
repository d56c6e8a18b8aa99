"""The public checks can fail: each fault is planted and must be found."""

from dataclasses import dataclass

import numpy as np
import pytest

from headgate.control import AdmissionPolicy, Ask, KStep, Reservoir
from headgate.control.prices import Uniform
from headgate.testing import check_policy, check_prices, check_retention


class Honest(AdmissionPolicy):
    retention = KStep(3)

    def start(self, system, runs):
        return {"seen": np.zeros(runs)}

    def admit(self, view, memory):
        return Ask(np.full(view.debt.shape, 2.5)), {"seen": memory["seen"] + view.price}


class Forgetful(Honest):
    """Keeps what it needs in itself, not in its memory."""

    rounds = 0

    def admit(self, view, memory):
        self.rounds += 1
        return Ask(np.full(view.debt.shape, float(self.rounds % 5))), memory


class Vandal(Honest):
    def admit(self, view, memory):
        memory["seen"] += 1.0
        return Ask(np.full(view.debt.shape, 2.5)), memory


class Gossip(Honest):
    """What one run does depends on the others."""

    def admit(self, view, memory):
        return Ask(np.full(view.debt.shape, float(view.price.mean()))), memory


class Hoarder(Honest):
    """Its memory cannot be written to a file."""

    def start(self, system, runs):
        return {}

    def admit(self, view, memory):
        return Ask(np.full(view.debt.shape, 2.5)), {"extra": view.price}


class Unstable(Honest):
    def admit(self, view, memory):
        return Ask(np.random.default_rng().random(view.debt.shape) * 9), memory


def test_an_honest_policy_passes():
    check_policy(Honest())


@pytest.mark.parametrize(
    ("policy", "message"),
    [(Forgetful, "repeatable"), (Vandal, "changed memory"), (Gossip, "alone"), (Unstable, "repeatable")],
)
def test_faulty_policies_are_found(policy, message):
    with pytest.raises(AssertionError, match=message):
        check_policy(policy())


def test_a_memory_that_changes_its_shape_is_found():
    with pytest.raises(Exception, match="does not know"):
        check_policy(Hoarder())


@dataclass(frozen=True, eq=False)
class Faulty(KStep):
    fault: str = ""

    def expire(self, state, t, held):
        kept_from = super().expire(state, t, held)
        if self.fault == "backwards":
            return np.maximum(kept_from - 1, 0)
        if self.fault == "overdrawn":
            return held.last + 1
        return kept_from

    def settle(self, state, t, held, kept_from, last, streams):
        state, first, gone = super().settle(state, t, held, kept_from, last)
        if self.fault == "miscounts":
            gone = gone + 1
        if self.fault == "vandal":
            state["admitted.0"][...] += 1
        return state, first, gone

    def limit(self, system):
        return np.ones(system.clients, dtype=np.int64) if self.fault == "overfull" else None


@pytest.mark.parametrize("fault", ["backwards", "overdrawn", "miscounts", "vandal", "overfull"])
def test_faulty_retention_is_found(fault):
    check_retention(Faulty(3))
    with pytest.raises(AssertionError):
        check_retention(Faulty(3, fault=fault))


@dataclass(frozen=True, eq=False)
class FaultyLots(Reservoir):
    """A reservoir that goes wrong in its sixth round."""

    fault: str = ""

    def settle(self, state, t, held, kept_from, last, streams):
        if self.fault == "gossip":
            streams = streams._replace(seeds=streams.seeds + len(streams.seeds))
        after, first, gone = super().settle(state, t, held, kept_from, last, streams)
        if t == 6:
            place = after["place"].copy()
            if self.fault == "returns":
                place[:, 2, 0] = 0 if place[0, 2, 0] else 1
            if self.fault == "twice":
                place[:, 2, 1] = place[:, 2, 0]
            if self.fault == "loses":
                place[:, 2, -1] = -1
            if self.fault == "from the future":
                place[:, 2, -1] = last.max() + 5
            after["place"] = place
            if self.fault == "calls all used":
                after["unused"] = np.zeros_like(after["unused"])
            if self.fault == "miscounts":
                gone = gone + 1
        return after, first, gone


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("gossip", "alone"),
        ("returns", "came back"),
        ("twice", "ascend"),
        ("loses", "does not count what is in memory"),
        ("from the future", "came back"),
        ("calls all used", "samples were ever used"),
        ("miscounts", "use counts"),
    ],
)
def test_faulty_places_are_found(fault, message):
    check_retention(FaultyLots(4))
    with pytest.raises(AssertionError, match=message):
        check_retention(FaultyLots(4, fault=fault))


class Prices(Uniform):
    def path(self, seeds, start, stop):
        path = super().path(seeds, start, stop)
        return self.twist(path, seeds, start)


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (lambda self, path, seeds, start: path - 5, "negative"),
        (lambda self, path, seeds, start: path + start, "starts"),
        (lambda self, path, seeds, start: path * len(seeds) / 200, "other seeds"),
        (lambda self, path, seeds, start: path * 1.5, "above most"),
        (lambda self, path, seeds, start: path * 0.9, "mean"),
        (lambda self, path, seeds, start: path[:, ::-1], "starts|asked"),
        (lambda self, path, seeds, start: path[:, :-1], "shape"),
    ],
)
def test_faulty_prices_are_found(twist, message):
    with pytest.raises(AssertionError, match=message):
        check_prices(type("Twisted", (Prices,), {"twist": twist})(1.0, 10.0))
