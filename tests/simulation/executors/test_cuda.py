"""The executors for CUDA against the reference, on a GPU."""

import pytest
import torch
from torch import nn

from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import Residual, build_model
from headgate.simulation.executors import choose
from headgate.simulation.executors.reference import Reference
from headgate.simulation.nets import Evaluator

from . import worlds
from .worlds import block, with_triton

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # torch's compiler still uses it itself
]
SIZES = [[3, 0, 1, 5, 9], [0, 0, 0, 0, 0], [1, 2, 0, 9, 4]]


def residual_net():
    return nn.Sequential(
        block(3, 32, 16), block(32, 64, 16), nn.MaxPool2d(2), Residual(block(64, 64, 16), block(64, 64, 16)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def assert_close_and_repeated(case, executor, training, tolerance, of_loss):
    (after, loss), (again, _), (expected, expected_loss) = (
        case.advance(each, training) for each in (executor, executor, Reference(case.task))
    )
    assert (after - expected).norm() <= tolerance * (expected - case.theta).norm()
    torch.testing.assert_close(loss, expected_loss, rtol=of_loss, atol=0, equal_nan=True)
    assert torch.equal(after, again)
    assert torch.equal(after[1], case.theta[1])
    return after


def world(model, shape, seed=0, bfloat16=False):
    return worlds.world(
        model, SIZES, shape, 10, torch.float32, seed=seed, spread=0.02, device="cuda", begun=True, bfloat16=bfloat16
    )


@pytest.mark.parametrize("training", [LocalTraining(0.02, 3), LocalTraining(0.02, 3, momentum=0.9, weight_decay=0.01)])
@pytest.mark.parametrize(
    ("name", "bfloat16", "tolerance"),
    [
        pytest.param("triton", False, 1e-3, marks=with_triton),
        pytest.param("triton", True, 0.15, marks=with_triton),
        ("streams", False, 1e-3),
        ("streams", True, 0.3),
    ],
)
def test_residual_nets_as_the_reference(name, bfloat16, tolerance, training):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    model, executor = residual_net(), None
    for seed in range(2):  # what was recorded is played for other data
        case = world(model, (3, 16, 16), seed, bfloat16)
        executor = executor or choose(case.task, training, name)
        assert_close_and_repeated(case, executor, training, tolerance, max(tolerance / 10, 1e-5))
    assert getattr(executor, "note", None) is None


@with_triton
@pytest.mark.parametrize("training", [LocalTraining(0.05, 3), LocalTraining(0.05, 3, momentum=0.9, weight_decay=0.01)])
def test_stacks_as_the_reference(training):
    model, executor = build_model(LeNet(), (1, 28, 28), 10), None
    for seed in range(3):  # what was recorded is played for other data
        case = world(model, (1, 28, 28), seed)
        executor = executor or choose(case.task, training)
        assert executor.name == "triton"
        after = assert_close_and_repeated(case, executor, training, 1e-4, 1e-5)
        own, _ = case.run(2).advance(choose(case.task, training), training)
        assert torch.equal(own[0], after[2])  # whoever is beside it


@with_triton
@pytest.mark.parametrize(
    ("model", "shape", "tolerance", "wrong"),
    [(build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 1e-5, 0), (residual_net(), (3, 16, 16), 1e-4, 1)],
    ids=["stack", "residual"],
)
def test_evaluation_is_that_of_the_model(model, shape, tolerance, wrong):
    task, theta, packed, *_ = world(model, shape)
    executor = choose(task, LocalTraining(0.1, 1), "triton")
    own = Evaluator(task, packed.images, packed.labels, executor)(theta)
    plain = Evaluator(task, packed.images, packed.labels)(theta)
    torch.testing.assert_close(own[1], plain[1], rtol=tolerance, atol=0)
    assert (own[0] - plain[0]).abs().max() <= wrong / len(packed.labels)
