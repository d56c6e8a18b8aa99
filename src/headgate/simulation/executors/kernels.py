"""Layers for some samples, compiled by numba when first called. Importing this needs numba.

Arrays are flat and hold sample after sample, each a `compiled_shapes.Grid`. A vector that sticks out of a pixel is
overwritten by the next pixel; behind a row, where nothing may stick out, zeros are written.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from headgate.simulation.executors import compiled_shapes, vectors
from headgate.simulation.executors.compiled_shapes import BLOCK, LANES, REGISTERS, SAMPLES, WIDE, Pooling, Window
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.kernel_cache import keep
from headgate.simulation.executors.vectors import add_scaled, dots, largest, multiply, outer, spread_scaled

Floats = Any
"""A contiguous array of float32 or float64; numba makes a version for each."""
Numbers = Any
"""A contiguous array of uint16."""
Lists = Any
"""Arrays for a kernel's own use: values, their places, and what a chosen pixel adds to a place."""
_SOURCES = b"".join(Path(str(each)).read_bytes() for each in (__file__, compiled_shapes.__file__, vectors.__file__))
_SOURCES += f"{LANES} {REGISTERS}".encode()


def _compiled(*liberties: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles; of fast but loose arithmetic only the named liberties, none of which minds nan or infinity."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return keep(njit(nogil=True, fastmath=set(liberties), error_model="numpy")(function), _SOURCES)

    return decorate


# activations, in place


@_compiled()
def relu(values: Floats, count: int) -> None:
    zero = values.dtype.type(0)
    for i in range(count):
        here = values[i]
        values[i] = zero if here <= zero else here


@_compiled()
def relu_slope(out: Floats, slope: Floats, count: int) -> None:
    zero = out.dtype.type(0)
    for i in range(count):
        here = slope[i]
        slope[i] = zero if out[i] <= zero else here


@_compiled()
def tanh(values: Floats, count: int) -> None:
    for i in range(count):
        values[i] = np.tanh(values[i])


@_compiled()
def tanh_slope(out: Floats, slope: Floats, count: int) -> None:
    one = out.dtype.type(1)
    for i in range(count):
        slope[i] = slope[i] * (one - out[i] * out[i])


# convolution, with the pooling that follows it


@cache
def convolution(window: Window) -> Callable[..., None]:
    k, pool, relu, before, after = window.k, window.pool, int(window.relu), window.before, window.after
    inputs, row, pitch = before.channels, before.row, before.pitch
    outputs, high, wide = after.channels, after.height, after.width
    out_start, out_row, out_pitch = after.start, after.row, after.pitch
    together, vectors, groups, places, terms = window.tile
    run, block, lanes, fits = window.run, places * together, vectors * LANES, -(-outputs // LANES)
    whole, tail, columns = terms // LANES, terms % LANES, wide * pool
    behind = out_row - wide * outputs + LANES  # up to the next row, and what may stick out

    @_compiled()
    def forward(
        x: Floats, weight: Floats, bias: Floats, table: Floats, bands: Floats, out: Floats, chosen: Numbers, n: int
    ) -> None:
        """`table` and `bands` are for its own use, the table zeros at first."""
        biases = groups * k * terms * lanes
        for pixel in range(together):
            for o in range(outputs):
                place = pixel * outputs + o
                table[biases + place] = bias[o]
                for i in range(k):
                    at = ((place // lanes * k + i) * terms + pixel * inputs) * lanes + place % lanes
                    for j in range(k * inputs):
                        table[at + j * lanes] = weight[(o * k + i) * run + j]
        for s in range(n):
            for y in range(high):
                for v in range(pool):
                    for start in range(0, columns, block):
                        first = min(start, columns - block)
                        at, to = s * pitch + (y * pool + v) * row + first * inputs, (v * columns + first) * outputs
                        for group in range(groups - 1, -1, -1):  # what sticks out of the last is overwritten by the first
                            multiply(
                                places, vectors, tail, k, whole, x, at, together * inputs, row,
                                table, group * k * terms * lanes, lanes, table, biases + group * lanes,
                                bands, to + group * lanes, together * outputs,
                            )  # fmt: skip
                to, which = s * out_pitch + out_start + y * out_row, (s * high + y) * wide * outputs
                for z in range(wide):
                    from_, o = z * pool * outputs, z * outputs
                    largest(pool, fits, relu, bands, from_, columns * outputs, outputs, out, to + o, chosen, which + o)
                to += wide * outputs
                for j in range(behind):
                    out[to + j] = 0

    return forward


@njit(inline="always")
def collect(
    count: int, slope: Floats, at: int, chosen: Numbers, which: int, step: int, length: int, shifts: Ints, place: int,
    place_step: int, values: Floats, places: Ints,
) -> int:  # fmt: skip
    """Appends to `values` each of `length` slopes that is not 0, and to `places` place + i·place_step + shifts[chosen[i]].

    Slopes and chosen are `step` apart. Gives how many there are now; beyond the last, one may be written. numba does not ask
    of a uintp whether it is less than 0.
    """
    for i in range(length):
        value = slope[np.uintp(at + i * step)]
        values[np.uintp(count)] = value
        places[np.uintp(count)] = place + i * place_step + shifts[chosen[np.uintp(which + i * step)]]
        count += value != 0
    return count


@cache
def slope_of_convolution(window: Window) -> Callable[..., None]:
    k, pool, relu, before, after = window.k, window.pool, int(window.relu), window.before, window.after
    inputs, row, pitch = before.channels, before.row, before.pitch
    outputs, high, wide = after.channels, after.height, after.width
    out_start, out_row, out_pitch = after.start, after.row, after.pitch
    run, vectors, (samples, rows) = window.run, window.run // LANES, window.strip

    @_compiled()
    def backward(
        x: Floats, out: Floats, slope: Floats, chosen: Numbers, lists: Lists, weight: Floats, table: Floats,
        weights: Floats, bias: Floats, wanted: bool, x_slope: Floats, n: int,
    ) -> None:  # fmt: skip
        """Only from the pixels that were chosen. That of the images, if wanted; `table` is for it, zeros at first."""
        values, places, shifts = lists
        if relu:
            relu_slope(out, slope, n * out_pitch)
        for pixel in range(pool * pool):
            shifts[pixel] = pixel // pool * row + pixel % pool * inputs
        weights[:] = 0
        bias[:] = 0
        for s in range(n):
            for y in range(high):
                at = s * out_pitch + out_start + y * out_row
                for z in range(wide):
                    for o in range(outputs):
                        bias[o] += slope[at + z * outputs + o]
        if wanted:
            x_slope[: n * pitch] = 0
            for i in range(outputs * k):
                for j in range(k * inputs):
                    table[i * run + j] = weight[i * run + j]
        for some in range(0, n, samples):
            for top in range(0, high, rows):
                for o in range(outputs):
                    count = 0
                    for s in range(some, min(n, some + samples)):
                        for y in range(top, min(high, top + rows)):
                            at, which = s * out_pitch + out_start + y * out_row + o, (s * high + y) * wide * outputs + o
                            corner = s * pitch + y * pool * row
                            count = collect(
                                count, slope, at, chosen, which, outputs, wide, shifts, corner, pool * inputs, values, places
                            )
                    add_scaled(k, vectors, values, places, count, x, row, weights, o * k * run, run)
                    if wanted:
                        spread_scaled(k, vectors, values, places, count, table, o * k * run, run, x_slope, row)

    return backward


@cache
def slope_of_images(window: Window) -> Callable[..., None]:
    k, pool, before, after = window.k, window.pool, window.before, window.after
    inputs, row, pitch = before.channels, before.row, before.pitch
    outputs, high, wide = after.channels, after.height, after.width
    out_start, out_row, out_pitch = after.start, after.row, after.pitch
    run, spread, deep = window.run, window.spread, window.deep
    rows, vectors = k + pool - 1, spread // LANES

    @_compiled()
    def backward(weight: Floats, slope: Floats, chosen: Numbers, lists: Lists, table: Floats, x_slope: Floats, n: int) -> None:
        """The same, window by window: faster where the table is small, as sums stay in registers.

        The table, zeros at first, holds the kernel as it lies in a window that chose this or that column.
        """
        values, places, shifts = lists
        for pixel in range(pool):
            for o in range(outputs):
                for i in range(k):
                    to = ((pixel * outputs + o) * deep + pool - 1 + i) * spread + pixel * inputs
                    for j in range(k * inputs):
                        table[to + j] = weight[(o * k + i) * run + j]
        for pixel in range(pool * pool):
            shifts[pixel] = (pixel % pool * outputs * deep + pool - 1 - pixel // pool) * spread
        for s in range(n):
            for i in range(pitch):
                x_slope[s * pitch + i] = 0
            for y in range(high):
                for z in range(wide):
                    at = s * out_pitch + out_start + y * out_row + z * outputs
                    which = ((s * high + y) * wide + z) * outputs
                    count = collect(0, slope, at, chosen, which, 1, outputs, shifts, 0, deep * spread, values, places)
                    to = s * pitch + y * pool * row + z * pool * inputs
                    add_scaled(rows, vectors, values, places, count, table, spread, x_slope, to, row)

    return backward


# linear layers: rows of weights `pitch` apart, samples in whole blocks


@_compiled()
def linear(
    x: Floats, pitch: int, weight: Floats, bias: Floats, out: Floats, out_pitch: int, outputs: int, rectified: bool, n: int
) -> None:
    for q in range(0, outputs, LANES):
        for s in range(0, n, WIDE):
            to = s * out_pitch + q
            dots(WIDE, pitch // LANES, x, s * pitch, pitch, weight, q * pitch, pitch, bias, q, out, to, out_pitch)
    if rectified:
        relu(out, n * out_pitch)


@_compiled("contract")
def slope_of_linear(
    x: Floats,
    pitch: int,
    out: Floats,
    slope: Floats,
    out_pitch: int,
    outputs: int,
    rectified: bool,
    weights: Floats,
    bias: Floats,
    n: int,
) -> None:
    if rectified:
        relu_slope(out, slope, n * out_pitch)
    bias[:] = 0
    for s in range(n):
        for o in range(outputs):
            bias[o] += slope[s * out_pitch + o]
    for i in range(0, pitch, BLOCK):
        for o in range(0, outputs, LANES):
            outer(WIDE, n, slope, o, out_pitch, x, i, pitch, weights, o * pitch + i, pitch)


@_compiled()
def slope_of_features(
    weight: Floats, slope: Floats, out_pitch: int, outputs: int, nothing: Floats, x_slope: Floats, pitch: int, n: int
) -> None:
    """`nothing` is zeros, as many as a block is wide."""
    for i in range(0, pitch, BLOCK):
        for s in range(0, n, SAMPLES):
            multiply(
                SAMPLES, WIDE, 0, 1, outputs // LANES, slope, s * out_pitch, out_pitch, 0,
                weight, i, pitch, nothing, 0, x_slope, s * pitch + i, pitch,
            )  # fmt: skip


# pooling that follows no convolution


@_compiled()
def max_pool(shape: Pooling, x: Floats, out: Floats, chosen: Numbers, n: int) -> None:
    for s in range(n):
        for i in range(len(shape.corners)):
            at, to = s * shape.pitch + shape.corners[i], s * shape.out_pitch + shape.places[i]
            best, which = x[at], 0
            for pixel in range(1, len(shape.shifts)):
                here = x[at + shape.shifts[pixel]]
                if here > best or here != here:
                    best, which = here, pixel
            out[to], chosen[to] = best, which


@_compiled()
def max_pool_slope(shape: Pooling, slope: Floats, chosen: Numbers, x_slope: Floats, n: int) -> None:
    x_slope[: n * shape.pitch] = 0
    for s in range(n):
        for i in range(len(shape.corners)):
            to = s * shape.out_pitch + shape.places[i]
            x_slope[s * shape.pitch + shape.corners[i] + shape.shifts[chosen[to]]] = slope[to]


@_compiled()
def average_pool(shape: Pooling, x: Floats, out: Floats, n: int) -> None:
    for s in range(n):
        for i in range(len(shape.corners)):
            at = s * shape.pitch + shape.corners[i]
            total = x[at]
            for pixel in range(1, len(shape.shifts)):
                total += x[at + shape.shifts[pixel]]
            out[s * shape.out_pitch + shape.places[i]] = total / len(shape.shifts)


@_compiled()
def average_pool_slope(shape: Pooling, slope: Floats, x_slope: Floats, n: int) -> None:
    x_slope[: n * shape.pitch] = 0
    for s in range(n):
        for i in range(len(shape.corners)):
            steep = slope[s * shape.out_pitch + shape.places[i]] / len(shape.shifts)
            for shift in shape.shifts:
                x_slope[s * shape.pitch + shape.corners[i] + shift] = steep


# the two ends, and the step


@_compiled()
def normalise(images: Any, scale: Floats, shift: Floats, start: int, row: int, pitch: int, out: Floats) -> None:
    """Images (n, C, H, W) of bytes as scale·x + shift."""
    n, channels, height, width = images.shape
    for s in range(n):
        for c in range(channels):
            for y in range(height):
                to = s * pitch + start + y * row + c
                for z in range(width):
                    out[to + z * channels] = scale.dtype.type(images[s, c, y, z]) * scale[c] + shift[c]


@_compiled()
def cross_entropy(logits: Floats, pitch: int, classes: int, labels: Ints, slope: Floats) -> Any:
    """The mean loss, and its slope."""
    n, loss = len(labels), 0.0
    for i in range(n):
        at = i * pitch
        most = logits[at]
        for c in range(1, classes):
            if logits[at + c] > most or logits[at + c] != logits[at + c]:
                most = logits[at + c]
        true = logits[at + labels[i]] - most
        total = slope.dtype.type(0)
        for c in range(classes):
            slope[at + c] = np.exp(logits[at + c] - most)
            total += slope[at + c]
        loss += np.log(total) - true
        for c in range(classes):
            slope[at + c] /= total * n
        slope[at + labels[i]] -= slope.dtype.type(1) / n
    return loss / n


@_compiled("contract")
def descend(theta: Floats, velocity: Floats, slope: Floats, lr: Any, momentum: Any, decay: Any) -> None:
    """One step of torch.optim.SGD; without momentum the velocity may be empty."""
    if len(velocity) == 0:
        for i in range(len(theta)):
            theta[i] -= lr * (slope[i] + decay * theta[i])
        return
    for i in range(len(theta)):
        velocity[i] = momentum * velocity[i] + (slope[i] + decay * theta[i])
        theta[i] -= lr * velocity[i]
