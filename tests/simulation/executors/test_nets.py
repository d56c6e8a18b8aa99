"""The nets that kernels take, read off a module: stacks of layers, and blocks of
residual nets; their tiles and memory.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headgate.errors import SettingError
from headgate.learning.architectures import Residual
from headgate.learning.models import LeNet, ResNet9
from headgate.learning.networks import build_model
from headgate_kernels.packed_tiles import TUNED, count_tiles, tile_for, tiles
from headgate_kernels.residual_net import read_blocks
from headgate_kernels.stack_net import read_stack

from .worlds import CLASSES, block, task_of, with_triton


def head(channels):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def lenet():
    return task_of(build_model(LeNet(), (1, 28, 28), 10), (1, 28, 28), 10)


@pytest.fixture(scope="module")
def resnet9():
    return read_blocks(
        task_of(build_model(ResNet9(), (3, 32, 32), 10), (3, 32, 32), 10)
    )


# stacks


def test_lenet_is_read_off_its_module():
    task = lenet()
    net = read_stack(task)
    assert [layer.linear for layer in net.layers] == [False] * 2 + [True] * 3
    assert [layer.size for layer in net.layers] == [
        6 * 14 * 14,
        16 * 5 * 5,
        120,
        84,
        10,
    ]
    assert net.sizes == [
        32 * 32,
        6 * 14 * 14,
        400,
        120,
        84,
        10,
    ]  # the images lie in their frame
    assert [layer.activation for layer in net.layers] == [1, 1, 1, 1, 0]
    theta = torch.arange(task.flat.size)
    for layer, name in zip(net.layers, ("0", "3", "7", "9", "11"), strict=True):
        own = task.flat.views(theta)
        assert (layer.weight, layer.bias) == (
            own[f"{name}.weight"].flatten()[0],
            own[f"{name}.bias"][0],
        )


def test_a_layer_without_parameters_may_come_twice():
    bent = nn.Tanh()
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        bent,
        nn.Flatten(),
        nn.Linear(8, 5),
        bent,
        nn.Linear(5, CLASSES),
    )
    assert [
        layer.activation for layer in read_stack(task_of(model, (1, 4, 4))).layers
    ] == [2, 2, 0]


def between(*layers):
    """Some layers that keep 2x6x6, and what makes a model of them."""
    return nn.Sequential(
        nn.Conv2d(2, 2, 1), *layers, nn.Flatten(), nn.Linear(72, CLASSES)
    )


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
        (
            nn.Sequential(nn.Conv2d(2, 1, 1), nn.Flatten(2), nn.Linear(36, CLASSES)),
            "Flatten",
        ),
        (between(nn.Linear(6, 6)), "Linear"),
        (nn.Sequential(nn.Conv2d(2, 4, 6), nn.Flatten()), "must end in a Linear of 4"),
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 7)), "must end in a Linear of 4"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.ReLU()),
            "must end in a Linear of 4",
        ),
        (nn.Flatten(), "as a Sequential does; Flatten does not"),
    ],
)
def test_other_nets_are_refused(model, reason):
    with pytest.raises(SettingError, match=rf"^--executor compiled: .*{reason}"):
        read_stack(task_of(model))


# blocks


def test_resnet9_is_read_off_its_module(resnet9):
    shapes = [
        (each.inward, each.outward, each.height, each.taps) for each in resnet9.layers
    ]
    assert shapes == [
        (32, 64, 32, 1), (64, 128, 32, 9), (128, 128, 16, 9), (128, 128, 16, 9),
        (128, 256, 16, 9), (256, 512, 8, 9), (512, 512, 4, 9), (512, 512, 4, 9),
    ]  # fmt: skip
    assert [i for i, each in enumerate(resnet9.layers) if each.pool] == [1, 4, 5]
    assert {
        i: each.added for i, each in enumerate(resnet9.layers) if each.added is not None
    } == {3: 2, 7: 6}
    assert {each.group for each in resnet9.layers} == {2, 4, 8, 16}


@pytest.mark.parametrize("channels", [1, 3, 32])
def test_parameters_go_to_their_places_and_back(channels):
    task = task_of(
        nn.Sequential(block(channels, 32), block(32, 64), head(64)),
        (channels, 8, 8),
        10,
    )
    net = read_blocks(task)
    theta = torch.randn(2, task.flat.size)
    vectors = net.packed(theta)
    assert torch.equal(net.flat(vectors), theta)
    assert net.size % 16 == 0
    second, weight = net.layers[1], task.flat.views(theta)["1.0.weight"]
    stored = vectors[:, second.weights : net.affine].view(2, 3, 3, 32, 64)
    assert torch.equal(stored, weight.permute(0, 3, 4, 2, 1))
    first = vectors[:, : second.weights].view(
        2, net.layers[0].taps * net.layers[0].inward, 32
    )
    assert torch.equal(
        first[:, 9 * channels :], torch.zeros_like(first[:, 9 * channels :])
    )


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            nn.Sequential(block(3, 32), nn.Flatten(), nn.Linear(32 * 64, 10)),
            "must end in AdaptiveAvgPool2d",
        ),
        (nn.Sequential(nn.Linear(3, 10)), "must end in AdaptiveAvgPool2d"),
        (nn.Sequential(block(3, 48, 16), head(48)), "multiple of 32 channels"),
        (
            nn.Sequential(
                block(3, 32),
                nn.Conv2d(32, 32, 3, padding=1),
                nn.GroupNorm(8, 32),
                nn.Mish(),
                head(32),
            ),
            "bias=False",
        ),
        (
            nn.Sequential(
                block(3, 32),
                nn.Conv2d(32, 32, 3, padding=1),
                nn.ReLU(),
                nn.Mish(),
                head(32),
            ),
            "ReLU",
        ),
        (nn.Sequential(block(3, 32), Residual(block(32, 64)), head(64)), "Residual"),
        (
            nn.Sequential(
                block(3, 32), Residual(block(32, 32)), nn.MaxPool2d(2), head(32)
            ),
            "MaxPool2d",
        ),
        (nn.Sequential(block(3, 32), nn.MaxPool2d(3), head(32)), "MaxPool2d"),
        (
            nn.Sequential(
                block(3, 32), Residual(block(32, 32), Residual(block(32, 32))), head(32)
            ),
            "Residual",
        ),
        (nn.Sequential(Residual(block(32, 32)), head(32)), "Residual"),
        (
            nn.Sequential(block(3, 32), head(32)),
            "6x8 before a convolution, sides must be 1, 2, 4",
        ),
    ],
)
def test_other_blocks_are_refused(model, reason):
    shape = (
        32 if isinstance(model[0], Residual) else 3,
        6 if "6x8" in reason else 8,
        8,
    )
    with pytest.raises(SettingError, match=rf"^--executor triton: .*{reason}"):
        read_blocks(task_of(model, shape, 10))


# both


def test_shared_parameters_are_refused():
    same, twice = nn.Linear(72, 72), block(32, 32)
    for read, task in (
        (
            read_stack,
            task_of(nn.Sequential(nn.Flatten(), same, same, nn.Linear(72, 4))),
        ),
        (
            read_blocks,
            task_of(nn.Sequential(block(3, 32), twice, twice, head(32)), (3, 8, 8), 10),
        ),
    ):
        with pytest.raises(SettingError, match="shared"):
            read(task)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=8),
    st.integers(1, 20),
    st.sampled_from([1, 4, 16, 64]),
)
def test_tiles_cover_every_position_once_and_never_two_clients(sizes, positions, rows):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    count = count_tiles(int(offsets[-1]), len(sizes), positions, rows)
    client, start = tiles(offsets, positions, rows, count)
    seen = np.zeros(offsets[-1] * positions, dtype=np.int64)
    for c, first in zip(client, start, strict=True):
        if c >= 0:
            assert first >= offsets[c] * positions
            seen[first : min(first + rows, offsets[c + 1] * positions)] += 1
    assert (seen == 1).all()


def test_tuned_tiles_divide_what_they_must(resnet9):
    for each in resnet9.layers:
        for kind in ("forward", "backward", "descend"):
            for itemsize in (2, 4):
                tile = tile_for(kind, each, itemsize)
                made, summed = (
                    (each.inward, each.outward)
                    if kind == "backward"
                    else (each.outward, each.inward)
                )
                assert made % tile.columns == 0
                assert summed % (tile.rows if kind == "descend" else tile.deep) == 0
    assert TUNED


@with_triton
@pytest.mark.parametrize("kind", ["stack", "blocks"])
def test_a_workspace_takes_the_memory_it_was_said_to_take(kind):
    from headgate_kernels.triton_steps import ResidualSpace, Room, StackSpace

    own, net, dtypes = StackSpace, read_stack(lenet()), [torch.float32]
    if kind == "blocks":
        task = task_of(
            nn.Sequential(block(3, 32), nn.MaxPool2d(2), head(32)), (3, 8, 8), 10
        )
        own, net, dtypes = (
            ResidualSpace,
            read_blocks(task),
            [torch.float32, torch.bfloat16],
        )
    for momentum in (False, True):
        for dtype in dtypes:
            space = own(net, Room(5, 3), momentum, dtype, torch.device("cpu"))
            lists = [
                each if isinstance(each, list | tuple) else [each]
                for each in vars(space).values()
            ]
            held = [
                each
                for some in lists
                for each in some
                if isinstance(each, torch.Tensor)
            ]
            counted = {
                each.data_ptr(): each.nbytes
                for each in held
                if each.dtype != torch.int32
            }  # tables are small
            assert sum(counted.values()) == own.bytes_needed(
                net, Room(5, 3), momentum, dtype
            )
