"""The layers of a small convolutional net, for the samples of one client: forward and backward on numpy arrays.

What a layer takes and gives is (channels, height, width, samples) or, when flat, (features, samples). A layer owns the
arrays it gives, so that they are made once for all steps of a client.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headgate.errors import SettingError
from headgate.simulation.executors.types import Task

Floats = NDArray[Any]
"""float32 or float64, as the task says."""
LONG = 200
"""Numbers in a row of images from which a convolution is fastest straight from the images. Measured."""
NEAR = 1024
"""Columns that stay in the second-level cache between the product that makes them and their sum. Measured."""
MOST_COLUMNS = 1 << 20
"""What all convolutions may copy out of a sample; LeNet takes 35 thousand. More needs memory better spent otherwise."""


class Layer(Protocol):
    def forward(self, x: Floats) -> Floats: ...

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        """Sets the slopes of the layer's parameters, given that of its output, which is used up.

        The slope of its input, or anything where that is not wanted.
        """
        ...


class Client(NamedTuple):
    """What the layers of one client share."""

    n: int
    theta: Floats
    """(P,) its model"""
    slope: Floats
    """(P,) the slope of its loss there"""


@dataclass(frozen=True)
class Net:
    """How to make the layers for a client, and from which on they learn: the slope of what comes before is not wanted."""

    makers: tuple[Callable[[Client], Layer], ...]
    first: int

    def layers(self, client: Client) -> list[Layer]:
        return [make(client) for make in self.makers]


class Convolution:
    """Long rows are convolved straight from the images; short ones by a product with columns of what each tap sees.

    A fixed input, which is that of the first layer, is prepared only once.
    """

    def __init__(self, client: Client, module: nn.Conv2d, shape: tuple[int, ...], start: int, fixed: bool) -> None:
        from headgate.simulation.executors import kernels

        self.kernels, self.fixed, self.ready = kernels, fixed, False
        (channels, height, width), n, dtype = shape, client.n, client.theta.dtype
        outputs, k, pad = module.out_channels, module.kernel_size[0], int(module.padding[0])
        deep, wide = height + 2 * pad, width + 2 * pad
        self.stride, self.row = wide * n, (wide - k + 1) * n
        c, y, x = np.ogrid[:channels, :k, :k]
        self.taps = (((c * deep + y) * wide + x) * n).reshape(-1)
        self.inner = (slice(None), slice(pad, pad + height), slice(pad, pad + width))
        self.padded_shape = (channels, deep, wide, n)
        self.padded = np.zeros(self.padded_shape, dtype) if pad else None
        self.images = np.empty(0, dtype)
        self.columns = np.empty((len(self.taps), (deep - k + 1) * self.row), dtype) if self.row < LONG else None
        self.given = np.empty((outputs, deep - k + 1, wide - k + 1, n), dtype)
        self.back: tuple[Floats, Floats] | None = None
        self.weight, self.bias = _parameters(client.theta, start, outputs, len(self.taps))
        self.weight_slope, self.bias_slope = _parameters(client.slope, start, outputs, len(self.taps))

    def forward(self, x: Floats) -> Floats:
        if not (self.fixed and self.ready):
            self._prepare(x)
        given = self.given.reshape(len(self.given), -1)
        if self.columns is None:
            self.kernels.convolve(self.images, self.stride, self.taps, self.weight, self.bias, self.row, given)
        else:
            np.matmul(self.weight, self.columns, out=given)
            given += self.bias[:, None]
        return self.given

    def _prepare(self, x: Floats) -> None:
        if self.padded is not None:
            self.padded[self.inner] = x
            x = self.padded
        self.images, self.ready = x.reshape(-1), True
        if self.columns is not None:
            self.kernels.gather(self.images, self.stride, self.taps, self.row, self.columns)

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        slope = slope.reshape(len(slope), -1)
        self.kernels.sums(slope, self.bias_slope)
        if self.columns is None:
            self.kernels.slope_of_weights(self.images, self.stride, self.taps, slope, self.row, self.weight_slope)
        else:
            np.matmul(slope, self.columns.T, out=self.weight_slope)
        return self._slope_of_images(slope) if wanted else slope

    def _slope_of_images(self, slope: Floats) -> Floats:
        """Some rows at a time: their columns are added up while they are still in the cache."""
        rows = max(1, NEAR // self.row)
        if self.back is None:
            self.back = np.empty(len(self.taps) * rows * self.row, slope.dtype), np.empty(self.padded_shape, slope.dtype)
        columns, images = self.back
        images[:] = 0
        for y in range(0, self.given.shape[1], rows):
            own = slope[:, y * self.row : (y + rows) * self.row]
            part = columns[: len(self.taps) * own.shape[1]].reshape(len(self.taps), -1)
            np.matmul(self.weight.T, own, out=part)
            self.kernels.scatter(part, self.stride, self.taps, self.row, images.reshape(-1)[y * self.stride :])
        return np.ascontiguousarray(images[self.inner])


class Linear:
    def __init__(self, client: Client, module: nn.Linear, start: int) -> None:
        inward, outward = module.in_features, module.out_features
        self.weight, self.bias = _parameters(client.theta, start, outward, inward)
        self.weight_slope, self.bias_slope = _parameters(client.slope, start, outward, inward)
        self.given = np.empty((outward, client.n), client.theta.dtype)
        self.back = np.empty((inward, client.n), client.theta.dtype)
        self.x = self.back

    def forward(self, x: Floats) -> Floats:
        self.x = x
        np.matmul(self.weight, x, out=self.given)
        self.given += self.bias[:, None]
        return self.given

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        np.matmul(slope, self.x.T, out=self.weight_slope)
        np.add.reduce(slope, axis=1, out=self.bias_slope)
        return np.matmul(self.weight.T, slope, out=self.back) if wanted else slope


class ReLU:
    def __init__(self, client: Client, shape: tuple[int, ...]) -> None:
        from headgate.simulation.executors import kernels

        self.kernels = kernels
        self.given = np.empty((*shape, client.n), client.theta.dtype)
        self.back = np.empty_like(self.given)

    def forward(self, x: Floats) -> Floats:
        return np.maximum(x, 0, out=self.given)

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        self.kernels.relu_slope(slope.reshape(-1), self.given.reshape(-1), self.back.reshape(-1))
        return self.back


class Tanh:
    def __init__(self, client: Client, shape: tuple[int, ...]) -> None:
        self.given = np.empty((*shape, client.n), client.theta.dtype)

    def forward(self, x: Floats) -> Floats:
        return np.tanh(x, out=self.given)

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        slope *= 1 - self.given * self.given
        return slope


class Flatten:
    def __init__(self, client: Client, shape: tuple[int, ...]) -> None:
        self.shape = (*shape, client.n)

    def forward(self, x: Floats) -> Floats:
        return x.reshape(-1, self.shape[-1])

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        return slope.reshape(self.shape)


class Pool:
    """The largest or the mean of each k x k window."""

    def __init__(self, client: Client, k: int, largest: bool, shape: tuple[int, ...]) -> None:
        from headgate.simulation.executors import kernels

        self.kernels, self.k = kernels, k
        (channels, height, width), dtype = shape, client.theta.dtype
        self.given = np.empty((channels, height // k, width // k, client.n), dtype)
        self.chosen = np.empty_like(self.given) if largest else None
        self.back = np.empty((*shape, client.n), dtype)

    def forward(self, x: Floats) -> Floats:
        if self.chosen is None:
            self.kernels.average_pool(x, self.k, self.given)
        else:
            self.kernels.max_pool(x, self.k, self.given, self.chosen)
        return self.given

    def backward(self, slope: Floats, wanted: bool) -> Floats:
        if self.chosen is None:
            self.kernels.average_pool_slope(slope, self.k, self.back)
        else:
            self.kernels.max_pool_slope(slope, self.k, self.chosen, self.back)
        return self.back


_PLAIN: dict[type[nn.Module], type[ReLU] | type[Tanh] | type[Flatten]] = {nn.ReLU: ReLU, nn.Tanh: Tanh, nn.Flatten: Flatten}


def _parameters(vector: Floats, start: int, outward: int, inward: int) -> tuple[Floats, Floats]:
    """A layer's weight (outward, inward) and bias (outward,) as views of the vector."""
    middle = start + outward * inward
    return vector[start:middle].reshape(outward, inward), vector[middle : middle + outward]


