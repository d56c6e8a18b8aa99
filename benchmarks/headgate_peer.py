"""The work of same_work.py in headgate: several runs at once if asked for.

    python benchmarks/headgate_peer.py MODEL ROUNDS RESULT.npz [RUNS]

As in `headgate run`, a linear model takes numpy alone, and torch is imported only for a
net.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import same_work

from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import RaggedBatch

MEAN, STD = (same_work.MEAN,), (same_work.STD,)
Advance = Callable[[Any, RaggedBatch, Any, LocalTraining, range, int], tuple[Any, Any]]


def linear() -> tuple[Advance, Callable[[Any], Any]]:
    """How models are advanced, and how arrays are handed over."""
    from headgate.simulation.executors.gram import Gram, LinearTask, one_thread

    gram = Gram(
        LinearTask(same_work.SHAPE, same_work.CLASSES, MEAN, STD, np.dtype(np.float32))
    )
    return one_thread()(gram.advance), np.asarray


def net(name: str, training: LocalTraining) -> tuple[Advance, Callable[[Any], Any]]:
    import torch

    from headgate.learning.models import MODEL
    from headgate.learning.networks import build_model
    from headgate.simulation.executors import choose
    from headgate.simulation.executors.types import Task

    model = build_model(MODEL.kinds[name](), same_work.SHAPE, same_work.CLASSES)
    task = Task(model, same_work.SHAPE, same_work.CLASSES, MEAN, STD)
    return choose(task, training).advance, torch.from_numpy


def main(name: str, rounds: int, result: str, runs: int) -> None:
    pool, clients = same_work.images(), range(same_work.CLIENTS)
    training = LocalTraining(same_work.LR[name], same_work.STEPS)
    advance, put = linear() if name == "logistic" else net(name, training)
    theta = put(np.tile(same_work.start(name), (runs, 1)))
    began, ends, first = time.time(), [], theta
    for t in range(1, rounds + 1):
        own = [same_work.rows(t, client) for client in clients]
        sizes = np.array([len(each) for each in own])
        rows = np.concatenate(own * runs)
        offsets = np.concatenate([[0], np.cumsum(np.tile(sizes, runs))])
        packed = RaggedBatch(put(pool.pixels[rows]), put(pool.labels[rows]), offsets)
        weights = put(np.tile(sizes / sizes.sum(), (runs, 1)).astype(np.float32))
        theta, _ = advance(theta, packed, weights, training, range(runs), t)
        ends.append(time.time())
        first = theta if t == 1 else first
    np.savez(
        result,
        model=np.asarray(theta[0]),
        first=np.asarray(first[0]),
        began=began,
        ends=ends,
    )


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        sys.argv[3],
        int(sys.argv[4]) if len(sys.argv) > 4 else 1,
    )
