"""Every executor against the reference."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headgate.kernels.compiled import Compiled
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import BIN, Gram
from headgate.simulation.executors.reference import Reference

from .worlds import (
    CLASSES,
    KINDS,
    ONE_RUN,
    THREE_RUNS,
    assert_same,
    linear,
    linear_without_bias,
    pooled_net,
    tanh_net,
    tiny_convolution,
    world,
)

MODELS = {
    "gram": [linear, linear_without_bias],
    "flat": [linear, linear_without_bias, tanh_net, tiny_convolution],
    "batched": [linear, tanh_net, tiny_convolution],
    "batched, few shapes": [tiny_convolution],
    "batched, little memory": [tanh_net],
    "streams": [pooled_net],
}
CASES = [
    pytest.param(kind, model, decay, id=f"{kind}-{model.__name__}-{decay}")
    for kind, models in MODELS.items()
    for model in models
    for decay in (0.0, 0.03)
]


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("sizes", [ONE_RUN, THREE_RUNS], ids=["one run", "three runs"])
@pytest.mark.parametrize(("kind", "model", "decay"), CASES)
def test_executors_do_what_the_reference_does(kind, model, decay, sizes, steps, momentum):
    case = world(model(), sizes)
    training = LocalTraining(0.1, steps, momentum, decay)
    assert_same(case.advance(KINDS[kind](case.task), training), case.advance(Reference(case.task), training), case.theta)


@pytest.mark.parametrize(
    ("kind", "model"),
    [("gram", linear), ("compiled", pooled_net), ("flat", tiny_convolution), ("batched", tiny_convolution)],
)
def test_float32_stays_float32_and_close(kind, model):
    case = world(model(), THREE_RUNS, dtype=torch.float32)
    given, judged = (case.advance(make(case.task), LocalTraining(0.1, 5)) for make in (KINDS[kind], Reference))
    assert given[0].dtype == given[1].dtype == torch.float32
    assert_same(given, judged, case.theta, tolerance=2e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 1000])
@pytest.mark.parametrize("kind", ["flat", "streams"])
def test_mini_batches_are_those_of_the_reference(kind, batch_size):
    case = world(tanh_net(), THREE_RUNS)
    training = LocalTraining(0.03, 3, momentum=0.9, weight_decay=0.01, batch_size=batch_size)
    assert_same(case.advance(KINDS[kind](case.task), training), case.advance(Reference(case.task), training), case.theta)


@pytest.mark.parametrize("make", [FlatLoop, Compiled])
def test_mini_batches_follow_round_and_seed(make):
    case = world(tanh_net(), ONE_RUN)
    training = LocalTraining(0.1, 1, batch_size=3)
    first = case.advance(make(case.task), training, t=1)[0]
    assert torch.equal(first, case.advance(make(case.task), training, t=1)[0])
    assert not torch.equal(first, case.advance(make(case.task), training, t=2)[0])
    assert not torch.equal(first, case._replace(seeds=[99]).advance(make(case.task), training, t=1)[0])


@st.composite
def ragged(draw):
    runs, clients = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    size = st.one_of(st.integers(0, 6), st.integers(0, 2 * BIN))
    return [[draw(size) for _ in range(clients)] for _ in range(runs)]


@given(ragged(), st.sampled_from([0.0, 0.9]), st.sampled_from([0.0, 0.2]), st.integers(1, 6), st.booleans(), st.integers(0, 3))
@settings(max_examples=60)
def test_gram_on_any_ragged_buffers(sizes, momentum, decay, steps, bias, seed):
    case = world(linear() if bias else linear_without_bias(), sizes, seed=seed)
    training = LocalTraining(0.5, steps, momentum, decay)
    judged = case.advance(Reference(case.task), training)
    assert_same(case.advance(Gram(case.task), training), judged, case.theta)


@given(ragged(), st.booleans(), st.sampled_from([1, 200_000, 1 << 29]))
@settings(max_examples=15)
def test_batched_on_any_ragged_buffers(sizes, few_shapes, memory):
    case = world(tanh_net(), sizes)
    training = LocalTraining(0.5, 2)
    executor = Batched(case.task, memory, few_shapes)
    assert_same(case.advance(executor, training), case.advance(Reference(case.task), training), case.theta)


def test_parameters_that_share_memory_are_one_and_those_unused_stay():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.unused, self.last = nn.Linear(72, 5), nn.Linear(3, 2), nn.Linear(72, CLASSES)
            self.twice = self.first

        def forward(self, x):
            x = x.flatten(1)
            return self.last(x) + torch.tanh(self.first(x) + 2 * self.twice(x)).sum(dim=1, keepdim=True) * x[:, :CLASSES]

    case = world(Odd(), ONE_RUN)
    assert case.task.flat.size == 72 * 5 + 5 + 3 * 2 + 2 + 72 * CLASSES + CLASSES
    training = LocalTraining(0.1, 4, momentum=0.5)
    with_reference = case.advance(Reference(case.task), training)
    for make in (FlatLoop, Batched):
        given = case.advance(make(case.task), training)
        assert_same(given, with_reference, case.theta)
        unused = slice(72 * 5 + 5, 72 * 5 + 5 + 3 * 2 + 2)
        assert torch.equal(given[0][:, unused], case.theta[:, unused])