# reading a module


def read_net(task: Task) -> Net:
    """The layers of the task's module; anything that is not made here is refused."""
    model = task.model
    if type(model) is not nn.Sequential:
        raise _refused(f"the model must be a torch.nn.Sequential, is {type(model).__name__}")
    modules = _pooled_first(list(model))
    makers: list[Callable[[Client], Layer]] = []
    learning: list[int] = []
    shape, start, columns = tuple(task.shape), 0, 0
    for place, module in enumerate(modules):
        _check_layer(module, shape)
        if isinstance(module, nn.Conv2d):
            makers.append(partial(Convolution, module=module, shape=shape, start=start, fixed=place == 0))
        elif isinstance(module, nn.Linear):
            makers.append(partial(Linear, module=module, start=start))
        elif isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
            k, largest = _side(module.kernel_size), isinstance(module, nn.MaxPool2d)
            makers.append(partial(Pool, k=k, largest=largest, shape=shape))
        else:
            makers.append(partial(_PLAIN[type(module)], shape=shape))
        size = sum(parameter.numel() for parameter in module.parameters())
        learning += [place] if size else []
        start += size
        shape = _shape_after(module, shape)
        if isinstance(module, nn.Conv2d):
            columns += module.in_channels * module.kernel_size[0] ** 2 * math.prod(shape[1:])
    if not any(isinstance(module, nn.Conv2d) for module in modules):
        raise _refused("made for convolutions, the model has none")
    if shape != (task.classes,):
        raise _refused(f"the model gives {'x'.join(map(str, shape))}, must give {task.classes} numbers for a sample")
    names = [f"{place}.{name}" for place, module in enumerate(model) for name, _ in module.named_parameters()]
    if names != list(task.flat.shapes):
        raise _refused("two layers of the model share parameters")
    if columns > MOST_COLUMNS:
        raise _refused(f"made for small images, this model would copy {columns} numbers for a sample (at most {MOST_COLUMNS})")
    return Net(tuple(makers), learning[0])


