"""What models say of samples, judged by torch a sample at a time; and runs whose rules
look at it.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from headgate.control import Retention
from headgate.control.policies import Headgate
from headgate.control.scores import NAMES
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.models import Model
from headgate.learning.networks import build_model
from headgate.simulation import engine
from headgate.simulation.engine import Simulation, learner_of

from .digits import DATA

MARGINS = ((0, 0), (0, 0), (10, 10), (10, 10))
LARGE = replace(
    DATA,
    train_images=np.pad(DATA.train_images, MARGINS),
    test_images=np.pad(DATA.test_images, MARGINS),
)
SMALL = [
    "run.rounds=6",
    "run.seeds=3",
    'run.policies=["headgate"]',
    "training.steps=2",
    "system.budget=60",
]


class TwoBranches(nn.Module):
    """A forward of its own, with a last layer without a bias."""

    def __init__(self, shape, classes):
        super().__init__()
        self.out = nn.Linear(12, classes, bias=False)
        self.left, self.right = nn.Linear(64, 12), nn.Linear(64, 12)

    def forward(self, x):
        flat = x.flatten(1)
        return self.out(torch.tanh(self.left(flat)) + self.right(flat))


class Softened(TwoBranches):
    """Ends with something that is not a linear layer."""

    def forward(self, x):
        return super().forward(x) / 2


@dataclass(frozen=True)
class Branched(Model):
    made_by: type = TwoBranches

    @property
    def kind(self):
        return self.made_by.__name__

    def build(self, shape, classes):
        return self.made_by(shape, classes)


WORLDS = {
    "logistic, numpy": (DATA, "logistic", "gram"),
    "logistic, torch": (DATA, "logistic", "reference"),
    "lenet, compiled": (LARGE, "lenet", "compiled"),
    "lenet, torch": (LARGE, "lenet", "reference"),
    "resnet9": (DATA, "resnet9", "flat"),
    "own": (DATA, TwoBranches, "flat"),
    "own, no linear layer at the end": (DATA, Softened, "flat"),
}


def by_hand(module, x, y):
    """Of one image: loss, entropy, margin, the gradient of the loss by the last layer,
    and that with the guess as label.
    """
    logits = module(x)
    chance = torch.softmax(logits, 1)[0]
    two = chance.sort(descending=True).values
    linear = [part for part in module.modules() if type(part) is nn.Linear]
    parameters = list(
        (module.out if isinstance(module, TwoBranches) else linear[-1]).parameters()
    )

    def gradient(label):
        found = torch.autograd.grad(
            cross_entropy(logits, label), parameters, retain_graph=True
        )
        return torch.cat(
            [each.reshape(len(chance), -1) for each in found], dim=1
        )  # the bias is one more column

    loss, entropy = cross_entropy(logits, y), -(chance * chance.log()).sum()
    sure = [float(each.detach()) for each in (loss, entropy, two[0] - two[1])]
    return *sure, gradient(y), gradient(logits.argmax(1))


@cache
def after_a_round(world):
    """Nobody changes it: scores are asked for."""
    data, kind, executor = WORLDS[world]
    common = load(
        "digits",
        [
            *SMALL,
            "training.evaluate_every=6",
            *([f"model.kind={kind}"] if isinstance(kind, str) else []),
        ],
    )
    experiment = (
        common if isinstance(kind, str) else replace(common, model=Branched(kind))
    )
    own = Simulation(experiment, data, "cpu", executor)
    own.step()
    return own


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name == "resnet9"))
        for name in WORLDS
    ],
)
def test_scores_are_those_of_each_sample_by_autograd(world):
    (data, kind, _), own = WORLDS[world], after_a_round(world)
    linear = kind is not Softened
    asked = NAMES if linear else NAMES[:-1]
    rng = np.random.default_rng(1)
    runs, rows = rng.integers(0, 3, 12), rng.integers(0, len(data.train_labels), 12)
    found = own.learner.scores(own.models, asked, runs, rows)
    assert found.features is not None or not linear
    module = build_model(own.experiment.model, data.shape, 10).double()
    mean, std = (
        torch.tensor(each, dtype=torch.float64).view(-1, 1, 1)
        for each in (data.mean, data.std)
    )
    for i, (run, row) in enumerate(zip(runs.tolist(), rows.tolist(), strict=True)):
        torch.nn.utils.vector_to_parameters(
            torch.from_numpy(own.theta[run]).double(), module.parameters()
        )
        x = (torch.from_numpy(data.train_images[row]).double() / 255 - mean) / std
        *sure, gradient, guessed = by_hand(
            module, x[None], torch.from_numpy(data.train_labels[row : row + 1])
        )
        close = {"rtol": 2e-4, "atol": 2e-5}
        np.testing.assert_allclose(
            [found.loss[i], found.entropy[i], found.margin[i]], sure, **close
        )
        if linear:
            np.testing.assert_allclose(
                np.outer(found.error[i], found.features[i]), gradient, **close
            )
            np.testing.assert_allclose(
                np.outer(found.guess[i], found.features[i]), guessed, **close
            )
    assert all(values is None or values.dtype == np.float64 for values in found)
    few = own.learner.scores(own.models, asked[:4], runs[:0], rows[:0])
    assert few.loss.shape == (0,)
    assert few.error.shape == (0, 10)
    for run in range(3):  # the scores of a run depend on no other run
        alone = own.learner.scores(
            own.models, asked, runs[runs == run], rows[runs == run]
        )
        for name in asked:
            assert np.array_equal(
                getattr(found, name)[runs == run], getattr(alone, name)
            ), name


@dataclass(frozen=True, eq=False)
class Wrongest(Retention):
    """Those with the largest gradient stay; without a model the newest."""

    scores: ClassVar[tuple[str, ...]] = ("loss", "error", "features")

    def rank(self, given):
        if given.scores is None:
            return -given.position
        return -(given.scores.error**2).sum(axis=-1) * (given.scores.features**2).sum(
            axis=-1
        )


def looking(*settings):
    return load("digits", [*SMALL, *settings]).with_policy(
        "looks", Headgate(rule=Wrongest())
    )


def test_samples_are_judged_by_the_model_that_the_round_begins_with():
    own = Simulation(
        looking("training.dtype=float64", "run.rounds=12"), DATA, "cpu", "reference"
    )
    held = [[[] for _ in own.experiment.system.buffer] for _ in range(3)]
    crowded = 0
    for _ in range(12):
        theta, before = own.theta[3:], own.ledgers["looks"].admitted
        own.step()
        after = own.ledgers["looks"]
        for r, m in np.ndindex(after.admitted.shape):
            could = np.array(
                [*held[r][m], *range(before[r, m], after.admitted[r, m])],
                dtype=np.int64,
            )
            room = int(own.experiment.system.buffer[m])
            if could.size > room:
                crowded += 1
                rows = own.streams[r].at(np.full_like(could, m), could).rows
                x = (
                    DATA.train_images[rows].reshape(len(rows), -1) / 255 - DATA.mean[0]
                ) / DATA.std[0]
                z = x @ theta[r, :640].reshape(10, 64).T + theta[r, 640:]
                p = (
                    np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
                    - np.eye(10)[DATA.train_labels[rows]]
                )
                size = (p**2).sum(axis=1) * ((x**2).sum(axis=1) + 1)
                could = np.sort(could[np.lexsort((could, -size))][:room])
            held[r][m] = could.tolist()
            assert after.places[r, m][after.places[r, m] >= 0].tolist() == held[r][m]
    assert crowded > 20


def test_where_the_world_changes_a_held_sample_is_judged_as_it_was_when_it_came(
    monkeypatch,
):
    """What is asked about was trained on before, or comes in the concept of today."""
    changes = [
        "data.concepts=['same', 'rotated']",
        "data.changes={kind='sudden', rounds=[4], stagger=0}",
    ]
    own = Simulation(looking(*changes, "run.rounds=12"), DATA)
    asked, trained, both, scores = [], set(), 0, own.learner.scores
    monkeypatch.setattr(
        own.learner, "scores", lambda *given: asked.append(given[2:]) or scores(*given)
    )
    for t in range(1, 13):
        asked.clear()
        now = own._prepare(t, own.ledgers, own.purchases)
        for runs, rows in asked:
            assert (runs >= 3).all()
            turned = rows >= len(DATA.train_labels)
            assert all(
                known in trained
                for known in zip(
                    runs[turned != (t >= 4)], rows[turned != (t >= 4)], strict=True
                )
            )
            both += len(set(turned.tolist())) == 2
        trained |= set(zip(now.runs, now.batch.rows, strict=True))
        own.step()
    assert both > 2  # of both concepts at once


def test_control_waits_for_the_model_where_a_rule_looks_or_a_policy_listens(
    monkeypatch,
):
    """On a device of its own, which another stands for here."""
    monkeypatch.setattr(
        engine,
        "learner_of",
        lambda given, data, device, executor: learner_of(given, data, "cpu", executor),
    )
    listening = load(
        "digits", [*SMALL, "policies.headgate.kind=studies.zoo.listening:Listening"]
    )
    losses = load("digits", [*SMALL, "training.losses=true"])
    for experiment, overlaps in (
        (losses, True),
        (looking(), False),
        (listening, False),
    ):
        own = Simulation(experiment, DATA, "cuda")
        own.step()
        assert own.overlap is overlaps
        assert (own._ahead is not None) is overlaps


def test_a_model_without_a_linear_end_is_refused_for_gradients():
    choosing = load(
        "digits",
        [
            *SMALL,
            "data.window=2",
            "policies.headgate.selection=studies.zoo.kcentre:KCentre",
        ],
    )
    for experiment, who in (
        (looking(), "Wrongest .policies.looks"),
        (choosing, "KCentre .policies.head"),
    ):
        with pytest.raises(
            SettingError,
            match=rf"model.kind = Softened: does not end with a linear layer, .*{who}",
        ):
            Simulation(replace(experiment, model=Branched(Softened)), DATA)


def test_a_run_that_broke_down_goes_on_keeping_as_many():
    own = Simulation(looking("training.lr=1e38"), DATA)
    with np.errstate(all="raise"):
        for _ in range(6):
            own.step()
    assert own.diverged.any()
    assert (own.ledgers["looks"].occupancy <= own.experiment.system.buffer).all()
