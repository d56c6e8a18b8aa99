"""Clients on streams, as far as they can be followed without CUDA; and evaluation."""

import copy
import warnings

import pytest
import torch
from torch import nn

from headgate.learning.local import LocalTraining
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.streams import CudaStreams
from headgate.simulation.nets import Evaluator

from .worlds import THREE_RUNS, assert_same, pooled_net, tiny_convolution, world

GIVEN_UP = "torch.compile given up, slower: NotImplementedError: no compiler here"


@pytest.mark.parametrize("note", [GIVEN_UP, None])
def test_streams_go_on_without_a_compiler_and_say_so_and_that_float32_could_be_less_exact_is_no_reason(note):
    case, training = world(tiny_convolution(), THREE_RUNS), LocalTraining(0.3, 2)
    executor = CudaStreams(case.task, compiled=False)

    def loss(*given):
        if note:
            raise NotImplementedError("no compiler\nhere")
        warnings.warn("TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled.", stacklevel=2)
        return executor._loss(*given)

    executor.compiled, executor._fast_loss = True, loss
    given, judged = (case.advance(each, training) for each in (executor, Reference(case.task)))
    assert_same(given, judged, case.theta)  # in tests warnings are errors
    assert torch.equal(given[0][1], case.theta[1])
    assert executor.note == note


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
