"""The layers of a small net: which kernels, on which arrays of a room."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headgate.kernels.compiled_room import Between, Call, RoomPlan
from headgate.kernels.compiled_shapes import BLOCK, LANES, MOST_MOVED, SLACK, Grid, Window, rounded
from headgate.simulation.executors.executor import Ints


class Shared(NamedTuple):
    """What the layers share."""

    kernels: Any
    """the module, which needs numba"""
    space: RoomPlan
    theta: int
    """where the model begins"""
    slope: int
    """where its slope begins"""


class Steps(NamedTuple):
    """A layer at work: what it calls forward, and back."""

    forward: list[Call]
    backward: list[Call]


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

    def steps(self, shared: Shared, x: Between, out: Between, wanted: bool) -> Steps:
        window, tile, kernels, space = self.window, self.window.tile, shared.kernels, shared.space
        pool, outputs, pixels = window.pool, self.after.channels, self.after.height * self.after.width
        (weight, bias), slopes = parameters(shared.theta, self), parameters(shared.slope, self)
        table = space.take("floats", tile.groups * (window.k * tile.terms + 1) * tile.vectors * tile.lanes)
        bands = space.take("floats", pool * pool * self.after.width * outputs + SLACK)
        chosen = space.take("marks", space.most * pixels * outputs + SLACK)
        forward = [Call(kernels.convolution(window), (x.values, weight, bias, table, bands, out.values, chosen))]
        if not space.learning:
            return Steps(forward, [])
        samples, rows = window.strip
        many = max(samples * rows * self.after.width, outputs) + 1
        values, places, shifts = space.take("floats", many), space.take("ints", many), space.take("ints", pool * pool)
        by_window = window.moved <= MOST_MOVED
        moved = space.take("floats", (window.moved if by_window else self.sizes[0]) + SLACK)
        taken = (x.values, out.values, out.slopes, weight, *slopes, x.slopes, moved, values)
        given = (chosen, places, shifts, int(wanted and not by_window), int(self.biased))
        backward = [Call(kernels.slope_of_convolution(window), (*taken, *given))]
        if wanted and by_window:
            args = (weight, out.slopes, x.slopes, moved, values, chosen, places, shifts)
            backward += [Call(kernels.slope_of_images(window), args)]
        return Steps(forward, backward)


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

    def steps(self, shared: Shared, x: Between, out: Between, wanted: bool) -> Steps:
        kernels, (weight, bias), slopes = shared.kernels, parameters(shared.theta, self), parameters(shared.slope, self)
        shape = (self.before.pitch, self.after.pitch, self.sizes[1])
        forward = [Call(kernels.linear, (x.values, weight, bias, out.values, *shape, int(self.relu)))]
        taken = (x.values, out.values, out.slopes, *slopes)
        backward = [Call(kernels.slope_of_linear, (*taken, *shape, int(self.relu), int(self.biased)))]
        if wanted:
            nothing = shared.space.take("floats", BLOCK)
            backward += [Call(kernels.slope_of_features, (weight, out.slopes, x.slopes, nothing, *shape))]
        return Steps(forward, backward)


@dataclass(frozen=True)
class Activation:
    """A ReLU or tanh that no kernel before it can take in."""

    name: str
    """of its kernel"""
    after: Grid

    def steps(self, shared: Shared, x: Between, out: Between, wanted: bool) -> Steps:
        value, slope = (getattr(shared.kernels, name) for name in (self.name, f"{self.name}_slope"))
        pitch = self.after.pitch
        return Steps(
            [Call(value, (x.values, out.values, pitch))],
            [Call(slope, (out.values, out.slopes, x.slopes, pitch))] if wanted else [],
        )


@dataclass(frozen=True)
class Pool:
    """The largest or the mean of each k x k window, where it follows no convolution."""

    k: int
    largest: bool
    before: Grid
    after: Grid

    def steps(self, shared: Shared, x: Between, out: Between, wanted: bool) -> Steps:
        kernels, before, after = shared.kernels, self.before, self.after
        lying = (before.start, before.row, before.pitch, after.start, after.row, after.pitch)
        args = [self.k, after.height, after.width, after.channels, *lying]
        value, slope = kernels.average_pool, kernels.average_pool_slope
        if self.largest:
            value, slope = kernels.max_pool, kernels.max_pool_slope
            args.insert(0, shared.space.take("marks", shared.space.most * after.pitch))
        return Steps(
            [Call(value, (x.values, out.values, *args))], [Call(slope, (out.slopes, x.slopes, *args))] if wanted else []
        )


Layer = Convolution | Linear | Activation | Pool


def parameters(vector: int, layer: Convolution | Linear) -> tuple[int, int]:
    """Where a layer's weight and bias begin in a vector of all parameters."""
    return vector + layer.start, vector + layer.start + layer.sizes[0]
