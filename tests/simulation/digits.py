"""Simulations of the digits on the processor, for tests that look into them."""

from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.simulation.engine import Simulation

DATA = load_dataset("digits")
TWO = ("run.seeds=2", "training.dtype=float64")


def simulate(*settings, executor="auto", data=DATA, recipe="digits"):
    return Simulation(load(recipe, settings), data, "cpu", executor)


def played(*settings, **how):
    """A simulation, and all its rounds."""
    simulation = simulate(*settings, **how)
    return simulation, [simulation.step() for _ in range(simulation.experiment.rounds)]


def batches(simulation, monkeypatch):
    """What its executor is handed, round by round."""
    seen, advance = [], simulation.learner.executor.advance

    def watched(theta, packed, *rest):
        seen.append(packed)
        return advance(theta, packed, *rest)

    monkeypatch.setattr(simulation.learner.executor, "advance", watched)
    return seen
