"""A step of descent is the one of torch.optim.SGD, to the bit."""

import pytest
import torch

from headgate.learning.local import LocalTraining
from headgate.learning.torch_client import descend


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_steps_are_those_of_torch(momentum, decay):
    torch.manual_seed(3)
    start, slopes = [torch.randn(4, 3), torch.randn(5)], [[torch.randn(4, 3), torch.randn(5)] for _ in range(4)]
    theirs = [each.clone().requires_grad_() for each in start]
    optimiser = torch.optim.SGD(theirs, lr=0.1, momentum=momentum, weight_decay=decay)
    ours, velocity = [each.clone() for each in start], [torch.zeros_like(each) for each in start]
    for change in slopes:
        for each, slope in zip(theirs, change, strict=True):
            each.grad = slope.clone()
        optimiser.step()
        descend(ours, velocity, change, LocalTraining(0.1, 1, momentum, decay))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
