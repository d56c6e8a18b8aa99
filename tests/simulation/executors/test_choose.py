"""Which executor is chosen, which are refused and why, and how one of one's own comes
in.
"""

import re
from functools import cache
from importlib.metadata import EntryPoint

import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.learning.models import MODEL, Logistic
from headgate.learning.networks import build_model
from headgate.simulation import executors
from headgate.simulation.executors import SHIPPED, choose, find
from headgate.simulation.executors.layers import is_linear
from headgate.simulation.executors.reference import Reference
from headgate_kernels.residual_net import ResidualNet

from .worlds import (
    CLASSES,
    ONE_RUN,
    assert_same,
    linear,
    linear_without_bias,
    tanh_net,
    task_of,
    tiny_convolution,
    with_triton,
    world,
)

ON_CUDA = torch.device("cuda")


def sigmoid_net():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(72, 7), nn.Sigmoid(), nn.Linear(7, CLASSES)
    )


@cache
def shipped(name):
    """The task's model, shape and classes."""
    shape = (3, 32, 32) if name == "resnet9" else (1, 28, 28)
    return build_model(MODEL.kinds[name](), shape, 10), shape, 10


@pytest.mark.parametrize(
    ("model", "training", "expected"),
    [
        (linear, {}, "gram"),
        (linear_without_bias, {"momentum": 0.9, "weight_decay": 0.1}, "gram"),
        (linear, {"batch_size": 4}, "compiled"),
        (tanh_net, {"weight_decay": 0.1}, "compiled"),
        (sigmoid_net, {}, "flat"),
        ("lenet", {}, "compiled"),
        ("resnet9", {}, "flat"),
        ("logistic", {}, "gram"),
    ],
)
def test_on_the_cpu_the_fastest_that_fits_is_chosen_or_the_one_that_is_named(
    model, training, expected
):
    task = task_of(*(shipped(model) if isinstance(model, str) else [model()]))
    assert choose(task, LocalTraining(0.1, 1, **training)).name == expected
    for name in ("reference", "flat"):
        assert choose(task, LocalTraining(0.1, 1, **training), name).name == name


@pytest.mark.parametrize(
    ("model", "precision", "training", "expected"),
    [
        pytest.param(linear, "float32", {}, ("triton", False), marks=with_triton),
        pytest.param(tanh_net, "float32", {}, ("triton", False), marks=with_triton),
        (tiny_convolution, "float32", {}, ("batched", False)),
        (tiny_convolution, "float32", {"batch_size": 4}, ("flat", False)),
        pytest.param("resnet9", "auto", {}, ("triton", True), marks=with_triton),
        pytest.param("resnet9", "bfloat16", {}, ("triton", True), marks=with_triton),
        ("resnet9", "auto", {"batch_size": 4}, ("streams", True)),
        ("resnet9", "float32", {}, ("streams", False)),
        ("lenet", "bfloat16", {}, ("streams", True)),
        pytest.param("lenet", "auto", {}, ("triton", False), marks=with_triton),
        ("lenet", "auto", {"batch_size": 4}, ("flat", False)),
        ("lenet", "float64", {}, ("batched", False)),
    ],
)
def test_on_cuda_the_model_and_its_precision_decide(
    model, precision, training, expected, monkeypatch
):
    """Small models go together. With `auto` bfloat16 is taken where an executor does it
    faster.
    """
    seen = []
    for (
        each
    ) in SHIPPED:  # executors are chosen and not made, as there may be no such device
        monkeypatch.setattr(
            find(each), "__init__", lambda executor, task: seen.append(task)
        )
    monkeypatch.setattr(ResidualNet, "to", lambda net, device: net)
    made = shipped(model) if isinstance(model, str) else [model()]
    dtype = torch.float64 if precision == "float64" else torch.float32
    plain, coarse = (
        task_of(*made, device=ON_CUDA, dtype=dtype, bfloat16=short)
        for short in (False, True)
    )
    given = {"bfloat16": (coarse, None), "auto": (coarse, plain)}.get(
        precision, (plain, None)
    )
    chosen = choose(given[0], LocalTraining(0.1, 1, **training), or_else=given[1])
    assert (chosen.name, seen[0].bfloat16) == expected


@pytest.mark.parametrize(
    ("name", "task", "training", "refusal"),
    [
        (
            "fast",
            {},
            {},
            f"--executor fast: must be auto, {', '.join(SHIPPED)}, or module:Class",
        ),
        (
            "gram",
            {"model": tanh_net()},
            {},
            "--executor gram: the model must be exactly a Flatten and a Linear",
        ),
        (
            "gram",
            {},
            {"batch_size": 4},
            "--executor gram: full-batch only, training.batch_size = 4",
        ),
        (
            "gram",
            {"device": ON_CUDA},
            {},
            "--executor gram: only on the CPU, the device is cuda",
        ),
        (
            "batched",
            {},
            {"batch_size": 4},
            "--executor batched: full-batch only, training.batch_size = 4",
        ),
        (
            "batched",
            {"bfloat16": True, "device": ON_CUDA},
            {},
            "training.dtype = bfloat16: --executor batched does not do it",
        ),
        (
            "triton",
            {},
            {},
            (
                "--executor triton: needs (CUDA, the device is cpu|triton, which is not"
                " installed)"
            ),
        ),
        (
            "os:path",
            {},
            {},
            "--executor = os:path: must be a class, a subclass of Executor",
        ),
        ("nowhere:Own", {}, {}, ".*module nowhere cannot be imported.*"),
    ],
)
def test_an_executor_that_does_not_fit_is_refused(name, task, training, refusal):
    with pytest.raises(SettingError) as raised:
        choose(
            task_of(**{"model": linear(), **task}),
            LocalTraining(0.1, 1, **training),
            name,
        )
    assert re.fullmatch(refusal, str(raised.value))


def test_one_of_another_package_comes_in_by_its_entry_point(monkeypatch):
    class Quick(Reference):
        name = "quick"

        @classmethod
        def cost(cls, task, training):
            return None if training.batch_size else 0.001

    own = EntryPoint("quick", f"{__name__}:QUICK", executors.GROUP)
    monkeypatch.setattr(
        executors,
        "entry_points",
        lambda group: [own] if group == executors.GROUP else [],
    )
    monkeypatch.setattr(
        EntryPoint,
        "load",
        lambda entry, load=EntryPoint.load: Quick if entry is own else load(entry),
    )
    task = task_of(linear())
    assert choose(task, LocalTraining(0.1, 1)).name == "quick"
    assert choose(task, LocalTraining(0.1, 1, batch_size=2)).name == "compiled"
    with pytest.raises(
        SettingError,
        match=r"^--executor quick: cannot train this model with these settings$",
    ):
        choose(task, LocalTraining(0.1, 1, batch_size=2), "quick")


def test_only_a_flatten_and_a_linear_are_linear():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    assert is_linear(build_model(Logistic(), (1, 8, 8), 10))
    assert not is_linear(nn.Sequential(nn.Flatten(), Scaled(72, 4)))
    assert not is_linear(nn.Sequential(nn.Flatten(2), nn.Linear(36, 4)))
    assert not is_linear(
        nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.Softmax(dim=1))
    )
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
    with pytest.raises(
        SettingError,
        match=(
            r"^--executor batched: the model does not run under torch.func.vmap .*:"
            r" take flat$"
        ),
    ):
        choose(case.task, LocalTraining(0.1, 1), "batched")
    training = LocalTraining(0.1, 3)
    assert_same(
        case.advance(choose(case.task, training), training),
        case.advance(Reference(case.task), training),
        case.theta,
    )
