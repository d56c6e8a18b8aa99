"""The layers of `compiled` for some samples, compiled by numba at first use. Importing
this module needs numba.

A kernel finds its arrays in the room of a thread, among floats, marks of uint16 and
ints of int64. `args` has the beginning of each array, in the order of the assignments,
and then other numbers. Arrays hold one sample after another, each laid out as a
`compiled_shapes.Grid`. The next pixel overwrites the part of a vector that exceeds a
pixel; zeros are written behind each row.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from functools import cache

import numpy as np
from numba import njit

from headgate_kernels.compiled_shapes import (
    BLOCK,
    LANES,
    LONG,
    LONG_WIDE,
    SAMPLES,
    WIDE,
    Window,
)
from headgate_kernels.kernel_calls import Kernel, call, compiled, views
from headgate_kernels.stack_net import RELU, TANH
from headgate_kernels.vectors import add_scaled, dots, largest, multiply, outer

# activations


@njit(error_model="numpy")
def activate(
    values,
    count,
    kind,
):
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
def activate_slope(
    out,
    slope,
    count,
    kind,
):
    """Turn the slope of the activation's result into that of its argument, in place."""
    zero, one = out.dtype.type(0), out.dtype.type(1)
    for i in range(count if kind == RELU else 0):
        here = slope[i]
        slope[i] = zero if out[i] <= zero else here
    for i in range(count if kind == TANH else 0):
        slope[i] *= one - out[i] * out[i]


# convolution, with the pooling that follows it


@njit(inline="always")
def collect(
    count,
    slope,
    at,
    chosen,
    which,
    step,
    length,
    shifts,
    place,
    place_step,
    values,
    places,
):
    """Append to `values` each of `length` slopes that is not 0, and to `places` place +
    i·place_step + shifts[chosen[i]].

    Slopes and chosen are `step` apart. Return the new length; one value beyond it may
    be written. With uintp numba omits the check for negative indices.
    """
    for i in range(length):
        value = slope[np.uintp(at + i * step)]
        shift = shifts[chosen[np.uintp(which + i * step)]]
        values[np.uintp(count)] = value
        places[np.uintp(count)] = place + i * place_step + shift
        count += value != 0
    return count


