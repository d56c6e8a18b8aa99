"""Reads the layers of a small net off a module, and refuses what has no compiled form."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.kernels.compiled_layers import Activation, Convolution, Layer, Linear, Pool, Shared
from headgate.kernels.compiled_room import Call, Ends, Floats, Program, RoomPlan, program
from headgate.kernels.compiled_shapes import Grid, Window
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.layers import is_chain, is_plain, side
from headgate.simulation.executors.types import Task

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
