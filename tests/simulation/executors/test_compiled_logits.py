"""What compiled models say to images."""

import pytest
import torch
from torch.func import functional_call

from headgate.simulation.executors.compiled import Compiled

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
