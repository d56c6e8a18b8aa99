"""The task of executors that use torch."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.learning.datasets import BYTE
from headgate.learning.models import Shape
from headgate.learning.networks import Flat
from headgate.simulation.executors.executor import TrainingTask

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
