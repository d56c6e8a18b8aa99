"""The compiled executor: against the reference, its answers, its bits, what is kept on
disk, and which models it takes.
"""

import copy
import importlib.util
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from headgate.errors import SettingError
from headgate.learning.data import Digits
from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model, initial_parameters
from headgate.simulation.executors import RaggedBatch, choose
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Task
from headgate.simulation.nets import Evaluator
from headgate_kernels import kernel_calls
from headgate_kernels.compiled import Compiled

from .worlds import CLASSES, ONE_RUN, THREE_RUNS, assert_same, task_of, world

pytest.importorskip("numba")

GREY = (1, 8, 8)


def net(*layers):
    return lambda: nn.Sequential(*copy.deepcopy(layers))


def like_lenet(channels=1):
    """LeNet's layers in small; the second convolution's outputs and taps are odd."""
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, CLASSES),
    )  # fmt: skip


def wide_rows():
    """Images of which only some rows are near at a time."""
    return nn.Sequential(
        nn.Conv2d(1, 51, 3), nn.ReLU(), nn.Conv2d(51, 6, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(252, 5), nn.ReLU(), nn.Linear(5, CLASSES),
    )  # fmt: skip


def case(name, make, shape, long=False):
    return pytest.param(make, shape, id=name, marks=[pytest.mark.long] if long else [])


NETS = [
    case("like_lenet", like_lenet, GREY),
    case("like_lenet in colour", lambda: like_lenet(3), (3, 8, 8), long=True),
    # padding where the slope of the input is wanted, and windows that leave an edge out
    case(
        "edges",
        net(
            nn.Conv2d(1, 3, 5, padding=2),
            nn.Tanh(),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 2, 3, padding=1),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(32, CLASSES),
        ),
        (1, 9, 8),
    ),
    case(
        "nothing_between",
        net(
            nn.Conv2d(3, 6, 1),
            nn.Conv2d(6, 2, 1),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32, CLASSES),
        ),
        (3, 8, 8),
    ),
    # features that are no whole vectors, an activation of its own and one that a layer
    # takes in
    case(
        "without_convolution",
        net(
            nn.Flatten(),
            nn.Linear(64, 9),
            nn.Tanh(),
            nn.Linear(9, 6, bias=False),
            nn.ReLU(),
            nn.Linear(6, CLASSES),
        ),
        GREY,
    ),
    case("one_layer", net(nn.Flatten(), nn.Linear(192, CLASSES)), (3, 8, 8)),
    case("wide_rows", wide_rows, (1, 18, 17)),
    # convolutions that take two and four pixels as one with more outputs, the first in
    # two groups
    case(
        "seen_together",
        net(
            nn.Conv2d(1, 14, 9, padding=4),
            nn.ReLU(),
            nn.Conv2d(14, 1, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4, CLASSES),
        ),
        (1, 9, 8),
        long=True,
    ),
    case(
        "without_biases",
        net(
            nn.Conv2d(1, 3, 3, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(3, 4, 2),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 5, bias=False),
            nn.ReLU(),
            nn.Linear(5, CLASSES),
        ),
        (1, 13, 12),
        long=True,
    ),
    # more outputs than are done at once, kernels of even sides, and an edge that no
    # window takes; for test_vector_widths
    case(
        "many_channels",
        net(
            nn.Conv2d(1, 9, 4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(9, 27, 2, padding=1),
            nn.ReLU(),
            nn.Conv2d(27, 1, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(12, CLASSES),
        ),
        (1, 10, 7),
        long=True,
    ),
    # wider than what they see but for the padding
    case(
        "large_kernels",
        net(
            nn.Conv2d(1, 5, 7, padding=3),
            nn.Tanh(),
            nn.MaxPool2d(2),
            nn.Conv2d(5, 6, 5, padding=3),
            nn.MaxPool2d(2),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(54, CLASSES),
        ),
        (1, 9, 11),
        long=True,
    ),
]


def check(case, training, tolerance=1e-9):
    given, judged = (
        case.advance(make(case.task), training) for make in (Compiled, Reference)
    )
    assert_same(given, judged, case.theta, tolerance)


@pytest.mark.parametrize(
    ("sizes", "momentum", "decay", "batch_size"),
    [
        (ONE_RUN, 0.0, 0.0, None),
        (THREE_RUNS, 0.8, 0.03, None),
        (THREE_RUNS, 0.9, 0.01, 7),
        (THREE_RUNS, 0.0, 0.01, 1000),
    ],
)
@pytest.mark.parametrize(("model", "shape"), NETS)
def test_it_does_what_the_reference_does(
    model, shape, sizes, momentum, decay, batch_size
):
    check(
        world(model(), sizes, shape),
        LocalTraining(0.05, 3, momentum, decay, batch_size),
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "tolerance"),
    [
        ((1, 28, 28), torch.float32, 1e-5),  # which other tests compile as well
        pytest.param((3, 32, 32), torch.float64, 1e-9, marks=pytest.mark.long),
    ],
)
def test_lenet(shape, dtype, tolerance):
    case = world(
        build_model(LeNet(), shape, 10),
        [[1, 0, 9, 2, 25]],
        shape,
        10,
        dtype,
        spread=0.06,
    )
    check(case, LocalTraining(0.05, 3, momentum=0.5), tolerance)


