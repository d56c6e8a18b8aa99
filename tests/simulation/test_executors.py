"""Every executor against the reference, the reference against torch.optim.SGD, and what all of them promise."""

import copy
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining, batch_order
from headgate.learning.models import Flat, build_model
from headgate.simulation import executors
from headgate.simulation.executors import Packed, Task, batched, names, pick
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import BIN, Gram, is_linear
from headgate.simulation.executors.gram_torch import GramTorch
from headgate.simulation.executors.reference import Reference, descend, empirical_risk, local_gradient
from headgate.simulation.executors.types import grouped, native_kernels

SHAPE, CLASSES = (2, 6, 6), 4
MEAN, STD = (0.1, 0.4), (0.3, 0.2)
ONE_RUN = [[4, 0, 1, 11, 7]]
THREE_RUNS = [[3, 0, 1, 5, 60], [0, 0, 0, 0, 0], [1, 2, 0, 9, 50]]


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES))


def linear_without_bias():
    return nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES, bias=False))


def tanh_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(72, 7), nn.Tanh(), nn.Linear(7, CLASSES))


def tiny_convolution():
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, CLASSES))


class World(NamedTuple):
    task: Task
    theta: Tensor
    packed: Packed
    weights: Tensor
    seeds: list[int]

    def advance(self, executor, training, t=3):
        return executor.advance(self.theta, self.packed, self.weights, training, self.seeds, t)

    def run(self, r):
        """Only run r."""
        clients, offsets = self.weights.shape[1], self.packed.offsets
        first, last = offsets[r * clients], offsets[(r + 1) * clients]
        own = offsets[r * clients : (r + 1) * clients + 1] - first
        packed = Packed(self.packed.images[first:last], self.packed.labels[first:last], own)
        return World(self.task, self.theta[r : r + 1], packed, self.weights[r : r + 1], self.seeds[r : r + 1])


def world(model, sizes, seed=0, dtype=torch.float64, shape=SHAPE, classes=CLASSES, device="cpu"):
    """Random images, labels and models; weights need not sum to 1, and the first client's is 0 where others have samples."""
    random = torch.Generator().manual_seed(seed)
    counts = np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    images = torch.randint(0, 256, (int(offsets[-1]), *shape), dtype=torch.uint8, generator=random)
    labels = torch.randint(0, classes, (len(images),), generator=random)
    weights = torch.rand(counts.shape, dtype=torch.float64, generator=random)
    if counts.shape[1] > 1:
        weights[:, 0] = 0
    channels = shape[0]
    task = Task(model, shape, classes, MEAN[:channels], STD[:channels], dtype, torch.device(device))
    theta = 0.3 * torch.randn(len(counts), task.flat.size, dtype=torch.float64, generator=random)
    packed = Packed(images.to(device), labels.to(device), offsets)
    return World(task, theta.to(device, dtype), packed, weights.to(device, dtype), [11 + r for r in range(len(counts))])


def assert_same(given, judged, start, tolerance=1e-9):
    """Models agree relative to the largest change of a parameter, losses relative to themselves."""
    (after, loss), (expected, expected_loss) = given, judged
    assert (after - expected).abs().max() <= tolerance * max((expected - start).abs().max(), 1e-300)
    torch.testing.assert_close(loss, expected_loss, rtol=tolerance, atol=0, equal_nan=True)


# the reference


