"""Features that are no bytes, from end to end: linear models and nets learn them, and
their data are left alone.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from headgate.experiment import load
from headgate.simulation.engine import Simulation

EXAMPLES = Path(__file__).parents[2] / "examples"
TABLE = "data={kind='table', file='customers.csv', label='stays', partition='iid'}"
FEW = ["run.seeds=2", "run.rounds=15", 'run.policies=["headgate"]', TABLE]
NET = ["model.kind=my_model:TwoLayers", "training.lr=0.1"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("customers.csv", "my_model.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("more", [[], NET], ids=["logistic", "net"])
def test_a_table_is_learnt_and_its_numbers_stay_as_they_are(here, more):
    experiment = load("digits", [*FEW, *more])
    data = experiment.data.load()
    before = data.train_images.copy()
    simulation = Simulation(experiment, data, "cpu", "auto")
    for _ in range(experiment.rounds):
        last = simulation.step().metrics
    assert (
        min(row["test_accuracy"] for row in last) > 0.75
    )  # three quarters are in the larger class
    assert np.array_equal(data.train_images, before)


@pytest.mark.parametrize("model", [[], NET], ids=["linear", "net"])
def test_rules_that_look_see_features_as_the_model_does(here, model):
    """Numpy's and torch's learner say the same of them, and looking leaves the data
    alone.
    """
    rule = ["policies.headgate={kind='headgate', rule='studies.zoo.gss:GSS'}"]
    own, slow = (
        Simulation(
            experiment := load("digits", [*FEW, *model, *rule]),
            experiment.data.load(),
            "cpu",
            executor,
        )
        for executor in ("auto", "reference")
    )
    before = own.learner.dataset.train_images.copy()
    for _ in range(8):
        own.step()
        slow.step()
    assert own.needs_scores
    assert np.array_equal(before, own.learner.dataset.train_images)
    rows, runs = np.arange(40), np.arange(40) % 2
    asked = ("loss", "error", "features")
    models = slow.models._replace(theta=torch.as_tensor(own.theta))
    for one, other in zip(
        own.learner.scores(own.models, asked, runs, rows),
        slow.learner.scores(models, asked, runs, rows),
        strict=True,
    ):
        assert (one is None) is (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
