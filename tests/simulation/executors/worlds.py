"""Small models, random buffers and the executors of every kind: what these tests are
played with.
"""

import importlib.util
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headgate.learning.datasets import BYTE
from headgate.simulation.executors import RaggedBatch
from headgate.simulation.executors.executor import slices
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import Gram
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Task
from headgate_kernels.batched import Batched
from headgate_kernels.compiled import Compiled
from headgate_kernels.streams import CudaStreams

with_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
SHAPE, CLASSES = (2, 6, 6), 4
MEAN, STD = (0.1, 0.4, 0.3), (0.3, 0.2, 0.25)  # of the channels, as many as there are
ONE_RUN = [[4, 0, 1, 11, 7]]
THREE_RUNS = [[3, 0, 1, 5, 60], [0, 0, 0, 0, 0], [1, 2, 0, 9, 50]]


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES))


def linear_without_bias():
    return nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES, bias=False))


def tanh_net():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(72, 7), nn.Tanh(), nn.Linear(7, CLASSES)
    )


def tiny_convolution():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(27, CLASSES),
    )


def pooled_net():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(27, 5),
        nn.ReLU(),
        nn.Linear(5, CLASSES),
    )


def block(inward, outward, groups=8):
    """Of a residual net."""
    norm = nn.GroupNorm(groups, outward)
    return nn.Sequential(
        nn.Conv2d(inward, outward, 3, padding=1, bias=False), norm, nn.Mish()
    )


KINDS = {
    "gram": Gram,
    "compiled": Compiled,
    "flat": FlatLoop,
    "batched": Batched,
    "batched, few shapes": lambda task: Batched(task, few_shapes=True),
    "batched, little memory": lambda task: Batched(task, memory=1),
    "streams": lambda task: CudaStreams(task, streams=3),
}
ALL = {"reference": Reference, **KINDS}
FITTED = {"gram": linear, "compiled": pooled_net}
FITTING = [
    pytest.param(make, FITTED.get(name, tiny_convolution), id=name)
    for name, make in ALL.items()
]
ALIKE_ONLY = ("compiled",)
"""executors to which all samples of a client must weigh the same"""
WEIGHED = [(kind, False) for kind in ALL]
WEIGHED += [(kind, True) for kind in ALL if kind not in ALIKE_ONLY]
"""each executor without and, if it can, with a weight of its own for each sample"""


class World(NamedTuple):
    task: Task
    theta: Tensor
    packed: RaggedBatch
    weights: Tensor
    seeds: list[int]

    def advance(self, executor, training, t=3):
        return executor.advance(
            self.theta, self.packed, self.weights, training, self.seeds, t
        )

    def weighed(self, does=True):
        """With another factor for each sample, on average 1 over a client; a sample
        whose first byte is small has none.
        """
        if not does:
            return self
        factors = (self.packed.images.flatten(1)[:, 0] // 60).to(self.theta.dtype)
        for own in slices(self.packed.offsets):
            if factors[own].any():
                factors[own] /= factors[own].mean()
            else:
                factors[own] = 1
        return self._replace(packed=self.packed._replace(factors=factors))

    def run(self, r):
        """Only run r."""
        clients, offsets = self.weights.shape[1], self.packed.offsets
        first, last = offsets[r * clients], offsets[(r + 1) * clients]
        own = offsets[r * clients : (r + 1) * clients + 1] - first
        factors = self.packed.factors
        packed = RaggedBatch(
            self.packed.images[first:last],
            self.packed.labels[first:last],
            own,
            None if factors is None else factors[first:last],
        )
        return World(
            self.task,
            self.theta[r : r + 1],
            packed,
            self.weights[r : r + 1],
            self.seeds[r : r + 1],
        )


def task_of(model, shape=SHAPE, classes=CLASSES, **options):
    return Task(
        model,
        shape,
        classes,
        **{"mean": MEAN[: shape[0]], "std": STD[: shape[0]], **options},
    )


def world(
    model,
    sizes,
    shape=SHAPE,
    classes=CLASSES,
    dtype=torch.float64,
    *,
    seed=0,
    spread=0.3,
    about=False,
    device="cpu",
    **options,
):
    """Random images, labels and models; weights need not sum to 1, and the first
    client's is 0 where others have samples.

    Models are drawn about 0, or `about` the parameters that the module has. `options`
    are those of the task.
    """
    random = torch.Generator().manual_seed(seed)
    counts = np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    images = torch.randint(
        0, 256, (int(offsets[-1]), *shape), dtype=torch.uint8, generator=random
    )
    if options.get("unit", BYTE) != BYTE:  # features
        images = 2 * torch.randn(images.shape, generator=random)
    labels = torch.randint(0, classes, (len(images),), generator=random)
    weights = torch.rand(counts.shape, dtype=torch.float64, generator=random)
    if counts.shape[1] > 1:
        weights[:, 0] = 0
    task = task_of(
        model, shape, classes, dtype=dtype, device=torch.device(device), **options
    )
    theta = spread * torch.randn(
        len(counts), task.flat.size, dtype=torch.float64, generator=random
    )
    if about:
        theta += task.flat.vector(dict(model.named_parameters()))
    packed = RaggedBatch(images.to(device), labels.to(device), offsets)
    return World(
        task,
        theta.to(device, dtype),
        packed,
        weights.to(device, dtype),
        [11 + r for r in range(len(counts))],
    )


def assert_same(given, judged, start, tolerance=1e-9):
    """Models agree relative to the largest change of a parameter, losses relative to
    themselves.
    """
    (after, loss), (expected, expected_loss) = given, judged
    assert (after - expected).abs().max() <= tolerance * max(
        (expected - start).abs().max(), 1e-300
    )
    torch.testing.assert_close(
        loss, expected_loss, rtol=tolerance, atol=0, equal_nan=True
    )
