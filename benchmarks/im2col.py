"""Small stacks on the CPU in the plainest fast way: im2col and BLAS by numpy, pooling
and the loss by numba as it stands.

It is what `compiled` is held against in next_simpler.py. An array holds channels, each
row by row and pixel by pixel, all samples of a pixel side by side. So a shift by a
pixel is a shift of the whole array, and a row of the matrix that a convolution
multiplies is one copy of a slice.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from torch import nn

Array = Any
CHUNK = 16
"""images that are judged together"""
_fast = njit(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})


@_fast
def normalise(images: Array, scale: Array, shift: Array, pad: int, out: Array) -> None:
    """Images (n, C, H, W) of bytes into (C, H + 2 pad, W + 2 pad, n) with zeros around
    them.
    """
    n, channels, height, width = images.shape
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                for s in range(n):
                    out[c, y + pad, x + pad, s] = (
                        np.float32(images[s, c, y, x]) * scale[c] + shift[c]
                    )


@_fast
def pool(x: Array, bias: Array, pad: int, out: Array, chosen: Array) -> None:
    """ReLU of the largest of 2 x 2 windows and a bias, into a frame of `pad` zeros, and
    which was the largest.
    """
    channels, high, wide, n = chosen.shape
    for c in range(channels):
        for i in range(high):
            for j in range(wide):
                a, b, d, e = (
                    x[c, 2 * i, 2 * j],
                    x[c, 2 * i, 2 * j + 1],
                    x[c, 2 * i + 1, 2 * j],
                    x[c, 2 * i + 1, 2 * j + 1],
                )
                to, which = out[c, i + pad, j + pad], chosen[c, i, j]
                for s in range(n):
                    best = max(max(a[s], b[s]), max(d[s], e[s]))
                    which[s] = (
                        0
                        if best == a[s]
                        else 1
                        if best == b[s]
                        else 2
                        if best == d[s]
                        else 3
                    )
                    to[s] = max(best + bias[c], np.float32(0))


@_fast
def unpool(slope: Array, value: Array, chosen: Array, pad: int, out: Array) -> None:
    """The slope of a convolution's output, zero but where a window was the largest and
    positive.
    """
    channels, high, wide, n = chosen.shape
    out[:] = 0
    for c in range(channels):
        for i in range(high):
            for j in range(wide):
                for s in range(n):
                    if value[c, i + pad, j + pad, s] > 0:
                        p = np.int64(chosen[c, i, j, s])
                        out[c, 2 * i + p // 2, 2 * j + p % 2, s] = slope[
                            c, i + pad, j + pad, s
                        ]


@_fast
def cross_entropy(logits: Array, labels: Array, slope: Array) -> float:
    """The mean loss of logits (classes, n), and its slope."""
    classes, n = logits.shape
    loss = 0.0
    for i in range(n):
        most, total = logits[:, i].max(), np.float32(0)
        for c in range(classes):
            slope[c, i] = np.exp(logits[c, i] - most)
            total += slope[c, i]
        loss += np.log(total) - (logits[labels[i], i] - most)
        for c in range(classes):
            slope[c, i] /= total * n
        slope[labels[i], i] -= np.float32(1) / n
    return loss / n


class Convolution:
    """With a max-pool of 2 x 2 and a ReLU."""

    def __init__(
        self, layer: nn.Conv2d, shape: tuple[int, int, int], pad: int, n: int
    ) -> None:
        (channels, height, width), self.k, self.n, self.pad = (
            shape,
            layer.kernel_size[0],
            n,
            pad,
        )
        frame, outputs = layer.padding[0], layer.out_channels
        wide = width + 2 * frame
        high = height + 2 * frame - self.k + 1
        self.x = np.zeros((channels, height + 2 * frame, wide, n), np.float32)
        self.made, self.slope = np.zeros((2, outputs, high, wide, n), np.float32)
        self.length = (
            high * wide * n - (self.k - 1) * n
        )  # behind the last pixel there is nothing
        self.columns = np.zeros((channels * self.k**2, self.length), np.float32)
        self.shape = outputs, high // 2, (wide - self.k + 1) // 2
        self.chosen = np.zeros((*self.shape, n), np.uint8)

    def shifts(self, array: Array) -> list[Array]:
        """Slices of framed images, one for each input channel and each pixel of the
        kernel.
        """
        flat, wide = array.reshape(len(array), -1), array.shape[2] * self.n
        starts = [i * wide + j * self.n for i in range(self.k) for j in range(self.k)]
        return [
            flat[c, at : at + self.length] for c in range(len(flat)) for at in starts
        ]

    def forward(self, weight: Array, bias: Array, after: Array, fresh: bool) -> None:
        if fresh:  # of the images themselves they stay what they are from step to step
            for row, part in zip(self.columns, self.shifts(self.x), strict=True):
                row[:] = part
        flat = self.made.reshape(len(weight), -1)[:, : self.length]
        np.matmul(weight.reshape(len(weight), -1), self.columns, flat)
        pool(self.made, bias, self.pad, after, self.chosen)

    def backward(
        self,
        weight: Array,
        slopes: tuple[Array, Array],
        value: Array,
        slope: Array,
        wanted: bool,
    ) -> Array:
        unpool(slope, value, self.chosen, self.pad, self.slope)
        flat = self.slope.reshape(len(weight), -1)[:, : self.length]
        np.matmul(flat, self.columns.T, slopes[0].reshape(len(weight), -1))
        flat.sum(axis=1, out=slopes[1])
        if not wanted:
            return None
        before = np.zeros_like(self.x)
        for row, part in zip(
            weight.reshape(len(weight), -1).T @ flat, self.shifts(before), strict=True
        ):
            part += row
        return before


class Im2col:
    """LeNet and the like: convolutions with max-pool and ReLU, then linear layers with
    ReLU between them.
    """

    def __init__(self, task: Any) -> None:
        self.task, modules = task, list(task.model)
        self.convolutions = [each for each in modules if isinstance(each, nn.Conv2d)]
        self.scale, self.shift = (each.numpy().reshape(-1) for each in task.line)

    def views(self, vector: Array) -> list[Array]:
        """Weights and biases, as torch has them."""
        flat = self.task.flat
        parts = zip(flat.starts, flat.sizes, flat.shapes.values(), strict=False)
        return [
            vector[start : start + size].reshape(shape) for start, size, shape in parts
        ]

    def layers(self, n: int) -> tuple[list[Convolution], list[Array]]:
        """Convolutions for n samples, and what goes into each of them and out of the
        last.
        """
        shape, made = self.task.shape, list[Convolution]()
        for i, layer in enumerate(self.convolutions):
            pad = (
                self.convolutions[i + 1].padding[0]
                if i + 1 < len(self.convolutions)
                else 0
            )
            made.append(Convolution(layer, shape, pad, n))
            shape = made[-1].shape
        return made, [*(each.x for each in made), np.zeros((*shape, n), np.float32)]

    def forward(
        self,
        layers: list[Convolution],
        places: list[Array],
        theta: list[Array],
        fresh: bool,
    ) -> list[Array]:
        """What goes into the linear layers, (features, n), and the logits."""
        for i, layer in enumerate(layers):
            layer.forward(theta[2 * i], theta[2 * i + 1], places[i + 1], fresh or i > 0)
        values = [places[-1].reshape(-1, places[-1].shape[-1])]
        for i in range(2 * len(layers), len(theta), 2):
            values.append(theta[i] @ values[-1] + theta[i + 1][:, None])
            if i + 2 < len(theta):
                np.maximum(values[-1], 0, values[-1])
        return values

    def train(self, start: Array, images: Array, labels: Array, training: Any) -> Array:
        """The model after all full-batch steps of one client."""
        vector, down = start.copy(), np.empty_like(start)
        theta, slopes = self.views(vector), self.views(down)
        layers, places = self.layers(len(labels))
        normalise(
            images, self.scale, self.shift, self.convolutions[0].padding[0], places[0]
        )
        for step in range(training.steps):
            values = self.forward(layers, places, theta, step == 0)
            slope = np.empty_like(values[-1])
            cross_entropy(values[-1], labels, slope)
            for i in range(len(theta) - 2, 2 * len(layers) - 2, -2):
                x = values[i // 2 - len(layers)]
                np.matmul(slope, x.T, slopes[i])
                slope.sum(axis=1, out=slopes[i + 1])
                slope = theta[i].T @ slope
                if i > 2 * len(layers):
                    slope *= x > 0
            slope = slope.reshape(places[-1].shape)
            for i in range(len(layers) - 1, -1, -1):
                own = slopes[2 * i], slopes[2 * i + 1]
                slope = layers[i].backward(
                    theta[2 * i], own, places[i + 1], slope, i > 0
                )
            vector -= training.lr * down
        return vector

    def round(self, theta: Array, batch: Any, weights: Array, training: Any) -> Array:
        """The models after a round."""
        images, labels, offsets, after = (
            batch.images.numpy(),
            batch.labels.numpy(),
            batch.offsets,
            theta.copy(),
        )
        for segment, share in enumerate(weights.reshape(-1).tolist()):
            own, run = (
                slice(offsets[segment], offsets[segment + 1]),
                segment // weights.shape[1],
            )
            if own.stop > own.start:
                after[run] += np.float32(share) * (
                    self.train(theta[run], images[own], labels[own], training)
                    - theta[run]
                )
        return after

    def logits(self, theta: Array, images: NDArray[np.uint8]) -> Array:
        """What models (R, P) answer to images (n, C, H, W), (R, n, classes)."""
        given = np.empty((len(theta), len(images), self.task.classes), np.float32)
        models, n = [self.views(each) for each in theta], 0
        for start in range(0, len(images), CHUNK):
            some = images[start : start + CHUNK]
            if len(some) != n:
                n = len(some)
                layers, places = self.layers(n)
            normalise(
                some, self.scale, self.shift, self.convolutions[0].padding[0], places[0]
            )
            for r, parameters in enumerate(models):
                given[r, start : start + n] = self.forward(
                    layers, places, parameters, r == 0
                )[-1].T
        return given
