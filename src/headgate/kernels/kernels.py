"""The layers of `compiled` for some samples, compiled by numba at first use. Importing
this module needs numba.

A kernel finds its arrays in the room of a thread, among floats, marks of uint16 and
ints of int64. `args` has the beginning of each array, in the order of the assignments,
and then other numbers. Arrays hold one sample after another, each laid out as a
`compiled_shapes.Grid`. The next pixel overwrites the part of a vector that exceeds a
pixel; zeros are written behind each row.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from headgate.kernels.compiled import Batches, ClientRoom, Floats, Program
from headgate.kernels.compiled_shapes import (
    BLOCK,
    LANES,
    LONG,
    LONG_WIDE,
    SAMPLES,
    WIDE,
    Window,
)
from headgate.kernels.kernel_calls import Kernel, call, compiled
from headgate.kernels.stack_net import RELU, TANH
from headgate.kernels.vectors import add_scaled, dots, largest, multiply, outer
from headgate.simulation.executors.executor import Ints

Marks = Any
"""A contiguous array of uint16."""

# activations


@njit(error_model="numpy")
def activate(values: Floats, count: int, kind: int) -> None:
    """Apply the activation in place: with two arrays the compiler would have to check
    whether they overlap.
    """
    zero = values.dtype.type(0)
    for i in range(count if kind == RELU else 0):
        here = values[i]
        values[i] = zero if here <= zero else here
    for i in range(count if kind == TANH else 0):
        values[i] = np.tanh(values[i])


@njit(error_model="numpy")
def activate_slope(out: Floats, slope: Floats, count: int, kind: int) -> None:
    zero, one = out.dtype.type(0), out.dtype.type(1)
    for i in range(count if kind == RELU else 0):
        here = slope[i]
        slope[i] = zero if out[i] <= zero else here
    for i in range(count if kind == TANH else 0):
        slope[i] *= one - out[i] * out[i]


# convolution, with the pooling that follows it


@njit(inline="always")
def collect(
    count: int, slope: Floats, at: int, chosen: Marks, which: int, step: int, length: int, shifts: Ints, place: int,
    place_step: int, values: Floats, places: Ints,
) -> int:  # fmt: skip
    """Append to `values` each of `length` slopes that is not 0, and to `places` place +
    i·place_step + shifts[chosen[i]].

    Slopes and chosen are `step` apart. Return the new length; one value beyond it may
    be written. With uintp numba omits the check for negative indices.
    """
    for i in range(length):
        value = slope[np.uintp(at + i * step)]
        values[np.uintp(count)] = value
        places[np.uintp(count)] = (
            place + i * place_step + shifts[chosen[np.uintp(which + i * step)]]
        )
        count += value != 0
    return count


@cache
def convolution(window: Window) -> tuple[Kernel, Kernel, Kernel]:
    """Return the kernels of a convolution with its pooling: for its outputs, the slopes
    of its parameters, and those of x.
    """
    k, pool, kind, before, after = (
        window.k,
        window.pool,
        window.activation,
        window.before,
        window.after,
    )
    inputs, row, pitch = before.channels, before.row, before.pitch
    outputs, high, wide = after.channels, after.height, after.width
    out_start, out_row, out_pitch = after.start, after.row, after.pitch
    width, together, vectors, groups, places_in_block, terms = window.tile
    run, block, lanes, fits = (
        window.run,
        places_in_block * together,
        vectors * width,
        -(-outputs // LANES),
    )
    whole, tail, columns = terms // LANES, terms % LANES, wide * pool
    behind = (
        out_row - wide * outputs + LANES
    )  # up to the next row, and the excess of the last vector
    (samples, rows), deep, broad = window.strip, window.deep, window.broad
    run_vectors, seen_rows, seen_vectors = (
        run // LANES,
        k + pool - 1,
        window.spread // LANES,
    )

    def forward(floats: Floats, marks: Marks, ints: Ints, args: Ints, n: int) -> None:
        """Compute `out` and `chosen`; `table`, which is zeros at first, and `bands` are
        temporary.
        """
        x, weight, bias = floats[args[0] :], floats[args[1] :], floats[args[2] :]
        table, bands, out, chosen = (
            floats[args[3] :],
            floats[args[4] :],
            floats[args[5] :],
            marks[args[6] :],
        )
        for pixel in range(together):
            for o in range(outputs):
                place = pixel * outputs + o
                for i in range(k):
                    at = (
                        (place // lanes * k + i) * terms + pixel * inputs
                    ) * lanes + place % lanes
                    for j in range(k * inputs):
                        table[at + j * lanes] = weight[(o * k + i) * run + j]
        for s in range(n):
            for y in range(high):
                for v in range(pool):
                    for start in range(0, columns, block):
                        first = min(start, columns - block)
                        at, to = (
                            s * pitch + (y * pool + v) * row + first * inputs,
                            (v * columns + first) * outputs,
                        )
                        for group in range(
                            groups - 1, -1, -1
                        ):  # the first group overwrites the excess of the last
                            multiply(
                                width, places_in_block, vectors, tail, k, whole, x, at, together * inputs, row,
                                table, group * k * terms * lanes, lanes, bands, to + group * lanes, together * outputs,
                            )  # fmt: skip
                to, which = (
                    s * out_pitch + out_start + y * out_row,
                    (s * high + y) * wide * outputs,
                )
                for z in range(wide):
                    from_, o = z * pool * outputs, z * outputs
                    largest(
                        pool,
                        fits,
                        bands,
                        from_,
                        columns * outputs,
                        outputs,
                        bias,
                        out,
                        to + o,
                        chosen,
                        which + o,
                    )
                to += wide * outputs
                for j in range(behind):
                    out[to + j] = 0
        activate(out, n * out_pitch, kind)

    def slope_of_weights(
        floats: Floats, marks: Marks, ints: Ints, args: Ints, n: int
    ) -> None:
        """Compute the slopes of weights and bias from the chosen pixels, which are the
        only ones with a slope.
        """
        x, out, slope = floats[args[0] :], floats[args[1] :], floats[args[2] :]
        weights, bias, values = floats[args[3] :], floats[args[4] :], floats[args[5] :]
        chosen, places, shifts, biased = (
            marks[args[6] :],
            ints[args[7] :],
            ints[args[8] :],
            args[9],
        )
        activate_slope(out, slope, n * out_pitch, kind)
        for pixel in range(pool * pool):
            shifts[pixel] = pixel // pool * row + pixel % pool * inputs
        weights[: outputs * k * run] = 0
        bias[: fits * LANES] = 0
        for s in range(n if biased else 0):
            for y in range(high):
                for z in range(wide):
                    for o in range(outputs):
                        bias[o] += slope[
                            s * out_pitch + out_start + y * out_row + z * outputs + o
                        ]
        for some in range(0, n, samples):
            for top in range(0, high, rows):
                for o in range(outputs):
                    count = 0
                    for s in range(some, min(n, some + samples)):
                        for y in range(top, min(high, top + rows)):
                            at, which = (
                                s * out_pitch + out_start + y * out_row + o,
                                (s * high + y) * wide * outputs + o,
                            )
                            corner = s * pitch + y * pool * row
                            count = collect(
                                count,
                                slope,
                                at,
                                chosen,
                                which,
                                outputs,
                                wide,
                                shifts,
                                corner,
                                pool * inputs,
                                values,
                                places,
                            )
                    add_scaled(
                        k,
                        run_vectors,
                        values,
                        places,
                        count,
                        x,
                        row,
                        weights,
                        o * k * run,
                        run,
                    )

    def slope_of_inputs(
        floats: Floats, marks: Marks, ints: Ints, args: Ints, n: int
    ) -> None:
        """Compute the slope of x, window by window, so that sums stay in registers.

        The table, which is zeros at first, holds the kernels padded with zeros; the
        chosen pixel gives the shift for reading.
        """
        weight, slope, x_slope = floats[args[0] :], floats[args[1] :], floats[args[2] :]
        table, values, chosen = floats[args[3] :], floats[args[4] :], marks[args[5] :]
        places, shifts = ints[args[6] :], ints[args[7] :]
        for o in range(outputs):
            for i in range(k):
                to = (o * deep + pool - 1 + i) * broad + (pool - 1) * inputs
                for j in range(k * inputs):
                    table[to + j] = weight[(o * k + i) * run + j]
        for pixel in range(pool * pool):
            shifts[pixel] = (pool - 1 - pixel // pool) * broad + (
                pool - 1 - pixel % pool
            ) * inputs
        for s in range(n):
            for i in range(pitch):
                x_slope[s * pitch + i] = 0
            for y in range(high):
                for z in range(wide):
                    at = s * out_pitch + out_start + y * out_row + z * outputs
                    which = ((s * high + y) * wide + z) * outputs
                    count = collect(
                        0,
                        slope,
                        at,
                        chosen,
                        which,
                        1,
                        outputs,
                        shifts,
                        0,
                        deep * broad,
                        values,
                        places,
                    )
                    to = s * pitch + y * pool * row + z * pool * inputs
                    add_scaled(
                        seen_rows,
                        seen_vectors,
                        values,
                        places,
                        count,
                        table,
                        broad,
                        x_slope,
                        to,
                        row,
                    )

    return (
        Kernel(forward, window),
        Kernel(slope_of_weights, window),
        Kernel(slope_of_inputs, window),
    )


# linear layers: rows of weights `pitch` apart, samples in whole blocks


@Kernel
def linear(floats: Floats, marks: Marks, ints: Ints, args: Ints, n: int) -> None:
    x, weight, bias, out = (
        floats[args[0] :],
        floats[args[1] :],
        floats[args[2] :],
        floats[args[3] :],
    )
    pitch, out_pitch, outputs, kind = args[4], args[5], args[6], args[7]
    for q in range(0, outputs, LANES):
        for s in range(0, n, WIDE):
            to = s * out_pitch + q
            dots(
                LONG,
                WIDE,
                pitch // LONG,
                x,
                s * pitch,
                pitch,
                weight,
                q * pitch,
                pitch,
                bias,
                q,
                out,
                to,
                out_pitch,
            )
    activate(out, n * out_pitch, kind)


@Kernel
def slope_of_linear(
    floats: Floats, marks: Marks, ints: Ints, args: Ints, n: int
) -> None:
    x, out, slope = floats[args[0] :], floats[args[1] :], floats[args[2] :]
    weights, bias = floats[args[3] :], floats[args[4] :]
    pitch, out_pitch, outputs, kind, biased = (
        args[5],
        args[6],
        args[7],
        args[8],
        args[9],
    )
    activate_slope(out, slope, n * out_pitch, kind)
    for o in range(outputs):
        bias[o] = 0
    for s in range(n if biased else 0):
        for o in range(outputs):
            bias[o] += slope[s * out_pitch + o]
    for i in range(0, pitch, BLOCK):
        for o in range(0, outputs, LANES):
            outer(
                LONG,
                LONG_WIDE,
                n,
                slope,
                o,
                out_pitch,
                x,
                i,
                pitch,
                weights,
                o * pitch + i,
                pitch,
            )


@Kernel
def slope_of_features(
    floats: Floats, marks: Marks, ints: Ints, args: Ints, n: int
) -> None:
    weight, slope, x_slope = floats[args[0] :], floats[args[1] :], floats[args[2] :]
    pitch, out_pitch, outputs = args[3], args[4], args[5]
    for i in range(0, pitch, BLOCK):
        for s in range(0, n, SAMPLES):
            multiply(
                LONG, SAMPLES, LONG_WIDE, 0, 1, outputs // LANES, slope, s * out_pitch, out_pitch, 0,
                weight, i, pitch, x_slope, s * pitch + i, pitch,
            )  # fmt: skip


# a client's training, and the logits of models


@compiled
def train(
    room: ClientRoom,
    program: Program,
    images: Any,
    labels: Ints,
    batches: Batches,
    begun: Floats,
    share: Any,
    move: Floats,
) -> float:
    """Do all steps of a client from the model `begun` and set `move`, unless it is
    empty, to `share` times its change.

    Return the sum of the losses before training, of the samples of the first step and
    of those with loss alone.
    """
    ends, floats = program.ends, room.floats
    theta, slope, velocity, rates = (
        floats[ends[0] :],
        floats[ends[1] :],
        floats[ends[2] :],
        floats[ends[3] :],
    )
    scale, shift, samples = floats[ends[4] :], floats[ends[5] :], floats[ends[6] :]
    logits, steep = floats[ends[7] :], floats[ends[8] :]
    size, start, row, pitch, logits_pitch, classes = (
        ends[9],
        ends[10],
        ends[11],
        ends[12],
        ends[13],
        ends[14],
    )
    theta[:size], velocity[:size] = begun, 0
    before, first = 0.0, 0
    for batch in range(len(batches.stops)):
        rows, first = batches.rows[first : batches.stops[batch]], batches.stops[batch]
        normalise(images, rows, scale, shift, start, row, pitch, samples)
        for repeat in range(batches.repeats if batch >= batches.losses_alone else 1):
            for step in range(program.forward):
                call(
                    program.addresses[step],
                    room.floats,
                    room.marks,
                    room.ints,
                    program.numbers[step],
                    len(rows),
                )
            loss = cross_entropy(logits, logits_pitch, classes, labels, rows, steep)
            if batch <= batches.losses_alone and repeat == 0:
                before += len(rows) * loss
            if batch >= batches.losses_alone:
                for step in range(program.forward, len(program.addresses)):
                    call(
                        program.addresses[step],
                        room.floats,
                        room.marks,
                        room.ints,
                        program.numbers[step],
                        len(rows),
                    )
                descend(theta, velocity, slope, size, rates[0], rates[1], rates[2])
    for i in range(len(move)):
        move[i] = (theta[i] - begun[i]) * share
    return before


@compiled
def answer(
    room: ClientRoom,
    program: Program,
    images: Any,
    rows: Ints,
    models: Floats,
    out: Floats,
) -> None:
    """Write the logits of each of the models (R, size) for some of the images to out[r,
    row, :].
    """
    ends, floats = program.ends, room.floats
    theta, scale, shift = floats[ends[0] :], floats[ends[4] :], floats[ends[5] :]
    samples, logits = floats[ends[6] :], floats[ends[7] :]
    size, start, row, pitch, logits_pitch = (
        ends[9],
        ends[10],
        ends[11],
        ends[12],
        ends[13],
    )
    normalise(images, rows, scale, shift, start, row, pitch, samples)
    for r in range(len(models)):
        for i in range(size):
            theta[i] = models[r, i]
        for step in range(program.forward):
            call(
                program.addresses[step],
                room.floats,
                room.marks,
                room.ints,
                program.numbers[step],
                len(rows),
            )
        for i in range(len(rows)):
            for c in range(out.shape[2]):
                out[r, rows[i], c] = logits[i * logits_pitch + c]


@njit(error_model="numpy")
def normalise(
    images: Any,
    rows: Ints,
    scale: Floats,
    shift: Floats,
    start: int,
    row: int,
    pitch: int,
    out: Floats,
) -> None:
    """Write some of the images (n, C, H, W) of bytes to `out` as scale·x + shift."""
    _, channels, height, width = images.shape
    for s in range(len(rows)):
        for c in range(channels):
            one, other = scale[c], shift[c]
            for y in range(height):
                line, to = images[rows[s], c, y], s * pitch + start + y * row + c
                for z in range(width):
                    out[np.uintp(to + z * channels)] = (
                        scale.dtype.type(line[z]) * one + other
                    )


@njit(error_model="numpy")
def cross_entropy(
    logits: Floats, pitch: int, classes: int, labels: Ints, rows: Ints, slope: Floats
) -> Any:
    """Return the mean loss of some samples and write its slope."""
    n, loss = len(rows), 0.0
    for i in range(n):
        at, label = i * pitch, labels[rows[i]]
        most = logits[at]
        for c in range(1, classes):
            if logits[at + c] > most or logits[at + c] != logits[at + c]:
                most = logits[at + c]
        true = logits[at + label] - most
        total = slope.dtype.type(0)
        for c in range(classes):
            slope[at + c] = np.exp(logits[at + c] - most)
            total += slope[at + c]
        loss += np.log(total) - true
        for c in range(classes):
            slope[at + c] /= total * n
        slope[at + label] -= slope.dtype.type(1) / n
    return loss / n


@njit(error_model="numpy", fastmath={"contract"})
def descend(
    theta: Floats,
    velocity: Floats,
    slope: Floats,
    size: int,
    lr: Any,
    momentum: Any,
    decay: Any,
) -> None:
    """Take one step of torch.optim.SGD."""
    if momentum == 0:
        for i in range(size):
            theta[i] -= lr * (slope[i] + decay * theta[i])
        return
    for i in range(size):
        velocity[i] = momentum * velocity[i] + (slope[i] + decay * theta[i])
        theta[i] -= lr * velocity[i]
