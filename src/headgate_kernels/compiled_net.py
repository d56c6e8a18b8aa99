"""A net as the executor `compiled` runs it: its layers, the memory that a thread needs
for them, and the kernels in their order.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import Task
from headgate_kernels.compiled_shapes import (
    BLOCK,
    LANES,
    SAMPLES,
    SLACK,
    Grid,
    Window,
    rounded,
    zeros,
)
from headgate_kernels.stack_net import StackLayer, read_stack, refuse

Floats = NDArray[Any]
"""An array of float32 or float64, the type of the task."""
Call = tuple[Any, tuple[int, ...]]
"""A kernel, and its arguments: where its arrays begin in a room, then other numbers."""
UNIT = 32
"""Arrays begin at multiples of this many numbers, so that they begin at a cache line
whatever their type.
"""
MOST_NUMBERS = 1 << 20
"""The most inputs that all convolutions may read per sample (LeNet: 35,000). Other
executors are faster with more.
"""
MOST_PARAMETERS = 1 << 21
"""The most parameters. With more the weights do not stay in the cache, and torch's
matrix products are faster.
"""


class ClientRoom(NamedTuple):
    """The working memory of a thread: zeros at first, then reused for each client.
    Every value is written before it is read.
    """

    floats: Floats
    """the model in the order of the layers, and everything computed from it"""
    marks: NDArray[np.uint16]
    ints: Ints


class Program(NamedTuple):
    """The kernels of a net in the order in which they run: the forward pass, then the
    backward pass.
    """

    addresses: Ints
    numbers: Ints
    """the arguments of each call, (calls, most arguments)"""
    forward: int
    starts: Ints
    """where arrays begin in a room that belong to no layer: the model, its gradient,
    velocity, rates, logits, their gradient, scale and shift of the pixels, samples"""
    shape: tuple[int, ...]
    """the size of the model, start, row and pitch of samples, the pitch of logits, and
    the number of classes"""


class Batches(NamedTuple):
    """The batches of a client."""

    rows: Ints
    stops: Ints
    """the end of each batch in `rows`"""
    losses_alone: int
    """the number of batches, at the beginning, for which only the loss is computed"""
    repeats: int
    """the number of steps with each of the other batches"""


class Between(NamedTuple):
    """Where the values between two layers begin, and the gradient of the loss with
    respect to them.
    """

    grid: Grid
    values: int
    slopes: int


class RoomPlan:
    """How a room is divided. It grows with each request."""

    def __init__(
        self,
        kernels: Any,
        most: int,
        size: int,
        channels: int,
    ) -> None:
        self.kernels = kernels
        self.most = most
        self.sizes = dict.fromkeys(ClientRoom._fields, 0)
        self.theta = self.take("floats", size)
        self.slope = self.take("floats", size)
        self.velocity = self.take("floats", size)
        self.rates = self.take("floats", 3)
        """learning rate, momentum and decay"""
        self.scale = self.take("floats", channels)
        self.shift = self.take("floats", channels)

    def take(self, kind: str, count: int) -> int:
        """Reserve `count` numbers of a kind and return where they begin."""
        start = self.sizes[kind]
        self.sizes[kind] += rounded(count, UNIT)
        return start

    def place(self, grid: Grid) -> Between:
        """Reserve values and gradients of whole blocks of samples."""
        size = rounded(self.most, SAMPLES) * grid.pitch + SLACK
        return Between(grid, self.take("floats", size), self.take("floats", size))

    def room(self, dtype: Any) -> ClientRoom:
        """Return the memory of a thread."""
        kinds = (dtype, np.uint16, np.int64)
        return ClientRoom(*map(zeros, self.sizes.values(), kinds))


@dataclass(frozen=True)
class _Layer(ABC):
    """A layer, its layout, and where its parameters begin in a vector of all."""

    layer: StackLayer
    before: Grid
    after: Grid
    start: int

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """The sizes of weight and bias."""

    @property
    def stop(self) -> int:
        """Where its parameters end in a vector of all parameters."""
        return self.start + sum(self.sizes)

    def parameters(self, vector: int) -> tuple[int, int]:
        """Return where weight and bias begin in a vector of all parameters."""
        weight = vector + self.start
        return weight, weight + self.sizes[0]


class Convolution(_Layer):
    """A convolution with the pooling and the activation that follow it."""

    @cached_property
    def window(self) -> Window:
        layer = self.layer
        return Window(
            layer.kernel, layer.pool, layer.activation, self.before, self.after
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of weight and bias."""
        outputs = self.after.channels
        return outputs * self.window.k * self.window.run, rounded(outputs, BLOCK)

    def places(self) -> Ints:
        """Return the place of each number of torch's weight."""
        k, inputs = self.window.k, self.before.channels
        o, c, i, j = np.ogrid[: self.after.channels, :inputs, :k, :k]
        places: Ints = (o * k + i) * self.window.run + j * inputs + c
        return places.reshape(-1)

    def calls(
        self,
        plan: RoomPlan,
        x: Between,
        out: Between,
        wanted: bool,
    ) -> tuple[Call, list[Call]]:
        """Return its calls of the forward and of the backward pass; with `wanted` these
        also compute the gradient of x.
        """
        window, tile = self.window, self.window.tile
        outputs, width = self.after.channels, self.after.width
        corners = window.pool**2
        samples, rows = window.strip
        most = max(samples * rows * width, outputs) + 1
        weight, bias = self.parameters(plan.theta)

        terms = tile.groups * window.k * tile.terms
        table = plan.take("floats", terms * tile.vectors * tile.lanes)
        bands = plan.take("floats", corners * width * outputs + SLACK)
        moved = plan.take("floats", outputs * window.deep * window.broad + SLACK)
        values = plan.take("floats", most)
        made = plan.most * self.after.height * width * outputs
        chosen = plan.take("marks", made + SLACK)
        places = plan.take("ints", most)
        shifts = plan.take("ints", corners)

        listed = (values, chosen, places, shifts)
        forward, slope_of_weights, slope_of_inputs = plan.kernels.convolution(window)
        first = (x.values, weight, bias, table, bands, out.values, chosen)
        slopes = (x.values, out.values, out.slopes, *self.parameters(plan.slope))
        biased = int(self.layer.bias is not None)
        backward: list[Call] = [(slope_of_weights, (*slopes, *listed, biased))]
        if wanted:
            given = (weight, out.slopes, x.slopes, moved, *listed)
            backward.append((slope_of_inputs, given))
        return (forward, first), backward


