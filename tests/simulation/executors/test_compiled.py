"""The compiled executor against the reference."""

from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from headgate.kernels.compiled import Compiled
from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Task

from .compiled_nets import (
    COLOUR,
    GREY,
    averaged,
    like_lenet,
    one_layer,
    wide_rows,
    wide_windows,
    without_convolution,
    without_linear,
)
from .worlds import CLASSES, ONE_RUN, THREE_RUNS, assert_same, world

pytest.importorskip("numba")


def check(case, training, tolerance=1e-9):
    given, judged = (case.advance(make(case.task), training) for make in (Compiled, Reference))
    assert_same(given, judged, case.theta, tolerance)


@pytest.mark.parametrize(("momentum", "decay", "steps"), [(0.0, 0.0, 1), (0.0, 0.03, 4), (0.8, 0.0, 4), (0.8, 0.03, 5)])
@pytest.mark.parametrize("sizes", [ONE_RUN, THREE_RUNS], ids=["one run", "three runs"])
@pytest.mark.parametrize("shape", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("model", [like_lenet, averaged, wide_windows, without_convolution, one_layer])
def test_it_does_what_the_reference_does(model, shape, sizes, momentum, decay, steps):
    check(world(model(shape[0]), sizes, shape), LocalTraining(0.1, steps, momentum, decay))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (3, 32, 32)])
def test_lenet(shape):
    sizes = [[1, 0, 9, 2, 25]]
    case = world(build_model(LeNet(), shape, 10), sizes, shape, 10, spread=0.06)
    check(case, LocalTraining(0.05, 3, momentum=0.5))


def without_biases():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, bias=False), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 5, bias=False), nn.ReLU(), nn.Linear(5, CLASSES),
    )  # fmt: skip


def many_channels():
    """More outputs than are done at once, kernels of even sides, and an edge that no window takes."""
    return nn.Sequential(
        nn.Conv2d(1, 9, 4, padding=2), nn.ReLU(), nn.MaxPool2d(3), nn.Conv2d(9, 27, 2, padding=1), nn.ReLU(),
        nn.Conv2d(27, 1, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2, CLASSES),
    )  # fmt: skip


def large_kernels():
    """Wider than what they see but for the padding; tanh and pooling by themselves."""
    return nn.Sequential(
        nn.MaxPool2d(2), nn.Conv2d(1, 5, 7, padding=3), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(5, 6, 5, padding=3),
        nn.AvgPool2d(2), nn.ReLU(), nn.Flatten(), nn.Tanh(), nn.Linear(24, CLASSES),
    )  # fmt: skip


def seen_together():
    """Convolutions that take two and four pixels as one with more outputs, the first in two groups."""
    return nn.Sequential(
        nn.Conv2d(1, 14, 9, padding=4), nn.ReLU(), nn.Conv2d(14, 1, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(4, CLASSES),
    )  # fmt: skip


def named_layers():
    return nn.Sequential(OrderedDict(seen=nn.Conv2d(1, 3, 3), flat=nn.Flatten(), said=nn.Linear(48, CLASSES)))


def one_activation_for_all():
    bent = nn.Tanh()
    return nn.Sequential(nn.Conv2d(1, 3, 3), bent, nn.Flatten(), nn.Linear(48, 5), bent, nn.Linear(5, CLASSES))


OTHERS = [
    (wide_rows, (1, 18, 17)),
    (named_layers, (1, 6, 6)),
    (one_activation_for_all, (1, 6, 6)),
    (seen_together, (1, 9, 8)),
    (without_biases, (1, 13, 12)),
    (many_channels, (1, 10, 7)),
    (large_kernels, (1, 9, 11)),
    (without_linear, (1, 6, 4)),
]


@pytest.mark.parametrize(("model", "shape"), OTHERS)
def test_nets_of_other_shapes(model, shape):
    check(world(model(), [[3, 0, 1, 14, 6]], shape), LocalTraining(0.1, 3, momentum=0.6, weight_decay=0.01), tolerance=1e-10)


@pytest.mark.parametrize(("model", "shape"), [(averaged, GREY), (wide_rows, (1, 18, 17)), (without_convolution, GREY)])
@pytest.mark.parametrize(("batch_size", "momentum", "decay"), [(7, 0.0, 0.0), (8, 0.9, 0.01), (1000, 0.0, 0.01)])
def test_mini_batches_are_those_of_the_reference(model, shape, batch_size, momentum, decay):
    check(world(model(), THREE_RUNS, shape), LocalTraining(0.03, 2, momentum, decay, batch_size))


@settings(max_examples=25)
@given(st.lists(st.tuples(*3 * [st.integers(0, 9)]), min_size=1, max_size=2), st.integers(1, 10), st.integers(1, 3))
def test_any_buffers_in_any_mini_batches(sizes, batch_size, epochs):
    check(world(like_lenet(), sizes, GREY), LocalTraining(0.05, epochs, momentum=0.5, batch_size=batch_size))


def test_mini_batches_follow_round_and_seed():
    case, training = world(like_lenet(), ONE_RUN, GREY), LocalTraining(0.1, 1, batch_size=3)

    def after(seed, t):
        return Compiled(case.task).advance(case.theta, case.packed, case.weights, training, [seed], t)[0]

    assert torch.equal(after(0, 1), after(0, 1))
    assert not torch.equal(after(0, 1), after(0, 2))
    assert not torch.equal(after(0, 1), after(99, 1))


def test_float32_stays_float32_and_close():
    case = world(like_lenet(), THREE_RUNS, GREY, dtype=torch.float32)
    after, loss = case.advance(Compiled(case.task), LocalTraining(0.1, 5))
    assert after.dtype == loss.dtype == torch.float32
    check(case, LocalTraining(0.1, 5, momentum=0.5), tolerance=2e-5)


@pytest.mark.parametrize("k", [2, 3])
def test_of_several_largest_the_first_is_chosen(k):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(k), nn.Flatten(), nn.Linear(2 * (6 // k) ** 2, CLASSES))
    case = world(model, ONE_RUN, GREY)
    random = torch.Generator().manual_seed(1)
    # Few values, whole weights and biases of quarters: windows are full of ties between places whose slopes differ. Sums are
    # exact, so it does not matter whether a bias is added first or last: with rounding, equals added to a bias differ.
    case.packed.images[:] = 255 * torch.randint(0, 2, case.packed.images.shape, generator=random, dtype=torch.uint8)
    case.theta[:, :18] = torch.randint(-1, 2, (1, 18), generator=random).double()
    case.theta[:, 18:20] = (4 * case.theta[:, 18:20]).round() / 4
    task = Task(model, GREY, CLASSES, (0.0,), (1.0,), torch.float64)
    check(case._replace(task=task), LocalTraining(0.1, 1))