def test_of_several_largest_the_first_is_chosen():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, CLASSES)
    )
    case = world(model, ONE_RUN, GREY)
    random = torch.Generator().manual_seed(1)
    # Few values, whole weights and biases of quarters: windows are full of ties between
    # places whose slopes differ. Sums are exact, so it does not matter whether a bias
    # is added first or last: with rounding, equals added to a bias differ.
    case.packed.images[:] = 255 * torch.randint(
        0, 2, case.packed.images.shape, generator=random, dtype=torch.uint8
    )
    case.theta[:, :18] = torch.randint(-1, 2, (1, 18), generator=random).double()
    case.theta[:, 18:20] = (4 * case.theta[:, 18:20]).round() / 4
    task = Task(model, GREY, CLASSES, (0.0,), (1.0,), torch.float64)
    check(case._replace(task=task), LocalTraining(0.1, 1))


@pytest.mark.parametrize("asked", ["train", "train in mini-batches", "answer"])
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, asked):
    sizes = (
        [[150, 150], [3, 0]] if asked == "answer" else [[7, 0, 30, 5], [2, 11, 1, 6]]
    )
    case = world(
        build_model(LeNet(), (1, 28, 28), 10),
        sizes,
        (1, 28, 28),
        10,
        torch.float32,
        spread=0.06,
    )
    executor, before, given = Compiled(case.task), torch.get_num_threads(), []
    seen, kernel = set(), getattr(executor.kernels, name := asked.split()[0])
    monkeypatch.setattr(
        executor.kernels,
        name,
        lambda *given: (seen.add(threading.get_ident()), kernel(*given))[1],
    )
    training = LocalTraining(0.1, 3, batch_size=None if asked == "train" else 4)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            answers = asked == "answer"
            given.append(
                (executor.logits(case.theta, case.packed.images),)
                if answers
                else case.advance(executor, training)
            )
            assert len(seen) in (
                (1,) if threads == 1 else (2, 3)
            )  # all in this thread, then in others: one may do all
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(alone, shared) for alone, shared in zip(*given, strict=True))


@pytest.mark.parametrize(
    ("dtype", "model", "shape", "batch_size"),
    [
        pytest.param(torch.float32, like_lenet, GREY, None, marks=pytest.mark.long),
        (torch.float64, wide_rows, (1, 18, 17), 4),
    ],
)
def test_memory_of_a_larger_round_that_broke_down_does_not_tell_in_the_next(
    dtype, model, shape, batch_size
):
    small = world(model(), [[3, 1, 2], [4, 1, 5]], shape, dtype=dtype, spread=0.1)
    large = world(small.task.model, [[33, 21, 9]], shape, dtype=dtype)
    executor, training = (
        Compiled(small.task),
        LocalTraining(0.3, 3, momentum=0.9, batch_size=batch_size),
    )
    asked, said = (
        small.packed.images[:3],
        Compiled(small.task).logits(small.theta, small.packed.images[:3]),
    )
    alone, alone_loss = small.advance(Compiled(small.task), training)
    broken = torch.full_like(large.theta, float("nan"))
    assert large._replace(theta=broken).advance(executor, training)[0].isnan().all()
    assert executor.logits(broken, large.packed.images).isnan().all()
    after, loss = small.advance(executor, training)
    assert torch.equal(after, alone)
    assert torch.equal(loss, alone_loss)
    assert torch.equal(executor.logits(small.theta, asked), said)


