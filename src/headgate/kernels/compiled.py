"""The executor `compiled`: trains small nets on the CPU, one client per thread from its
first step to its last.

The layers of a small client are so small that torch spends most of its time between
them. Here the local training of a client is one call of a function compiled by numba
(`kernels`). It runs without Python's lock, in memory that each thread allocates once. A
round of LeNet takes 62 ms on one thread, and 335 ms with `flat`
(benchmarks/results/executors.json at a7da4c6).
"""

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headgate.kernels.compiled_shapes import (
    BLOCK,
    LANES,
    SAMPLES,
    SLACK,
    Grid,
    Window,
    rounded,
    zeros,
)
from headgate.kernels.stack_net import StackLayer, read_stack, refuse
from headgate.learning.local import LocalTraining, schedule
from headgate.simulation.executors.executor import Executor, Ints, Work
from headgate.simulation.executors.types import Task

Floats = NDArray[Any]
"""An array of float32 or float64, the type of the task."""
UNIT = 32
"""Arrays begin at multiples of this many numbers, so that they begin at a cache line
whatever their type.
"""


class ClientRoom(NamedTuple):
    """The working memory of a thread: zeros at first, then reused for each client.
    Every value is written before it is read.
    """

    floats: Floats
    """the model in the order of the layers, and everything computed from it"""
    marks: NDArray[np.uint16]
    ints: Ints


Call = tuple[Any, tuple[int, ...]]
"""A kernel, and where its arrays begin in a room."""


class Program(NamedTuple):
    """The kernels of a net in the order in which they run: the forward pass, then the
    backward pass.
    """

    addresses: Ints
    numbers: Ints
    """the arguments of each call, (calls, most arguments)"""
    forward: int
    ends: Ints
    """what belongs to no layer: where the model, its gradient, velocity, rates
    (learning rate, momentum, decay), scale and shift of the pixels, samples, logits and
    their gradients begin in a room; then the size of the model, start, row and pitch of
    samples, the pitch of logits, and the number of classes"""


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

    def __init__(self, kernels: Any, most: int, size: int) -> None:
        self.kernels, self.most, self.sizes = (
            kernels,
            most,
            {"floats": 0, "marks": 0, "ints": 0},
        )
        self.theta, self.slope, self.velocity = (
            self.take("floats", size) for _ in range(3)
        )

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
        sizes = self.sizes
        return ClientRoom(
            zeros(sizes["floats"], dtype),
            zeros(sizes["marks"], np.uint16),
            zeros(sizes["ints"], np.int64),
        )


@dataclass(frozen=True)
class Convolution:
    """A convolution with the pooling and the activation that follow it."""

    layer: StackLayer
    window: Window
    start: int

    @property
    def after(self) -> Grid:
        return self.window.after

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of weight and bias."""
        return self.after.channels * self.window.k * self.window.run, rounded(
            self.after.channels, BLOCK
        )

    def places(self) -> Ints:
        """Return the place of each number of torch's weight."""
        k, inputs = self.window.k, self.window.before.channels
        o, c, i, j = np.ogrid[: self.after.channels, :inputs, :k, :k]
        places: Ints = (o * k + i) * self.window.run + j * inputs + c
        return places.reshape(-1)

    def calls(
        self, space: RoomPlan, x: Between, out: Between, wanted: bool
    ) -> tuple[Call, list[Call]]:
        """Return its calls of the forward and of the backward pass; with `wanted` these
        also compute the gradient of x.
        """
        window, tile, (weight, bias) = (
            self.window,
            self.window.tile,
            parameters(space.theta, self),
        )
        pool, outputs, pixels = (
            window.pool,
            self.after.channels,
            self.after.height * self.after.width,
        )
        table = space.take(
            "floats", tile.groups * window.k * tile.terms * tile.vectors * tile.lanes
        )
        bands = space.take("floats", pool * pool * self.after.width * outputs + SLACK)
        chosen = space.take("marks", space.most * pixels * outputs + SLACK)
        outputs_of, slope_of_weights, slope_of_inputs = space.kernels.convolution(
            window
        )
        forward = (
            outputs_of,
            (x.values, weight, bias, table, bands, out.values, chosen),
        )
        samples, rows = window.strip
        many = max(samples * rows * self.after.width, outputs) + 1
        values, places, shifts = (
            space.take("floats", many),
            space.take("ints", many),
            space.take("ints", pool * pool),
        )
        given = (
            x.values,
            out.values,
            out.slopes,
            *parameters(space.slope, self),
            values,
            chosen,
            places,
            shifts,
        )
        backward: list[Call] = [
            (slope_of_weights, (*given, int(self.layer.bias is not None)))
        ]
        if wanted:
            moved = space.take("floats", outputs * window.deep * window.broad + SLACK)
            args = (weight, out.slopes, x.slopes, moved, values, chosen, places, shifts)
            backward += [(slope_of_inputs, args)]
        return forward, backward


