"""The layers of a small net: which kernels, on which arrays.

Arrays are made once, for the most samples there are; a layer is then two functions of how many samples lie in them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.simulation.executors.compiled_shapes import (
    BLOCK,
    LANES,
    MOST_MOVED,
    SAMPLES,
    SLACK,
    Grid,
    Window,
    pooling,
    rounded,
    zeros,
)
from headgate.simulation.executors.executor import Ints

Floats = NDArray[Any]
"""float32 or float64, as the task says."""


class Arrays(NamedTuple):
    """What flows between two layers, and the slope of the loss with respect to it."""

    grid: Grid
    values: Floats
    slopes: Floats
    """empty if not wanted"""

    def first(self, n: int) -> Floats:
        """The values of the first n samples, a row for each."""
        return self.values[: n * self.grid.pitch].reshape(n, -1)


class NetArrays(NamedTuple):
    """What the layers share."""

    most: int
    """samples there is room for"""
    theta: Floats
    """in the layers' own order"""
    slope: Floats
    """that of the loss; empty if only the logits are wanted"""
    kernels: Any
    """the module, which needs numba"""


class Step(NamedTuple):
    """A layer at work, for so many samples. Where the slope of its input is not wanted, `backward` leaves that out.

    Without arrays for slopes `backward` must not be called.
    """

    forward: Callable[[int], None]
    backward: Callable[[int, bool], None]


def arrays(model: NetArrays, grid: Grid) -> Arrays:
    """Zeros, for whole blocks of samples."""
    size = rounded(model.most, SAMPLES) * grid.pitch + SLACK
    return Arrays(grid, zeros(size, model.theta.dtype), zeros(size if len(model.slope) else 0, model.theta.dtype))


@dataclass(frozen=True)
class Convolution:
    """With the pooling and the ReLU that follow it."""

    window: Window
    start: int
    biased: bool

    @property
    def after(self) -> Grid:
        return self.window.after

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the weight and the bias."""
        return self.after.channels * self.window.k * self.window.run, rounded(self.after.channels, BLOCK)

    def places(self) -> Ints:
        """Where each number of torch's weight goes."""
        k, inputs = self.window.k, self.window.before.channels
        o, c, i, j = np.ogrid[: self.after.channels, :inputs, :k, :k]
        places: Ints = (o * k + i) * self.window.run + j * inputs + c
        return places.reshape(-1)

    def step(self, model: NetArrays, x: Arrays, out: Arrays) -> Step:
        window, tile, dtype, pool = self.window, self.window.tile, model.theta.dtype, self.window.pool
        outputs, pixels = self.after.channels, self.after.height * self.after.width
        weight, bias = views(model.theta, self.start, self.sizes)
        table = zeros(tile.groups * (window.k * tile.terms + 1) * tile.vectors * LANES, dtype)
        bands = zeros(pool * pool * self.after.width * outputs + SLACK, dtype)
        chosen = zeros(model.most * pixels * outputs + SLACK, np.uint16)
        forward = partial(model.kernels.convolution(window), x.values, weight, bias, table, bands, out.values, chosen)
        weight_slope, bias_slope = views(model.slope, self.start, self.sizes)
        samples, rows = window.strip
        many = max(samples * rows * self.after.width, outputs) + 1
        lists = np.empty(many, dtype), np.empty(many, np.int64), np.empty(pool * pool, np.int64)
        by_window = window.moved <= MOST_MOVED
        moved = zeros((window.moved if by_window else len(weight)) + SLACK, dtype)
        of_weights, of_images = model.kernels.slope_of_convolution(window), model.kernels.slope_of_images(window)
        taken = (x.values, out.values, out.slopes, chosen, lists, weight, moved, weight_slope, bias_slope)

        def backward(n: int, wanted: bool) -> None:
            of_weights(*taken, wanted and not by_window, x.slopes, n)
            if not self.biased:
                bias_slope[:] = 0
            if wanted and by_window:
                of_images(weight, out.slopes, chosen, lists, moved, x.slopes, n)

        return Step(forward, backward)


@dataclass(frozen=True)
class Linear:
    """With the ReLU that follows it."""

    relu: bool
    before: Grid
    after: Grid
    start: int
    biased: bool
    order: Ints
    """where each of torch's features lies"""

    @property
    def sizes(self) -> tuple[int, int]:
        outputs = rounded(self.after.channels, LANES)
        return outputs * self.before.pitch, outputs

    def places(self) -> Ints:
        places: Ints = np.arange(self.after.channels)[:, None] * self.before.pitch + self.order
        return places.reshape(-1)

    def step(self, model: NetArrays, x: Arrays, out: Arrays) -> Step:
        weight, bias = views(model.theta, self.start, self.sizes)
        pitch, out_pitch = self.before.pitch, self.after.pitch
        forward = partial(model.kernels.linear, x.values, pitch, weight, bias, out.values, out_pitch, len(bias), self.relu)
        weight_slope, bias_slope = views(model.slope, self.start, self.sizes)
        nothing = zeros(BLOCK, weight.dtype)
        taken = (x.values, pitch, out.values, out.slopes, out_pitch, len(bias), self.relu, weight_slope, bias_slope)

        def backward(n: int, wanted: bool) -> None:
            model.kernels.slope_of_linear(*taken, n)
            if not self.biased:
                bias_slope[:] = 0
            if wanted:
                model.kernels.slope_of_features(weight, out.slopes, out_pitch, len(bias), nothing, x.slopes, pitch, n)

        return Step(forward, backward)


@dataclass(frozen=True)
class Activation:
    """A ReLU or tanh that no kernel before it can take in."""

    name: str
    """of its kernel"""
    after: Grid

    def step(self, model: NetArrays, x: Arrays, out: Arrays) -> Step:
        value, slope = getattr(model.kernels, self.name), getattr(model.kernels, f"{self.name}_slope")

        def forward(n: int) -> None:
            count = n * self.after.pitch
            out.values[:count] = x.values[:count]
            value(out.values, count)

        def backward(n: int, wanted: bool) -> None:
            count = n * self.after.pitch
            x.slopes[:count] = out.slopes[:count]
            slope(out.values, x.slopes, count)

        return Step(forward, backward)


@dataclass(frozen=True)
class Pool:
    """The largest or the mean of each k x k window, where it follows no convolution."""

    k: int
    largest: bool
    before: Grid
    after: Grid

    def step(self, model: NetArrays, x: Arrays, out: Arrays) -> Step:
        shape = pooling(self.k, self.before, self.after)
        if not self.largest:
            given = partial(model.kernels.average_pool, shape, x.values, out.values)
            return Step(given, lambda n, wanted: model.kernels.average_pool_slope(shape, out.slopes, x.slopes, n))
        chosen = zeros(len(out.values), np.uint16)
        given = partial(model.kernels.max_pool, shape, x.values, out.values, chosen)
        return Step(given, lambda n, wanted: model.kernels.max_pool_slope(shape, out.slopes, chosen, x.slopes, n))


Layer = Convolution | Linear | Activation | Pool


def views(vector: Floats, start: int, sizes: tuple[int, int]) -> tuple[Floats, Floats]:
    """A layer's weight and bias."""
    middle = start + sizes[0]
    return vector[start:middle], vector[middle : middle + sizes[1]]
