"""Clients whose rules look at samples: by their own model, before a sample is dropped,
and nothing of it leaves them.
"""

from contextlib import closing

import numpy as np
import pytest
from grids import FakeGrid, Node

from headgate.control import Scores
from headgate.errors import SettingError
from headgate.flower.buffer_store import BufferStore
from headgate.flower.messages import Order
from headgate.flower.recipe import recipe_client, task_of
from headgate.flower.rounds import Discipline
from headgate.flower.sources import CallableSource, Sample
from headgate.flower.strategy import AdmissionStrategy
from studies.zoo.fedbalancer import FedBalancer

SMALL = [
    "run.seeds=1",
    "run.rounds=3",
    "training.steps=1",
    "system.buffers=[2]",
    "system.clients=3",
    "system.budget=90.0",
]
SMALL += [
    'run.policies=["headgate"]',
    "policies.headgate={kind='headgate', rule='studies.zoo.gss:GSS'}",
]
NUMBERED = CallableSource(lambda i: Sample(str(i), b"", None if i % 3 == 2 else i % 2))
"""sample i, of class i mod 2; of every third the label comes later"""


def an_order(t, known, last, rule="studies.zoo.fedbalancer:FedBalancer", settings="{}"):
    return Order("e", t, 0, known, last, 0, 3, t - 1, True, rule, settings, 7)


def test_only_crowded_clients_look_and_only_at_samples_whose_label_is_known(tmp_path):
    asked = []

    def look(samples, names):
        asked.append(([sample.position for sample in samples], names))
        return Scores(loss=np.array([float(sample.position) for sample in samples]))

    settings = '{"easy": 0.0, "threshold": 0.5}'
    with closing(BufferStore(tmp_path / "b", 0, rules=[FedBalancer])) as store:
        store.admit(an_order(1, 0, 3, settings=settings), NUMBERED, look)
        assert asked == []  # there is room for all
        store.admit(an_order(2, 3, 6, settings=settings), NUMBERED, look)
        assert asked == [([0, 1, 3, 4], ("loss",))]
        assert {3, 4} <= set(
            store.positions("e")
        )  # those above half of the way from 0 to 4, and one by lot
        assert len(store.positions("e")) == 3
        store.admit(
            an_order(2, 3, 6, settings=settings), NUMBERED, look
        )  # the same order again
        assert len(asked) == 1


@pytest.mark.parametrize(
    "said",
    [
        Scores(),
        Scores(loss=np.ones(2)),
        Scores(loss=np.ones((4, 1))),
        Scores(loss=np.full(4, np.nan)),
    ],
)
def test_what_is_no_score_of_these_samples_is_refused_by_name(tmp_path, said):
    with closing(BufferStore(tmp_path / "b", 0, rules=[FedBalancer])) as store:
        with pytest.raises(
            SettingError,
            match=r"scores.loss: must be 1-dimensional, of 4 samples, and finite",
        ):
            store.admit(an_order(1, 0, 6), NUMBERED, lambda samples, names: said)
        assert list(store.admissions("e")) == []


def test_nothing_of_it_leaves_the_client(tmp_path):
    """Replies have the same records and metrics as under a rule that does not look."""
    told = {}
    for rule, where in {"reservoir": "reservoir", "gss": "studies.zoo.gss:GSS"}.items():
        settings = [*SMALL, f"policies.headgate.rule={where}"]
        task = task_of("digits", tuple(settings))
        app = recipe_client("digits", settings, store=tmp_path / rule)
        grid = FakeGrid({100 + m: Node(app, m) for m in range(3)})
        with closing(
            AdmissionStrategy(
                task.experiment,
                tmp_path / f"{rule}-run",
                discipline=Discipline(gather=0.0),
            )
        ) as own:
            own.start(grid, task.start(), evaluate_fn=task.evaluate)
        replies = [reply for _, reply in grid.said if reply.has_content()]
        told[rule] = [
            {name: sorted(record) for name, record in reply.content.items()}
            for reply in replies
            if "metrics" in reply.content
        ]
    assert len(told["gss"]) >= 6
    assert told["gss"] == told["reservoir"]


MODEL = """
from torch import nn


class Soft(nn.Sequential):
    def __init__(self, shape, classes):
        super().__init__(nn.Flatten(), nn.Linear(64, classes), nn.Tanh())
"""


def test_a_model_that_ends_otherwise_is_refused_before_the_run(tmp_path, monkeypatch):
    (tmp_path / "soft_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    task = task_of("digits", (*SMALL, "model.kind=soft_model:Soft"))
    with pytest.raises(
        SettingError,
        match=r"model.kind = soft_model:Soft: does not end with a linear layer",
    ):
        task.last(task.model(), ("features",))
    assert task.last(task.model(), ("loss",)) is None