@dataclass(frozen=True)
class Linear:
    """A linear layer with the activation that follows it."""

    layer: StackLayer
    before: Grid
    after: Grid
    start: int

    @property
    def sizes(self) -> tuple[int, int]:
        outputs = rounded(self.after.channels, LANES)
        return outputs * self.before.pitch, outputs

    def places(self) -> Ints:
        """Return the place of each number of torch's weight. torch flattens by channel,
        this layout by pixel.
        """
        before = self.before
        o, c, y, x = np.ogrid[
            : self.after.channels, : before.channels, : before.height, : before.width
        ]
        places: Ints = o * before.pitch + (y * before.width + x) * before.channels + c
        return places.reshape(-1)

    def calls(
        self, space: RoomPlan, x: Between, out: Between, wanted: bool
    ) -> tuple[Call, list[Call]]:
        kernels, (weight, bias) = space.kernels, parameters(space.theta, self)
        shape, kind = (
            (self.before.pitch, self.after.pitch, self.sizes[1]),
            self.layer.activation,
        )
        forward = (kernels.linear, (x.values, weight, bias, out.values, *shape, kind))
        given = (x.values, out.values, out.slopes, *parameters(space.slope, self))
        backward: list[Call] = [
            (
                kernels.slope_of_linear,
                (*given, *shape, kind, int(self.layer.bias is not None)),
            )
        ]
        if wanted:
            backward += [
                (kernels.slope_of_features, (weight, out.slopes, x.slopes, *shape))
            ]
        return forward, backward


Layer = Convolution | Linear


def parameters(vector: int, layer: Layer) -> tuple[int, int]:
    """Return where a layer's weight and bias begin in a vector of all parameters."""
    return vector + layer.start, vector + layer.start + layer.sizes[0]


MOST_NUMBERS = 1 << 20
"""The most inputs that all convolutions may read per sample (LeNet: 35,000). Other
executors are faster with more.
"""
MOST_PARAMETERS = 1 << 21
"""The most parameters. With more the weights do not stay in the cache, and torch's
matrix products are faster.
"""