@cache
def convolution(window: Window) -> tuple[Kernel, Kernel, Kernel]:
    """Return the kernels of a convolution with its pooling: for its outputs, the slopes
    of its parameters, and those of x.
    """
    k, pool, kind = window.k, window.pool, window.activation
    before, after = window.before, window.after
    inputs, row, pitch = before.channels, before.row, before.pitch
    outputs, high, wide = after.channels, after.height, after.width
    out_start, out_row, out_pitch = after.start, after.row, after.pitch
    width, together, vectors, groups, places_in_block, terms = window.tile
    run, deep, broad = window.run, window.deep, window.broad
    samples, rows = window.strip
    block, lanes = places_in_block * together, vectors * width
    whole, tail = terms // LANES, terms % LANES
    columns, fits = wide * pool, -(-outputs // LANES)
    # up to the next row, and the excess of the last vector
    behind = out_row - wide * outputs + LANES
    run_vectors, seen_vectors = run // LANES, window.spread // LANES
    seen_rows = k + pool - 1

    def forward(
        floats,
        marks,
        ints,
        args,
        n,
    ):
        """Compute `out` and `chosen`; `table`, which is zeros at first, and `bands` are
        temporary.
        """
        x, weight, bias, table, bands, out = views(floats, args, 0, 6)
        chosen = marks[args[6] :]
        for pixel in range(together):
            for o in range(outputs):
                place = pixel * outputs + o
                for i in range(k):
                    term = (place // lanes * k + i) * terms + pixel * inputs
                    at = term * lanes + place % lanes
                    for j in range(k * inputs):
                        table[at + j * lanes] = weight[(o * k + i) * run + j]
        for s in range(n):
            for y in range(high):
                for v in range(pool):
                    line = s * pitch + (y * pool + v) * row
                    for start in range(0, columns, block):
                        first = min(start, columns - block)
                        to = (v * columns + first) * outputs
                        # the first group overwrites the excess of the last
                        for group in range(groups - 1, -1, -1):
                            multiply(
                                width,
                                places_in_block,
                                vectors,
                                tail,
                                k,
                                whole,
                                x,
                                line + first * inputs,
                                together * inputs,
                                row,
                                table,
                                group * k * terms * lanes,
                                lanes,
                                bands,
                                to + group * lanes,
                                together * outputs,
                            )
                to = s * out_pitch + out_start + y * out_row
                which = (s * high + y) * wide * outputs
                for z in range(wide):
                    o = z * outputs
                    largest(
                        pool,
                        fits,
                        bands,
                        pool * o,
                        columns * outputs,
                        outputs,
                        bias,
                        0,
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
        floats,
        marks,
        ints,
        args,
        n,
    ):
        """Compute the slopes of weights and bias from the chosen pixels, which are the
        only ones with a slope.
        """
        x, out, slope, weights, bias, values = views(floats, args, 0, 6)
        chosen = marks[args[6] :]
        places, shifts = views(ints, args, 7, 2)
        biased = args[9]
        activate_slope(out, slope, n * out_pitch, kind)
        for pixel in range(pool * pool):
            shifts[pixel] = pixel // pool * row + pixel % pool * inputs
        weights[: outputs * k * run] = 0
        bias[: fits * LANES] = 0
        for s in range(n if biased else 0):
            for y in range(high):
                for z in range(wide):
                    at = s * out_pitch + out_start + y * out_row + z * outputs
                    for o in range(outputs):
                        bias[o] += slope[at + o]
        for some in range(0, n, samples):
            for top in range(0, high, rows):
                for o in range(outputs):
                    count = 0
                    for s in range(some, min(n, some + samples)):
                        for y in range(top, min(high, top + rows)):
                            count = collect(
                                count,
                                slope,
                                s * out_pitch + out_start + y * out_row + o,
                                chosen,
                                (s * high + y) * wide * outputs + o,
                                outputs,
                                wide,
                                shifts,
                                s * pitch + y * pool * row,
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
        floats,
        marks,
        ints,
        args,
        n,
    ):
        """Compute the slope of x, window by window, so that sums stay in registers.

        The table, which is zeros at first, holds the kernels padded with zeros; the
        chosen pixel gives the shift for reading.
        """
        weight, slope, x_slope, table, values = views(floats, args, 0, 5)
        chosen = marks[args[5] :]
        places, shifts = views(ints, args, 6, 2)
        for o in range(outputs):
            for i in range(k):
                to = (o * deep + pool - 1 + i) * broad + (pool - 1) * inputs
                for j in range(k * inputs):
                    table[to + j] = weight[(o * k + i) * run + j]
        for pixel in range(pool * pool):
            down, right = pool - 1 - pixel // pool, pool - 1 - pixel % pool
            shifts[pixel] = down * broad + right * inputs
        for s in range(n):
            for i in range(pitch):
                x_slope[s * pitch + i] = 0
            for y in range(high):
                for z in range(wide):
                    count = collect(
                        0,
                        slope,
                        s * out_pitch + out_start + y * out_row + z * outputs,
                        chosen,
                        ((s * high + y) * wide + z) * outputs,
                        1,
                        outputs,
                        shifts,
                        0,
                        deep * broad,
                        values,
                        places,
                    )
                    add_scaled(
                        seen_rows,
                        seen_vectors,
                        values,
                        places,
                        count,
                        table,
                        broad,
                        x_slope,
                        s * pitch + y * pool * row + z * pool * inputs,
                        row,
                    )

    functions = (forward, slope_of_weights, slope_of_inputs)
    first, second, third = (Kernel(each, window) for each in functions)
    return first, second, third


# linear layers: rows of weights `pitch` apart, samples in whole blocks


@Kernel
def linear(
    floats,
    marks,
    ints,
    args,
    n,
):
    """Compute `out`."""
    x, weight, bias, out = views(floats, args, 0, 4)
    pitch, out_pitch, outputs, kind = args[4], args[5], args[6], args[7]
    for q in range(0, outputs, LANES):
        for s in range(0, n, WIDE):
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
                s * out_pitch + q,
                out_pitch,
            )
    activate(out, n * out_pitch, kind)


@Kernel
def slope_of_linear(
    floats,
    marks,
    ints,
    args,
    n,
):
    """Compute the slopes of weights and bias."""
    x, out, slope, weights, bias = views(floats, args, 0, 5)
    pitch, out_pitch, outputs, kind = args[5], args[6], args[7], args[8]
    biased = args[9]
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
    floats,
    marks,
    ints,
    args,
    n,
):
    """Compute the slope of x."""
    weight, slope, x_slope = views(floats, args, 0, 3)
    pitch, out_pitch, outputs = args[3], args[4], args[5]
    for i in range(0, pitch, BLOCK):
        for s in range(0, n, SAMPLES):
            multiply(
                LONG,
                SAMPLES,
                LONG_WIDE,
                0,
                1,
                outputs // LANES,
                slope,
                s * out_pitch,
                out_pitch,
                0,
                weight,
                i,
                pitch,
                x_slope,
                s * pitch + i,
                pitch,
            )


