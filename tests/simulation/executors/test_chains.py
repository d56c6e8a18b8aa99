"""Layers are read off a module only where doing them one after the other is all that it
does.
"""

import types

import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors import choose
from headgate.simulation.executors.layers import is_chain
from headgate.simulation.executors.reference import Reference
from headgate_kernels.stack_net import read_stack

from .worlds import CLASSES, ONE_RUN, assert_same, world


class NamedChain(nn.Sequential):
    """A name of one's own, and nothing else."""


class DoubledChain(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def linear(kind):
    return kind(nn.Flatten(), nn.Linear(72, CLASSES))


def net(kind):
    return kind(nn.Flatten(), nn.Linear(72, 7), nn.ReLU(), nn.Linear(7, CLASSES))


@pytest.mark.parametrize("make", [linear, net])
@pytest.mark.parametrize("altered", ["subclass", "on the object", "hook"])
def test_a_forward_of_ones_own_is_done_and_not_its_layers(make, altered):
    model, training = (
        make(DoubledChain if altered == "subclass" else nn.Sequential),
        LocalTraining(0.1, 3),
    )
    if altered == "on the object":
        model.forward = types.MethodType(
            lambda self, x: 2 * nn.Sequential.forward(self, x), model
        )
    if altered == "hook":
        model[1].register_forward_hook(lambda layer, given, out: 2 * out)
    case = world(model, ONE_RUN)
    assert not is_chain(model)
    chosen = choose(case.task, training)
    assert chosen.name not in ("gram", "compiled")
    judged = case.advance(Reference(case.task), training)
    assert_same(case.advance(chosen, training), judged, case.theta)
    chained = world(make(nn.Sequential), ONE_RUN)
    other, _ = chained.advance(Reference(chained.task), training)
    assert not torch.allclose(other, judged[0])  # it does make a difference
    for name in ("gram", "compiled"):
        with pytest.raises(SettingError):
            choose(case.task, training, name)
    with pytest.raises(SettingError, match="as a Sequential does; "):
        read_stack(case.task)


def test_a_subclass_that_adds_a_name_alone_is_read_as_what_it_is():
    training = LocalTraining(0.1, 3)
    case = world(linear(NamedChain), ONE_RUN)
    assert choose(case.task, training).name == "gram"
    assert_same(
        case.advance(choose(case.task, training), training),
        case.advance(Reference(case.task), training),
        case.theta,
    )
    pytest.importorskip("numba")
    assert (
        choose(world(net(NamedChain), ONE_RUN).task, training, "compiled").name
        == "compiled"
    )
