"""What every executor promises besides: runs apart, arguments left alone, kernels and threads put back, refusals."""

import copy

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from headgate.kernels.compiled import Compiled
from headgate.learning.local import LocalTraining
from headgate.learning.models import Logistic
from headgate.learning.networks import build_model
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import Gram
from headgate.simulation.executors.reference import Reference

from .worlds import (
    CLASSES,
    FITTING,
    ONE_RUN,
    THREE_RUNS,
    assert_same,
    linear,
    world,
)


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_runs_together_are_runs_alone(make, model):
    case = world(model(), THREE_RUNS)
    training = LocalTraining(0.3, 5, momentum=0.5)
    after, loss = case.advance(make(case.task), training)
    for r in range(3):
        alone, alone_loss = case.run(r).advance(make(case.task), training)
        if make in (Reference, FlatLoop, Compiled):
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
    empty = world(model(), [[0, 0], [0, 0]])
    after, loss = empty.advance(make(empty.task), LocalTraining(0.3, 5))
    assert torch.equal(after, empty.theta)
    assert loss.isnan().tolist() == [True, True]


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


@pytest.mark.parametrize("wrong", [-100, -1, CLASSES])
@pytest.mark.parametrize("make", [Gram, Compiled])
def test_a_label_that_is_no_class_is_refused(make, wrong):
    case = world(linear(), ONE_RUN)
    case.packed.labels[2] = wrong
    with pytest.raises(IndexError, match="labels are"):
        case.advance(make(case.task), LocalTraining(0.1, 2))


def test_gram_does_not_hang_on_the_number_of_threads_and_puts_it_back():
    case = world(build_model(Logistic(), (1, 28, 28), 10), [[60, 0, 90]], shape=(1, 28, 28), classes=10, dtype=torch.float32)
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