def by_sgd(given, training, r):
    """Run r as one would write it with torch alone."""
    clients, task = given.weights.shape[1], given.task
    update, losses = torch.zeros_like(given.theta[r]), []
    for m in range(clients):
        first, last = given.packed.offsets[r * clients + m], given.packed.offsets[r * clients + m + 1]
        if first == last:
            continue
        mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (MEAN, STD))
        images = (given.packed.images[first:last].double() / 255 - mean) / std
        labels = given.packed.labels[first:last]
        model = copy.deepcopy(task.model).double()
        nn.utils.vector_to_parameters(given.theta[r].clone(), model.parameters())
        losses.append(cross_entropy(model(images), labels, reduction="none").detach())
        optimizer = torch.optim.SGD(
            model.parameters(), lr=training.lr, momentum=training.momentum, weight_decay=training.weight_decay
        )
        for epoch in range(training.steps):
            order = np.arange(len(labels))
            if training.batch_size:
                order = batch_order(given.seeds[r], m, 3, epoch, len(labels))
            for rows in torch.from_numpy(order).split(training.batch_size or len(labels)):
                optimizer.zero_grad()
                cross_entropy(model(images[rows]), labels[rows]).backward()
                optimizer.step()
        local = nn.utils.parameters_to_vector(model.parameters()).detach()
        update += given.weights[r, m] * (local - given.theta[r])
    return given.theta[r] + update, torch.cat(losses).mean() if losses else torch.tensor(float("nan")).double()


@pytest.mark.paper("eq:local-update", "eq:global-aggregation", "eq:local-gd")
@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("weight_decay", [0.0, 0.03])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("model", [linear, tiny_convolution])
def test_the_reference_is_sgd_on_each_client_and_a_weighted_sum(model, momentum, weight_decay, batch_size):
    training = LocalTraining(0.05, 4, momentum, weight_decay, batch_size)
    case = world(model(), THREE_RUNS)
    after, loss = case.advance(Reference(case.task), training)
    for r in range(3):
        assert_same((after[r], loss[r]), by_sgd(case, training, r), case.theta[r])


@pytest.mark.paper("eq:local-empirical-risk", "eq:local-gradient", "eq:local-gd")
def test_risk_gradient_and_step_of_a_model_worked_out_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False)).double()
    images, labels = torch.tensor([1.0, -2.0], dtype=torch.float64).view(2, 1, 1, 1), torch.tensor([0, 1])
    theta = torch.tensor([0.5, -0.5], dtype=torch.float64)
    # the logits are ±x/2, so the right class is ahead by 1 for the first sample and by 2 for the second
    wrong = 1 / (1 + np.exp([1.0, 2.0]))
    assert float(empirical_risk(model, theta, images, labels)) == pytest.approx(-np.log(1 - wrong).mean(), rel=1e-14)
    slope = -(wrong[0] * 1 + wrong[1] * 2) / 2
    gradient = local_gradient(model, theta, images, labels)
    assert gradient.tolist() == pytest.approx([slope, -slope], rel=1e-13)
    training = LocalTraining(lr=0.1, steps=1)
    moved, velocity = descend(theta, torch.zeros(2, dtype=torch.float64), gradient, training)
    assert torch.equal(moved, theta - 0.1 * gradient)
    assert torch.equal(velocity, gradient)


def test_the_reference_computes_in_float64_whatever_it_is_given():
    case = world(tanh_net(), ONE_RUN, dtype=torch.float32)
    after, loss = case.advance(Reference(case.task), LocalTraining(0.1, 5))
    exact = case._replace(theta=case.theta.double(), weights=case.weights.double())
    exact = exact._replace(task=Task(case.task.model, SHAPE, CLASSES, MEAN, STD, torch.float64))
    expected, expected_loss = exact.advance(Reference(exact.task), LocalTraining(0.1, 5))
    assert torch.equal(after, expected.float())
    assert torch.equal(loss, expected_loss.float())


# all others against the reference

