"""Every executor against the reference."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headgate.learning.datasets import BYTE
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import BIN
from headgate.simulation.executors.reference import Reference
from headgate_kernels.batched import Batched
from headgate_kernels.compiled import Compiled

from .worlds import (
    ALIKE_ONLY,
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
    "batched, few shapes": [tanh_net, tiny_convolution],
    "batched, little memory": [tanh_net],
    "compiled": [tanh_net, pooled_net],  # more of its nets are in test_compiled.py
    "streams": [tanh_net, pooled_net],
}
BUFFERS = {"one run": ONE_RUN, "three runs": THREE_RUNS}
IN_BATCHES = ("flat", "compiled", "streams")
TRAININGS = [
    *(
        LocalTraining(0.1, steps, momentum, decay)
        for steps in (1, 5)
        for momentum in (0.0, 0.8)
        for decay in (0.0, 0.03)
    ),
    *(
        LocalTraining(0.03, 3, momentum=0.9, weight_decay=0.01, batch_size=size)
        for size in (1, 3, 8, 1000)
    ),
]
OF_WEIGHED = [
    LocalTraining(0.3, 4, 0.0, 0.1),
    LocalTraining(0.3, 4, 0.8, 0.1),
    LocalTraining(0.1, 2, 0.5, 0.02, batch_size=3),
]
"""for samples with weights of their own"""
CASES = [
    *((kind, training, False) for kind in MODELS for training in TRAININGS),
    *(
        (kind, training, True)
        for kind in MODELS
        if kind not in ALIKE_ONLY
        for training in OF_WEIGHED
    ),
]
CASES = [
    (kind, training, weighed)
    for kind, training, weighed in CASES
    if training.batch_size is None or kind in IN_BATCHES
]


@cache
def judged(model, buffers, training, weighed):
    """A world and what the reference makes of it: the same for all executors, which
    leave their arguments alone.
    """
    case = world(model(), BUFFERS[buffers]).weighed(weighed)
    return case, case.advance(Reference(case.task), training)


@pytest.mark.parametrize("buffers", BUFFERS)
@pytest.mark.parametrize(("kind", "training", "weighed"), CASES, ids=str)
def test_executors_do_what_the_reference_does(kind, training, weighed, buffers):
    for model in MODELS[kind] if training.batch_size is None else [tanh_net]:
        case, expected = judged(model, buffers, training, weighed)
        assert_same(
            case.advance(KINDS[kind](case.task), training), expected, case.theta
        )


@pytest.mark.parametrize("unit", [BYTE, 1.0], ids=["bytes", "features"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-9)], ids=str
)
@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("gram", linear),
        ("compiled", pooled_net),
        ("flat", tiny_convolution),
        ("batched", tiny_convolution),
    ],
)
def test_samples_of_both_kinds_in_both_precisions(kind, model, dtype, tolerance, unit):
    case, training = (
        world(model(), THREE_RUNS, dtype=dtype, unit=unit),
        LocalTraining(0.1, 5),
    )
    before = case.packed.images.clone()
    given, judged = (
        case.advance(make(case.task), training) for make in (KINDS[kind], Reference)
    )
    assert given[0].dtype == given[1].dtype == dtype
    assert_same(given, judged, case.theta, tolerance)
    assert torch.equal(case.packed.images, before)
    others = before.to(torch.float32 if unit == BYTE else torch.uint8)
    with pytest.raises(ValueError, match=r"images are .*, must be"):
        case._replace(packed=case.packed._replace(images=others)).advance(
            KINDS[kind](case.task), training
        )


@pytest.mark.parametrize("make", [FlatLoop, Compiled])
def test_mini_batches_follow_round_and_seed(make):
    case = world(tanh_net(), ONE_RUN)
    training = LocalTraining(0.1, 1, batch_size=3)
    first = case.advance(make(case.task), training, t=1)[0]
    assert torch.equal(first, case.advance(make(case.task), training, t=1)[0])
    assert not torch.equal(first, case.advance(make(case.task), training, t=2)[0])
    assert not torch.equal(
        first, case._replace(seeds=[99]).advance(make(case.task), training, t=1)[0]
    )


@st.composite
def trainings(draw, kind):
    """Any that the executor does; in mini-batches by small steps, for there are
    many.
    """
    batch_size = draw(st.none() | st.integers(1, 10)) if kind in IN_BATCHES else None
    return LocalTraining(
        lr=0.2 if batch_size is None else 0.02,
        steps=draw(st.integers(1, 4)),
        momentum=draw(st.sampled_from([0.0, 0.9])),
        weight_decay=draw(st.sampled_from([0.0, 0.2])),
        batch_size=batch_size,
    )


@pytest.mark.parametrize(
    ("kind", "most"),
    [("gram", 2 * BIN), ("batched", 2 * BIN), ("flat", 12), ("compiled", 12)],
)
@given(st.data(), st.integers(1, 3), st.integers(1, 6))
@settings(max_examples=25)
def test_any_buffers_in_any_settings(kind, most, data, runs, clients):
    size = st.integers(0, 6) | st.integers(0, most)
    sizes = [[data.draw(size) for _ in range(clients)] for _ in range(runs)]
    case = world(
        data.draw(st.sampled_from(MODELS[kind]))(),
        sizes,
        seed=data.draw(st.integers(0, 3)),
    )
    case = case.weighed(kind not in ALIKE_ONLY and data.draw(st.booleans()))
    training = data.draw(trainings(kind))
    executor = KINDS[kind](case.task)
    if kind == "batched":
        executor = Batched(
            case.task,
            data.draw(st.sampled_from([1, 200_000, 1 << 29])),
            few_shapes=data.draw(st.booleans()),
        )
    assert_same(
        case.advance(executor, training),
        case.advance(Reference(case.task), training),
        case.theta,
    )


def test_parameters_that_share_memory_are_one_and_those_unused_stay():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.unused, self.last = (
                nn.Linear(72, 5),
                nn.Linear(3, 2),
                nn.Linear(72, CLASSES),
            )
            self.twice = self.first

        def forward(self, x):
            x = x.flatten(1)
            return (
                self.last(x)
                + torch.tanh(self.first(x) + 2 * self.twice(x)).sum(dim=1, keepdim=True)
                * x[:, :CLASSES]
            )

    case = world(Odd(), ONE_RUN)
    assert case.task.flat.size == 72 * 5 + 5 + 3 * 2 + 2 + 72 * CLASSES + CLASSES
    training = LocalTraining(0.1, 4, momentum=0.5)
    with_reference = case.advance(Reference(case.task), training)
    for make in (FlatLoop, Batched):
        given = case.advance(make(case.task), training)
        assert_same(given, with_reference, case.theta)
        unused = slice(72 * 5 + 5, 72 * 5 + 5 + 3 * 2 + 2)
        assert torch.equal(given[0][:, unused], case.theta[:, unused])
