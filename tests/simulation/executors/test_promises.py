"""What every executor promises besides: runs apart, arguments left alone, kernels and
threads put back, refusals.
"""

import copy

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.learning.models import Logistic
from headgate.learning.networks import build_model
from headgate.simulation.executors import SHIPPED, find
from headgate.simulation.executors.gram import Gram
from headgate.simulation.executors.types import native_kernels
from headgate_kernels.compiled import Compiled

from .worlds import (
    ALIKE_ONLY,
    ALL,
    CLASSES,
    FITTED,
    FITTING,
    KINDS,
    ONE_RUN,
    THREE_RUNS,
    WEIGHED,
    assert_same,
    linear,
    tiny_convolution,
    world,
)


@pytest.mark.parametrize(("kind", "weighed"), WEIGHED)
def test_runs_together_are_runs_alone_also_beside_one_that_broke_down(kind, weighed):
    case = world(FITTED.get(kind, tiny_convolution)(), [*THREE_RUNS, [4, 1, 0, 0, 2]])
    case = case.weighed(weighed)
    case.theta[3] = torch.nan
    training = LocalTraining(0.3, 5, momentum=0.5)
    after, loss = case.advance(ALL[kind](case.task), training)
    assert after[3].isnan().all()
    assert loss[3].isnan()
    tolerance = 0.0 if kind in ("reference", "flat", "compiled") else 1e-12
    for r in range(3):
        alone = case.run(r).advance(ALL[kind](case.task), training)
        assert_same(
            (after[r : r + 1], loss[r : r + 1]), alone, case.theta[r], tolerance
        )


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_without_samples_or_weights_a_model_stays_as_it_is(make, model):
    case = world(model(), THREE_RUNS)
    after, loss = case.advance(make(case.task), LocalTraining(0.3, 5))
    assert torch.equal(after[1], case.theta[1])
    assert loss.isnan().tolist() == [False, True, False]
    # a step so large that every client that trains is lost: one of weight 0 must not
    # count all the same
    weightless = case._replace(weights=torch.zeros_like(case.weights))
    unmoved, same_loss = weightless.advance(
        make(case.task), LocalTraining(1e250, 5, momentum=0.9)
    )
    assert torch.equal(unmoved, case.theta)
    torch.testing.assert_close(same_loss, loss, rtol=1e-12, atol=0, equal_nan=True)
    empty = world(model(), [[0, 0], [0, 0]])
    after, loss = empty.advance(make(empty.task), LocalTraining(0.3, 5))
    assert torch.equal(after, empty.theta)
    assert loss.isnan().tolist() == [True, True]


@pytest.mark.parametrize("gradients_on", [True, False])
@pytest.mark.parametrize(("make", "model"), FITTING)
def test_arguments_and_the_model_are_left_alone_and_nothing_is_remembered(
    make, model, gradients_on
):
    case = world(model(), THREE_RUNS)
    executor, training = make(case.task), LocalTraining(0.3, 3, momentum=0.9)
    kept = copy.deepcopy(
        (case.theta, case.packed, case.weights, case.task.model.state_dict())
    )
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
    assert all(
        torch.equal(value, state[name])
        for name, value in case.task.model.state_dict().items()
    )


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", ["gram", "flat", "batched"])
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
@pytest.mark.parametrize("make", [Gram, Compiled])
def test_a_label_that_is_no_class_is_refused(make, wrong):
    case = world(linear(), ONE_RUN)
    case.packed.labels[2] = wrong
    with pytest.raises(IndexError, match="labels are"):
        case.advance(make(case.task), LocalTraining(0.1, 2))


def test_gram_gives_the_same_bits_with_any_number_of_threads_and_puts_it_back():
    case = world(
        build_model(Logistic(), (1, 28, 28), 10),
        [[60, 0, 90]],
        shape=(1, 28, 28),
        classes=10,
        dtype=torch.float32,
    )
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


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind not in ALIKE_ONLY])
def test_factors_of_1_are_no_factors_and_the_loss_before_has_none(kind):
    case = world(FITTED.get(kind, tiny_convolution)(), THREE_RUNS)
    ones = torch.ones(len(case.packed.labels), dtype=case.theta.dtype)
    alike = case._replace(packed=case.packed._replace(factors=ones))
    training = LocalTraining(0.3, 3, momentum=0.5)
    expected = case.advance(ALL[kind](case.task), training)
    assert_same(
        alike.advance(ALL[kind](case.task), training), expected, case.theta, 1e-12
    )
    weighed, loss = case.weighed().advance(ALL[kind](case.task), training)
    assert not torch.allclose(weighed[0], expected[0][0], rtol=1e-3)
    torch.testing.assert_close(loss, expected[1], rtol=1e-12, atol=0, equal_nan=True)


def test_factors_are_refused_by_executors_that_do_not_apply_them():
    weighing = [name for name in SHIPPED if find(name).weighs_samples]
    assert weighing == ["reference", "gram", "flat", "batched", "streams"]
    case = world(linear(), ONE_RUN).weighed()
    with pytest.raises(
        SettingError,
        match=(
            r"^--executor compiled: the samples of a client cannot have different"
            r" weights$"
        ),
    ):
        case.advance(Compiled(case.task), LocalTraining(0.1, 1))


@pytest.mark.parametrize(("make", "model"), FITTING)
def test_what_does_not_belong_together_is_refused(make, model):
    case = world(model(), ONE_RUN)
    executor, training, packed = make(case.task), LocalTraining(0.1, 1), case.packed
    wrong = {
        "theta is": case._replace(theta=case.theta[:, 1:]),
        "theta is .* must be": case._replace(theta=case.theta.half()),
        "offsets do not divide 23 samples": case._replace(
            packed=packed._replace(offsets=packed.offsets + 1)
        ),
        "offsets do not divide 23 samples among 1 runs": case._replace(
            weights=case.weights[:, :3]
        ),
        "images are": case._replace(
            packed=packed._replace(images=packed.images[:, :1])
        ),
        "factors are 2, must be 23": case._replace(
            packed=packed._replace(factors=torch.ones(2))
        ),
    }
    for reason, each in wrong.items():
        with pytest.raises(ValueError, match=reason):
            each.advance(executor, training)
