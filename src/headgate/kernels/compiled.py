"""Descent of small nets on the CPU: one thread takes a whole client through all its steps.

A small client's layers are so small that torch spends most time between them. Here a client's local training is one call
of what numba compiled (`kernels`), in memory that is made once for all clients of a thread, without Python's lock. It is here
because a round of LeNet takes 62 ms on one thread, and 335 by `flat` (benchmarks/results/executors.json at a7da4c6).
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
from torch import Tensor, nn

from headgate.errors import SettingError
from headgate.kernels.compiled_shapes import BLOCK, LANES, MOST_MOVED, SAMPLES, SLACK, Grid, Window, rounded, zeros
from headgate.learning.local import LocalTraining, schedule
from headgate.simulation.executors.executor import Executor, Ints, RaggedBatch, Work
from headgate.simulation.executors.layers import is_chain, is_plain, side
from headgate.simulation.executors.types import Task

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


COMPILED = (nn.Conv2d, nn.Linear, nn.ReLU, nn.Tanh, nn.MaxPool2d, nn.AvgPool2d, nn.Flatten)
MOST_NUMBERS = 1 << 20
"""What the kernels of all convolutions may see of a sample; LeNet's see 35 thousand. More is better done by others."""
MOST_PARAMETERS = 1 << 21
"""From there on weights come from memory, and torch's products are faster."""


class AtWork(NamedTuple):
    """The layers at work on so many samples at a time as there is space for."""

    space: RoomPlan
    ends: Ends
    program: Program


@dataclass(frozen=True, eq=False)
class Net:
    """The layers, and how a model in torch's order becomes one in theirs, in which rows have gaps."""

    grid: Grid
    """of the images"""
    layers: tuple[Layer, ...]
    first: int
    """the first layer that learns: the slope of what comes before is not wanted"""
    places: Ints
    """(P,) where each parameter goes"""
    size: int
    order: Ints
    """(classes,) where each logit lies"""

    def own(self, theta: Floats) -> Floats:
        """Models (R, P) in the layers' order, (R, size)."""
        given = np.zeros((len(theta), self.size), theta.dtype)
        given[:, self.places] = theta
        return given

    def at_work(self, kernels: Any, most: int, dtype: Any, learning: bool) -> AtWork:
        """For up to `most` samples at a time; compiles what is new."""
        space = RoomPlan(most, learning)
        theta, slope, velocity = (space.take("floats", size) for size in (self.size, *2 * [self.size * learning]))
        rates, scale, shift = (space.take("floats", count) for count in (3, self.grid.channels, self.grid.channels))
        shared, forward, backward = Shared(kernels, space, theta, slope), list[Call](), list[Call]()
        x = samples = space.place(self.grid)
        for number, layer in enumerate(self.layers):
            out = space.place(layer.after)
            steps = layer.steps(shared, x, out, number > self.first)
            forward += steps.forward
            backward = (steps.backward if learning and number >= self.first else []) + backward
            x = out
        where = (theta, slope, velocity, rates, scale, shift, samples.values, x.values, x.slopes)
        how = (self.size, self.grid.start, self.grid.row, self.grid.pitch, x.grid.pitch, len(self.order))
        ends = Ends(*where, *how)
        return AtWork(space, ends, program(forward, backward, ends, dtype))


def read_net(task: Task) -> Net:
    """The layers of the task's module; anything that is not made here is refused."""
    model = task.model
    if not is_chain(model):
        said = f"{type(model).__name__} does not" if isinstance(model, nn.Sequential) else f"it is a {type(model).__name__}"
        raise _refused(f"the model must do its layers one after the other, as a torch.nn.Sequential does; {said}")
    modules = _pooled_first(list(model))
    shapes = _shapes(modules, task.shape)
    if shapes[-1] != (task.classes,):
        raise _refused(f"the model gives {'x'.join(map(str, shapes[-1]))}, must give {task.classes} numbers for a sample")
    names = [f"{part}.{name}" for part, module in model._modules.items() for name, _ in module.named_parameters()]
    if names != list(task.flat.shapes):
        raise _refused("two layers of the model share parameters")
    seen = sum(
        module.in_channels * module.kernel_size[0] ** 2 * math.prod(shape[1:])
        for module, shape in zip(modules, shapes[1:], strict=True)
        if isinstance(module, nn.Conv2d)
    )
    if seen > MOST_NUMBERS:
        raise _refused(f"made for small images, this model's kernels see {seen} numbers of a sample (at most {MOST_NUMBERS})")
    if task.flat.size > MOST_PARAMETERS:
        raise _refused(f"made for small models, this one has {task.flat.size} parameters (at most {MOST_PARAMETERS})")
    return _joined(modules, shapes)


