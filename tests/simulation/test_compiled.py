"""The compiled executor against the reference, and what it promises: bits, refusals, and when it is picked."""

import copy
import importlib.util
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.learning.models import build_model
from headgate.simulation.executors import Packed, Task, pick
from headgate.simulation.executors.compiled import Compiled
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.reference import Reference

pytest.importorskip("numba")
GREY, COLOUR, CLASSES = (1, 8, 8), (3, 8, 8), 4
MEAN, STD = (0.1, 0.4, 0.3), (0.3, 0.2, 0.25)
ONE_RUN = [[4, 0, 1, 11, 7]]
THREE_RUNS = [[3, 0, 1, 5, 40], [0, 0, 0, 0, 0], [1, 2, 0, 9, 23]]


def like_lenet(channels=1):
    """LeNet's layers in small; the second convolution's outputs and taps are odd."""
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, CLASSES),
    )  # fmt: skip


def averaged(channels=1):
    """Padding where the slope of the input is wanted, windows that leave an edge out, and an activation at the end."""
    return nn.Sequential(
        nn.Conv2d(channels, 3, 5, padding=2), nn.Tanh(), nn.AvgPool2d(3),
        nn.Conv2d(3, 2, 3, padding=1), nn.Tanh(), nn.ReLU(), nn.Flatten(), nn.Linear(8, CLASSES), nn.Tanh(),
    )  # fmt: skip


def wide_windows(channels=1):
    """Layers before the first that learns; windows of three, with an edge; and nothing between convolutions."""
    return nn.Sequential(
        nn.Tanh(), nn.ReLU(), nn.Conv2d(channels, 6, 1), nn.Conv2d(6, 2, 1), nn.MaxPool2d(3), nn.Flatten(),
        nn.Linear(8, CLASSES),
    )  # fmt: skip


class World(NamedTuple):
    task: Task
    theta: Tensor
    packed: Packed
    weights: Tensor

    def advance(self, executor, training):
        return executor.advance(self.theta, self.packed, self.weights, training, range(len(self.theta)), 3)

    def run(self, r):
        """Only run r."""
        clients, offsets = self.weights.shape[1], self.packed.offsets
        first, last = offsets[r * clients], offsets[(r + 1) * clients]
        own = offsets[r * clients : (r + 1) * clients + 1] - first
        packed = Packed(self.packed.images[first:last], self.packed.labels[first:last], own)
        return World(self.task, self.theta[r : r + 1], packed, self.weights[r : r + 1])


def world(model, sizes, shape=GREY, classes=CLASSES, dtype=torch.float64, spread=0.3):
    """Random images, labels and models; the first client's weight is 0."""
    random = torch.Generator().manual_seed(0)
    counts = np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    images = torch.randint(0, 256, (int(offsets[-1]), *shape), dtype=torch.uint8, generator=random)
    labels = torch.randint(0, classes, (len(images),), generator=random)
    weights = torch.rand(counts.shape, dtype=torch.float64, generator=random)
    weights[:, 0] = 0
    task = Task(model, shape, classes, MEAN[: shape[0]], STD[: shape[0]], dtype)
    theta = spread * torch.randn(len(counts), task.flat.size, dtype=torch.float64, generator=random)
    return World(task, theta.to(dtype), Packed(images, labels, offsets), weights.to(dtype))


def assert_same(given, judged, start, tolerance=1e-9):
    """Models agree relative to the largest change of a parameter, losses relative to themselves."""
    (after, loss), (expected, expected_loss) = given, judged
    assert (after - expected).abs().max() <= tolerance * max((expected - start).abs().max(), 1e-300)
    torch.testing.assert_close(loss, expected_loss, rtol=tolerance, atol=0, equal_nan=True)


def check(case, training, tolerance=1e-9):
    given, judged = (case.advance(make(case.task), training) for make in (Compiled, Reference))
    assert_same(given, judged, case.theta, tolerance)


# against the reference


@pytest.mark.parametrize(("momentum", "decay", "steps"), [(0.0, 0.0, 1), (0.0, 0.03, 4), (0.8, 0.0, 4), (0.8, 0.03, 5)])
@pytest.mark.parametrize("sizes", [ONE_RUN, THREE_RUNS], ids=["one run", "three runs"])
@pytest.mark.parametrize("shape", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("model", [like_lenet, averaged, wide_windows])
def test_it_does_what_the_reference_does(model, shape, sizes, momentum, decay, steps):
    check(world(model(shape[0]), sizes, shape), LocalTraining(0.1, steps, momentum, decay))


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (3, 32, 32)])
def test_lenet(shape):
    sizes = [[1, 0, 9, 2, 25]]
    case = world(build_model("lenet", shape, 10), sizes, shape, 10, spread=0.06)
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


def without_linear():
    """Logits are the pixels of two channels, which lie side by side here and one after the other in torch."""
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten())


