"""The memory that a thread trains a client in, made once for all its clients: where every array of the net lies in it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.kernels.compiled_shapes import SAMPLES, SLACK, Grid, rounded, zeros
from headgate.simulation.executors.executor import Ints

Floats = NDArray[Any]
"""float32 or float64, as the task says."""
UNIT = 32
"""Numbers of any type whose bytes are whole lines of memory: arrays begin with a line."""


class ClientRoom(NamedTuple):
    """Zeros at first, then written to again and again: nothing is ever looked at that was not made since."""

    floats: Floats
    """the model in the layers' own order, and all that follows from it"""
    marks: NDArray[np.uint16]
    ints: Ints


class Call(NamedTuple):
    """A kernel, and where in a room it finds its arrays."""

    kernel: Any
    args: tuple[int, ...]


class Ends(NamedTuple):
    """What is no layer's: first where it lies in a room, then how it lies there."""

    theta: int
    """the model"""
    slope: int
    velocity: int
    rates: int
    """learning rate, momentum and decay"""
    scale: int
    shift: int
    samples: int
    logits: int
    slopes: int
    """of the logits"""
    size: int
    """of the model"""
    start: int
    row: int
    pitch: int
    """of samples"""
    logits_pitch: int
    classes: int


class Program(NamedTuple):
    """The kernels of a net in their order: some forward, the others back."""

    addresses: Ints
    numbers: Ints
    """(calls, numbers of the longest)"""
    forward: int
    ends: Ints
    """those of `Ends`, as they stand there"""


class Batches(NamedTuple):
    """The samples that a client looks at together, batch by batch."""

    rows: Ints
    stops: Ints
    """the end of each batch in `rows`"""
    looks: int
    """of so many batches, the first ones, only the loss is wanted"""
    repeats: int
    """steps with each of the others"""


class Between(NamedTuple):
    """Where what flows between two layers begins, and the slope of the loss with respect to it."""

    grid: Grid
    values: int
    slopes: int


class RoomPlan:
    """How a room is divided: grows with all that is asked for. Without learning slopes take no space."""

    def __init__(self, most: int, learning: bool) -> None:
        self.most, self.learning = most, learning
        self.sizes = {"floats": 0, "marks": 0, "ints": 0}

    def take(self, kind: str, count: int) -> int:
        """The beginning of so many numbers of a kind."""
        start = self.sizes[kind]
        self.sizes[kind] += rounded(count, UNIT)
        return start

    def place(self, grid: Grid) -> Between:
        """For whole blocks of samples."""
        size = rounded(self.most, SAMPLES) * grid.pitch + SLACK
        return Between(grid, self.take("floats", size), self.take("floats", size if self.learning else 0))

    def room(self, dtype: Any) -> ClientRoom:
        sizes = self.sizes
        return ClientRoom(zeros(sizes["floats"], dtype), zeros(sizes["marks"], np.uint16), zeros(sizes["ints"], np.int64))


def program(forward: list[Call], backward: list[Call], ends: Ends, dtype: Any) -> Program:
    """Compiles what is new."""
    calls = [*forward, *backward]
    numbers = np.zeros((len(calls), max((len(call.args) for call in calls), default=0)), np.int64)
    for row, call in zip(numbers, calls, strict=True):
        row[: len(call.args)] = call.args
    addresses = np.array([call.kernel.address(dtype) for call in calls], np.int64)
    return Program(addresses, numbers, len(forward), np.array(ends))