KINDS = {
    "gram": Gram,
    "gram, torch": GramTorch,
    "flat": FlatLoop,
    "batched": Batched,
    "batched, few shapes": lambda task: Batched(task, few_shapes=True),
    "batched, little memory": lambda task: Batched(task, memory=1),
}
MODELS = {
    "gram": [linear, linear_without_bias],
    "gram, torch": [linear, linear_without_bias],
    "flat": [linear, linear_without_bias, tanh_net, tiny_convolution],
    "batched": [linear, tanh_net, tiny_convolution],
    "batched, few shapes": [tiny_convolution],
    "batched, little memory": [tanh_net],
}
CASES = [
    pytest.param(kind, model, decay, id=f"{kind}-{model.__name__}-{decay}")
    for kind, models in MODELS.items()
    for model in models
    for decay in ((0.0,) if kind.startswith("gram") else (0.0, 0.03))
]


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("sizes", [ONE_RUN, THREE_RUNS], ids=["one run", "three runs"])
@pytest.mark.parametrize(("kind", "model", "decay"), CASES)
def test_executors_do_what_the_reference_does(kind, model, decay, sizes, steps, momentum):
    case = world(model(), sizes)
    training = LocalTraining(0.1, steps, momentum, decay)
    assert_same(case.advance(KINDS[kind](case.task), training), case.advance(Reference(case.task), training), case.theta)


@pytest.mark.parametrize("kind", ["flat", "batched"])
def test_lenet_as_the_reference(kind):
    case = world(build_model("lenet", (1, 28, 28), 10), [[2, 0, 5, 1]], shape=(1, 28, 28), classes=10)
    case = case._replace(theta=case.theta / 5)
    training = LocalTraining(0.05, 3, momentum=0.5)
    assert_same(case.advance(KINDS[kind](case.task), training), case.advance(Reference(case.task), training), case.theta)


@pytest.mark.parametrize(
    ("kind", "model"),
    [("gram", linear), ("gram, torch", linear), ("flat", tiny_convolution), ("batched", tiny_convolution)],
)
def test_float32_stays_float32_and_close(kind, model):
    case = world(model(), THREE_RUNS, dtype=torch.float32)
    given, judged = (case.advance(make(case.task), LocalTraining(0.1, 5)) for make in (KINDS[kind], Reference))
    assert given[0].dtype == given[1].dtype == torch.float32
    assert_same(given, judged, case.theta, tolerance=2e-5)


def test_a_stack_by_hand_takes_a_layer_as_often_as_it_comes():
    bent = nn.Tanh()
    model = nn.Sequential(nn.Conv2d(1, 2, 3), bent, nn.Flatten(), nn.Linear(8, 5), bent, nn.Linear(5, CLASSES))
    case = world(model, ONE_RUN, shape=(1, 4, 4))
    executor, training = Batched(case.task, by_hand=True), LocalTraining(0.1, 3)
    assert executor.stack is not None
    assert len(executor.stack.layers) == 6
    assert_same(case.advance(executor, training), case.advance(Reference(case.task), training), case.theta)


@pytest.mark.parametrize("batch_size", [1, 3, 8, 1000])
def test_mini_batches_of_flat_are_those_of_the_reference(batch_size):
    case = world(tanh_net(), THREE_RUNS)
    training = LocalTraining(0.03, 3, momentum=0.9, weight_decay=0.01, batch_size=batch_size)
    given, judged = (case.advance(make(case.task), training) for make in (FlatLoop, Reference))
    assert_same(given, judged, case.theta)


def test_mini_batches_follow_round_and_seed():
    case = world(tanh_net(), ONE_RUN)
    training = LocalTraining(0.1, 1, batch_size=3)
    first = case.advance(FlatLoop(case.task), training, t=1)[0]
    assert torch.equal(first, case.advance(FlatLoop(case.task), training, t=1)[0])
    assert not torch.equal(first, case.advance(FlatLoop(case.task), training, t=2)[0])
    assert not torch.equal(first, case._replace(seeds=[99]).advance(FlatLoop(case.task), training, t=1)[0])


@st.composite
def ragged(draw):
    runs, clients = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    size = st.one_of(st.integers(0, 6), st.integers(0, 2 * BIN))
    return [[draw(size) for _ in range(clients)] for _ in range(runs)]


