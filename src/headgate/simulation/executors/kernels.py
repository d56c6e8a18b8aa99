"""Loops over the samples of one client, compiled by numba when first called. Importing this needs numba.

Everything is laid out with the samples last, (channels, height, width, samples): a row of an image is one long run of
numbers, and so is the row that a tap of a convolution sees, which only starts elsewhere.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from headgate.simulation.executors.types import Ints

Floats = Any
"""A contiguous array of float32 or float64; numba makes a version for each."""
BLOCK = 512
"""Columns done at once, so that what a block needs stays in the first-level cache. Measured."""


def _compiled(*liberties: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiles; of fast but loose arithmetic only the named liberties, none of which minds nan or infinity."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(nogil=True, fastmath=set(liberties), error_model="numpy", cache=True)(function)
        except RuntimeError:  # neither the package's folder nor the user's can be written to
            return njit(nogil=True, fastmath=set(liberties), error_model="numpy")(function)

    return decorate


# A convolution straight from the images: five taps and three outputs at a time, so that a number fetched is used often.


@_compiled()
def _five_rows(images: Floats, taps: Ints, t: int, at: int, m: int) -> Any:
    """The m numbers from `at` on as five taps see them."""
    s0, s1, s2, s3, s4 = taps[t] + at, taps[t + 1] + at, taps[t + 2] + at, taps[t + 3] + at, taps[t + 4] + at
    return images[s0 : s0 + m], images[s1 : s1 + m], images[s2 : s2 + m], images[s3 : s3 + m], images[s4 : s4 + m]


@_compiled()
def _five_numbers(numbers: Floats, o: int, t: int) -> Any:
    return numbers[o, t], numbers[o, t + 1], numbers[o, t + 2], numbers[o, t + 3], numbers[o, t + 4]


@_compiled("contract")
def _add_five_to_three(a: Floats, b: Floats, c: Floats, rows: Any, weights: Floats, o: int, t: int) -> None:
    r0, r1, r2, r3, r4 = rows
    u0, u1, u2, u3, u4 = _five_numbers(weights, o, t)
    v0, v1, v2, v3, v4 = _five_numbers(weights, o + 1, t)
    w0, w1, w2, w3, w4 = _five_numbers(weights, o + 2, t)
    for j in range(len(a)):
        a[j] = a[j] + u0 * r0[j] + u1 * r1[j] + u2 * r2[j] + u3 * r3[j] + u4 * r4[j]
        b[j] = b[j] + v0 * r0[j] + v1 * r1[j] + v2 * r2[j] + v3 * r3[j] + v4 * r4[j]
        c[j] = c[j] + w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j] + w4 * r4[j]


@_compiled("contract")
def _add_five_to_one(a: Floats, rows: Any, weights: Floats, o: int, t: int) -> None:
    r0, r1, r2, r3, r4 = rows
    u0, u1, u2, u3, u4 = _five_numbers(weights, o, t)
    for j in range(len(a)):
        a[j] = a[j] + u0 * r0[j] + u1 * r1[j] + u2 * r2[j] + u3 * r3[j] + u4 * r4[j]


@_compiled("contract")
def _add(a: Floats, row: Floats, weight: Any) -> None:
    for j in range(len(a)):
        a[j] += weight * row[j]


@_compiled()
def convolve(images: Floats, stride: int, taps: Ints, weights: Floats, bias: Floats, width: int, out: Floats) -> None:
    """out (O, height·width) of images (flat, rows `stride` apart), with weights (O, T) of taps that start at `taps`."""
    outputs, fives, threes = len(out), len(taps) // 5 * 5, len(out) // 3 * 3
    for y in range(out.shape[1] // width):
        for first in range(0, width, BLOCK):
            m, at, p = min(BLOCK, width - first), y * stride + first, y * width + first
            q = p + m
            for o in range(outputs):
                out[o, p:q] = bias[o]
            for t in range(0, fives, 5):
                rows = _five_rows(images, taps, t, at, m)
                for o in range(0, threes, 3):
                    _add_five_to_three(out[o, p:q], out[o + 1, p:q], out[o + 2, p:q], rows, weights, o, t)
                for o in range(threes, outputs):
                    _add_five_to_one(out[o, p:q], rows, weights, o, t)
            for t in range(fives, len(taps)):
                for o in range(outputs):
                    _add(out[o, p:q], images[taps[t] + at : taps[t] + at + m], weights[o, t])


@_compiled("contract", "reassoc")
def _five_dots_with_three(a: Floats, b: Floats, c: Floats, rows: Any, sums: Floats, o: int, t: int) -> None:
    r0, r1, r2, r3, r4 = rows
    u0, u1, u2, u3, u4 = _five_numbers(sums, o, t)
    v0, v1, v2, v3, v4 = _five_numbers(sums, o + 1, t)
    w0, w1, w2, w3, w4 = _five_numbers(sums, o + 2, t)
    for j in range(len(a)):
        u0 += a[j] * r0[j]
        u1 += a[j] * r1[j]
        u2 += a[j] * r2[j]
        u3 += a[j] * r3[j]
        u4 += a[j] * r4[j]
        v0 += b[j] * r0[j]
        v1 += b[j] * r1[j]
        v2 += b[j] * r2[j]
        v3 += b[j] * r3[j]
        v4 += b[j] * r4[j]
        w0 += c[j] * r0[j]
        w1 += c[j] * r1[j]
        w2 += c[j] * r2[j]
        w3 += c[j] * r3[j]
        w4 += c[j] * r4[j]
    sums[o, t], sums[o, t + 1], sums[o, t + 2], sums[o, t + 3], sums[o, t + 4] = u0, u1, u2, u3, u4
    o += 1
    sums[o, t], sums[o, t + 1], sums[o, t + 2], sums[o, t + 3], sums[o, t + 4] = v0, v1, v2, v3, v4
    o += 1
    sums[o, t], sums[o, t + 1], sums[o, t + 2], sums[o, t + 3], sums[o, t + 4] = w0, w1, w2, w3, w4


@_compiled("contract", "reassoc")
def _five_dots_with_one(a: Floats, rows: Any, sums: Floats, o: int, t: int) -> None:
    r0, r1, r2, r3, r4 = rows
    u0, u1, u2, u3, u4 = _five_numbers(sums, o, t)
    for j in range(len(a)):
        u0 += a[j] * r0[j]
        u1 += a[j] * r1[j]
        u2 += a[j] * r2[j]
        u3 += a[j] * r3[j]
        u4 += a[j] * r4[j]
    sums[o, t], sums[o, t + 1], sums[o, t + 2], sums[o, t + 3], sums[o, t + 4] = u0, u1, u2, u3, u4


@_compiled("contract", "reassoc")
def _dot(a: Floats, row: Floats) -> Any:
    total = a[0] * row[0]
    for j in range(1, len(a)):
        total += a[j] * row[j]
    return total


@_compiled()
def slope_of_weights(images: Floats, stride: int, taps: Ints, slope: Floats, width: int, weights: Floats) -> None:
    """The slope of a convolution's weights (O, T), from that of what it gives, (O, height·width)."""
    outputs, fives, threes = len(slope), len(taps) // 5 * 5, len(slope) // 3 * 3
    weights[:] = 0
    for y in range(slope.shape[1] // width):
        for first in range(0, width, BLOCK):
            m, at, p = min(BLOCK, width - first), y * stride + first, y * width + first
            q = p + m
            for t in range(0, fives, 5):
                rows = _five_rows(images, taps, t, at, m)
                for o in range(0, threes, 3):
                    _five_dots_with_three(slope[o, p:q], slope[o + 1, p:q], slope[o + 2, p:q], rows, weights, o, t)
                for o in range(threes, outputs):
                    _five_dots_with_one(slope[o, p:q], rows, weights, o, t)
            for t in range(fives, len(taps)):
                for o in range(outputs):
                    weights[o, t] += _dot(slope[o, p:q], images[taps[t] + at : taps[t] + at + m])


# The same as products with columns.


@_compiled()
def gather(images: Floats, stride: int, taps: Ints, width: int, columns: Floats) -> None:
    """What each tap sees, (T, height·width), of images (flat, rows `stride` apart)."""
    for t in range(len(taps)):
        for y in range(columns.shape[1] // width):
            to, at = columns[t, y * width : (y + 1) * width], taps[t] + y * stride
            row = images[at : at + width]
            for j in range(width):
                to[j] = row[j]


@_compiled()
def scatter(columns: Floats, stride: int, taps: Ints, width: int, images: Floats) -> None:
    """Adds to the images, where it came from, what `gather` took apart."""
    for t in range(len(taps)):
        for y in range(columns.shape[1] // width):
            row, at = columns[t, y * width : (y + 1) * width], taps[t] + y * stride
            to = images[at : at + width]
            for j in range(width):
                to[j] += row[j]


@_compiled("reassoc")
def sums(rows: Floats, out: Floats) -> None:
    """The sum of each row, faster than numpy's."""
    for o in range(len(out)):
        row, total = rows[o], rows.dtype.type(0)
        for j in range(len(row)):
            total += row[j]
        out[o] = total


@_compiled()
def relu_slope(slope: Floats, given: Floats, out: Floats) -> None:
    """The slope but where a ReLU gave nothing; arrays of one dimension. Written elsewhere, it is done many at once."""
    zero = slope.dtype.type(0)
    for j in range(len(slope)):
        here = slope[j]
        out[j] = zero if given[j] <= zero else here


@_compiled()
def _larger(best: Floats, which: Floats, row: Floats, p: int) -> None:
    """Takes what is larger, or nan, from the p-th row of a window."""
    number = best.dtype.type(p)
    for i in range(len(best)):
        more = (row[i] > best[i]) | (row[i] != row[i])
        best[i] = row[i] if more else best[i]
        which[i] = number if more else which[i]


@_compiled()
def _largest_of_four(best: Floats, which: Floats, r0: Floats, r1: Floats, r2: Floats, r3: Floats) -> None:
    """The usual window in one go."""
    zero, one = best.dtype.type(0), best.dtype.type(1)
    for i in range(len(best)):
        b, w = r0[i], zero
        more = (r1[i] > b) | (r1[i] != r1[i])
        b, w = r1[i] if more else b, one if more else w
        more = (r2[i] > b) | (r2[i] != r2[i])
        b, w = r2[i] if more else b, one + one if more else w
        more = (r3[i] > b) | (r3[i] != r3[i])
        best[i], which[i] = r3[i] if more else b, one + one + one if more else w


@_compiled()
def max_pool(images: Floats, k: int, out: Floats, chosen: Floats) -> None:
    """The largest of each k x k window, and which it is: the first of several, as torch has it, and nan before all.

    `chosen` holds whole numbers as floats: numbers of one width are compared and chosen many at once. For the same
    reason windows are looked at that start in every column, and those that count are copied out.
    """
    channels, height, width, n = out.shape
    rows = images.reshape(channels, images.shape[1], images.shape[2] * n)
    m = ((width - 1) * k + 1) * n
    best, which = np.empty(m, images.dtype), np.empty(m, images.dtype)
    for c in range(channels):
        for y in range(height):
            if k == 2:
                upper, lower = rows[c, 2 * y], rows[c, 2 * y + 1]
                _largest_of_four(best, which, upper[:m], upper[n : n + m], lower[:m], lower[n : n + m])
            else:
                best[:] = rows[c, y * k, :m]
                which[:] = 0
                for p in range(1, k * k):
                    start = p % k * n
                    _larger(best, which, rows[c, y * k + p // k, start : start + m], p)
            for x in range(width):
                for i in range(n):
                    out[c, y, x, i] = best[x * k * n + i]
                    chosen[c, y, x, i] = which[x * k * n + i]


@_compiled()
def _if_chosen(row: Floats, slope: Floats, which: Floats, p: int) -> None:
    number = slope.dtype.type(p)
    for i in range(len(row)):
        row[i] = slope[i] if which[i] == number else slope.dtype.type(0)


@_compiled()
def _to_the_chosen_of_four(slope: Floats, which: Floats, r0: Floats, r1: Floats, r2: Floats, r3: Floats) -> None:
    one = slope.dtype.type(1)
    zero = slope.dtype.type(0)
    for i in range(len(slope)):
        s, w = slope[i], which[i]
        r0[i] = s if w == zero else zero
        r1[i] = s if w == one else zero
        r2[i] = s if w == one + one else zero
        r3[i] = s if w == one + one + one else zero


@_compiled()
def max_pool_slope(slope: Floats, k: int, chosen: Floats, out: Floats) -> None:
    channels, height, width, _ = slope.shape
    if out.shape[1] % k or out.shape[2] % k:
        out[:] = 0  # the edge belongs to no window
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                given, which, u, v = slope[c, y, x], chosen[c, y, x], y * k, x * k
                if k == 2:
                    upper, lower = out[c, u], out[c, u + 1]
                    _to_the_chosen_of_four(given, which, upper[v], upper[v + 1], lower[v], lower[v + 1])
                    continue
                for p in range(k * k):
                    _if_chosen(out[c, u + p // k, v + p % k], given, which, p)


@_compiled()
def average_pool(images: Floats, k: int, out: Floats) -> None:
    channels, height, width, n = out.shape
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                mean = out[c, y, x]
                mean[:] = images[c, y * k, x * k]
                for p in range(1, k * k):
                    row = images[c, y * k + p // k, x * k + p % k]
                    for i in range(n):
                        mean[i] += row[i]
                for i in range(n):
                    mean[i] /= k * k


@_compiled()
def average_pool_slope(slope: Floats, k: int, out: Floats) -> None:
    channels, height, width, n = slope.shape
    out[:] = 0
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                for p in range(k * k):
                    row = out[c, y * k + p // k, x * k + p % k]
                    for i in range(n):
                        row[i] = slope[c, y, x, i] / (k * k)


@_compiled()
def cross_entropy(logits: Floats, labels: Ints) -> Any:
    """The mean loss of logits (classes, n), which become its slope."""
    classes, n = logits.shape
    loss = 0.0
    for i in range(n):
        most = logits[0, i]
        for c in range(1, classes):
            if logits[c, i] > most or logits[c, i] != logits[c, i]:
                most = logits[c, i]
        true = logits[labels[i], i] - most
        total = logits.dtype.type(0)
        for c in range(classes):
            logits[c, i] = np.exp(logits[c, i] - most)
            total += logits[c, i]
        loss += np.log(total) - true
        for c in range(classes):
            logits[c, i] /= total * n
        logits[labels[i], i] -= logits.dtype.type(1) / n
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
