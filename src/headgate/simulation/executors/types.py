"""The task of executors that use torch, and functions that arrange buffers of different
sizes in a few rectangles.
"""

import gc
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.learning.datasets import BYTE
from headgate.learning.models import Shape
from headgate.learning.networks import Flat
from headgate.simulation.executors.executor import Ints, TrainingTask

LARGE = 1_000_000
"""the number of parameters from which one client occupies a GPU, so that clients train
on several streams, not in a batch
"""
ON_ARM = platform.machine().lower() in ("aarch64", "arm64")


@dataclass(
    frozen=True,
    eq=False,
)
class Task(TrainingTask):
    """A task whose model is any torch module."""

    model: nn.Module
    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    bfloat16: bool = False
    """whether products are computed in bfloat16; parameters stay in `dtype`"""
    unit: float = BYTE

    @property
    def arithmetic(self) -> torch.dtype:
        return torch.bfloat16 if self.bfloat16 else self.dtype

    @cached_property
    def flat(self) -> Flat:
        return Flat(self.model)

    @property
    def size(self) -> int:
        return self.flat.size

    def normalised(self, images: Tensor) -> Tensor:
        """Return the images (S, C, H, W), normalised and on the device."""
        scale, shift = self.line
        own = images.to(
            self.device, self.dtype, copy=self.unit != BYTE
        )  # the conversion of bytes always makes a copy
        return own.mul_(scale).add_(shift)

    @cached_property
    def line(self) -> tuple[Tensor, Tensor]:
        """the normalisation (x/unit − mean)/std as (scale, shift) of scale·x + shift,
        each (C, 1, 1)
        """
        mean, std = (
            torch.tensor(values, dtype=torch.float64).view(-1, 1, 1)
            for values in (self.mean, self.std)
        )
        return (1 / (self.unit * std)).to(self.device, self.dtype), (-mean / std).to(
            self.device, self.dtype
        )


@contextmanager
def native_kernels() -> Iterator[None]:
    """Disable oneDNN and NNPACK on ARM, where torch's own kernels are up to twice as
    fast for small images.

    On other processors, which were not measured, nothing is changed.
    """
    if not ON_ARM:
        yield
        return
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        with torch.backends.nnpack.flags(enabled=False):
            yield
    finally:
        torch.backends.mkldnn.enabled = before


@contextmanager
def recording(graph: Any, **where: Any) -> Iterator[None]:
    """Record a CUDA graph like torch.cuda.graph, with garbage collection disabled.

    The garbage collector may free an older graph at any time. CUDA does not permit this
    while another graph is recorded, and the recording would fail.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, **where):
            yield
    finally:
        if collecting:
            gc.enable()


def rung(n: int) -> int:
    """Round n up to a number of a sequence with four steps per doubling, so that many
    sizes need few shapes.

    >>> [rung(n) for n in (1, 4, 7, 8, 9, 16, 17, 33)]
    [1, 4, 7, 8, 10, 16, 20, 40]
    """
    step = 1 << max(0, (n - 1).bit_length() - 3)
    return -(-n // step) * step


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to the device; the host does not wait for the device."""
    tensor = torch.from_numpy(values)
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else tensor.to(device)
    )


def mean_loss(
    logits: Tensor,
    labels: Tensor,
    factors: Tensor | None = None,
) -> Tensor:
    """Return the mean cross-entropy of samples, each times its factor; None: all
    factors are 1.
    """
    if factors is None:
        return cross_entropy(logits, labels)
    return (factors * cross_entropy(logits, labels, reduction="none")).mean()


class Group(NamedTuple):
    """Segments of nearly the same size, arranged in a rectangle of G segments with p
    rows each.
    """

    members: Ints
    """the numbers of the segments, (G,)"""
    rows: Ints
    """the numbers of the samples, (G, p); a shorter segment is padded with its last
    sample, so padding is valid data
    """
    real: NDArray[np.bool_]
    """whether a row is a sample of the segment and not padding, (G, p)"""


def grouped(
    offsets: Ints,
    chosen: Ints,
    overhead: float,
) -> list[Group]:
    """Divide the chosen segments, none empty, into groups by size, largest first, each
    with at most `overhead` padded rows.

    `overhead` is the number of rows whose computation takes as long as the handling of
    one more group.

    >>> offsets = np.array([0, 1, 2, 4, 9])
    >>> groups = grouped(offsets, np.arange(4), overhead=2)
    >>> [group.rows.tolist() for group in groups]
    [[[4, 5, 6, 7, 8]], [[0, 0], [1, 1], [2, 3]]]
    """
    sizes = offsets[chosen + 1] - offsets[chosen]
    order = np.argsort(sizes, kind="stable")
    chosen, sizes = chosen[order], sizes[order]
    groups, last = [], len(sizes)
    while last:
        filled_up = np.cumsum(sizes[last - 1] - sizes[:last][::-1])
        first = last - int(np.searchsorted(filled_up, overhead, "right"))
        members, length, place = (
            chosen[first:last],
            sizes[first:last, None],
            np.arange(sizes[last - 1]),
        )
        rows = offsets[members, None] + np.minimum(place, length - 1)
        groups.append(Group(members, rows, place < length))
        last = first
    return groups
