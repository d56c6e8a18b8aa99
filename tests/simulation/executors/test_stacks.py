"""Stacks of convolutions and linear layers, as `compiled` and the Triton kernels read them, and the latter hold them."""

import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.kernels.stack_net import DenseLayer, PooledConvolution, read_stack
from headgate.learning.models import LeNet
from headgate.learning.networks import build_model
from headgate.simulation.executors.types import Task

from .worlds import CLASSES, task_of, with_triton


def lenet():
    return Task(build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 10, (0.5,), (0.5,))


def test_lenet_is_read_off_its_module():
    task = lenet()
    net = read_stack(task)
    assert [type(layer) for layer in net.layers] == [PooledConvolution] * 2 + [DenseLayer] * 3
    assert [layer.size for layer in net.layers] == [6 * 14 * 14, 16 * 5 * 5, 120, 84, 10]
    assert net.sizes == [32 * 32, 6 * 14 * 14, 400, 120, 84, 10]  # the images lie in their frame
    assert [layer.activation for layer in net.layers] == [1, 1, 1, 1, 0]
    theta = torch.arange(task.flat.size)
    for layer, name in zip(net.layers, ("0", "3", "7", "9", "11"), strict=True):
        own = task.flat.views(theta)
        assert (layer.weight, layer.bias) == (own[f"{name}.weight"].flatten()[0], own[f"{name}.bias"][0])


def test_a_layer_without_parameters_may_come_twice():
    bent = nn.Tanh()
    model = nn.Sequential(nn.Conv2d(1, 2, 3), bent, nn.Flatten(), nn.Linear(8, 5), bent, nn.Linear(5, CLASSES))
    assert [layer.activation for layer in read_stack(task_of(model, (1, 4, 4))).layers] == [2, 2, 0]


def between(*layers):
    """Some layers that keep 2x6x6, and what makes a model of them."""
    return nn.Sequential(nn.Conv2d(2, 2, 1), *layers, nn.Flatten(), nn.Linear(72, CLASSES))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (between(nn.Conv2d(2, 2, 3, stride=2)), "Conv2d"),
        (between(nn.Conv2d(2, 2, 3, padding=2, dilation=2)), "Conv2d"),
        (between(nn.Conv2d(2, 2, 3, padding=1, groups=2)), "Conv2d"),
        (between(nn.Conv2d(2, 2, 3, padding="same")), "Conv2d"),
        (between(nn.Conv2d(2, 2, (3, 1), padding=(1, 0))), "Conv2d"),
        (between(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")), "Conv2d"),
        (between(nn.Conv2d(2, 3, 2, padding=2)), "padding below its kernel"),
        (between(nn.GroupNorm(1, 2)), "GroupNorm"),
        (between(nn.Sequential(nn.ReLU())), "Sequential"),
        (between(nn.AvgPool2d(1)), "AvgPool2d"),
        (between(nn.MaxPool2d(2, stride=1)), "MaxPool2d"),
        (between(nn.MaxPool2d(2, ceil_mode=True)), "MaxPool2d"),
        (between(nn.MaxPool2d((1, 2))), "MaxPool2d"),
        (between(nn.MaxPool2d(3)), "MaxPool2d"),
        (between(nn.MaxPool2d(2), nn.MaxPool2d(2)), "MaxPool2d"),
        (between(nn.Tanh(), nn.ReLU()), "ReLU"),
        (between(nn.Sigmoid()), "Sigmoid"),
        (nn.Sequential(nn.Tanh(), *between()), "Tanh"),
        (nn.Sequential(nn.MaxPool2d(2), *between()), "MaxPool2d"),
        (nn.Sequential(nn.Conv2d(2, 1, 1), nn.Flatten(2), nn.Linear(36, CLASSES)), "Flatten"),
        (between(nn.Linear(6, 6)), "Linear"),
        (nn.Sequential(nn.Conv2d(2, 4, 6), nn.Flatten()), "must end in a Linear of 4"),
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 7)), "must end in a Linear of 4"),
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.ReLU()), "must end in a Linear of 4"),
        (nn.Flatten(), "as a Sequential does; Flatten does not"),
    ],
)
def test_other_nets_are_refused(model, reason):
    with pytest.raises(SettingError, match=rf"^--executor compiled: .*{reason}"):
        read_stack(task_of(model))


def test_shared_parameters_are_refused():
    same = nn.Linear(72, 72)
    with pytest.raises(SettingError, match="shared"):
        read_stack(task_of(nn.Sequential(nn.Flatten(), same, same, nn.Linear(72, 4))))


@with_triton
def test_a_space_takes_the_memory_it_was_said_to_take():
    from headgate.kernels.stack_steps import Workspace, bytes_needed
    from headgate.kernels.triton_executor import Room

    net, room = read_stack(lenet()), Room(5, 3)
    for momentum in (False, True):
        space = Workspace(net, room, momentum, torch.float32, torch.device("cpu"))
        held = [*space.inputs, *space.slopes, space.wide_slope, space.losses, space.labels, space.master, space.velocity]
        held += [winner for winner in space.winners if winner is not None]
        taken = {each.data_ptr(): each.nbytes for each in held}
        assert sum(taken.values()) == bytes_needed(net, room, momentum, torch.float32)
