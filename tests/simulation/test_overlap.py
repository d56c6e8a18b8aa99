"""The next round prepared while the device works: the same rounds, and nothing of it shows before its turn."""

import numpy as np
import pytest

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.simulation.engine import Simulation

DATA = load_dataset("digits")
SETTINGS = ["run.rounds=8", "run.seeds=2", "training.evaluate_every=3", "training.cohort=6", "training.steps=2"]


def begun(overlap, *settings):
    simulation = Simulation(load("digits", [*SETTINGS, *settings]), DATA, "cpu")
    simulation.overlap = overlap
    return simulation


def same_state(one, other):
    assert one.t == other.t
    assert np.array_equal(one.diverged, other.diverged)
    for name, tensor in one.tensors().items():
        assert np.array_equal(tensor, other.tensors()[name], equal_nan=True), name
    for name, ledger in one.ledgers.items():
        assert ledger.t == other.ledgers[name].t == one.t
        for field in ("debt", "spent", "admitted", "dropped", "uses", "carry", "credit"):
            assert np.array_equal(getattr(ledger, field), getattr(other.ledgers[name], field)), field


FLOWING = ["data.stream={kind='markov', mixing=5, passing=9}", "data.concepts=['same', 'rotated']"]
FLOWING += ["data.changes={kind='gradual', start=2, stop=7}"]


@pytest.mark.parametrize("settings", [[], ["training.lr=1e38"], ["data.stream=stop", "data.partition.per_class=10"], FLOWING])
def test_rounds_and_states_are_the_same_either_way(settings):
    plain, ahead = begun(False, *settings), begun(True, *settings)
    for _ in range(8):
        assert repr(plain.step()) == repr(ahead.step())  # repr: nan is not equal to itself
        same_state(plain, ahead)
    assert ahead._ahead is None  # there is no round 9


def test_what_was_prepared_is_forgotten_when_the_run_goes_back():
    simulation = begun(True)
    rounds = [simulation.step() for _ in range(3)]
    saved = simulation.t, simulation.tensors(), dict(simulation.ledgers)
    rounds += [simulation.step() for _ in range(3)]
    simulation.restore(*saved)
    assert repr([simulation.step() for _ in range(3)]) == repr(rounds[3:])


def test_a_round_that_cannot_be_prepared_says_so_when_its_turn_comes():
    simulation, plain = begun(True), begun(False)
    simulation.prices[4] = np.nan
    for _ in range(4):
        assert repr(simulation.step()) == repr(plain.step())
    with pytest.raises(SettingError, match=r"round 5: a price of nan"):
        simulation.step()
    same_state(simulation, plain)