# answers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_are_those_of_the_module(dtype):
    case = world(
        like_lenet(), [[70, 80], [0, 0], [1, 0]], GREY, dtype=dtype
    )  # more than a chunk
    case.theta[1] = float("nan")
    given = Compiled(case.task).logits(case.theta, case.packed.images)
    assert given.shape == (3, 151, CLASSES)
    assert given.dtype == dtype
    assert given[1].isnan().all()
    images = case.task.normalised(case.packed.images)
    for r in (0, 2):
        expected = functional_call(
            case.task.model.to(dtype), case.task.flat.views(case.theta[r]), (images,)
        )
        torch.testing.assert_close(given[r], expected.detach())


def test_logits_of_an_image_depend_on_nothing_else_to_the_bit():
    case = world(like_lenet(), [[150], [0], [0]], GREY, dtype=torch.float32)
    executor, images = Compiled(case.task), case.packed.images
    whole, order = (
        executor.logits(case.theta, images),
        torch.randperm(150, generator=torch.Generator().manual_seed(2)),
    )
    assert torch.equal(
        executor.logits(case.theta.flip(0), images[order]), whole.flip(0)[:, order]
    )
    for i in (0, 63, 64, 149):
        assert torch.equal(
            executor.logits(case.theta[1:2], images[i : i + 1])[0], whole[1, i : i + 1]
        )
    assert executor.logits(case.theta, images[:0]).shape == (3, 0, CLASSES)


def test_lenet_is_judged_to_the_last_image_as_in_float64(monkeypatch):
    """While it learns: at first, from round to round and when it is good."""
    digits = Digits().load()
    images = np.concatenate([digits.train_images, digits.test_images])
    images = torch.from_numpy(
        np.pad(
            np.kron(images, np.ones((3, 3), np.uint8)), [(0, 0), (0, 0), (2, 2), (2, 2)]
        )
    )
    labels = torch.from_numpy(np.concatenate([digits.train_labels, digits.test_labels]))
    task = Task(
        build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 10, digits.mean, digits.std
    )
    executor, judged, model = Compiled(task), [], copy.deepcopy(task.model).double()
    answers, asked = executor.logits, []
    monkeypatch.setattr(
        executor,
        "logits",
        lambda theta, images: asked.append(len(images)) or answers(theta, images),
    )
    start, exact = (
        initial_parameters(LeNet(), (1, 28, 28), 10, 0)[None],
        replace(task, dtype=torch.float64),
    )
    work, theta = RaggedBatch(images[:400], labels[:400], np.arange(0, 401, 50)), start
    for t in range(1, 9):
        theta, _ = executor.advance(
            theta, work, torch.full((1, 8), 1 / 8), LocalTraining(0.2, 10), [0], t
        )
        if t in (1, 5, 8):
            both = torch.cat([theta, start])
            own = answers(both, images).argmax(dim=2)
            accuracy, loss = Evaluator(task, images, labels, executor)(both)
            assert sum(asked) == len(
                images
            )  # by the executor, which is faster than the module
            asked.clear()
            for r, vector in enumerate(both):
                said = functional_call(
                    model, task.flat.views(vector.double()), (exact.normalised(images),)
                ).detach()
                assert torch.equal(own[r], said.argmax(dim=1))
                assert (
                    accuracy[r].item()
                    == (said.argmax(dim=1) == labels).double().mean().item()
                )
                assert loss[r].item() == pytest.approx(
                    cross_entropy(said, labels).item(), rel=1e-5
                )
            judged.append(accuracy[0].item())
    assert judged[0] < 0.5 < 0.8 < judged[-1]


