"""What compiled models say to images, and how they are judged by it."""

import copy
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from headgate.kernels.compiled import Compiled
from headgate.learning.data import Digits
from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model, initial_parameters
from headgate.simulation.evaluate import Evaluator
from headgate.simulation.executors.executor import RaggedBatch
from headgate.simulation.executors.types import Task

from .compiled_nets import COLOUR, GREY, like_lenet, without_linear
from .worlds import CLASSES, ONE_RUN, world

pytest.importorskip("numba")


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
    case = world(like_lenet(), [[150], [0], [0]], GREY, dtype=torch.float32)
    executor, images = Compiled(case.task), case.packed.images
    whole, order = executor.logits(case.theta, images), torch.randperm(150, generator=torch.Generator().manual_seed(2))
    assert torch.equal(executor.logits(case.theta.flip(0), images[order]), whole.flip(0)[:, order])
    for i in (0, 63, 64, 149):
        assert torch.equal(executor.logits(case.theta[1:2], images[i : i + 1])[0], whole[1, i : i + 1])
    assert executor.logits(case.theta, images[:0]).shape == (3, 0, CLASSES)


def test_logits_of_what_does_not_belong_together_are_refused():
    case = world(like_lenet(), ONE_RUN, GREY)
    executor = Compiled(case.task)
    with pytest.raises(ValueError, match="theta is"):
        executor.logits(case.theta[0], case.packed.images)
    with pytest.raises(ValueError, match="images are"):
        executor.logits(case.theta, case.packed.images.double())


def test_logits_do_not_hang_on_the_number_of_threads(monkeypatch):
    case = world(like_lenet(), [[300], [0], [0]], GREY, dtype=torch.float32)
    executor, before, seen = Compiled(case.task), torch.get_num_threads(), set()
    answer = executor.client.answer

    def seen_answer(*given):
        seen.add(threading.get_ident())
        answer(*given)

    monkeypatch.setattr(executor.client, "answer", seen_answer)
    try:
        torch.set_num_threads(1)
        alone = executor.logits(case.theta, case.packed.images)
        assert seen == {threading.get_ident()}
        torch.set_num_threads(2)
        shared = executor.logits(case.theta, case.packed.images)
        assert len(seen) in (2, 3)  # this one, and others: two, unless the first has done all before the second began
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone, shared)


def test_lenet_is_judged_to_the_last_image_as_in_float64():
    """While it learns: at first, from round to round and when it is good."""
    digits = Digits().load()
    images = np.concatenate([digits.train_images, digits.test_images])
    images = torch.from_numpy(np.pad(np.kron(images, np.ones((3, 3), np.uint8)), [(0, 0), (0, 0), (2, 2), (2, 2)]))
    labels = torch.from_numpy(np.concatenate([digits.train_labels, digits.test_labels]))
    task = Task(build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 10, digits.mean, digits.std)
    executor, judged, model = Compiled(task), [], copy.deepcopy(task.model).double()
    theta, exact = initial_parameters(LeNet(), (1, 28, 28), 10, 0)[None], replace(task, dtype=torch.float64)
    work = RaggedBatch(images[:400], labels[:400], np.arange(0, 401, 50))
    for t in range(1, 9):
        theta, _ = executor.advance(theta, work, torch.full((1, 8), 1 / 8), LocalTraining(0.2, 10), [0], t)
        if t in (1, 5, 8):
            said = functional_call(model, task.flat.views(theta[0].double()), (exact.normalised(images),)).detach()
            assert torch.equal(executor.logits(theta, images)[0].argmax(dim=1), said.argmax(dim=1))
            accuracy, loss = Evaluator(task, images, labels, executor)(theta)
            assert accuracy.item() == (said.argmax(dim=1) == labels).double().mean().item()
            assert loss.item() == pytest.approx(cross_entropy(said, labels).item(), rel=1e-5)
            judged.append(accuracy.item())
    assert judged[0] < 0.5 < 0.8 < judged[-1]