def seen_together():
    """Convolutions that take two and four pixels as one with more outputs, the first in two groups."""
    return nn.Sequential(
        nn.Conv2d(1, 14, 9, padding=4), nn.ReLU(), nn.Conv2d(14, 1, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(4, CLASSES),
    )  # fmt: skip


def wide_rows():
    """Images of which only some rows are near at a time, and kernels too large to lie ready for each window."""
    return nn.Sequential(
        nn.Conv2d(1, 51, 3), nn.ReLU(), nn.Conv2d(51, 6, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(252, 5), nn.ReLU(), nn.Linear(5, CLASSES),
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


@pytest.mark.parametrize(("model", "shape"), [(averaged, GREY), (wide_rows, (1, 18, 17))])
@pytest.mark.parametrize(("batch_size", "momentum", "decay"), [(7, 0.0, 0.0), (8, 0.9, 0.01), (1000, 0.0, 0.01)])
def test_mini_batches_are_those_of_the_reference(model, shape, batch_size, momentum, decay):
    check(world(model(), THREE_RUNS, shape), LocalTraining(0.03, 2, momentum, decay, batch_size))


@settings(max_examples=25)
@given(st.lists(st.tuples(*3 * [st.integers(0, 9)]), min_size=1, max_size=2), st.integers(1, 10), st.integers(1, 3))
def test_any_buffers_in_any_mini_batches(sizes, batch_size, epochs):
    check(world(like_lenet(), sizes), LocalTraining(0.05, epochs, momentum=0.5, batch_size=batch_size))


def test_mini_batches_follow_round_and_seed():
    case, training = world(like_lenet(), ONE_RUN), LocalTraining(0.1, 1, batch_size=3)

    def after(seed, t):
        return Compiled(case.task).advance(case.theta, case.packed, case.weights, training, [seed], t)[0]

    assert torch.equal(after(0, 1), after(0, 1))
    assert not torch.equal(after(0, 1), after(0, 2))
    assert not torch.equal(after(0, 1), after(99, 1))


def test_float32_stays_float32_and_close():
    case = world(like_lenet(), THREE_RUNS, dtype=torch.float32)
    after, loss = case.advance(Compiled(case.task), LocalTraining(0.1, 5))
    assert after.dtype == loss.dtype == torch.float32
    check(case, LocalTraining(0.1, 5, momentum=0.5), tolerance=2e-5)


@pytest.mark.parametrize("k", [2, 3])
def test_of_several_largest_the_first_is_chosen(k):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(k), nn.Flatten(), nn.Linear(2 * (6 // k) ** 2, CLASSES))
    case = world(model, ONE_RUN)
    random = torch.Generator().manual_seed(1)
    # Few values and whole weights: windows are full of ties between places whose slopes differ.
    case.packed.images[:] = 255 * torch.randint(0, 2, case.packed.images.shape, generator=random, dtype=torch.uint8)
    case.theta[:, :18] = torch.randint(-1, 2, (1, 18), generator=random).double()
    task = Task(model, GREY, CLASSES, (0.0,), (1.0,), torch.float64)
    check(case._replace(task=task), LocalTraining(0.1, 1))


# what it promises


@pytest.mark.parametrize("batch_size", [None, 2, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_runs_together_are_runs_alone_to_the_bit(dtype, batch_size):
    case = world(like_lenet(), THREE_RUNS, dtype=dtype)
    training = LocalTraining(0.3, 5, momentum=0.5, batch_size=batch_size)
    after, loss = case.advance(Compiled(case.task), training)
    for r in range(3):
        own = case.run(r)
        alone, alone_loss = Compiled(case.task).advance(own.theta, own.packed, own.weights, training, [r], 3)
        assert torch.equal(after[r], alone[0])
        torch.testing.assert_close(loss[r], alone_loss[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_bits_do_not_hang_on_the_number_of_threads(monkeypatch, batch_size):
    seen, train = set(), Compiled._train
    monkeypatch.setattr(Compiled, "_train", lambda *given: (seen.add(threading.get_ident()), train(*given))[1])
    case = world(build_model("lenet", (1, 28, 28), 10), [[7, 0, 30, 5], [2, 11, 1, 6]], (1, 28, 28), 10, torch.float32, 0.06)
    before, given = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            given.append(case.advance(Compiled(case.task), LocalTraining(0.1, 3, batch_size=batch_size)))
            assert len(seen) == (1 if threads == 1 else 3)  # all in this thread, then in two others
    finally:
        torch.set_num_threads(before)
    assert torch.equal(given[0][0], given[1][0])
    assert torch.equal(given[0][1], given[1][1])


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(("model", "shape"), [(like_lenet, GREY), (wide_rows, (1, 18, 17))])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_has_broken_down_leaves_the_others_alone(threads, model, shape, batch_size):
    case = world(model(), [[3, 9, 2], [4, 1, 8], [2, 2, 2]], shape, spread=0.1)
    training, before = LocalTraining(0.3, 3, batch_size=batch_size), torch.get_num_threads()
    whole, whole_loss = case.advance(Compiled(case.task), training)
    broken = case.theta.clone()
    broken[1] = float("nan")
    try:
        torch.set_num_threads(threads)
        after, loss = case._replace(theta=broken).advance(Compiled(case.task), training)
    finally:
        torch.set_num_threads(before)
    assert after[1].isnan().all()
    assert loss[1].isnan()
    for r in (0, 2):
        assert torch.equal(after[r], whole[r])
        assert torch.equal(loss[r], whole_loss[r])


def test_without_samples_or_weights_a_model_stays_as_it_is():
    case = world(like_lenet(), THREE_RUNS)
    after, loss = case.advance(Compiled(case.task), LocalTraining(0.3, 5))
    assert torch.equal(after[1], case.theta[1])
    assert loss.isnan().tolist() == [False, True, False]
    # a step so large that every client that trains is lost: one of weight 0 must not count all the same
    weightless = case._replace(weights=torch.zeros_like(case.weights))
    for batch_size in (None, 4):
        training = LocalTraining(1e250, 5, momentum=0.9, batch_size=batch_size)
        unmoved, same_loss = weightless.advance(Compiled(case.task), training)
        assert torch.equal(unmoved, case.theta)
        torch.testing.assert_close(same_loss, loss, rtol=1e-12, atol=0, equal_nan=True)  # other sums of the same losses


def test_a_round_without_any_sample():
    case = world(like_lenet(), [[0, 0], [0, 0]])
    after, loss = case.advance(Compiled(case.task), LocalTraining(0.3, 5))
    assert torch.equal(after, case.theta)
    assert loss.isnan().tolist() == [True, True]


@pytest.mark.parametrize("gradients_on", [True, False])
def test_arguments_and_the_model_are_left_alone_and_nothing_is_remembered(gradients_on):
    case = world(like_lenet(), THREE_RUNS)
    executor, training = Compiled(case.task), LocalTraining(0.3, 3, momentum=0.9)
    theta, packed, weights, state = copy.deepcopy((case.theta, case.packed, case.weights, case.task.model.state_dict()))
    with torch.set_grad_enabled(gradients_on):
        first, first_loss = case.advance(executor, training)
        executor.advance(first, case.packed, case.weights, training, range(3), 4)
        again, again_loss = case.advance(executor, training)
    assert torch.equal(first, again)
    torch.testing.assert_close(first_loss, again_loss, rtol=0, atol=0, equal_nan=True)
    assert not first.requires_grad
    assert torch.equal(case.theta, theta)
    assert torch.equal(case.packed.images, packed.images)
    assert torch.equal(case.packed.labels, packed.labels)
    assert torch.equal(case.weights, weights)
    assert all(torch.equal(value, state[name]) for name, value in case.task.model.state_dict().items())


@pytest.mark.parametrize("wrong", [-100, -1, CLASSES])
def test_a_label_that_is_no_class_is_refused(wrong):
    case = world(like_lenet(), ONE_RUN)
    case.packed.labels[2] = wrong
    with pytest.raises(IndexError, match="labels are"):
        case.advance(Compiled(case.task), LocalTraining(0.1, 2))


def test_what_does_not_belong_together_is_refused():
    case = world(like_lenet(), ONE_RUN)
    with pytest.raises(ValueError, match="theta is"):
        case._replace(theta=case.theta[:, 1:]).advance(Compiled(case.task), LocalTraining(0.1, 1))
    with pytest.raises(ValueError, match="offsets do not divide"):
        case._replace(weights=case.weights[:, :3]).advance(Compiled(case.task), LocalTraining(0.1, 1))


# what models say to images


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("model", "shape"), [(lambda: like_lenet(3), COLOUR), (without_linear, (1, 6, 4))])
def test_logits_are_those_of_the_module(model, shape, dtype):
    case = world(model(), [[70, 80], [0, 0], [1, 0]], shape, dtype=dtype)  # more than a chunk
    case.theta[1] = float("nan")
    given = Compiled(case.task).logits(case.theta, case.packed.images)
    assert given.shape == (3, 151, CLASSES)
    assert given.dtype == dtype
    assert given[1].isnan().all()
    images = case.task.normalised(case.packed.images)
    for r in (0, 2):
        expected = functional_call(case.task.model.to(dtype), case.task.flat.views(case.theta[r]), (images,))
        torch.testing.assert_close(given[r], expected.detach())


def test_logits_of_an_image_hang_on_nothing_else_to_the_bit():
    case = world(like_lenet(), [[150], [0], [0]], dtype=torch.float32)
    executor, images = Compiled(case.task), case.packed.images
    whole, order = executor.logits(case.theta, images), torch.randperm(150, generator=torch.Generator().manual_seed(2))
    assert torch.equal(executor.logits(case.theta.flip(0), images[order]), whole.flip(0)[:, order])
    for i in (0, 63, 64, 149):
        assert torch.equal(executor.logits(case.theta[1:2], images[i : i + 1])[0], whole[1, i : i + 1])
    assert executor.logits(case.theta, images[:0]).shape == (3, 0, CLASSES)


def test_logits_of_what_does_not_belong_together_are_refused():
    case = world(like_lenet(), ONE_RUN)
    executor = Compiled(case.task)
    with pytest.raises(ValueError, match="theta is"):
        executor.logits(case.theta[0], case.packed.images)
    with pytest.raises(ValueError, match="images are"):
        executor.logits(case.theta, case.packed.images.double())


# which models


def ending(*layers):
    """Some layers that keep 2x8x8, and what makes a model of them."""
    return nn.Sequential(nn.Conv2d(1, 2, 1), *layers, nn.Flatten(), nn.Linear(128, CLASSES))


def twice_the_same():
    layer = nn.Conv2d(1, 1, 3, padding=1)
    return nn.Sequential(layer, layer, nn.Flatten(), nn.Linear(64, CLASSES))


class Own(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


CONV = "must be square, of stride 1 and one group, padded with zeros"
POOL = "must have square windows side by side, without padding"
REFUSED = [
    (nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES)), "made for convolutions, the model has none"),
    (Own(*like_lenet()), "the model must be a torch.nn.Sequential, is Own"),
    (ending(nn.GroupNorm(1, 2)), "the model has a GroupNorm, only Conv2d, Linear, .* are compiled"),
    (ending(nn.Sequential(nn.ReLU())), "the model has a Sequential, only"),
    (ending(nn.Conv2d(2, 2, 3, stride=2)), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding=2, dilation=2)), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding=1, groups=2)), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding="same")), CONV),
    (ending(nn.Conv2d(2, 2, (3, 1), padding=(1, 0))), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")), CONV),
    (ending(nn.MaxPool2d(3, stride=1, padding=1)), POOL),
    (ending(nn.MaxPool2d(2, ceil_mode=True)), POOL),
    (ending(nn.MaxPool2d((1, 2))), POOL),
    (ending(nn.AvgPool2d(1, divisor_override=2)), POOL),
    (ending(nn.Linear(8, 8)), r"Linear\(.* does not take what comes before it \(2x8x8\)"),
    (ending(nn.MaxPool2d(9)), "does not take what comes before it"),
    (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(2), nn.Linear(64, CLASSES)), "Flatten.* does not take"),
    (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(64, 9)), "the model gives 9, must give 4"),
    (twice_the_same(), "two layers of the model share parameters"),
    (ending(nn.Conv2d(2, 2000, 3, padding=1), nn.Conv2d(2000, 2, 3, padding=1)), "made for small images"),
]


