"""Server updates: every executor's mean is taken alike, and what an update remembers survives a kill."""

import numpy as np
import pytest

from headgate.errors import Interrupted, SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.learning.server import Average, Momentum
from headgate.records.parts import create
from headgate.simulation.engine import Simulation
from headgate.simulation.run import examine, play_folder
from headgate.simulation.schedule import perform

DATA = load_dataset("digits")
SETTINGS = ["run.rounds=6", "run.seeds=2", 'run.policies=["headgate", "constant"]', "training.steps=2"]
MOMENTUM = 'server={kind = "momentum", momentum = 0.7, lr = 0.5}'


def played(*settings, executor="reference"):
    simulation = Simulation(load("digits", [*SETTINGS, "training.dtype=float64", *settings]), DATA, "cpu", executor)
    thetas = [simulation.theta]
    for _ in range(simulation.experiment.rounds):
        simulation.step()
        thetas.append(simulation.theta)
    return simulation, thetas


@pytest.mark.parametrize("executor", ["gram", "flat", "batched"])
def test_executors_agree_under_momentum(executor):
    judge, expected = played(MOMENTUM)
    simulation, thetas = played(MOMENTUM, executor=executor)
    assert simulation.learner.executor.name == executor
    for ours, theirs in zip(thetas[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(simulation.models.server["velocity"], judge.models.server["velocity"], rtol=1e-9, atol=1e-12)


def test_the_velocity_is_that_of_the_models():
    """θ(t) − θ(t−1) = lr·v(t) and v(t) = momentum·v(t−1) + the mean's change: the first step is lr times that of averaging."""
    simulation, thetas = played(MOMENTUM)
    _, averaged = played()
    np.testing.assert_allclose(thetas[1] - thetas[0], 0.5 * (averaged[1] - averaged[0]), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(thetas[-1] - thetas[-2], 0.5 * simulation.models.server["velocity"], rtol=1e-7, atol=1e-7)
    assert not np.allclose(thetas[-1], averaged[-1])


def test_without_momentum_it_is_averaging():
    _, plain = played('server={kind = "momentum", momentum = 0.0}')
    _, averaged = played("server.kind=average")
    np.testing.assert_allclose(plain[-1], averaged[-1], rtol=1e-7, atol=1e-7)


def test_a_run_stopped_at_any_round_goes_on_to_the_same_bytes(tmp_path):
    experiment = load("digits", [*SETTINGS, MOMENTUM])
    (whole,) = perform(experiment, tmp_path / "whole", processes=1)
    for rounds in (1, 3, 5):
        folder, done = tmp_path / f"after {rounds}", []
        create(folder, experiment.tables(), examine(experiment, DATA, "cpu", "auto")["environment"], [])
        with pytest.raises(Interrupted):
            play_folder(folder, None, DATA, "cpu", done.append, lambda: len(done) == rounds)  # noqa: B023
        perform(None, folder, processes=1, resume=True)
        for name in ("metrics.parquet", "clients.parquet", "checkpoints/00000006/tensors.safetensors"):
            assert (folder / name).read_bytes() == (whole / name).read_bytes(), (rounds, name)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('server={kind = "momentum", momentum = 1.0}', "server.momentum = 1.0: must be 0 or more and less than 1"),
        ('server={kind = "momentum", lr = 0.0}', "server.lr = 0.0"),
        ('server={kind = "momentun"}', "server.kind = momentun: no such server update; did you mean momentum?"),
        ('server={kind = "average", lr = 1.0}', "server.lr: unknown key"),
    ],
)
def test_bad_settings_are_named(setting, message):
    with pytest.raises(SettingError) as refusal:
        load("digits", [setting])
    assert message in str(refusal.value)


def test_averaging_is_what_is_done_where_nothing_is_said():
    assert load("digits").server == Average()
    assert load("digits", ['server={kind="momentum"}']).server == Momentum()