def _pooled_first(modules: list[nn.Module]) -> list[nn.Module]:
    """A ReLU before a MaxPool2d comes after it: what they do is the same to the bit, on fewer numbers.

    If the largest of a window is positive, both orders choose it; if not, neither lets any slope through.
    """
    for i in range(len(modules) - 1):
        if type(modules[i]) is nn.ReLU and type(modules[i + 1]) is nn.MaxPool2d:
            modules[i], modules[i + 1] = modules[i + 1], modules[i]
    return modules


def _check_layer(module: nn.Module, shape: tuple[int, ...]) -> None:
    kind, flat = type(module), len(shape) == 1
    if kind not in (nn.Conv2d, nn.Linear, nn.ReLU, nn.Tanh, nn.MaxPool2d, nn.AvgPool2d, nn.Flatten):
        known = "Conv2d, Linear, ReLU, Tanh, MaxPool2d, AvgPool2d and Flatten"
        raise _refused(f"the model has a {kind.__name__}, only {known} are compiled")
    if [name for name, _ in module.named_parameters()] != ["weight", "bias"] and kind in (nn.Conv2d, nn.Linear):
        raise _refused(f"{module} must have a weight and a bias")
    if isinstance(module, nn.Conv2d):
        plain = (module.stride, module.dilation, module.groups, module.padding_mode) == ((1, 1), (1, 1), 1, "zeros")
        square = len({*module.kernel_size}) == 1 and len({*module.padding}) == 1 and not isinstance(module.padding, str)
        if not plain or not square:
            raise _refused(f"{module} must be square, of stride 1 and one group, padded with zeros")
        fits = not flat and shape[0] == module.in_channels
    elif isinstance(module, nn.Linear):
        fits = shape == (module.in_features,)
    elif isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
        k = _side(module.kernel_size)
        whole = k > 0 and _side(module.stride) == k and _side(module.padding) == 0 and not module.ceil_mode
        if isinstance(module, nn.MaxPool2d):
            whole = whole and _side(module.dilation) == 1 and not module.return_indices
        elif module.divisor_override is not None:
            whole = False
        if not whole:
            raise _refused(f"{module} must have square windows side by side, without padding")
        fits = not flat
    else:
        fits = not isinstance(module, nn.Flatten) or (module.start_dim, module.end_dim) == (1, -1)
    if not fits or min(_shape_after(module, shape)) < 1:
        raise _refused(f"{module} does not take what comes before it ({'x'.join(map(str, shape))})")


def _shape_after(module: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(module, nn.Conv2d):
        less = module.kernel_size[0] - 1 - 2 * int(module.padding[0])
        return (module.out_channels, shape[1] - less, shape[2] - less)
    if isinstance(module, nn.Linear):
        return (module.out_features,)
    if isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
        k = _side(module.kernel_size)
        return (shape[0], shape[1] // k, shape[2] // k)
    return (math.prod(shape),) if isinstance(module, nn.Flatten) else shape


def _side(size: int | tuple[int, ...]) -> int:
    """The one number of a size that is the same both ways, −1 if it is not."""
    sides = {size} if isinstance(size, int) else {*size}
    return sides.pop() if len(sides) == 1 else -1


def _refused(why: str) -> SettingError:
    return SettingError(f"--executor compiled: {why}")
