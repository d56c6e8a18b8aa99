"""Features that are no bytes, from end to end: every executor, linear models and nets, and their data are left alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headgate.experiment import load
from headgate.kernels.compiled import Compiled
from headgate.learning.local import LocalTraining
from headgate.simulation.engine import Simulation
from headgate.simulation.executors import RaggedBatch
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import Gram, LinearTask
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Task
from headgate.simulation.linear import Judged

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLE = "data={kind='table', file='customers.csv', label='stays', partition='iid'}"
FEW = ["run.seeds=2", "run.rounds=15", 'run.policies=["headgate"]', TABLE]
NET = ["model.kind=my_model:TwoLayers", "training.lr=0.1"]


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(5, 3))


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("customers.csv", "my_model.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("make", "model"), [(Gram, linear), (FlatLoop, net), (Batched, net), (Compiled, net)], ids=lambda each: each.__name__
)
def test_executors_do_with_features_what_the_reference_does(make, model, dtype):
    task = Task(model(), (1, 1, 5), 3, (0.5,), (2.0,), dtype=dtype, unit=1.0)
    random = torch.Generator().manual_seed(1)
    images = 3 * torch.randn(9, 1, 1, 5, generator=random)
    before = images.clone()
    packed = RaggedBatch(images, torch.randint(0, 3, (9,), generator=random), np.array([0, 4, 4, 9]))
    theta = torch.randn(1, task.size, generator=random).to(dtype)
    weights, training = torch.tensor([[0.3, 0.2, 0.5]], dtype=dtype), LocalTraining(0.1, 4)
    done, judged = (each(task).advance(theta, packed, weights, training, [1], 1) for each in (make, Reference))
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(done[0], judged[0], **tolerance)
    torch.testing.assert_close(done[1], judged[1], **tolerance)
    assert torch.equal(images, before)
    with pytest.raises(ValueError, match="float32"):
        make(task).advance(theta, packed._replace(images=images.to(torch.uint8)), weights, training, [1], 1)


def test_linear_models_are_judged_by_features_as_defined():
    rng = np.random.default_rng(2)
    task = LinearTask((1, 1, 4), 3, (0.5,), (2.0,), np.dtype("float64"), unit=1.0)
    images = rng.normal(0, 2, (50, 1, 1, 4)).astype(np.float32) * (rng.random(4) < 0.7)
    labels, theta = rng.integers(0, 3, 50), rng.normal(0, 1, (5, task.size))
    weight, bias = theta[:, :12].reshape(5, 3, 4), theta[:, 12:]
    logits = np.einsum("rcd,nd->rnc", weight, (images.reshape(50, 4) - 0.5) / 2) + bias[:, None]
    accuracy, loss = Judged(task, images.astype(np.float32), labels)(theta)
    np.testing.assert_array_equal(accuracy, (logits.argmax(axis=2) == labels).mean(axis=1))
    chosen = np.take_along_axis(logits, labels[None, :, None], 2)[..., 0]
    np.testing.assert_allclose(loss, (np.logaddexp.reduce(logits, axis=2) - chosen).mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("more", [[], NET], ids=["logistic", "net"])
def test_a_table_is_learnt_and_its_numbers_stay_as_they_are(here, more):
    experiment = load("digits", [*FEW, *more])
    data = experiment.data.load()
    before = data.train_images.copy()
    simulation = Simulation(experiment, data, "cpu", "auto")
    for _ in range(experiment.rounds):
        last = simulation.step().metrics
    assert min(row["test_accuracy"] for row in last) > 0.75  # three quarters are in the larger class
    assert np.array_equal(data.train_images, before)


@pytest.mark.parametrize("model", [[], NET], ids=["linear", "net"])
def test_rules_that_look_see_features_as_the_model_does(here, model):
    """Numpy's and torch's learner say the same of them, and looking leaves the data alone."""
    rule = ["policies.headgate={kind='headgate', rule='studies.zoo.gss:GSS'}"]
    own, slow = (
        Simulation(experiment := load("digits", [*FEW, *model, *rule]), experiment.data.load(), "cpu", executor)
        for executor in ("auto", "reference")
    )
    before = own.learner.dataset.train_images.copy()
    for _ in range(8):
        own.step()
        slow.step()
    assert own.looks
    assert np.array_equal(before, own.learner.dataset.train_images)
    rows, runs = np.arange(40), np.arange(40) % 2
    asked = ("loss", "error", "features")
    models = slow.models._replace(theta=torch.as_tensor(own.theta))
    for one, other in zip(
        own.learner.scores(own.models, asked, runs, rows), slow.learner.scores(models, asked, runs, rows), strict=True
    ):
        assert (one is None) is (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
