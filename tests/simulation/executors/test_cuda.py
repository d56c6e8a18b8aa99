"""The executors for CUDA against the reference, on a GPU."""

import numpy as np
import pytest
import torch
from torch import nn

from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import Residual, build_model
from headgate.simulation.executors import RaggedBatch, choose
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Task
from headgate.simulation.nets import Evaluator

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


def world(model, shape, seed=0, bfloat16=False, dtype=torch.float32):
    random = torch.Generator().manual_seed(seed)
    counts = np.array(SIZES)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    images = torch.randint(0, 256, (int(offsets[-1]), *shape), dtype=torch.uint8, generator=random)
    labels = torch.randint(0, 10, (len(images),), generator=random)
    half, device = (0.5,) * shape[0], torch.device("cuda")
    task = Task(model, shape, 10, half, half, dtype, device, bfloat16)
    start = task.flat.vector(dict(model.named_parameters()))
    theta = start + 0.02 * torch.randn(len(counts), task.flat.size, generator=random)
    weights = torch.rand(counts.shape, generator=random)
    weights[:, 0] = 0
    packed = RaggedBatch(images.cuda(), labels.cuda(), offsets)
    return task, theta.to(device, dtype), packed, weights.to(device, dtype)


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
        task, theta, packed, weights = world(model, (3, 16, 16), seed, bfloat16)
        executor = executor or choose(task, training, name)
        after, loss = executor.advance(theta, packed, weights, training, [0, 1, 2], 1)
        again, _ = executor.advance(theta, packed, weights, training, [0, 1, 2], 1)
        expected, expected_loss = Reference(task).advance(theta, packed, weights, training, [0, 1, 2], 1)
        assert (after - expected).norm() <= tolerance * (expected - theta).norm()
        torch.testing.assert_close(loss, expected_loss, rtol=max(tolerance / 10, 1e-5), atol=0, equal_nan=True)
        assert torch.equal(after, again)
        assert torch.equal(after[1], theta[1])
    assert getattr(executor, "note", None) is None


@with_triton
@pytest.mark.parametrize("training", [LocalTraining(0.05, 3), LocalTraining(0.05, 3, momentum=0.9, weight_decay=0.01)])
def test_stacks_as_the_reference(training):
    model, executor = build_model(LeNet(), (1, 28, 28), 10), None
    for seed in range(3):  # what was recorded is played for other data
        task, theta, packed, weights = world(model, (1, 28, 28), seed)
        executor = executor or choose(task, training)
        assert executor.name == "triton"
        after, loss = executor.advance(theta, packed, weights, training, [0, 1, 2], 1)
        again, _ = executor.advance(theta, packed, weights, training, [0, 1, 2], 1)
        expected, expected_loss = Reference(task).advance(theta, packed, weights, training, [0, 1, 2], 1)
        assert (after - expected).norm() <= 1e-4 * (expected - theta).norm()
        torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=0, equal_nan=True)
        assert torch.equal(after, again)
        assert torch.equal(after[1], theta[1])
        clients = weights.shape[1]
        first, last = packed.offsets[2 * clients], packed.offsets[-1]
        alone = RaggedBatch(packed.images[first:last], packed.labels[first:last], packed.offsets[2 * clients :] - first)
        own, _ = choose(task, training).advance(theta[2:], alone, weights[2:], training, [2], 1)
        assert torch.equal(own[0], after[2])  # whoever is beside it


@with_triton
@pytest.mark.parametrize(
    ("model", "shape", "tolerance", "wrong"),
    [(build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 1e-5, 0), (residual_net(), (3, 16, 16), 1e-4, 1)],
    ids=["stack", "residual"],
)
def test_evaluation_is_that_of_the_model(model, shape, tolerance, wrong):
    task, theta, packed, _ = world(model, shape)
    executor = choose(task, LocalTraining(0.1, 1), "triton")
    own = Evaluator(task, packed.images, packed.labels, executor)(theta)
    plain = Evaluator(task, packed.images, packed.labels)(theta)
    torch.testing.assert_close(own[1], plain[1], rtol=tolerance, atol=0)
    assert (own[0] - plain[0]).abs().max() <= wrong / len(packed.labels)