@given(ragged(), st.sampled_from([0.0, 0.9]), st.integers(1, 6), st.booleans(), st.integers(0, 3))
@settings(max_examples=60)
def test_gram_on_any_ragged_buffers(sizes, momentum, steps, bias, seed):
    case = world(linear() if bias else linear_without_bias(), sizes, seed)
    training = LocalTraining(0.5, steps, momentum)
    judged = case.advance(Reference(case.task), training)
    for make in (Gram, GramTorch):
        assert_same(case.advance(make(case.task), training), judged, case.theta)


@given(ragged(), st.booleans(), st.sampled_from([1, 200_000, 1 << 29]))
@settings(max_examples=15)
def test_batched_on_any_ragged_buffers(sizes, few_shapes, memory):
    case = world(tanh_net(), sizes)
    training = LocalTraining(0.5, 2)
    executor = Batched(case.task, memory, few_shapes)
    assert_same(case.advance(executor, training), case.advance(Reference(case.task), training), case.theta)


# what all promise

ALL = {"reference": Reference, **KINDS}
FITTING = [pytest.param(make, linear if name.startswith("gram") else tiny_convolution, id=name) for name, make in ALL.items()]


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_runs_together_are_runs_alone(make, model):
    case = world(model(), THREE_RUNS)
    training = LocalTraining(0.3, 5, momentum=0.5)
    after, loss = case.advance(make(case.task), training)
    for r in range(3):
        alone, alone_loss = case.run(r).advance(make(case.task), training)
        if make in (Reference, FlatLoop):
            assert torch.equal(after[r], alone[0])
            assert torch.equal(loss[r], alone_loss[0]) or (r == 1 and loss[r].isnan() and alone_loss[0].isnan())
        else:
            assert_same((after[r], loss[r]), (alone[0], alone_loss[0]), case.theta[r], tolerance=1e-12)


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_a_run_that_has_broken_down_leaves_the_others_alone(make, model):
    case = world(model(), [[3, 9, 2], [4, 1, 8], [2, 2, 2]])
    training = LocalTraining(0.3, 3)
    whole, whole_loss = case.advance(make(case.task), training)
    broken = case.theta.clone()
    broken[1] = float("nan")
    after, loss = case._replace(theta=broken).advance(make(case.task), training)
    assert after[1].isnan().all()
    for r in (0, 2):
        assert_same((after[r], loss[r]), (whole[r], whole_loss[r]), case.theta[r], tolerance=1e-12)


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_without_samples_or_weights_a_model_stays_as_it_is(make, model):
    case = world(model(), THREE_RUNS)
    after, loss = case.advance(make(case.task), LocalTraining(0.3, 5))
    assert torch.equal(after[1], case.theta[1])
    assert loss.isnan().tolist() == [False, True, False]
    # a step so large that every client that trains is lost: one of weight 0 must not count all the same
    weightless = case._replace(weights=torch.zeros_like(case.weights))
    unmoved, same_loss = weightless.advance(make(case.task), LocalTraining(1e250, 5, momentum=0.9))
    assert torch.equal(unmoved, case.theta)
    torch.testing.assert_close(same_loss, loss, rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_a_round_without_any_sample(make, model):
    case = world(model(), [[0, 0], [0, 0]])
    after, loss = case.advance(make(case.task), LocalTraining(0.3, 5))
    assert torch.equal(after, case.theta)
    assert loss.isnan().all()
    assert loss.shape == (2,)


@pytest.mark.parametrize("gradients_on", [True, False])
@pytest.mark.parametrize(("make", "model"), FITTING)
def test_arguments_and_the_model_are_left_alone_and_nothing_is_remembered(make, model, gradients_on):
    case = world(model(), THREE_RUNS)
    executor, training = make(case.task), LocalTraining(0.3, 3, momentum=0.9)
    kept = copy.deepcopy((case.theta, case.packed, case.weights, case.task.model.state_dict()))
    with torch.set_grad_enabled(gradients_on):
        first, first_loss = case.advance(executor, training)
        executor.advance(first, case.packed, case.weights, training, case.seeds, 4)
        again, again_loss = case.advance(executor, training)
    assert torch.equal(first, again)
    torch.testing.assert_close(first_loss, again_loss, rtol=0, atol=0, equal_nan=True)
    assert not first.requires_grad
    assert not first_loss.requires_grad
    theta, packed, weights, state = kept
    assert torch.equal(case.theta, theta)
    assert torch.equal(case.packed.images, packed.images)
    assert torch.equal(case.packed.labels, packed.labels)
    assert np.array_equal(case.packed.offsets, packed.offsets)
    assert torch.equal(case.weights, weights)
    assert all(torch.equal(value, state[name]) for name, value in case.task.model.state_dict().items())


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", ["gram", "gram, torch", "flat", "batched"])
def test_the_choice_of_kernels_is_put_back(kind, before, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", before)
    nnpack = torch._C._get_nnpack_enabled()
    case = world(linear(), ONE_RUN)
    case.advance(KINDS[kind](case.task), LocalTraining(0.1, 2))
    assert torch.backends.mkldnn.enabled is before
    case.packed.labels[0] = 77
    with pytest.raises((IndexError, RuntimeError)):
        case.advance(KINDS[kind](case.task), LocalTraining(0.1, 2))
    assert torch.backends.mkldnn.enabled is before
    monkeypatch.setattr("headgate.simulation.executors.types.ON_ARM", True)
    with native_kernels():
        assert torch.backends.mkldnn.enabled is False
        assert torch._C._get_nnpack_enabled() is False
    assert torch.backends.mkldnn.enabled is before
    assert torch._C._get_nnpack_enabled() is nnpack is True


@pytest.mark.parametrize("wrong", [-100, -1, CLASSES])
def test_gram_refuses_a_label_that_is_no_class(wrong):
    case = world(linear(), ONE_RUN)
    case.packed.labels[2] = wrong
    with pytest.raises(IndexError, match="labels are"):
        case.advance(Gram(case.task), LocalTraining(0.1, 2))


def test_gram_does_not_hang_on_the_number_of_threads_and_puts_it_back():
    case = world(build_model("logistic", (1, 28, 28), 10), [[60, 0, 90]], shape=(1, 28, 28), classes=10, dtype=torch.float32)
    blas, torch_threads, given = ThreadpoolController(), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with blas.limit(limits=threads, user_api="blas"):
                before = [each.num_threads for each in blas.lib_controllers]
                given.append(case.advance(Gram(case.task), LocalTraining(0.1, 5))[0])
                assert [each.num_threads for each in blas.lib_controllers] == before
                assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(torch_threads)
    assert torch.equal(*given)


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_what_does_not_belong_together_is_refused(make, model):
    case = world(model(), ONE_RUN)
    executor, training, packed = make(case.task), LocalTraining(0.1, 1), case.packed
    wrong = {
        "theta is": case._replace(theta=case.theta[:, 1:]),
        "theta is .* must be": case._replace(theta=case.theta.half()),
        "offsets do not divide 23 samples": case._replace(packed=packed._replace(offsets=packed.offsets + 1)),
        "offsets do not divide 23 samples among 1 runs": case._replace(weights=case.weights[:, :3]),
        "images are": case._replace(packed=packed._replace(images=packed.images.float())),
    }
    for reason, each in wrong.items():
        with pytest.raises(ValueError, match=reason):
            each.advance(executor, training)


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


# normalisation and groups


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_are_normalised_channel_by_channel(dtype):
    task = Task(linear(), SHAPE, CLASSES, MEAN, STD, dtype)
    images = torch.arange(256, dtype=torch.uint8).repeat(9).view(32, *SHAPE)
    channels = [(images[:, c].double() / 255 - MEAN[c]) / STD[c] for c in range(2)]
    expected = torch.stack(channels, dim=1)
    torch.testing.assert_close(
        task.normalised(images).double(), expected, rtol=0, atol=5e-7 if dtype == torch.float32 else 4e-15
    )
    assert task.normalised(images).dtype == dtype


sizes_and_overheads = given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.sampled_from([0.0, 3.0, 25.0, 1e6]))


@sizes_and_overheads
def test_groups_hold_every_sample_once_and_fill_up_with_the_client_s_own(sizes, overhead):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    groups = grouped(offsets, np.flatnonzero(sizes), overhead)
    seen = [int(row) for group in groups for row in group.rows[group.real]]
    assert sorted(seen) == list(range(offsets[-1]))
    for group in groups:
        assert group.rows.shape[1] == max(sizes[member] for member in group.members)
        for member, rows, real in zip(*group, strict=True):
            assert real.sum() == sizes[member]
            assert ((rows >= offsets[member]) & (rows < offsets[member + 1])).all()


def cheapest(sizes, overhead):
    """The least cost of all ways to cut, by trying each first cut."""
    if not sizes:
        return 0.0
    return min(cut * sizes[cut - 1] + overhead + cheapest(sizes[cut:], overhead) for cut in range(1, len(sizes) + 1))


@given(st.lists(st.integers(1, 20), max_size=9), st.sampled_from([0.0, 3.0, 25.0]))
def test_no_other_groups_waste_less(sizes, overhead):
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    groups = grouped(offsets, np.arange(len(sizes)), overhead)
    assert sum(group.rows.size + overhead for group in groups) == pytest.approx(cheapest(sorted(sizes), overhead))


# CUDA graphs, as far as they can be followed without CUDA


class Played:
    """Stands in for a recording: the same promise (inputs copied, outputs overwritten), no CUDA."""

    made = 0

    def __init__(self, function, inputs, pool):
        Played.made += 1
        self.function, self.inputs, self.outputs = function, tuple(value.clone() for value in inputs), None

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
        other = world(tiny_convolution(), THREE_RUNS, seed)
        judged = other.advance(Reference(other.task), training)
        assert_same(other.advance(executor, training), judged, other.theta)
        made.append(Played.made)
    shapes = len(
        {(rows.shape) for (_, rows, _), _ in executor._groups(case.packed.offsets, np.arange(15)[np.ravel(THREE_RUNS) > 0])}
    )
    assert shapes > 2
    assert made == [0, shapes, 2 * shapes, 3 * shapes]  # more shapes than are kept: each drives out another
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
        assert_same(case.advance(executor, training), case.advance(Reference(case.task), training), case.theta)
    assert executor.note == "CUDA graphs given up, slower: operation not permitted when stream is capturing"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("make", "model"), [each for each in FITTING if each.id != "gram"])  # that is for the CPU