# which models fit


def ending(*layers):
    """Some layers that keep 2x8x8, and what makes a model of them."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 1), *layers, nn.Flatten(), nn.Linear(128, CLASSES)
    )


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (
            nn.Sequential(
                nn.Flatten(),
                nn.Linear(64, 40_000),
                nn.ReLU(),
                nn.Linear(40_000, CLASSES),
            ),
            "made for small models",
        ),
        (
            ending(nn.Conv2d(2, 2000, 3, padding=1), nn.Conv2d(2000, 2, 3, padding=1)),
            "made for small images",
        ),
        (
            ending(nn.GroupNorm(1, 2)),
            "GroupNorm.* where it stands",
        ),  # the others are in test_nets.py
    ],
)
def test_a_model_that_does_not_fit_is_refused_and_auto_takes_another(model, why):
    task = task_of(model, GREY)
    with pytest.raises(SettingError, match=f"--executor compiled: .*{why}"):
        choose(task, LocalTraining(0.1, 1), "compiled")
    assert choose(task, LocalTraining(0.1, 1, batch_size=4)).name == "flat"


def test_what_else_does_not_fit(monkeypatch):
    task = task_of(like_lenet(), GREY)
    assert choose(task, LocalTraining(0.1, 1, 0.9, 0.1)).name == "compiled"
    assert choose(task, LocalTraining(0.1, 1, batch_size=4)).name == "compiled"
    for other in ({"dtype": torch.float16}, {"device": torch.device("cuda")}):
        with pytest.raises(
            SettingError,
            match=r"only for float32 or float64 on the CPU, not torch\.float",
        ):
            choose(
                task_of(like_lenet(), GREY, **other), LocalTraining(0.1, 1), "compiled"
            )
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "numba" else find(name),
    )
    assert type(choose(task, LocalTraining(0.1, 1))) is FlatLoop
    with pytest.raises(
        SettingError, match="--executor compiled: needs numba, which is not installed"
    ):
        choose(task, LocalTraining(0.1, 1), "compiled")


# what is kept on disk


KEEPING = """
import numpy as np
from headgate_kernels import kernel_calls, kernels
from headgate_kernels.compiled_shapes import Grid, Window
print(kernel_calls.is_empty(), kernel_calls.objection())
for k in {sides}:
    window = Window(k, 1, 0, Grid(1, 8, 8), Grid(2, 9 - k, 9 - k))
    made, *_ = kernels.convolution(window)
    made.address(np.dtype("float64"))
    print(sum(made.function.stats.cache_hits.values()))
"""


def kept(folder, *sides):
    """What a new process says that compiles convolutions of some sides: how it found
    the folder, then what it found there.
    """
    done = subprocess.run(
        [sys.executable, "-c", KEEPING.format(sides=sides)], capture_output=True,
        text=True, check=True, env={**os.environ, "XDG_CACHE_HOME": str(folder)},
    )  # fmt: skip
    first, *hits = done.stdout.splitlines()
    return first, hits


def test_the_next_process_finds_what_was_compiled(
    tmp_path,
):
    assert kept(tmp_path, 3) == ("True None", ["0"])
    assert kept(tmp_path, 2, 3) == ("False None", ["0", "1"])
    assert (tmp_path / "headgate-kernels").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["open to others", "a link", "a file"])
def test_nothing_is_kept_in_a_folder_that_others_may_write_to(
    tmp_path, monkeypatch, how
):
    folder = tmp_path / "headgate-kernels"
    if how == "open to others":
        folder.mkdir()
        folder.chmod(0o770)
        assert kept(tmp_path, 2)[1] == ["0"]
        assert not list(tmp_path.rglob("*.nbc"))
    elif how == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kernel_calls.objection().startswith(
        f"compiled kernels are not kept: {folder} "
    )
    assert kernel_calls.is_empty()
