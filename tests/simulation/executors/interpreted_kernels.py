"""The Triton kernels, run by Triton's interpreter on the CPU: `test_triton.py` starts
pytest on this file.

The interpreter must be asked for before triton is imported, and must not be asked for
in any other test.
"""

import copy
import inspect
import os
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headgate.learning.architectures import Residual
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.reference import Reference
from headgate_kernels.triton_executor import TritonKernels

from .worlds import block, world

SIZES = [3, 0, 1]  # more than fills a tile, nothing, less than one
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
BUILTIN = {}
"""by package of Triton's language, the names of what the interpreter stands in for"""


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("only with TRITON_INTERPRET=1")
    import triton.language as tl
    from triton.language.core import is_builtin
    from triton.runtime import interpreter

    from headgate_kernels import triton_norms

    quick = SimpleNamespace(
        fast_expf=lambda u: tl.exp(u), fast_dividef=lambda a, b: a / b
    )
    monkeypatch.setattr(
        triton_norms, "libdevice", quick
    )  # which the interpreter does not have
    plain = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        """numpy 2.4 no longer makes a number of an array of one."""
        plain(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def patch_builtin(package, builder, scope):
        """As Triton's own, which looks through all of a package at every call of a
        function in a kernel.
        """
        if package not in BUILTIN:
            BUILTIN[package] = [
                name
                for name, member in inspect.getmembers(package)
                if is_builtin(member)
            ]
        for name in BUILTIN[package]:
            if is_builtin(member := getattr(package, name)):
                interpreter._patch_attr(package, name, member, builder, scope)

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
    monkeypatch.setattr(interpreter, "_patch_builtin", patch_builtin)
    # a third of the time is spent on looking for overflows, which these sizes cannot
    # have
    options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    monkeypatch.setattr(interpreter.interpreter_builder, "options", options)


def ints(values):
    return torch.tensor(np.asarray(values), dtype=torch.int32)


def close(given, expected, tolerance=2e-5):
    given, expected = given.detach(), expected.detach()
    assert (given - expected).abs().max() <= tolerance * max(
        float(expected.abs().max()), 1e-3
    )


def image(rows):
    return rows.permute(0, 3, 1, 2)


def rows(images):
    return images.permute(0, 2, 3, 1)


def each_client():
    for client, n in enumerate(SIZES):
        if n:
            yield client, slice(OFFSETS[client], OFFSETS[client + 1])


@pytest.mark.parametrize(
    ("height", "width", "positions", "momentum"), [(4, 4, 32, 0.0), (8, 4, 16, 0.9)]
)
def test_convolution_its_slope_and_its_descent(height, width, positions, momentum):
    from triton.tools.tensor_descriptor import TensorDescriptor

    from headgate_kernels import triton_kernels as kernels
    from headgate_kernels.packed_tiles import count_tiles, tiles

    random, inward, outward = torch.Generator().manual_seed(0), 32, 64
    samples, clients, area = sum(SIZES), len(SIZES), height * width
    x, added = (
        torch.randn(samples, height, width, inward, generator=random) for _ in range(2)
    )
    slope = torch.randn(samples, height, width, outward, generator=random)
    w = torch.randn(clients, 9, inward, outward, generator=random)
    count = count_tiles(samples, clients, area, positions)
    table = (
        *(ints(each) for each in tiles(OFFSETS, area, positions, count)),
        ints(OFFSETS),
    )
    y, dx = torch.full_like(slope, torch.nan), torch.full_like(x, torch.nan)

    def box(array, *taken):
        return TensorDescriptor(
            array, list(array.shape), list(array.stride()), [*taken]
        )

    def images(array, channels):
        return box(
            array,
            max(1, positions // area),
            min(height, positions // width),
            width,
            channels,
        )

    whole = w.view(clients, 9 * inward, outward)
    kernels.convolve[(count * 2,)](
        images(x, 16), box(whole, 1, 16, 32), y, y, *table, height, width, inward,
        outward, 9, False, False, positions, 32, 16, "ieee",
    )  # fmt: skip
    kernels.convolve[(count,)](
        images(slope, 64), box(whole, 1, 32, 64), dx, added, *table, height, width,
        outward, inward, 9, True, True, positions, 32, 64, "ieee",
    )  # fmt: skip
    master, velocity, low = (
        w.clone(),
        torch.randn(w.shape, generator=random),
        torch.empty(w.shape, dtype=torch.float16),
    )
    before = velocity.clone()
    kernels.descend_convolution[9 * 2, clients](
        images(x, 16), box(slope.view(-1, outward), positions, 64), master, velocity,
        low, ints(OFFSETS), w.stride(0), w.stride(0), 0.1, momentum, 0.01, height,
        width, inward, outward, 9, momentum > 0, True, 16, 64, positions, "ieee",
    )  # fmt: skip
    for c, own in each_client():
        inputs = image(x[own]).requires_grad_()
        weights = w[c].view(3, 3, inward, outward).permute(3, 2, 0, 1).requires_grad_()
        made = F.conv2d(inputs, weights, padding=1)
        close(y[own], rows(made))
        to_inputs, to_weights = torch.autograd.grad(
            made, [inputs, weights], image(slope[own])
        )
        close(dx[own], rows(to_inputs) + added[own])
        change = (
            to_weights.permute(2, 3, 1, 0).reshape(9, inward, outward)
            + 0.01 * w[c]
            + momentum * before[c]
        )
        close(master[c], w[c] - 0.1 * change)
        close(low[c].float(), master[c], 1e-3)
        if momentum:
            close(velocity[c], change)
    assert torch.equal(master[1], w[1])  # a client without samples


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    ("pool", "add"), [(False, False), (False, True), (True, False)]
)
def test_normalisation_mish_and_pool(pool, add, at_once):
    from headgate_kernels import triton_norms as kernels

    random, channels, group, height, width = (
        torch.Generator().manual_seed(1),
        32,
        4,
        4,
        8,
    )
    samples, clients = sum(SIZES), len(SIZES)
    x, added = (
        2 + torch.randn(samples, height, width, channels, generator=random)
        for _ in range(2)
    )
    affine = torch.randn(clients, 2 * channels, generator=random)
    affine[:, 3] = 0  # where all corners are alike the first one wins
    owner = ints([*np.repeat(np.arange(clients), SIZES), -1])
    out = (samples, height // 2, width // 2, channels) if pool else x.shape
    slope = torch.randn(out, generator=random)
    y, winner = torch.full(out, torch.nan), torch.full(out, 9, dtype=torch.uint8)
    mean, rstd = torch.empty(2, samples, channels)
    dx, d_affine = (
        torch.full_like(x, torch.nan),
        torch.full((samples, 2 * channels), torch.nan),
    )
    shape = (height * width, width, channels, group, pool)
    strip = (
        16,
        (height * width // 4 if pool else height * width) // (1 if at_once else 4),
    )

    def forward(learn):
        kernels.norm_mish[((samples + 1) * 2,)](
            x, affine, added, y, winner, mean, rstd, owner, 2 * channels, 1e-5, *shape,
            add, learn, *strip
        )  # fmt: skip

    forward(False)
    judged = y.clone()
    assert (winner == 9).all()  # without learning they are not asked for
    forward(True)
    assert torch.equal(judged, y)
    kernels.norm_mish_slope[((samples + 1) * 2,)](
        x, slope, affine, winner, mean, rstd, dx, d_affine, owner, 2 * channels,
        2 * channels, *shape, *strip
    )  # fmt: skip
    for c, own in each_client():
        inputs = image(x[own]).requires_grad_()
        scales = affine[c].clone().requires_grad_()
        made = F.mish(F.group_norm(inputs, channels // group, *scales.split(channels)))
        made = F.max_pool2d(made, 2) if pool else made
        close(y[own], rows(made) + (added[own] if add else 0))
        to_inputs, to_scales = torch.autograd.grad(
            made, [inputs, scales], image(slope[own])
        )
        close(dx[own], rows(to_inputs), 1e-4)
        close(d_affine[own].sum(dim=0), to_scales, 1e-4)


def tiny_net():
    return nn.Sequential(
        block(3, 32),
        nn.MaxPool2d(2),
        Residual(block(32, 32), block(32, 32)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )


def tiny_stack():
    return nn.Sequential(
        nn.Conv2d(3, 2, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2, 3, 2, padding=1, bias=False),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(27, 4),
        nn.Tanh(),
        nn.Linear(4, 5, bias=False),
    )


def a_world(sizes, net=tiny_net):
    shape = (3, 4, 4) if net is tiny_net else (3, 5, 4)
    return world(net(), sizes, shape, 5, torch.float32, seed=2, spread=0.1, about=True)


@pytest.mark.parametrize("net", [tiny_net, tiny_stack])
@pytest.mark.parametrize(
    "training",
    [LocalTraining(0.2, 1), LocalTraining(0.1, 2, momentum=0.9, weight_decay=0.02)],
)
def test_the_executor_does_what_the_reference_does(net, training):
    case = a_world([[1, 0, 2], [0, 0, 0], [0, 1, 0]], net)
    given, executor = case.theta.clone(), TritonKernels(case.task)
    after, loss = case.advance(executor, training)
    expected, expected_loss = case.advance(Reference(case.task), training)
    assert (after - expected).norm() <= 1e-5 * (expected - given).norm()
    torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=0, equal_nan=True)
    assert torch.equal(after[1], given[1])
    assert torch.equal(case.theta, given)
    if (
        training.steps == 1
    ):  # a run alone, with room left over from before: the same bits
        assert torch.equal(after[2:], case.run(2).advance(executor, training)[0])


def test_arrays_of_a_round_are_let_go_before_larger_ones_are_made(
    monkeypatch,
):
    """Otherwise both are held at once, and do not fit into the memory that was asked
    for.
    """
    made, plain = [], TritonKernels._space

    def space(self, room, momentum):
        assert [each() for each in made if each() is not None] == []
        fresh = plain(self, room, momentum)
        made.append(weakref.ref(fresh))
        return fresh

    monkeypatch.setattr(TritonKernels, "_space", space)
    case = a_world([[1], [3]])
    executor = TritonKernels(case.task)
    for r in range(2):
        case.run(r).advance(executor, LocalTraining(0.2, 1))
    assert len(made) == 2


def test_a_run_that_has_broken_down_leaves_the_others_alone():
    case = a_world([[1], [1]], tiny_stack)
    alone, _ = case.advance(TritonKernels(case.task), LocalTraining(0.2, 1))
    case.theta[0, 0] = torch.nan
    together, loss = case.advance(TritonKernels(case.task), LocalTraining(0.2, 1))
    assert torch.equal(together[1], alone[1])
    assert not torch.isfinite(together[0]).all()
    assert torch.isnan(loss[0])


@pytest.mark.parametrize("net", [tiny_net, tiny_stack])
def test_logits_are_those_of_the_model(net):
    task, theta, packed, *_ = a_world([[2], [1]], net)
    executor = TritonKernels(task)
    for images in (packed.images, packed.images[:1]):
        logits = executor.logits(theta, images)
        for run, vector in enumerate(theta):
            model = copy.deepcopy(task.model)
            nn.utils.vector_to_parameters(vector, model.parameters())
            close(logits[run], model(task.normalised(images)).detach())


def test_of_several_largest_the_first_is_chosen_and_a_nan_is_not_lost():
    def pools():
        return nn.Sequential(
            nn.Conv2d(3, 2, 1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8, 5),
        )

    case = a_world([[2]], pools)
    case.packed.images[:] = case.packed.images[
        :, :, :1, :1
    ]  # all positions of an image are alike
    after, expected = (
        case.advance(make(case.task), LocalTraining(0.5, 2))[0]
        for make in (TritonKernels, Reference)
    )
    assert (after - expected).norm() <= 1e-5 * (expected - case.theta).norm()
    case.theta[0, 0] = torch.nan
    assert torch.isnan(
        TritonKernels(case.task).logits(case.theta, case.packed.images)
    ).all()