def test_on_cuda_as_the_reference_on_the_cpu(make, model, momentum):
    training = LocalTraining(0.3, 5, momentum)
    executor = None
    for seed in range(4):  # the second time a shape comes it is recorded, from then on it is played
        case = world(model(), THREE_RUNS, seed)
        there = world(case.task.model, THREE_RUNS, seed, device="cuda")
        executor = executor or make(there.task)
        after, loss = there.advance(executor, training)
        assert_same((after.cpu(), loss.cpu()), case.advance(Reference(case.task), training), case.theta)
    assert getattr(executor, "note", None) is None


# which executor


def test_names():
    assert names() == ("auto", "reference", "gram", "compiled", "flat", "batched", "streams", "packed")


@pytest.mark.parametrize(
    ("model", "training", "expected"),
    [
        (build_model("logistic", SHAPE, CLASSES), LocalTraining(0.1, 1), "gram"),
        (linear_without_bias(), LocalTraining(0.1, 1, momentum=0.9), "gram"),
        (linear(), LocalTraining(0.1, 1, weight_decay=0.1), "flat"),
        (linear(), LocalTraining(0.1, 1, batch_size=4), "flat"),
        (tanh_net(), LocalTraining(0.1, 1), "flat"),
    ],
)
def test_the_fastest_that_fits_is_picked(model, training, expected):
    task = Task(model, SHAPE, CLASSES, MEAN, STD)
    assert pick(task, training).name == expected
    for name in ("reference", "flat"):
        assert pick(task, training, name).name == name