# a client's training, and the logits of models


@compiled
def train(
    room,
    program,
    images,
    labels,
    batches,
    begun,
    share,
    move,
):
    """Do all steps of a client from the model `begun` and set `move`, unless it is
    empty, to `share` times its change.

    Return the sum of the losses before training, of the samples of the first step and
    of those with loss alone.
    """
    theta, slope, velocity, rates = views(room.floats, program.starts, 0, 4)
    logits, steep = views(room.floats, program.starts, 4, 2)
    size, pitch, classes = program.shape[0], program.shape[4], program.shape[5]
    forward, steps = program.forward, len(program.addresses)
    theta[:size], velocity[:size] = begun, 0
    before, first = 0.0, 0
    for batch in range(len(batches.stops)):
        rows = batches.rows[first : batches.stops[batch]]
        first = batches.stops[batch]
        learns = batch >= batches.losses_alone
        normalise(room, program, images, rows)
        for repeat in range(batches.repeats if learns else 1):
            run(room, program, 0, forward, len(rows))
            loss = cross_entropy(logits, pitch, classes, labels, rows, steep)
            if batch <= batches.losses_alone and repeat == 0:
                before += len(rows) * loss
            if learns:
                run(room, program, forward, steps, len(rows))
                descend(theta, velocity, slope, size, rates[0], rates[1], rates[2])
    for i in range(len(move)):
        move[i] = (theta[i] - begun[i]) * share
    return before


@compiled
def answer(
    room,
    program,
    images,
    rows,
    models,
    out,
):
    """Write the logits of each of the models (R, size) for some of the images to out[r,
    row, :].
    """
    theta = room.floats[program.starts[0] :]
    logits = room.floats[program.starts[4] :]
    size, pitch = program.shape[0], program.shape[4]
    normalise(room, program, images, rows)
    for r in range(len(models)):
        for i in range(size):  # faster than an assignment of arrays
            theta[i] = models[r, i]
        run(room, program, 0, program.forward, len(rows))
        for i in range(len(rows)):
            for c in range(out.shape[2]):
                out[r, rows[i], c] = logits[i * pitch + c]


@njit(error_model="numpy")
def run(
    room,
    program,
    first,
    last,
    n,
):
    """Call some kernels of the program for n samples."""
    for step in range(first, last):
        call(
            program.addresses[step],
            room.floats,
            room.marks,
            room.ints,
            program.numbers[step],
            n,
        )


@njit(error_model="numpy")
def normalise(
    room,
    program,
    images,
    rows,
):
    """Write some of the images (n, C, H, W) of bytes to the samples as scale·x +
    shift.
    """
    scale, shift, samples = views(room.floats, program.starts, 6, 3)
    _, start, row, pitch, _, _ = program.shape
    _, channels, height, width = images.shape
    for s in range(len(rows)):
        for c in range(channels):
            one, other = scale[c], shift[c]
            for y in range(height):
                line = images[rows[s], c, y]
                to = s * pitch + start + y * row + c
                for z in range(width):
                    value = scale.dtype.type(line[z]) * one + other
                    samples[np.uintp(to + z * channels)] = value


@njit(error_model="numpy")
def cross_entropy(
    logits,
    pitch,
    classes,
    labels,
    rows,
    slope,
):
    """Return the mean loss of some samples and write its slope."""
    n, loss = len(rows), 0.0
    for i in range(n):
        at, label = i * pitch, labels[rows[i]]
        most = logits[at]
        for c in range(1, classes):
            here = logits[at + c]
            if here > most or here != here:
                most = here
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


@njit(
    error_model="numpy",
    fastmath={"contract"},
)
def descend(
    theta,
    velocity,
    slope,
    size,
    lr,
    momentum,
    decay,
):
    """Take one step of torch.optim.SGD."""
    if momentum == 0:
        for i in range(size):
            theta[i] -= lr * (slope[i] + decay * theta[i])
        return
    for i in range(size):
        velocity[i] = momentum * velocity[i] + (slope[i] + decay * theta[i])
        theta[i] -= lr * velocity[i]
