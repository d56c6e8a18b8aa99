"""The work of same_work.py in headgate: several runs at once if asked for.

python benchmarks/headgate_peer.py MODEL ROUNDS RESULT.npz [RUNS]
"""

import sys
import time

import numpy as np
import same_work
import torch

from headgate.learning.local import LocalTraining
from headgate.learning.models import MODEL
from headgate.learning.networks import build_model
from headgate.simulation.executors import Packed, pick
from headgate.simulation.executors.types import Task


def main(name: str, rounds: int, result: str, runs: int) -> None:
    pool, clients = same_work.images(), range(same_work.CLIENTS)
    pixels, labels = torch.from_numpy(pool.pixels), torch.from_numpy(pool.labels)
    model = build_model(MODEL.kinds[name](), same_work.SHAPE, same_work.CLASSES)
    task = Task(model, same_work.SHAPE, same_work.CLASSES, (same_work.MEAN,), (same_work.STD,))
    training = LocalTraining(same_work.LR[name], same_work.STEPS)
    executor = pick(task, training)
    theta = torch.from_numpy(same_work.start(name)).repeat(runs, 1)
    began, ends, first = time.time(), [], theta
    for t in range(1, rounds + 1):
        own = [same_work.rows(t, client) for client in clients]
        sizes = np.array([len(each) for each in own])
        rows = torch.from_numpy(np.concatenate(own * runs))
        packed = Packed(pixels[rows], labels[rows], np.concatenate([[0], np.cumsum(np.tile(sizes, runs))]))
        weights = torch.from_numpy(np.tile(sizes / sizes.sum(), (runs, 1))).float()
        theta, _ = executor.advance(theta, packed, weights, training, range(runs), t)
        ends.append(time.time())
        first = theta if t == 1 else first
    np.savez(result, model=theta[0].numpy(), first=first[0].numpy(), began=began, ends=ends)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 1)