@pytest.mark.parametrize(("model", "why"), REFUSED)
def test_a_model_that_does_not_fit_is_refused_and_auto_takes_another(model, why):
    task = Task(model, GREY, CLASSES, MEAN[:1], STD[:1])
    with pytest.raises(SettingError, match=f"--executor compiled: .*{why}"):
        pick(task, LocalTraining(0.1, 1), "compiled")
    assert pick(task, LocalTraining(0.1, 1, weight_decay=0.1)).name == "flat"


def test_what_else_does_not_fit(monkeypatch):
    task = Task(like_lenet(), GREY, CLASSES, MEAN[:1], STD[:1])
    assert pick(task, LocalTraining(0.1, 1, 0.9, 0.1)).name == "compiled"
    assert pick(task, LocalTraining(0.1, 1, batch_size=4)).name == "compiled"
    for other in ({"dtype": torch.float16}, {"device": torch.device("cuda")}):
        with pytest.raises(SettingError, match=r"only for float32 or float64 on the CPU, not torch\.float"):
            Compiled(Task(like_lenet(), GREY, CLASSES, MEAN[:1], STD[:1], **other))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find(name))
    assert type(pick(task, LocalTraining(0.1, 1))) is FlatLoop
    with pytest.raises(SettingError, match="--executor compiled: needs numba, which is not installed"):
        pick(task, LocalTraining(0.1, 1), "compiled")


@pytest.mark.parametrize(("name", "expected"), [("lenet", "compiled"), ("resnet9", "flat"), ("logistic", "gram")])
def test_what_is_picked_for_the_models_that_come_with_it(name, expected):
    task = Task(build_model(name, (1, 28, 28), 10), (1, 28, 28), 10, MEAN[:1], STD[:1])
    assert pick(task, LocalTraining(0.1, 1)).name == expected
