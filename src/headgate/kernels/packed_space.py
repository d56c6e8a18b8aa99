"""What every packed form has: clients with vectors of their own that come from runs and go back to them."""

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import to_device

WIDE = 1024
"""numbers of a vector that one program copies or sums"""


class Room(NamedTuple):
    samples: int
    clients: int


class Sized(Protocol):
    """A model as kernels take it."""

    @property
    def size(self) -> int:
        """Of a packed vector."""


class Space(ABC):
    """Room for so many samples and clients. Samples beyond those in the tables are left alone."""

    offsets: Tensor
    labels: Tensor
    logits: Tensor
    losses: Tensor
    master: Tensor
    """the clients' vectors; `low` their beginnings in a shorter type, or the same"""
    low: Tensor
    velocity: Tensor
    half = 0
    """how long a vector of `low` is"""

    def __init__(self, net: Sized, room: Room, momentum: bool, dtype: torch.dtype, device: torch.device) -> None:
        from headgate.kernels import triton_runs  # which needs triton

        self.runs = triton_runs
        self.net, self.room, self.momentum, self.dtype, self.device = net, room, momentum, dtype, device

    def holds(self, room: Room, momentum: bool) -> bool:
        fits = room.samples <= self.room.samples and room.clients <= self.room.clients
        return fits and (self.momentum or not momentum)

    @abstractmethod
    def set_tables(self, offsets: Ints) -> None:
        """Which samples are whose."""

    @abstractmethod
    def load(self, pixels: Tensor) -> None:
        """Images (n, C, H, W), normalised."""

    @abstractmethod
    def forward(self, room: Room, training: LocalTraining | None) -> None:
        """To the logits; with a training also to the losses and the last slope."""

    @abstractmethod
    def backward(self, room: Room, training: LocalTraining) -> None:
        """Everything goes down its gradient."""

    def spread(self, start: Tensor, run_of: Ints, momentum: bool) -> None:
        """Every client starts from its run's model, at rest."""
        self.runs.spread[-(-self.net.size // WIDE), len(run_of)](
            start, self.master, self.velocity, self.low, self._table(run_of), self.net.size, self.half,
            momentum, self.low is not self.master, WIDE,
        )  # fmt: skip

    def average(self, start: Tensor, shares: Tensor, run_offsets: Ints, after: Tensor) -> None:
        """Each run's model plus its clients' moves times their shares."""
        self.runs.average[-(-self.net.size // WIDE), len(start)](
            start, self.master, shares, self._table(run_offsets), after, self.net.size, WIDE
        )

    def mean_losses(self, run_offsets: Ints, means: Tensor) -> None:
        self.runs.mean_losses[(len(means),)](self.losses, self.offsets, self._table(run_offsets), means, WIDE)

    def _table(self, values: Ints) -> Tensor:
        return to_device(values.astype(np.int32), self.device)


def whose(offsets: Ints, room: Room) -> tuple[Ints, Ints]:
    """Where the samples of each client begin, and whose each sample is: -1 for nobody's."""
    sizes = np.diff(offsets)
    owner = np.full(room.samples, -1)
    owner[: offsets[-1]] = np.repeat(np.arange(len(sizes)), sizes)
    return np.pad(offsets, (0, room.clients + 1 - len(offsets)), "edge"), owner
