"""What the compiled executor promises besides: the same bits in any company, arguments left alone, refusals."""

import copy
import threading

import pytest
import torch

from headgate.kernels.compiled import Compiled
from headgate.learning.local import LocalTraining
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model

from .compiled_nets import GREY, like_lenet, wide_rows
from .worlds import CLASSES, ONE_RUN, THREE_RUNS, world

pytest.importorskip("numba")


@pytest.mark.parametrize("batch_size", [None, 2, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_runs_together_are_runs_alone_to_the_bit(dtype, batch_size):
    case = world(like_lenet(), THREE_RUNS, GREY, dtype=dtype)
    training = LocalTraining(0.3, 5, momentum=0.5, batch_size=batch_size)
    after, loss = case.advance(Compiled(case.task), training)
    for r in range(3):
        alone, alone_loss = case.run(r).advance(Compiled(case.task), training)
        assert torch.equal(after[r], alone[0])
        torch.testing.assert_close(loss[r], alone_loss[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_bits_do_not_hang_on_the_number_of_threads(monkeypatch, batch_size):
    seen, train = set(), Compiled._train
    monkeypatch.setattr(Compiled, "_train", lambda *given: (seen.add(threading.get_ident()), train(*given))[1])
    case = world(
        build_model(LeNet(), (1, 28, 28), 10), [[7, 0, 30, 5], [2, 11, 1, 6]], (1, 28, 28), 10, torch.float32, spread=0.06
    )
    before, given = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            given.append(case.advance(Compiled(case.task), LocalTraining(0.1, 3, batch_size=batch_size)))
            assert len(seen) in ((1,) if threads == 1 else (2, 3))  # all in this thread, then in others: one may do all
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


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(("model", "shape"), [(like_lenet, GREY), (wide_rows, (1, 18, 17))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_memory_of_a_larger_round_that_broke_down_does_not_tell_in_the_next(dtype, model, shape, batch_size):
    small = world(model(), [[3, 1, 2], [4, 1, 5]], shape, dtype=dtype, spread=0.1)
    large = world(small.task.model, [[33, 21, 9]], shape, dtype=dtype)
    executor, training = Compiled(small.task), LocalTraining(0.3, 3, momentum=0.9, batch_size=batch_size)
    asked, said = small.packed.images[:3], Compiled(small.task).logits(small.theta, small.packed.images[:3])
    alone, alone_loss = small.advance(Compiled(small.task), training)
    broken = torch.full_like(large.theta, float("nan"))
    assert large._replace(theta=broken).advance(executor, training)[0].isnan().all()
    assert executor.logits(broken, large.packed.images).isnan().all()
    after, loss = small.advance(executor, training)
    assert torch.equal(after, alone)
    assert torch.equal(loss, alone_loss)
    assert torch.equal(executor.logits(small.theta, asked), said)


def test_without_samples_or_weights_a_model_stays_as_it_is():
    case = world(like_lenet(), THREE_RUNS, GREY)
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
    case = world(like_lenet(), [[0, 0], [0, 0]], GREY)
    after, loss = case.advance(Compiled(case.task), LocalTraining(0.3, 5))
    assert torch.equal(after, case.theta)
    assert loss.isnan().tolist() == [True, True]


@pytest.mark.parametrize("gradients_on", [True, False])
def test_arguments_and_the_model_are_left_alone_and_nothing_is_remembered(gradients_on):
    case = world(like_lenet(), THREE_RUNS, GREY)
    executor, training = Compiled(case.task), LocalTraining(0.3, 3, momentum=0.9)
    theta, packed, weights, state = copy.deepcopy((case.theta, case.packed, case.weights, case.task.model.state_dict()))
    with torch.set_grad_enabled(gradients_on):
        first, first_loss = case.advance(executor, training)
        executor.advance(first, case.packed, case.weights, training, case.seeds, 4)
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
    case = world(like_lenet(), ONE_RUN, GREY)
    case.packed.labels[2] = wrong
    with pytest.raises(IndexError, match="labels are"):
        case.advance(Compiled(case.task), LocalTraining(0.1, 2))


def test_what_does_not_belong_together_is_refused():
    case = world(like_lenet(), ONE_RUN, GREY)
    with pytest.raises(ValueError, match="theta is"):
        case._replace(theta=case.theta[:, 1:]).advance(Compiled(case.task), LocalTraining(0.1, 1))
    with pytest.raises(ValueError, match="offsets do not divide"):
        case._replace(weights=case.weights[:, :3]).advance(Compiled(case.task), LocalTraining(0.1, 1))