def _joined(modules: list[nn.Module], shapes: list[tuple[int, ...]]) -> Net:
    """Layers of modules, of which some take in those that follow."""
    pads = [_padding_after(modules, place) for place in range(-1, len(modules))]
    grids = [Grid(*shape, pad=pad) if len(shape) == 3 else Grid(shape[0]) for shape, pad in zip(shapes, pads, strict=True)]
    layers: list[Layer] = []
    learning, places, start = -1, [], 0
    order = np.arange(math.prod(shapes[0]))
    place = 0
    while place < len(modules):
        module, last = modules[place], place
        if isinstance(module, nn.Flatten):
            order = _order(shapes[place]) if len(shapes[place]) == 3 else order
            place += 1
            continue
        layer: Layer
        if isinstance(module, nn.Conv2d | nn.Linear):
            pool = 1
            if isinstance(module, nn.Conv2d) and type(_get(modules, last + 1)) is nn.MaxPool2d:
                last += 1
                pool = side(modules[last].kernel_size)  # type: ignore[arg-type]
            relu = type(_get(modules, last + 1)) is nn.ReLU
            last += relu
            before, after, biased = grids[place], grids[last + 1], module.bias is not None
            if isinstance(module, nn.Conv2d):
                layer = Convolution(Window(module.kernel_size[0], pool, relu, before, after), start, biased)
            else:
                layer = Linear(relu, before, after, start, biased, order)
                order = np.arange(module.out_features)
            places += [start + layer.places()]
            start += layer.sizes[0]
            places += [start + np.arange(after.channels)] if biased else []
            start += layer.sizes[1]
            learning = len(layers) if learning < 0 else learning
        elif isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
            layer = Pool(side(module.kernel_size), isinstance(module, nn.MaxPool2d), grids[place], grids[place + 1])
        else:
            layer = Activation("relu" if isinstance(module, nn.ReLU) else "tanh", grids[place + 1])
        layers.append(layer)
        place = last + 1
    return Net(grids[0], tuple(layers), learning, np.concatenate(places), start, order)


def _get(modules: list[nn.Module], place: int) -> nn.Module | None:
    return modules[place] if place < len(modules) else None


def _padding_after(modules: list[nn.Module], place: int) -> int:
    """The zeros that the next convolution wants around what a layer gives; activations keep them zeros."""
    for module in modules[place + 1 :]:
        if isinstance(module, nn.Conv2d):
            return int(module.padding[0])
        if not isinstance(module, nn.ReLU | nn.Tanh):
            break
    return 0


def _order(shape: tuple[int, ...]) -> Ints:
    """Where each feature lies that torch flattens channel by channel."""
    c, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    order: Ints = (y * shape[2] + x) * shape[0] + c
    return order.reshape(-1)


def _pooled_first(modules: list[nn.Module]) -> list[nn.Module]:
    """A ReLU before a MaxPool2d comes after it: what they do is the same to the bit, on fewer numbers.

    If the largest of a window is positive, both orders choose it; if not, neither lets any slope through.
    """
    for i in range(len(modules) - 1):
        if type(modules[i]) is nn.ReLU and type(modules[i + 1]) is nn.MaxPool2d:
            modules[i], modules[i + 1] = modules[i + 1], modules[i]
    return modules


