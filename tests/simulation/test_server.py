"""Server updates: every executor's mean is taken alike, and what an update remembers survives a kill."""

import numpy as np
import pytest
import torch

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.learning.server import Adam, Yogi
from headgate.simulation.engine import Simulation

DATA = load_dataset("digits")
SETTINGS = ["run.rounds=6", "run.seeds=2", 'run.policies=["headgate", "constant"]', "training.steps=2"]
MOMENTUM = 'server={kind = "momentum", momentum = 0.7, lr = 0.5}'
ADAPTIVE = ('server={kind = "adam", lr = 0.02, tau = 0.01}', 'server={kind = "yogi", lr = 0.02, tau = 0.01, beta2 = 0.9}')


def played(*settings, executor="reference"):
    simulation = Simulation(load("digits", [*SETTINGS, "training.dtype=float64", *settings]), DATA, "cpu", executor)
    thetas = [simulation.theta]
    for _ in range(simulation.experiment.rounds):
        simulation.step()
        thetas.append(simulation.theta)
    return simulation, thetas


@pytest.mark.parametrize("update", [MOMENTUM, *ADAPTIVE])
@pytest.mark.parametrize("executor", ["gram", "flat"])  # on numpy and on torch
def test_executors_agree_under_every_update(executor, update):
    judge, expected = played(update)
    simulation, thetas = played(update, executor=executor)
    assert simulation.learner.executor.name == executor
    for ours, theirs in zip(thetas[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert simulation.models.server.keys() == judge.models.server.keys() != set()
    for name, array in judge.models.server.items():
        np.testing.assert_allclose(simulation.models.server[name], array, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [Adam, Yogi])
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adaptive_updates_number_by_number(kind, arrays, dtype):
    """Against the algorithm's lines written for one number, in whatever library the models come."""
    rng, update = np.random.default_rng(0), kind(lr=0.1, beta1=0.8, beta2=0.7, tau=0.05)
    make = (lambda a: a.astype(dtype)) if arrays == "numpy" else (lambda a: torch.from_numpy(a.astype(dtype)))
    model = rng.normal(size=(2, 3))
    here, state = make(model), update.start(make(model))
    first, second = np.zeros((2, 3)), np.full((2, 3), 0.05**2)
    for t in range(1, 6):
        mean = model + rng.normal(size=(2, 3)) * (0.2 if t % 2 else 0.0)  # in every other round nothing changes
        here, state = update.step(t, here, make(mean), state)
        for i, j in np.ndindex(2, 3):
            change = mean[i, j] - model[i, j]
            first[i, j] = 0.8 * first[i, j] + 0.2 * change
            square, sign = change**2, np.sign(second[i, j] - change**2)
            second[i, j] = 0.7 * second[i, j] + 0.3 * square if kind is Adam else second[i, j] - 0.3 * square * sign
            model[i, j] += 0.1 * first[i, j] / (np.sqrt(second[i, j]) + 0.05)
        assert str(here.dtype).removeprefix("torch.") == str(state["second"].dtype).removeprefix("torch.") == dtype
        np.testing.assert_allclose(here, model, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-6)


def test_the_velocity_is_that_of_the_models():
    """θ(t) − θ(t−1) = lr·v(t) and v(t) = momentum·v(t−1) + the mean's change: the first step is lr times that of averaging."""
    simulation, thetas = played(MOMENTUM)
    _, averaged = played()
    np.testing.assert_allclose(thetas[1] - thetas[0], 0.5 * (averaged[1] - averaged[0]), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(thetas[-1] - thetas[-2], 0.5 * simulation.models.server["velocity"], rtol=1e-7, atol=1e-7)
    assert not np.allclose(thetas[-1], averaged[-1])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('server={kind = "momentum", momentum = 1.0}', "server.momentum = 1.0: must be 0 or more and less than 1"),
        ('server={kind = "momentum", lr = 0.0}', "server.lr = 0.0"),
        ('server={kind = "momentun"}', "server.kind = momentun: no such server update; did you mean momentum?"),
        ('server={kind = "average", lr = 1.0}', "server.lr: unknown key"),
        ('server={kind = "adam", beta2 = 1.0}', "server.beta2 = 1.0: must be 0 or more and less than 1"),
        ('server={kind = "yogi", tau = 0.0}', "server.tau = 0.0"),
    ],
)
def test_bad_settings_are_named(setting, message):
    with pytest.raises(SettingError) as refusal:
        load("digits", [setting])
    assert message in str(refusal.value)
