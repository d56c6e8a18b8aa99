"""What is recorded and compiled for CUDA, as far as it can be followed without a GPU;
test_cuda.py needs one.
"""

import gc
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch

from headgate.learning.local import LocalTraining
from headgate.simulation.executors.reference import Reference
from headgate_kernels import batched
from headgate_kernels.batched import Batched
from headgate_kernels.cuda_graphs import recording
from headgate_kernels.streams import CudaStreams

from .worlds import ONE_RUN, THREE_RUNS, assert_same, tanh_net, tiny_convolution, world


class Played:
    """Stands in for a recording: the same promise (inputs copied, outputs overwritten),
    no CUDA.
    """

    made = 0

    def __init__(self, function, inputs, pool):
        Played.made += 1
        self.function, self.inputs, self.outputs = (
            function,
            tuple(value.clone() for value in inputs),
            None,
        )

    def __call__(self, inputs):
        for place, value in zip(self.inputs, inputs, strict=True):
            place.copy_(value)
        outputs = self.function(self.inputs)
        if self.outputs is None:
            self.outputs = outputs
        for place, value in zip(self.outputs, outputs, strict=True):
            place.copy_(value)
        return self.outputs


def test_shapes_that_come_back_are_recorded_and_played(monkeypatch):
    monkeypatch.setattr(batched, "_Recorded", Played)
    monkeypatch.setattr(batched, "GRAPHS", 2)
    monkeypatch.setattr(Played, "made", 0)
    case = world(tiny_convolution(), THREE_RUNS)
    executor = Batched(case.task, few_shapes=True)
    executor.graphs, executor.overhead = True, 0.0
    training = LocalTraining(0.3, 3, momentum=0.5)
    made = []
    for seed in range(4):
        other = world(tiny_convolution(), THREE_RUNS, seed=seed)
        judged = other.advance(Reference(other.task), training)
        assert_same(other.advance(executor, training), judged, other.theta)
        made.append(Played.made)
    shapes = len(
        {
            (rows.shape)
            for (_, rows, _), _ in executor._groups(
                case.packed.offsets, np.arange(15)[np.ravel(THREE_RUNS) > 0]
            )
        }
    )
    assert shapes > 2
    assert made == [
        0,
        shapes,
        2 * shapes,
        3 * shapes,
    ]  # more shapes than are kept: each drives out another
    assert len(executor._recorded) == 2
    assert executor.note is None


def test_when_recording_fails_it_goes_on_without_and_says_so(monkeypatch):
    def fails(*_):
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    monkeypatch.setattr(batched, "_Recorded", fails)
    case = world(tanh_net(), ONE_RUN)
    executor = Batched(case.task)
    executor.graphs = True
    training = LocalTraining(0.3, 3)
    for _ in range(3):
        assert_same(
            case.advance(executor, training),
            case.advance(Reference(case.task), training),
            case.theta,
        )
    assert (
        executor.note
        == "CUDA graphs given up, slower: operation not permitted when stream is"
        " capturing"
    )


@pytest.mark.parametrize("collecting", [True, False])
def test_no_garbage_is_collected_while_recording(monkeypatch, collecting):
    seen = []

    @contextmanager
    def graph(made, **where):
        seen.append((made, where, gc.isenabled()))
        yield

    monkeypatch.setattr(torch.cuda, "graph", graph)
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        with (
            pytest.raises(RuntimeError, match="a step fails"),
            recording("a graph", pool="a pool"),
        ):
            raise RuntimeError("a step fails")
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [("a graph", {"pool": "a pool"}, False)]


def refuses(*_):
    raise NotImplementedError("no compiler\nhere")


def warns(executor, *given):
    """That float32 could be less exact is no reason to give the compiler up; in tests
    warnings are errors.
    """
    warnings.warn(
        "TensorFloat32 tensor cores for float32 matrix multiplication available but not"
        " enabled.",
        stacklevel=2,
    )
    return executor._loss(*given)


@pytest.mark.parametrize(
    ("does", "note"),
    [
        (
            refuses,
            "torch.compile given up, slower: NotImplementedError: no compiler here",
        ),
        (warns, None),
    ],
    ids=["refuses", "warns"],
)
def test_streams_go_on_where_a_compiler_refuses_and_say_so(does, note):
    case = world(tiny_convolution(), THREE_RUNS)
    executor, training = CudaStreams(case.task, compiled=False), LocalTraining(0.3, 2)
    executor.compiled, executor._fast_loss = True, partial(does, executor)
    assert_same(
        case.advance(executor, training),
        case.advance(Reference(case.task), training),
        case.theta,
    )
    assert executor.note == note