def _shapes(modules: list[nn.Module], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shape of a sample before each module and after the last."""
    shapes = [tuple(shape)]
    for module in modules:
        _check_layer(module)
        fits = is_plain(module) and not (isinstance(module, nn.Linear) and len(shapes[-1]) > 1)
        try:
            like = next(module.parameters(), torch.empty(0))
            with torch.no_grad():
                after = module(like.new_zeros(1, *shapes[-1])).shape[1:] if fits else None
        except RuntimeError:
            after = None
        if after is None:
            raise _refused(f"{module} does not take what comes before it ({'x'.join(map(str, shapes[-1]))})")
        shapes.append(tuple(after))
    return shapes


def _check_layer(module: nn.Module) -> None:
    if type(module) not in COMPILED:
        *known, last = (kind.__name__ for kind in COMPILED)
        raise _refused(f"the model has a {type(module).__name__}, only {', '.join(known)} and {last} are compiled")
    learning = isinstance(module, nn.Conv2d | nn.Linear)
    if learning and [name for name, _ in module.named_parameters()] not in (["weight"], ["weight", "bias"]):
        raise _refused(f"{module} must have a weight, and a bias or none")
    if isinstance(module, nn.Conv2d) and not is_plain(module):
        raise _refused(f"{module} must be square, of stride 1 and one group, padded with zeros")
    if isinstance(module, nn.MaxPool2d | nn.AvgPool2d) and not is_plain(module):
        raise _refused(f"{module} must have square windows side by side, without padding")


def _refused(why: str) -> SettingError:
    return SettingError(f"--executor compiled: {why}")


CHUNK = 64
"""Images that are looked at together; their numbers stay in the second-level cache."""


Input = TypeVar("Input")
Made = TypeVar("Made")


class _Job(NamedTuple):
    """One client that has samples."""

    run: int
    share: float
    images: NDArray[Any]
    labels: Ints
    """where the logits of the true classes lie"""
    batches: Iterator[slice | Ints]
    """the rows that each of its steps looks at"""


class Compiled(Executor[Task]):
    """For a Sequential of the layers in `compiled_net`, on the CPU.

    A run's numbers depend neither on the runs beside it nor on the number of threads, to the bit.
    """

    name = "compiled"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.net = read_net(task)
        from headgate.kernels import kernel_calls, kernels  # which need numba

        self._kept: dict[bool, tuple[AtWork, list[ClientRoom]]] = {}
        self.kernels, self.note = kernels, kernel_calls.objection()
        if kernel_calls.is_empty():
            self.at_first = "numba compiles the layers before the first round: that takes a while, and only this once"

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        cls.need_plain_loss(training)
        if importlib.util.find_spec("numba") is None:
            raise cls.refused("needs numba, which is not installed")
        if task.device.type != "cpu" or task.dtype not in (torch.float32, torch.float64):
            raise cls.refused(f"only for float32 or float64 on the CPU, not {task.dtype} on {task.device}")
        read_net(task)
        return 0.1

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, batch, weights, training, seeds, t, _ = work
        labels, models = batch.labels.numpy(), theta.detach().numpy()
        if labels.size and not (labels.min() >= 0 and labels.max() < self.task.classes):
            raise IndexError(f"labels are {labels.min()} to {labels.max()}, must be less than {self.task.classes}")
        jobs = list(_jobs(batch, self.net.order[labels], weights, training, seeds, t))
        models, losses = self.net.own(models), np.zeros(len(models))
        after = models.copy()
        with np.errstate(all="ignore"):  # a run that has broken down is the caller's business
            for job, (loss, move) in zip(jobs, self._trained(jobs, models, training), strict=True):
                losses[job.run] += loss
                if len(move):
                    after[job.run] += move
            losses /= np.diff(batch.offsets[:: weights.shape[1]])  # 0/0 is nan
        return torch.from_numpy(after[:, self.net.places]), torch.from_numpy(losses.astype(after.dtype))

    def logits(self, theta: Tensor, images: Tensor) -> Tensor:
        """What models (R, P) say to images (S, C, H, W) of bytes: (R, S, classes).

        A model's numbers for an image depend on nothing else, to the bit.
        """
        if theta.ndim != 2 or theta.shape[1] != self.task.flat.size or theta.dtype != self.task.dtype:
            wanted = f"(R, {self.task.flat.size}) {self.task.dtype}"
            raise ValueError(f"theta is {tuple(theta.shape)} {theta.dtype}, must be {wanted}")
        if tuple(images.shape[1:]) != self.task.shape or images.dtype != getattr(torch, self.task.given):
            raise ValueError(
                f"images are {tuple(images.shape)} {images.dtype}, must be (S, {self.task.shape}) {self.task.given}"
            )
        models, bytes_ = self.net.own(theta.detach().numpy()), images.numpy()
        given = np.empty((len(models), len(bytes_), self.task.classes), models.dtype)
        starts = range(0, len(bytes_), CHUNK)
        with self._rooms(len(starts), CHUNK, models.dtype, learning=False) as (work, rooms):

            def answer(start: int, room: ClientRoom) -> None:
                rows = np.arange(start, min(start + CHUNK, len(bytes_)))
                self.kernels.answer(room, work.program, bytes_, rows, models, self.net.order, given)

            for _ in _spread(answer, starts, rooms):
                pass
        return torch.from_numpy(given)

    def _trained(self, jobs: list[_Job], models: Floats, training: LocalTraining) -> Iterator[tuple[float, Floats]]:
        """Losses and move of each client, in their order, so that sums do not depend on who is done first."""
        most = max((len(job.labels) for job in jobs), default=0)
        most = min(most, max(training.batch_size or most, SAMPLES))
        with self._rooms(len(jobs), most, models.dtype, learning=True) as (work, rooms):
            for room in rooms:
                room.floats[work.ends.rates :][:3] = training.lr, training.momentum, training.weight_decay

            def train(job: _Job, room: ClientRoom) -> tuple[float, Floats]:
                return self._train(job, models[job.run], training, work, room)

            yield from _spread(train, jobs, rooms, lambda job: len(job.labels))

    @contextmanager
    def _rooms(self, works: int, most: int, dtype: Any, learning: bool) -> Iterator[tuple[AtWork, list[ClientRoom]]]:
        """The net at work on up to `most` samples at a time, and a room for each thread that finds work.

        Both are kept for the next time, as to make them takes a tenth of a round of LeNet.
        """
        work, rooms = self._kept.pop(learning, (None, list[ClientRoom]()))
        if work is None or work.space.most < most:
            work, rooms = self.net.at_work(self.kernels, most, dtype, learning), []
        threads = min(torch.get_num_threads(), works)
        while len(rooms) < threads:
            rooms.append(work.space.room(dtype))
            for start, line in zip((work.ends.scale, work.ends.shift), self.task.line, strict=True):
                rooms[-1].floats[start : start + line.numel()] = line.numpy().reshape(-1)
        yield work, rooms[:threads]
        self._kept[learning] = work, rooms

    def _train(self, job: _Job, start: Floats, training: LocalTraining, work: AtWork, room: ClientRoom) -> tuple[float, Floats]:
        """The sum of a client's losses before its local training, and how far that moves the server; nowhere if it is worth
        nothing."""
        move, share = np.empty(len(start) if job.share else 0, start.dtype), start.dtype.type(job.share)
        loss = self.kernels.train(room, work.program, job.images, job.labels, _batches(job, training), start, share, move)
        return float(loss), move


def _batches(job: _Job, training: LocalTraining) -> Batches:
    """All that a client looks at: first the samples that its first step does not see."""
    whole, repeats = np.arange(len(job.labels)), 1
    most = max(training.batch_size or len(whole), SAMPLES)
    if job.share == 0:
        steps, others = [], whole
    elif training.batch_size is None:
        steps, others, repeats = [whole], whole[:0], training.steps
    else:
        steps = [whole[rows] for rows in job.batches]
        others = np.delete(whole, steps[0])
    looks = [others[first : first + most] for first in range(0, len(others), most)]
    rows = [*looks, *steps]
    return Batches(np.concatenate(rows), np.cumsum([len(each) for each in rows]), len(looks), repeats)


def _spread(
    do: Callable[[Input, ClientRoom], Made],
    given: Sequence[Input],
    rooms: list[ClientRoom],
    size: Callable[[Input], int] = lambda _: 0,
) -> Iterator[Made]:
    """What `do` makes of each, in their order, by a thread for each room; by this one if there is only one."""
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
        largest_first = sorted(range(len(given)), key=lambda i: -size(given[i]))  # so that none is left waiting for
        futures = {i: pool.submit(work, given[i]) for i in largest_first}
        for i in range(len(given)):
            yield futures.pop(i).result()


def _jobs(
    batch: RaggedBatch, labels: Ints, weights: Tensor, training: LocalTraining, seeds: Sequence[int], t: int
) -> Iterator[_Job]:
    images, offsets = batch.images.numpy(), batch.offsets.tolist()
    shares = weights.detach().reshape(-1).tolist()
    for segment, share in enumerate(shares):
        own = slice(offsets[segment], offsets[segment + 1])
        if own.stop > own.start:
            run, client = divmod(segment, weights.shape[1])
            batches = schedule(training, seeds[run], client, t, own.stop - own.start)
            yield _Job(run, share, images[own], labels[own], batches)
