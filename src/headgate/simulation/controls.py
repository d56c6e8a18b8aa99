"""Clients that remember a gradient each and correct their steps by it (SCAFFOLD), with any executor that takes a tilt.

Each client is played as a run of its own, whose gradients are tilted by what all remember less what it does itself; so its
model comes back, and the server's average is taken here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headgate.learning.local import LocalTraining
from headgate.limits import check_memory
from headgate.simulation.executors.executor import Array, Executor, RaggedBatch


def no_controls(arrays: Any, theta: Array, clients: int) -> Array:
    """Before round 1: what every client of every run remembers, (R, M, P); refused where that takes too much memory."""
    runs, size = theta.shape
    said = f"objective.kind = scaffold: what {clients} clients of {runs} runs remember, and their models, take"
    check_memory(said, 5 * clients * theta.nbytes)
    return arrays.broadcast_to(theta[:, None], (runs, clients, size)) * 0


def advance_with_controls(
    executor: Executor[Any],
    arrays: Any,
    theta: Array,
    controls: Array,
    batch: RaggedBatch,
    weights: Array,
    training: LocalTraining,
    seeds: Sequence[int],
    t: int,
) -> tuple[Array, Array, Array]:
    """The models after round t, (R, P), each run's loss before it, (R,), and what clients remember then, (R, M, P).

    A client that has no sample, or is of a run that broke down, remembers what it did.
    """
    _, clients, size = controls.shape
    common = (weights[:, :, None] * controls).sum(1)[:, None]
    start = arrays.broadcast_to(theta[:, None], controls.shape).reshape(-1, size)
    trains = weights != 0
    alone = arrays.where(trains, 1.0, weights).reshape(-1, 1)
    each = [seed for seed in seeds for _ in range(clients)]
    tilt = (common - controls).reshape(-1, size)
    ends, losses = executor.advance(start, batch, alone, training, each, t, tilt)
    moves = ends.reshape(controls.shape) - theta[:, None]
    after = theta + (weights[:, :, None] * moves).sum(1)
    found = controls - common - moves / (training.lr * training.steps)
    return after, _mean(arrays, losses, batch, weights), arrays.where(trains[:, :, None], found, controls)


def _mean(arrays: Any, losses: Array, batch: RaggedBatch, weights: Array) -> Array:
    """Of all samples of a run, from the means of its clients; nan where there is none."""
    sizes = np.diff(batch.offsets).reshape(tuple(weights.shape)).astype(np.float64)
    shares = arrays.asarray(sizes / sizes.sum(axis=1, keepdims=True), dtype=losses.dtype)
    if hasattr(shares, "to"):
        shares = shares.to(losses.device)
    return arrays.where(shares == 0, shares, shares * losses.reshape(weights.shape)).sum(1)
