"""What the Triton kernels work on: the net read off a module, its parameters in another order, tiles and memory."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headgate.errors import SettingError
from headgate.kernels.packed_tiles import TUNED, count_tiles, tile_for, tiles
from headgate.kernels.residual_net import read_blocks
from headgate.learning.local import LocalTraining
from headgate.learning.models import ResNet9
from headgate.learning.networks import Residual, build_model
from headgate.simulation.executors.types import Task

from .worlds import block, with_triton


def head(channels):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def task_of(model, shape=(3, 32, 32), **options):
    return Task(model, shape, 10, (0.5,) * shape[0], (0.5,) * shape[0], **options)


def test_resnet9_is_read_off_its_module():
    net = read_blocks(task_of(build_model(ResNet9(), (3, 32, 32), 10)))
    assert [(each.inward, each.outward, each.height, each.taps) for each in net.blocks] == [
        (32, 64, 32, 1), (64, 128, 32, 9), (128, 128, 16, 9), (128, 128, 16, 9), (128, 256, 16, 9),
        (256, 512, 8, 9), (512, 512, 4, 9), (512, 512, 4, 9),
    ]  # fmt: skip
    assert [i for i, each in enumerate(net.blocks) if each.pool] == [1, 4, 5]
    assert {i: each.added for i, each in enumerate(net.blocks) if each.added is not None} == {3: 2, 7: 6}
    assert {each.group for each in net.blocks} == {2, 4, 8, 16}


@pytest.mark.parametrize("channels", [1, 3, 32])
def test_parameters_go_to_their_places_and_back(channels):
    task = task_of(nn.Sequential(block(channels, 32), block(32, 64), head(64)), (channels, 8, 8))
    net = read_blocks(task)
    theta = torch.randn(2, task.flat.size)
    vectors = net.packed(theta)
    assert torch.equal(net.flat(vectors), theta)
    assert net.size % 16 == 0
    second, weight = net.blocks[1], task.flat.views(theta)["1.0.weight"]
    stored = vectors[:, second.weights : net.affine].view(2, 3, 3, 32, 64)
    assert torch.equal(stored, weight.permute(0, 3, 4, 2, 1))
    first = vectors[:, : second.weights].view(2, net.blocks[0].taps * net.blocks[0].inward, 32)
    assert torch.equal(first[:, 9 * channels :], torch.zeros_like(first[:, 9 * channels :]))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (nn.Sequential(block(3, 32), nn.Flatten(), nn.Linear(32 * 64, 10)), "must end in AdaptiveAvgPool2d"),
        (nn.Sequential(nn.Linear(3, 10)), "must end in AdaptiveAvgPool2d"),
        (nn.Sequential(block(3, 48, 16), head(48)), "multiple of 32 channels"),
        (nn.Sequential(block(3, 32), nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.Mish(), head(32)), "bias=False"),
        (nn.Sequential(block(3, 32), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Mish(), head(32)), "ReLU"),
        (nn.Sequential(block(3, 32), Residual(block(32, 64)), head(64)), "Residual"),
        (nn.Sequential(block(3, 32), Residual(block(32, 32)), nn.MaxPool2d(2), head(32)), "MaxPool2d"),
        (nn.Sequential(block(3, 32), nn.MaxPool2d(3), head(32)), "MaxPool2d"),
        (nn.Sequential(block(3, 32), Residual(block(32, 32), Residual(block(32, 32))), head(32)), "Residual"),
        (nn.Sequential(Residual(block(32, 32)), head(32)), "Residual"),
    ],
)
def test_other_nets_are_refused(model, reason):
    with pytest.raises(SettingError, match=rf"^--executor triton: .*{reason}"):
        read_blocks(task_of(model, (32 if isinstance(model[0], Residual) else 3, 8, 8)))


def test_a_parameter_used_twice_is_refused():
    twice = block(32, 32)
    with pytest.raises(SettingError, match="shared"):
        read_blocks(task_of(nn.Sequential(block(3, 32), twice, twice, head(32)), (3, 8, 8)))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 20), st.sampled_from([1, 4, 16, 64]))
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


def test_tuned_tiles_divide_what_they_must():
    for each in read_blocks(task_of(build_model(ResNet9(), (3, 32, 32), 10))).blocks:
        for kind in ("forward", "backward", "descend"):
            for itemsize in (2, 4):
                tile = tile_for(kind, each, itemsize)
                made, summed = (each.inward, each.outward) if kind == "backward" else (each.outward, each.inward)
                assert made % tile.columns == 0
                assert summed % (tile.rows if kind == "descend" else tile.deep) == 0
    assert TUNED


@with_triton
def test_a_workspace_takes_the_memory_it_was_said_to_take():
    from headgate.kernels.residual_steps import Room, Workspace, bytes_needed

    net, room = read_blocks(task_of(nn.Sequential(block(3, 32), nn.MaxPool2d(2), head(32)), (3, 8, 8))), Room(5, 3)
    for momentum in (False, True):
        for dtype in (torch.float32, torch.bfloat16):
            space = Workspace(net, room, momentum, dtype, torch.device("cpu"))
            held = [*space.inputs, *space.raw, *space.means, *space.scales, *space.slopes, space.raw_slope, space.d_affine]
            held += [space.features, space.logits, space.losses, space.labels, space.master, space.low, space.velocity]
            held += space.winners
            taken = {each.data_ptr(): each.nbytes for each in held}
            assert sum(taken.values()) == bytes_needed(net, room, momentum, dtype)


@with_triton
@given(st.lists(st.lists(st.integers(0, 6), min_size=2, max_size=2), min_size=1, max_size=6), st.integers(0, 10**6))
def test_chunks_are_all_runs_in_their_order_and_fit(sizes, memory):
    from headgate.kernels import residual_steps
    from headgate.kernels.triton_executor import Room, TritonKernels
    from headgate.simulation.executors.types import rung

    executor = TritonKernels.__new__(TritonKernels)
    executor.task = task_of(nn.Sequential(block(3, 32), head(32)), (3, 4, 4))
    executor.net, executor.memory, executor.steps = read_blocks(executor.task), memory, residual_steps
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    chunks = list(executor._chunks(offsets, 2, LocalTraining(0.1, 1)))
    assert [r for first, last in chunks for r in range(first, last)] == list(range(len(sizes)))
    for first, last in chunks:
        held = np.array(sizes[first:last])
        room = Room(rung(int(held.sum())), rung(int((held > 0).sum())))
        assert last - first == 1 or residual_steps.bytes_needed(executor.net, room, False, torch.float32) <= memory
