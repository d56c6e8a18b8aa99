"""The executors for CUDA against the reference, on a GPU."""

from functools import cache

import pytest
import torch
from torch import nn

from headgate.learning.architectures import Residual
from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model
from headgate.simulation.executors import choose
from headgate.simulation.executors.reference import Reference
from headgate.simulation.nets import Evaluator

from .worlds import FITTING, THREE_RUNS, assert_same, block, with_triton, world

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.filterwarnings(
        "ignore:.*torch.jit:DeprecationWarning"
    ),  # torch's compiler still uses it itself
]
SIZES = [[3, 0, 1, 5, 9], [0, 0, 0, 0, 0], [1, 2, 0, 9, 4]]


def residual_net():
    return nn.Sequential(
        block(3, 32, 16), nn.MaxPool2d(2), block(32, 64, 16), nn.MaxPool2d(2),
        Residual(block(64, 64, 16), block(64, 64, 16)), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def lenet():
    return build_model(LeNet(), (1, 28, 28), 10)


@cache
def a_world(make, seed, bfloat16=False):
    shape = (3, 16, 16) if make is residual_net else (1, 28, 28)
    half = (0.5,) * shape[0]
    options = {
        "spread": 0.02,
        "about": True,
        "device": "cuda",
        "bfloat16": bfloat16,
        "mean": half,
        "std": half,
    }
    return world(make(), SIZES, shape, 10, torch.float32, seed=seed, **options)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.01)])
@pytest.mark.parametrize(
    ("name", "make", "lr", "bfloat16", "tolerance"),
    [
        pytest.param("triton", residual_net, 0.02, False, 1e-3, marks=with_triton),
        pytest.param("triton", residual_net, 0.02, True, 0.15, marks=with_triton),
        pytest.param("triton", lenet, 0.05, False, 1e-4, marks=with_triton),
        ("streams", residual_net, 0.02, False, 1e-3),
        ("streams", residual_net, 0.02, True, 0.3),
    ],
)
def test_nets_as_the_reference(name, make, lr, bfloat16, tolerance, momentum, decay):
    training = LocalTraining(lr, 3, momentum, decay)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    executor = None
    for seed in range(3):  # what was recorded is played for other data
        case = a_world(make, seed, bfloat16)
        executor = executor or choose(case.task, training, name)
        after, loss = case.advance(executor, training)
        again, _ = case.advance(executor, training)
        expected, expected_loss = case.advance(Reference(case.task), training)
        assert (after - expected).norm() <= tolerance * (expected - case.theta).norm()
        torch.testing.assert_close(
            loss, expected_loss, rtol=max(tolerance / 10, 1e-5), atol=0, equal_nan=True
        )
        assert torch.equal(after, again)
        assert torch.equal(after[1], case.theta[1])
        if make is lenet:
            assert torch.equal(
                case.run(2).advance(choose(case.task, training, name), training)[0][0],
                after[2],
            )
    assert getattr(executor, "note", None) is None


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("make", "model"),
    [
        each
        for each in FITTING
        if "batched" in each.id or each.id in ("reference", "flat", "streams")
    ],
)
def test_what_torch_alone_does_is_as_on_the_cpu(make, model, momentum, weighed):
    training = LocalTraining(0.3, 5, momentum)
    executor = None
    for seed in range(
        4
    ):  # the second time a shape comes it is recorded, from then on it is played
        case = world(model(), THREE_RUNS, seed=seed).weighed(weighed)
        there = world(case.task.model, THREE_RUNS, seed=seed, device="cuda")
        there = there.weighed(weighed)
        executor = executor or make(there.task)
        after, loss = there.advance(executor, training)
        assert_same(
            (after.cpu(), loss.cpu()),
            case.advance(Reference(case.task), training),
            case.theta,
        )
    assert getattr(executor, "note", None) is None


@with_triton
@pytest.mark.parametrize(
    ("make", "tolerance", "wrong"), [(lenet, 1e-5, 0), (residual_net, 1e-4, 1)]
)
def test_evaluation_is_that_of_the_model(make, tolerance, wrong):
    task, theta, packed, *_ = a_world(make, 0)
    executor = choose(task, LocalTraining(0.1, 1), "triton")
    own = Evaluator(task, packed.images, packed.labels, executor)(theta)
    plain = Evaluator(task, packed.images, packed.labels)(theta)
    torch.testing.assert_close(own[1], plain[1], rtol=tolerance, atol=0)
    assert (own[0] - plain[0]).abs().max() <= wrong / len(packed.labels)
