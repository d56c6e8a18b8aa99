"""A client's whole local training, and what models say to some images: each one compiled call, without Python's lock.

Importing this needs numba. The layers are called by their addresses, so this is compiled once for all nets.
"""

from typing import Any

import numpy as np
from numba import njit

from headgate.kernels.compiled_room import Batches, ClientRoom, Program
from headgate.kernels.kernel_calls import call, compiled, numbers, parts
from headgate.simulation.executors.executor import Ints

Floats = Any
"""A contiguous array of float32 or float64; numba makes a version for each."""


@compiled
def train(
    room: ClientRoom, program: Program, images: Any, labels: Ints, batches: Batches, begun: Floats, share: Any, move: Floats
) -> float:
    """All steps of a client from the model `begun`; `move` is then its share of how far they went, or empty if not wanted.

    Gives the sum of the losses before, of all samples that are looked at for that or in the first step. `labels` says where
    the logits of the true classes lie.
    """
    theta, slope, velocity, rates, scale, shift, samples, logits, steep = parts(9, room.floats, program.ends, 0)
    size, start, row, pitch, logits_pitch, classes = numbers(6, program.ends, 9)
    for i in range(size):
        theta[i] = begun[i]
        velocity[i] = 0
    before, first = 0.0, 0
    for batch in range(len(batches.stops)):
        rows, first = batches.rows[first : batches.stops[batch]], batches.stops[batch]
        normalise(images, rows, scale, shift, start, row, pitch, samples)
        for repeat in range(batches.repeats if batch >= batches.looks else 1):
            for step in range(program.forward):
                call(program.addresses[step], room.floats, room.marks, room.ints, program.numbers[step], len(rows))
            loss = cross_entropy(logits, logits_pitch, classes, labels, rows, steep)
            if batch <= batches.looks and repeat == 0:
                before += len(rows) * loss
            if batch >= batches.looks:
                for step in range(program.forward, len(program.addresses)):
                    call(program.addresses[step], room.floats, room.marks, room.ints, program.numbers[step], len(rows))
                descend(theta, velocity, slope, size, rates[0], rates[1], rates[2])
    for i in range(len(move)):
        move[i] = (theta[i] - begun[i]) * share
    return before


@compiled
def answer(room: ClientRoom, program: Program, images: Any, rows: Ints, models: Floats, order: Ints, out: Floats) -> None:
    """What each of the models (R, size) says to some of the images: out[r, row, :], each logit from where it lies."""
    theta, _, _, _, scale, shift, samples, logits, _ = parts(9, room.floats, program.ends, 0)
    size, start, row, pitch, logits_pitch, _ = numbers(6, program.ends, 9)
    normalise(images, rows, scale, shift, start, row, pitch, samples)
    for r in range(len(models)):
        for i in range(size):
            theta[i] = models[r, i]
        for step in range(program.forward):
            call(program.addresses[step], room.floats, room.marks, room.ints, program.numbers[step], len(rows))
        for i in range(len(rows)):
            for c in range(len(order)):
                out[r, rows[i], c] = logits[i * logits_pitch + order[c]]


@njit(error_model="numpy")
def normalise(images: Any, rows: Ints, scale: Floats, shift: Floats, start: int, row: int, pitch: int, out: Floats) -> None:
    """Some of the images (n, C, H, W) of bytes as scale·x + shift."""
    _, channels, height, width = images.shape
    for s in range(len(rows)):
        for c in range(channels):
            one, other = scale[c], shift[c]
            for y in range(height):
                line, to = images[rows[s], c, y], s * pitch + start + y * row + c
                for z in range(width):
                    out[np.uintp(to + z * channels)] = scale.dtype.type(line[z]) * one + other


@njit(error_model="numpy")
def cross_entropy(logits: Floats, pitch: int, classes: int, labels: Ints, rows: Ints, slope: Floats) -> Any:
    """The mean loss of some samples, and its slope."""
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
def descend(theta: Floats, velocity: Floats, slope: Floats, size: int, lr: Any, momentum: Any, decay: Any) -> None:
    """One step of torch.optim.SGD."""
    if momentum == 0:
        for i in range(size):
            theta[i] -= lr * (slope[i] + decay * theta[i])
        return
    for i in range(size):
        velocity[i] = momentum * velocity[i] + (slope[i] + decay * theta[i])
        theta[i] -= lr * velocity[i]