def test_the_form_of_gram_follows_the_device():
    def kind(device):
        return type(pick(Task(linear(), SHAPE, CLASSES, MEAN, STD, device=torch.device(device)), LocalTraining(0.1, 1)))

    assert kind("cpu") is Gram
    assert kind("cuda") is GramTorch
    assert Gram.name == GramTorch.name == "gram"


@pytest.mark.parametrize(
    ("model", "training", "expected"),
    [
        (linear(), LocalTraining(0.1, 1), "gram"),
        (linear(), LocalTraining(0.1, 1, weight_decay=0.1), "batched"),
        (tanh_net(), LocalTraining(0.1, 1), "batched"),
        (tanh_net(), LocalTraining(0.1, 1, batch_size=4), "flat"),
    ],
)
def test_on_cuda_batched_takes_the_place_of_flat(model, training, expected, monkeypatch):
    for name in names()[1:]:
        monkeypatch.setitem(executors._KINDS, name, lambda task, name=name: name)
    assert pick(Task(model, SHAPE, CLASSES, MEAN, STD, device=torch.device("cuda")), training) == expected


@pytest.mark.parametrize(
    ("name", "model", "training", "refusal"),
    [
        ("fast", linear(), {}, "--executor fast: must be auto, reference, gram, compiled, flat, batched, streams, packed"),
        ("gram", tanh_net(), {}, "--executor gram: the model must be exactly a Flatten and a Linear"),
        ("gram", linear(), {"batch_size": 4}, "--executor gram: full-batch only, training.batch_size = 4"),
        ("gram", linear(), {"weight_decay": 0.1}, "--executor gram: no weight decay, training.weight_decay = 0.1"),
        ("batched", linear(), {"batch_size": 4}, "--executor batched: full-batch only, training.batch_size = 4"),
    ],
)
def test_an_executor_that_does_not_fit_is_refused(name, model, training, refusal):
    task = Task(model, SHAPE, CLASSES, MEAN, STD)
    with pytest.raises(SettingError) as raised:
        pick(task, LocalTraining(0.1, 1, **training), name)
    assert str(raised.value) == refusal


