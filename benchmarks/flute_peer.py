"""FLUTE's LR-MNIST configuration in headgate: 100 rounds in a fresh process, start-up
and evaluation included.

    python benchmarks/flute_peer.py [ROUNDS]

The configuration: 1000 users of two digits each, 10 of them drawn for a round; one
local epoch of SGD at rate 0.03 in batches of 10; 100 rounds, evaluated every 20; one
linear layer whose outputs pass a sigmoid before the cross-entropy. How many images a
user has follows a power law there (mean about 60); here sizes are lognormal with that
mean. Prints what it did as JSON. MNIST is looked for in $HEADGATE_DATA; without it, the
images are made up and accuracy means nothing.
"""

import json
import sys

import numpy as np
import torch
from torch import nn

from headgate.errors import DataError
from headgate.learning.datasets import Dataset, load_dataset
from headgate.learning.local import LocalTraining
from headgate.learning.server import draw_cohort
from headgate.simulation.executors import RaggedBatch, choose
from headgate.simulation.executors.types import Task
from headgate.simulation.nets import Evaluator

USERS, COHORT, ROUNDS, EVERY = 1000, 10, 100, 20
TRAINING = LocalTraining(lr=0.03, steps=1, batch_size=10)


def mnist() -> Dataset:
    try:
        return load_dataset("mnist")
    except DataError:
        rng = np.random.default_rng(0)
        arrays = {}
        for split, count in (("train", 60_000), ("test", 10_000)):
            arrays[f"{split}_images"] = rng.integers(
                0, 256, (count, 1, 28, 28), dtype=np.uint8
            )
            arrays[f"{split}_labels"] = rng.integers(0, 10, count)
        return Dataset(
            "made up", **arrays, classes=tuple("0123456789"), mean=(0.0,), std=(1.0,)
        )


def users(labels: np.ndarray) -> list[np.ndarray]:
    """Which images each user has: two digits, as many as a heavy-tailed draw says."""
    rng = np.random.default_rng(1)
    sizes = rng.lognormal(0, 1, USERS)
    sizes = np.clip(60 * sizes / sizes.mean(), 8, 1000).astype(int)
    by_digit = [rng.permutation(np.flatnonzero(labels == digit)) for digit in range(10)]
    owned, taken = [], [0] * 10
    for user, size in enumerate(sizes):
        parts = []
        for digit, count in (
            (user % 10, size // 2),
            ((user + 1) % 10, size - size // 2),
        ):
            pool = by_digit[digit]
            parts.append(
                np.take(pool, range(taken[digit], taken[digit] + count), mode="wrap")
            )
            taken[digit] += count
        owned.append(rng.permutation(np.concatenate(parts)))
    return owned


def main(rounds: int) -> None:
    data = mnist()
    owned = users(data.train_labels)
    images, labels = (
        torch.from_numpy(data.train_images),
        torch.from_numpy(data.train_labels),
    )
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.Sigmoid())
    task = Task(model, data.shape, len(data.classes), (0.0,), (1.0,))
    executor = choose(task, TRAINING)
    judge = Evaluator(
        task, torch.from_numpy(data.test_images), torch.from_numpy(data.test_labels)
    )
    theta, samples, accuracy = (
        nn.utils.parameters_to_vector(model.parameters()).detach()[None],
        0,
        [],
    )
    for t in range(1, rounds + 1):
        own = [owned[user] for user in draw_cohort(0, t, USERS, COHORT)]
        sizes = np.array([len(rows) for rows in own])
        rows = torch.from_numpy(np.concatenate(own))
        packed = RaggedBatch(
            images[rows], labels[rows], np.concatenate([[0], np.cumsum(sizes)])
        )
        weights = torch.from_numpy(sizes / sizes.sum()).float()[None]
        theta, _ = executor.advance(theta, packed, weights, TRAINING, [0], t)
        samples += int(sizes.sum())
        if t % EVERY == 0:
            accuracy.append(float(judge(theta)[0][0]))
    print(
        json.dumps(
            {
                "data": data.name,
                "executor": executor.name,
                "samples_a_round": samples / rounds,
                "accuracy": accuracy,
            }
        )
    )


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers this small are slower with more
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
