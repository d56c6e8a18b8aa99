"""Clients on streams, as far as they can be followed without CUDA; and evaluation."""

import copy
import warnings

import torch
from torch import nn

from headgate.learning.local import LocalTraining
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.streams import CudaStreams
from headgate.simulation.nets import Evaluator

from .worlds import THREE_RUNS, assert_same, pooled_net, tiny_convolution, world


def assert_as_reference(executor, case, training):
    given, judged = (case.advance(each, training) for each in (executor, Reference(case.task)))
    assert_same(given, judged, case.theta)
    assert torch.equal(given[0][1], case.theta[1])


def test_streams_go_on_without_a_compiler_and_say_so():
    case = world(tiny_convolution(), THREE_RUNS)
    executor = CudaStreams(case.task, compiled=False)

    def fails(*_):
        raise NotImplementedError("no compiler\nhere")

    executor.compiled, executor._fast_loss = True, fails
    assert_as_reference(executor, case, LocalTraining(0.3, 2))
    assert executor.note == "torch.compile given up, slower: NotImplementedError: no compiler here"


def test_that_float32_could_be_less_exact_is_no_reason_to_give_the_compiler_up():
    case = world(tiny_convolution(), THREE_RUNS)
    executor = CudaStreams(case.task, compiled=False)

    def warns(*given):
        warnings.warn("TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled.", stacklevel=2)
        return executor._loss(*given)

    executor.compiled, executor._fast_loss = True, warns
    assert_as_reference(executor, case, LocalTraining(0.3, 2))  # in tests warnings are errors
    assert executor.note is None


def test_an_executor_that_offers_logits_is_asked_for_them():
    task, theta, packed, *_ = world(pooled_net(), THREE_RUNS)
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