@pytest.mark.parametrize(
    ("make", "key"), [(Gram, "batch_size"), (GramTorch, "weight_decay"), (Gram, "weight_decay"), (Batched, "batch_size")]
)
def test_an_executor_refuses_training_it_was_not_picked_for(make, key):
    case = world(linear(), ONE_RUN)
    with pytest.raises(SettingError, match=key):
        case.advance(make(case.task), LocalTraining(0.1, 1, **{key: 2}))


def test_only_a_flatten_and_a_linear_are_linear():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    assert is_linear(build_model("logistic", (1, 8, 8), 10))
    assert not is_linear(nn.Sequential(nn.Flatten(), Scaled(72, 4)))
    assert not is_linear(nn.Sequential(nn.Flatten(2), nn.Linear(36, 4)))
    assert not is_linear(nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.Softmax(dim=1)))
    assert not is_linear(nn.Linear(72, 4))


def test_a_model_that_looks_at_its_numbers_is_for_flat():
    class Choosy(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(72, CLASSES)

        def forward(self, x):
            logits = self.last(x.flatten(1))
            return 2 * logits if logits[0, 0] > 0 else logits

    case = world(Choosy(), ONE_RUN)
    with pytest.raises(SettingError, match=r"^--executor batched: the model does not run under torch.func.vmap .*: take flat$"):
        pick(case.task, LocalTraining(0.1, 1), "batched")
    training = LocalTraining(0.1, 3)
    assert_same(case.advance(pick(case.task, training), training), case.advance(Reference(case.task), training), case.theta)


def test_the_flat_vector_is_in_the_order_of_the_model():
    model = tiny_convolution()
    vector = Flat(model).vector(dict(model.named_parameters()))
    assert torch.equal(vector, nn.utils.parameters_to_vector(model.parameters()))
