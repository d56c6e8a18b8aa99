"""Which executor is picked, and which are refused."""

import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.learning.models import Logistic
from headgate.learning.networks import build_model
from headgate.simulation.executors import names, pick
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.gram_host import GramHost
from headgate.simulation.executors.layers import is_linear
from headgate.simulation.executors.reference import Reference

from .worlds import (
    CLASSES,
    ONE_RUN,
    SHAPE,
    assert_same,
    linear,
    linear_without_bias,
    stand_in,
    tanh_net,
    task_of,
    tiny_convolution,
    world,
)


def test_names():
    assert names() == ("auto", "reference", "gram", "compiled", "flat", "batched", "streams", "packed")


@pytest.mark.parametrize(
    ("model", "training", "expected"),
    [
        (build_model(Logistic(), SHAPE, CLASSES), LocalTraining(0.1, 1), "gram"),
        (linear_without_bias(), LocalTraining(0.1, 1, momentum=0.9), "gram"),
        (linear(), LocalTraining(0.1, 1, weight_decay=0.1), "compiled"),
        (linear(), LocalTraining(0.1, 1, batch_size=4), "compiled"),
        (tanh_net(), LocalTraining(0.1, 1), "compiled"),
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 7), nn.Sigmoid(), nn.Linear(7, CLASSES)), LocalTraining(0.1, 1), "flat"),
    ],
)
def test_the_fastest_that_fits_is_picked(model, training, expected):
    task = task_of(model)
    assert pick(task, training).name == expected
    for name in ("reference", "flat"):
        assert pick(task, training, name).name == name


@pytest.mark.parametrize(
    ("model", "training", "expected"),
    [
        (linear(), LocalTraining(0.1, 1), "packed"),
        (tiny_convolution(), LocalTraining(0.1, 1), "batched"),
        (tiny_convolution(), LocalTraining(0.1, 1, batch_size=4), "flat"),
        (tanh_net(), LocalTraining(0.1, 1), "packed"),
    ],
)
def test_on_cuda_packed_and_batched_take_the_place_of_flat(model, training, expected, monkeypatch):
    stand_in(monkeypatch, "flat", "batched", "streams", "packed")
    assert pick(task_of(model, device=torch.device("cuda")), training).name == expected


@pytest.mark.parametrize(
    ("name", "model", "training", "refusal"),
    [
        ("fast", linear(), {}, "--executor fast: must be auto, reference, gram, compiled, flat, batched, streams, packed"),
        ("gram", tanh_net(), {}, "--executor gram: the model must be exactly a Flatten and a Linear"),
        ("gram", linear(), {"batch_size": 4}, "--executor gram: full-batch only, training.batch_size = 4"),
        ("gram", linear(), {"weight_decay": 0.1}, "--executor gram: no weight decay, training.weight_decay = 0.1"),
        ("batched", linear(), {"batch_size": 4}, "--executor batched: full-batch only, training.batch_size = 4"),
    ],
)
def test_an_executor_that_does_not_fit_is_refused(name, model, training, refusal):
    task = task_of(model)
    with pytest.raises(SettingError) as raised:
        pick(task, LocalTraining(0.1, 1, **training), name)
    assert str(raised.value) == refusal


def test_gram_is_for_the_cpu():
    with pytest.raises(SettingError, match=r"^--executor gram: only on the CPU, the device is cuda$"):
        pick(task_of(linear(), device=torch.device("cuda")), LocalTraining(0.1, 1), "gram")


@pytest.mark.parametrize(
    ("make", "key"),
    [(GramHost, "batch_size"), (GramHost, "weight_decay"), (Batched, "batch_size")],
)
def test_an_executor_refuses_training_it_was_not_picked_for(make, key):
    case = world(linear(), ONE_RUN)
    with pytest.raises(SettingError, match=key):
        case.advance(make(case.task), LocalTraining(0.1, 1, **{key: 2}))


def test_only_a_flatten_and_a_linear_are_linear():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    assert is_linear(build_model(Logistic(), (1, 8, 8), 10))
    assert not is_linear(nn.Sequential(nn.Flatten(), Scaled(72, 4)))
    assert not is_linear(nn.Sequential(nn.Flatten(2), nn.Linear(36, 4)))
    assert not is_linear(nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.Softmax(dim=1)))
    assert not is_linear(nn.Linear(72, 4))


def test_a_model_that_looks_at_its_numbers_is_for_flat():
    class Choosy(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(72, CLASSES)

        def forward(self, x):
            logits = self.last(x.flatten(1))
            return 2 * logits if logits[0, 0] > 0 else logits

    case = world(Choosy(), ONE_RUN)
    with pytest.raises(SettingError, match=r"^--executor batched: the model does not run under torch.func.vmap .*: take flat$"):
        pick(case.task, LocalTraining(0.1, 1), "batched")
    training = LocalTraining(0.1, 3)
    assert_same(case.advance(pick(case.task, training), training), case.advance(Reference(case.task), training), case.theta)
