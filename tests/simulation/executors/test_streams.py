"""Clients on streams and stacks batched by hand, as far as they can be followed without CUDA; and evaluation."""

import copy

import pytest
import torch
from torch import nn

from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model
from headgate.simulation.evaluate import Evaluator
from headgate.simulation.executors import Task
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.stacks import read_stack
from headgate.simulation.executors.streams import CudaStreams

from .worlds import assert_same, world

SIZES = [[3, 0, 1, 5, 9], [0, 0, 0, 0, 0], [1, 2, 0, 9, 4]]


def pooled():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2, bias=False), nn.Tanh(),
        nn.Flatten(), nn.Linear(16, 5, bias=False), nn.Sigmoid(), nn.Linear(5, 4),
    )  # fmt: skip


def averaged():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.AvgPool2d(2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, 4))


def assert_as_reference(executor, case, training):
    given, judged = (case.advance(each, training) for each in (executor, Reference(case.task)))
    assert_same(given, judged, case.theta)
    assert torch.equal(given[0][1], case.theta[1])


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 0.02}, {"momentum": 0.5, "batch_size": 4}])
def test_streams_do_what_the_reference_does(lanes, options):
    case = world(pooled(), SIZES)
    executor = CudaStreams(case.task, streams=lanes)
    assert_as_reference(executor, case, LocalTraining(0.3, 3, **options))
    assert executor.note is None


def test_streams_go_on_without_a_compiler_and_say_so():
    case = world(averaged(), SIZES)
    executor = CudaStreams(case.task, compiled=False)

    def fails(*_):
        raise NotImplementedError("no compiler\nhere")

    executor.compiled, executor._fast_loss = True, fails
    assert_as_reference(executor, case, LocalTraining(0.3, 2))
    assert executor.note == "torch.compile given up, slower: NotImplementedError: no compiler here"


def test_streams_leave_a_client_of_weight_0_out_even_when_it_breaks_down():
    case = world(averaged(), SIZES, dtype=torch.float32)
    case.weights[0, 1:] = 0
    after, _ = case.advance(CudaStreams(case.task), LocalTraining(1e30, 3))
    assert torch.equal(after[0], case.theta[0])


@pytest.mark.parametrize("few_shapes", [False, True])
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9, "weight_decay": 0.02}])
@pytest.mark.parametrize("model", [pooled, averaged])
def test_stacks_by_hand_do_what_the_reference_does(model, options, few_shapes):
    case = world(model(), SIZES)
    executor = Batched(case.task, few_shapes=few_shapes, by_hand=True)
    assert executor.stack is not None
    assert_as_reference(executor, case, LocalTraining(0.3, 3, **options))


def test_lenet_is_a_stack():
    task = Task(build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 10, (0.5,), (0.5,))
    stack = read_stack(task)
    assert stack is not None
    images = torch.randn(1, 3, 1, 28, 28)
    own = {name: each[None] for name, each in task.model.named_parameters()}
    torch.testing.assert_close(stack.logits(own, stack.prepared(images))[0], task.model(images[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(72, 4)),  # no convolution
        nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.Flatten(), nn.Linear(12, 4)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(48, 4)),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(27, 4)),
        nn.Sequential(nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten()), nn.Linear(48, 4)),
    ],
)
def test_all_else_is_left_to_vmap(model):
    case = world(model, SIZES)
    assert read_stack(case.task) is None
    executor = Batched(case.task, by_hand=True)
    assert executor.stack is None
    assert_as_reference(executor, case, LocalTraining(0.3, 2))


def test_an_executor_that_offers_logits_is_asked_for_them():
    task, theta, packed, *_ = world(pooled(), SIZES)
    expected = Evaluator(task, packed.images, packed.labels)(theta)
    asked = []

    class Offers:
        def logits(self, theta, images):
            asked.append(len(images))
            models = []
            for vector in theta:
                model = copy.deepcopy(task.model).double()
                nn.utils.vector_to_parameters(vector, model.parameters())
                models.append(model(task.normalised(images)))
            return torch.stack(models)

    given = Evaluator(task, packed.images, packed.labels, Offers())(theta)
    assert asked == [len(packed.labels)]
    for mine, theirs in zip(given, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=0)
    assert Evaluator(task, packed.images, packed.labels, Reference(task)).judging is None
