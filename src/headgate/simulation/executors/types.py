"""A task for executors on torch, and how ragged buffers become few rectangles."""

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

from headgate.learning.datasets import BYTE
from headgate.learning.models import Shape
from headgate.learning.networks import Flat
from headgate.simulation.executors.executor import Ints, TrainingTask

LARGE = 1_000_000
"""parameters from which on one client keeps a GPU busy: then clients go side by side, not together"""
ON_ARM = platform.machine().lower() in ("aarch64", "arm64")


@dataclass(frozen=True, eq=False)
class Task(TrainingTask):
    """Any torch module."""

    model: nn.Module
    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    bfloat16: bool = False
    """products in bfloat16; parameters stay in `dtype`"""
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
        """Images (S, C, H, W) as the model takes them, on the device."""
        scale, shift = self.line
        own = images.to(self.device, self.dtype, copy=self.unit != BYTE)  # bytes become others anyway
        return own.mul_(scale).add_(shift)

    @cached_property
    def line(self) -> tuple[Tensor, Tensor]:
        """(x/unit − mean)/std as scale·x + shift."""
        mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (self.mean, self.std))
        return (1 / (self.unit * std)).to(self.device, self.dtype), (-mean / std).to(self.device, self.dtype)


@contextmanager
def native_kernels() -> Iterator[None]:
    """Switch oneDNN and NNPACK off on ARM, where torch's own kernels are up to twice as fast on small images.

    Other processors were not measured, and nothing is switched on them.
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
    """torch.cuda.graph, during which no garbage is collected.

    An older graph that is garbage may be freed at any moment. While another one is recorded CUDA does not permit it, and
    the recording fails.
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
    """The next number of a ladder with four rungs to each doubling: few shapes for many sizes.

    >>> [rung(n) for n in (1, 4, 7, 8, 9, 16, 17, 33)]
    [1, 4, 7, 8, 10, 16, 20, 40]
    """
    step = 1 << max(0, (n - 1).bit_length() - 3)
    return -(-n // step) * step


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """An array on the device; the host does not wait for what the device is doing."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Group(NamedTuple):
    """Segments of nearly the same size, as a rectangle: G segments of p rows."""

    members: Ints
    """(G,) which segments"""
    rows: Ints
    """(G, p) which samples; a shorter segment is filled up with its own last sample, as sane as any other"""
    real: NDArray[np.bool_]
    """(G, p) False where a row only fills up"""


def grouped(offsets: Ints, chosen: Ints, overhead: float) -> list[Group]:
    """The chosen segments, none empty, in groups from the largest down: a group that fills up more than `overhead` rows is cut.

    `overhead` says how many rows cost as much as handling one more group.

    >>> [group.rows.tolist() for group in grouped(np.array([0, 1, 2, 4, 9]), np.arange(4), overhead=2)]
    [[[4, 5, 6, 7, 8]], [[0, 0], [1, 1], [2, 3]]]
    """
    sizes = offsets[chosen + 1] - offsets[chosen]
    order = np.argsort(sizes, kind="stable")
    chosen, sizes = chosen[order], sizes[order]
    groups, last = [], len(sizes)
    while last:
        filled_up = np.cumsum(sizes[last - 1] - sizes[:last][::-1])
        first = last - int(np.searchsorted(filled_up, overhead, "right"))
        members, length, place = chosen[first:last], sizes[first:last, None], np.arange(sizes[last - 1])
        rows = offsets[members, None] + np.minimum(place, length - 1)
        groups.append(Group(members, rows, place < length))
        last = first
    return groups