class Linear(_Layer):
    """A linear layer with the activation that follows it."""

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of weight and bias."""
        outputs = rounded(self.after.channels, LANES)
        return outputs * self.before.pitch, outputs

    def places(self) -> Ints:
        """Return the place of each number of torch's weight. torch flattens by channel,
        this layout by pixel.
        """
        before = self.before
        shape = (self.after.channels, before.channels, before.height, before.width)
        o, c, y, x = np.ogrid[tuple(map(slice, shape))]
        places: Ints = o * before.pitch + (y * before.width + x) * before.channels + c
        return places.reshape(-1)

    def calls(
        self,
        plan: RoomPlan,
        x: Between,
        out: Between,
        wanted: bool,
    ) -> tuple[Call, list[Call]]:
        """Return its calls of the forward and of the backward pass; with `wanted` these
        also compute the gradient of x.
        """
        kernels = plan.kernels
        weight, bias = self.parameters(plan.theta)
        shape = (self.before.pitch, self.after.pitch, self.sizes[1])
        kind, biased = self.layer.activation, int(self.layer.bias is not None)

        first = (x.values, weight, bias, out.values, *shape, kind)
        slopes = (x.values, out.values, out.slopes, *self.parameters(plan.slope))
        learned = (*slopes, *shape, kind, biased)
        backward: list[Call] = [(kernels.slope_of_linear, learned)]
        if wanted:
            given = (weight, out.slopes, x.slopes, *shape)
            backward.append((kernels.slope_of_features, given))
        return (kernels.linear, first), backward


Layer = Convolution | Linear


@dataclass(
    frozen=True,
    eq=False,
)
class Net:
    """The layers of a net, and where torch's parameters go in their layout, in which
    rows have gaps.
    """

    grid: Grid
    """the layout of the images"""
    layers: tuple[Layer, ...]
    places: Ints
    """the place of each parameter, (P,)"""

    @property
    def size(self) -> int:
        """The size of a model in the layout of the layers."""
        return self.layers[-1].stop

    def own(self, theta: Floats) -> Floats:
        """Return the models (R, P) in the layout of the layers, (R, size)."""
        given = np.zeros((len(theta), self.size), theta.dtype)
        given[:, self.places] = theta
        return given

    def at_work(
        self,
        kernels: Any,
        most: int,
        dtype: Any,
    ) -> tuple[RoomPlan, Program]:
        """Return the plan of a room and the program for up to `most` samples at a time;
        compile kernels that are new.
        """
        grid = self.grid
        plan = RoomPlan(kernels, most, self.size, grid.channels)
        forward, backward = list[Call](), list[Call]()
        x = samples = plan.place(grid)
        for number, layer in enumerate(self.layers):
            out = plan.place(layer.after)
            call, back = layer.calls(plan, x, out, number > 0)
            forward.append(call)
            backward = back + backward
            x = out

        calls = forward + backward
        numbers = np.zeros((len(calls), max(len(args) for _, args in calls)), np.int64)
        for row, (_, args) in zip(numbers, calls, strict=True):
            row[: len(args)] = args
        addresses = [kernel.address(dtype) for kernel, _ in calls]
        learned = (plan.theta, plan.slope, plan.velocity, plan.rates)
        given = (plan.scale, plan.shift, samples.values)
        starts = np.array([*learned, x.values, x.slopes, *given], np.int64)
        sample = (grid.start, grid.row, grid.pitch)
        shape = (self.size, *sample, x.grid.pitch, x.grid.channels)
        return plan, Program(
            np.array(addresses, np.int64), numbers, len(forward), starts, shape
        )


def read_net(task: Task) -> Net:
    """Return the task's model as a net; refuse any other form with a SettingError."""
    stack = read_stack(task)
    seen = sum(
        each.inward * each.kernel**2 * math.prod(each.made)
        for each in stack.layers
        if not each.linear
    )
    if seen > MOST_NUMBERS:
        refuse(
            f"made for small images, this model's kernels see {seen} numbers of a"
            f" sample (at most {MOST_NUMBERS})"
        )
    if stack.size > MOST_PARAMETERS:
        refuse(
            f"made for small models, this one has {stack.size} parameters (at most"
            f" {MOST_PARAMETERS})"
        )
    grid = before = Grid(*task.shape, pad=stack.frame(0))
    layers, start = list[Layer](), 0
    places = np.empty(stack.size, np.int64)
    for i, each in enumerate(stack.layers):
        after = Grid(each.outward, *each.out, pad=stack.frame(i + 1))
        kind = Linear if each.linear else Convolution
        layer: Layer = kind(each, before, after, start)
        weight, bias = layer.parameters(0)
        own = weight + layer.places()
        places[each.weight : each.weight + len(own)] = own
        if each.bias is not None:
            beside = bias + np.arange(each.outward)
            places[each.bias : each.bias + each.outward] = beside
        layers.append(layer)
        start, before = layer.stop, after
    return Net(grid, tuple(layers), places)