@dataclass(frozen=True, eq=False)
class Net:
    """The layers of a net, and where torch's parameters go in their layout, in which
    rows have gaps.
    """

    grid: Grid
    """the layout of the images"""
    layers: tuple[Layer, ...]
    places: Ints
    """the place of each parameter, (P,)"""
    size: int

    def own(self, theta: Floats) -> Floats:
        """Return the models (R, P) in the layout of the layers, (R, size)."""
        given = np.zeros((len(theta), self.size), theta.dtype)
        given[:, self.places] = theta
        return given

    def at_work(self, kernels: Any, most: int, dtype: Any) -> tuple[RoomPlan, Program]:
        """Return the plan of a room and the program for up to `most` samples at a time;
        compile kernels that are new.
        """
        space = RoomPlan(kernels, most, self.size)
        rates, scale, shift = (
            space.take("floats", count)
            for count in (3, self.grid.channels, self.grid.channels)
        )
        calls, backward = list[Call](), list[Call]()
        x = samples = space.place(self.grid)
        for number, layer in enumerate(self.layers):
            out = space.place(layer.after)
            forward, back = layer.calls(space, x, out, number > 0)
            calls.append(forward)
            backward = back + backward
            x = out
        where = (
            space.theta,
            space.slope,
            space.velocity,
            rates,
            scale,
            shift,
            samples.values,
            x.values,
            x.slopes,
        )
        how = (
            self.size,
            self.grid.start,
            self.grid.row,
            self.grid.pitch,
            x.grid.pitch,
            x.grid.channels,
        )
        calls += backward
        numbers = np.zeros((len(calls), max(len(args) for _, args in calls)), np.int64)
        for row, (_, args) in zip(numbers, calls, strict=True):
            row[: len(args)] = args
        addresses = np.array([kernel.address(dtype) for kernel, _ in calls], np.int64)
        return space, Program(
            addresses, numbers, len(self.layers), np.array([*where, *how])
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
    layers, places, start = list[Layer](), np.empty(stack.size, np.int64), 0
    for i, each in enumerate(stack.layers):
        after = Grid(each.outward, *each.out, pad=stack.frame(i + 1))
        layer: Layer = Linear(each, before, after, start)
        if not each.linear:
            layer = Convolution(
                each,
                Window(each.kernel, each.pool, each.activation, before, after),
                start,
            )
        own = layer.places()
        places[each.weight : each.weight + len(own)] = start + own
        if each.bias is not None:
            places[each.bias : each.bias + each.outward] = (
                start + layer.sizes[0] + np.arange(each.outward)
            )
        start, before = start + sum(layer.sizes), after
        layers.append(layer)
    return Net(grid, tuple(layers), places, start)


CHUNK = 64
"""Images evaluated together; their values stay in the second-level cache."""


Input = TypeVar("Input")
Made = TypeVar("Made")


class _Job(NamedTuple):
    """The local training of one client that has samples."""

    run: int
    share: float
    images: NDArray[Any]
    labels: Ints
    batches: Batches


class Compiled(Executor[Task]):
    """An executor for the nets of `stack_net` on the CPU.

    The results of a run are the same to the bit, whatever the other runs and the number
    of threads.
    """

    name = "compiled"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.net = read_net(task)
        from headgate.kernels import kernel_calls, kernels  # these need numba

        self._kept: tuple[RoomPlan, Program, list[ClientRoom]] | None = None
        self.kernels, self.note = kernels, kernel_calls.objection()
        if kernel_calls.is_empty():
            self.at_first = (
                "numba compiles the layers before the first round: that takes a while,"
                " and only this once"
            )

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        if importlib.util.find_spec("numba") is None:
            raise cls.refused("needs numba, which is not installed")
        if task.device.type != "cpu" or task.dtype not in (
            torch.float32,
            torch.float64,
        ):
            raise cls.refused(
                f"only for float32 or float64 on the CPU, not {task.dtype} on"
                f" {task.device}"
            )
        read_net(task)
        return 0.1

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, batch, weights, training, *_ = work
        labels = batch.labels.numpy()
        if labels.size and not (labels.min() >= 0 and labels.max() < self.task.classes):
            raise IndexError(
                f"labels are {labels.min()} to {labels.max()}, must be less than"
                f" {self.task.classes}"
            )
        jobs = list(_jobs(work))
        models, losses = self.net.own(theta.detach().numpy()), np.zeros(len(theta))
        after = models.copy()
        most = max((len(job.labels) for job in jobs), default=0)
        most = min(most, max(training.batch_size or most, SAMPLES))
        # the caller handles runs that diverged
        with (
            np.errstate(all="ignore"),
            self._rooms(len(jobs), most, models.dtype) as (program, rooms),
        ):
            for room in rooms:
                room.floats[program.ends[3] :][:3] = (
                    training.lr,
                    training.momentum,
                    training.weight_decay,
                )

            def local(job: _Job, room: ClientRoom) -> tuple[float, Floats]:
                """Return a client's sum of losses before training, and its weighted
                update, empty if its weight is 0.
                """
                start, (_, share, *given) = models[job.run], job
                move = np.empty(len(start) if share else 0, start.dtype)
                return (
                    self.kernels.train(
                        room, program, *given, start, start.dtype.type(share), move
                    ),
                    move,
                )

            # in the order of the jobs, so that sums do not depend on which thread
            # finishes first
            for job, (loss, move) in zip(
                jobs,
                _spread(local, jobs, rooms, lambda job: len(job.labels)),
                strict=True,
            ):
                losses[job.run] += loss
                if len(move):
                    after[job.run] += move
            losses /= np.diff(
                batch.offsets[:: weights.shape[1]]
            )  # nan where a run has no samples
        return torch.from_numpy(after[:, self.net.places]), torch.from_numpy(
            losses.astype(after.dtype)
        )

    def logits(self, theta: Tensor, images: Tensor) -> Tensor:
        """Return the logits of the models (R, P) for images (S, C, H, W) of bytes, (R,
        S, classes).

        The logits of a model for an image do not depend on the other models and images,
        to the bit.
        """
        models, bytes_ = self.net.own(theta.detach().numpy()), images.numpy()
        given = np.empty((len(models), len(bytes_), self.task.classes), models.dtype)
        starts = range(0, len(bytes_), CHUNK)
        with self._rooms(len(starts), CHUNK, models.dtype) as (program, rooms):

            def answer(start: int, room: ClientRoom) -> None:
                rows = np.arange(start, min(start + CHUNK, len(bytes_)))
                self.kernels.answer(room, program, bytes_, rows, models, given)

            for _ in _spread(answer, starts, rooms):
                pass
        return torch.from_numpy(given)

    @contextmanager
    def _rooms(
        self, works: int, most: int, dtype: Any
    ) -> Iterator[tuple[Program, list[ClientRoom]]]:
        """Give the program for up to `most` samples at a time, and a room for each
        thread that has work.

        Both are kept for the next call, because making them takes a tenth of a round of
        LeNet.
        """
        kept, self._kept = self._kept, None
        if kept is None or kept[0].most < most:
            kept = *self.net.at_work(self.kernels, max(most, CHUNK), dtype), []
        space, program, rooms = kept
        threads = min(torch.get_num_threads(), works)
        while len(rooms) < threads:
            rooms.append(space.room(dtype))
            for start, line in zip(program.ends[4:6], self.task.line, strict=True):
                rooms[-1].floats[start : start + line.numel()] = line.numpy().reshape(
                    -1
                )
        yield program, rooms[:threads]
        self._kept = kept


def _jobs(work: Work) -> Iterator[_Job]:
    """Yield a job for each client that has samples."""
    images, labels = work.batch.images.numpy(), work.batch.labels.numpy()
    offsets, training = work.batch.offsets.tolist(), work.training
    for segment, share in enumerate(work.weights.detach().reshape(-1).tolist()):
        own = slice(offsets[segment], offsets[segment + 1])
        if own.stop > own.start:
            run, client = divmod(segment, work.weights.shape[1])
            steps = schedule(
                training, work.seeds[run], client, work.t, own.stop - own.start
            )
            batches = _batches(own.stop - own.start, share, steps, training)
            yield _Job(run, share, images[own], labels[own], batches)


def _batches(
    samples: int,
    share: float,
    rows_of_steps: Iterator[slice | Ints],
    training: LocalTraining,
) -> Batches:
    """Return the batches of a client: first the samples that are not in its first step,
    for their loss, then the steps.
    """
    whole, repeats = np.arange(samples), 1
    most = max(training.batch_size or samples, SAMPLES)
    if share == 0:
        steps, others = [], whole
    elif training.batch_size is None:
        steps, others, repeats = [whole], whole[:0], training.steps
    else:
        steps = [whole[rows] for rows in rows_of_steps]
        others = np.delete(whole, steps[0])
    losses_alone = [
        others[first : first + most] for first in range(0, len(others), most)
    ]
    rows = [*losses_alone, *steps]
    return Batches(
        np.concatenate(rows),
        np.cumsum([len(each) for each in rows]),
        len(losses_alone),
        repeats,
    )


def _spread(
    do: Callable[[Input, ClientRoom], Made],
    given: Sequence[Input],
    rooms: list[ClientRoom],
    size: Callable[[Input], int] = lambda _: 0,
) -> Iterator[Made]:
    """Yield the results of `do` in the order of `given`, with one thread for each room;
    with one room, use this thread.
    """
    if len(rooms) < 2:
        yield from (do(each, rooms[0]) for each in given)
        return
    free = list(rooms)

    def work(each: Input) -> Made:
        room = free.pop()
        try:
            return do(each, room)
        finally:
            free.append(room)

    with ThreadPoolExecutor(len(rooms)) as pool:
        largest_first = sorted(
            range(len(given)), key=lambda i: -size(given[i])
        )  # so that no large one is left for the end
        futures = {i: pool.submit(work, given[i]) for i in largest_first}
        for i in range(len(given)):
            yield futures.pop(i).result()
