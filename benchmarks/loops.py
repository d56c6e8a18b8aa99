"""A round of local training, and the two ways it is usually written: what executors are
compared with.

A round: 10 clients with ragged buffers, some empty, about 100 samples of 28x28 a run,
10 full-batch gradient steps each, then the server's weighted average. Synthetic data.

- research style: a deep copy of the model and an SGD object for each client, a
  DataLoader over a Subset that reads and normalises image by image, the whole buffer as
  the batch
- lean loop: the same without a DataLoader, on slices of tensors normalised beforehand
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, Subset

from headgate.learning.local import LocalTraining
from headgate.learning.models import MODEL
from headgate.learning.networks import build_model, initial_parameters
from headgate.simulation.executors import RaggedBatch, choose
from headgate.simulation.executors.gram import Gram, LinearTask, one_thread
from headgate.simulation.executors.types import Task

CLIENTS, SAMPLES, SHAPE, CLASSES, MEAN, STD = 10, 100, (1, 28, 28), 10, 0.1307, 0.3081
TRAINING = LocalTraining(lr=0.05, steps=10)
DECAY = {"decayed": 0.01}
"""`decayed` is logistic regression with weight decay, which the Gram form does not do
"""
FLOPS = {"logistic": 4 * 7840, "decayed": 4 * 7840, "mlp": 639_200, "lenet": 2_264_000}
"""Operations of the usual algorithm for a sample in a step, forward and backward, two
for a multiplication and addition.
"""
REAL_FLOPS = {("lenet", "compiled"): 1_367_520}
"""Where a way does fewer: here slopes of convolutions only at the pixels that the
pooling chose, a quarter of them.
"""


@dataclass(frozen=True)
class Work:
    """A round of some runs."""

    name: str
    task: Task
    theta: Tensor
    packed: RaggedBatch
    weights: Tensor

    @property
    def runs(self) -> int:
        return len(self.theta)

    def part(self, runs: int) -> "Work":
        """Only the first runs."""
        offsets = self.packed.offsets[: runs * CLIENTS + 1]
        packed = RaggedBatch(
            self.packed.images[: offsets[-1]],
            self.packed.labels[: offsets[-1]],
            offsets,
        )
        return Work(
            self.name, self.task, self.theta[:runs], packed, self.weights[:runs]
        )

    @cached_property
    def training(
        self,
    ) -> (
        LocalTraining
    ):  # made once: to check its numbers takes a third of a round of the fastest way
        return replace(TRAINING, weight_decay=DECAY.get(self.name, 0.0))

    def flops(self, way: str = "") -> float:
        """Nominal, or what the way really does."""
        return (
            REAL_FLOPS.get((self.name, way), FLOPS[self.name])
            * TRAINING.steps
            * float(self.packed.offsets[-1])
        )

    def gram_flops(self) -> float:
        """Logits and update with all features, the Gram matrices, and steps in the
        space of samples.
        """
        sizes = np.diff(self.packed.offsets).astype(float)
        samples, squares, features = float(sizes.sum()), float((sizes**2).sum()), 784
        return (
            4 * samples * features * CLASSES
            + 2 * features * squares
            + 2 * CLASSES * squares * (TRAINING.steps - 1)
        )

    def least_bytes(self) -> float:
        """What any way has to read and write: every image once, every model once in and
        once out.
        """
        return self.packed.images.numel() + 2 * self.theta.nbytes


def ragged(rng: np.random.Generator) -> np.ndarray:
    """How many samples each client of a run holds."""
    share = rng.dirichlet(np.ones(CLIENTS))
    share[rng.integers(CLIENTS)] = 0
    sizes = rng.multinomial(SAMPLES, share / share.sum())
    return sizes if sizes.max() <= 60 else ragged(rng)


def module(name: str) -> nn.Module:
    if name == "mlp":
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, CLASSES)
        )
    return build_model(
        MODEL.kinds["logistic" if name == "decayed" else name](), SHAPE, CLASSES
    )


def begun(name: str, seed: int) -> Tensor:
    if name == "mlp":
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(module(name).parameters()).detach()
    return initial_parameters(
        MODEL.kinds["logistic" if name == "decayed" else name](), SHAPE, CLASSES, seed
    )


def make(name: str, runs: int) -> Work:
    rng = np.random.default_rng(runs)
    sizes = np.array([ragged(rng) for _ in range(runs)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    images = torch.from_numpy(
        rng.integers(0, 256, (int(offsets[-1]), *SHAPE), dtype=np.uint8)
    )
    labels = torch.from_numpy(rng.integers(0, CLASSES, int(offsets[-1])))
    task = Task(module(name), SHAPE, CLASSES, (MEAN,), (STD,))
    theta = torch.stack([begun(name, seed) for seed in range(runs)])
    weights = torch.from_numpy(sizes / sizes.sum(axis=1, keepdims=True)).float()
    return Work(name, task, theta, RaggedBatch(images, labels, offsets), weights)


# the ways to do it


class Images(Dataset[tuple[Tensor, int]]):
    """As published code reads MNIST: a PIL image for each sample, turned into a tensor
    and normalised one by one.

    torchvision is not needed for this comparison: the steps are those of its ToTensor
    and Normalize.
    """

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images.squeeze(1).numpy(), labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = Image.fromarray(self.images[index])
        pixels = torch.from_numpy(np.array(picture, np.uint8, copy=True))
        pixels = (
            pixels.view(picture.size[1], picture.size[0], 1)
            .permute(2, 0, 1)
            .contiguous()
            .to(torch.float32)
            .div(255)
        )
        mean, std = (
            torch.as_tensor((MEAN,), dtype=torch.float32),
            torch.as_tensor((STD,), dtype=torch.float32),
        )
        if (std == 0).any():
            raise ValueError("std is zero")
        return pixels.clone().sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1)), int(
            self.labels[index]
        )


def averaged(work: Work, train: Callable[[nn.Module, int, int], None]) -> Tensor:
    """What both loops share: a copy of the model for each client that has samples, and
    the server's average.
    """
    after = work.theta.clone()
    for r in range(work.runs):
        server = copy.deepcopy(work.task.model)
        nn.utils.vector_to_parameters(work.theta[r].clone(), server.parameters())
        for m in range(CLIENTS):
            first, last = (
                int(work.packed.offsets[r * CLIENTS + m + end]) for end in (0, 1)
            )
            if first == last:
                continue
            model = copy.deepcopy(server)
            train(model, first, last)
            local = nn.utils.parameters_to_vector(model.parameters()).detach()
            after[r] += work.weights[r, m] * (local - work.theta[r])
    return after


def descent(work: Work, model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        model.parameters(), lr=TRAINING.lr, weight_decay=work.training.weight_decay
    )


def research_style(work: Work) -> Callable[[], Tensor]:
    images = Images(work.packed.images, work.packed.labels)

    def train(model: nn.Module, first: int, last: int) -> None:
        loader = DataLoader(
            Subset(images, range(first, last)), batch_size=last - first, shuffle=True
        )
        optimizer, criterion = descent(work, model), nn.CrossEntropyLoss()
        model.train()
        for _ in range(TRAINING.steps):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()

    return lambda: averaged(work, train)


def lean_loop(work: Work) -> Callable[[], Tensor]:
    images, labels = work.task.normalised(work.packed.images), work.packed.labels

    def train(model: nn.Module, first: int, last: int) -> None:
        optimizer = descent(work, model)
        for _ in range(TRAINING.steps):
            optimizer.zero_grad()
            cross_entropy(model(images[first:last]), labels[first:last]).backward()
            optimizer.step()

    return lambda: averaged(work, train)


def gram(work: Work) -> Callable[[], NDArray[np.float32]]:
    """As in a run: on numpy's arrays, without torch."""
    ours = Gram(LinearTask(SHAPE, CLASSES, (MEAN,), (STD,), np.dtype(np.float32)))
    packed = RaggedBatch(
        work.packed.images.numpy(), work.packed.labels.numpy(), work.packed.offsets
    )
    theta, weights = work.theta.numpy(), work.weights.numpy()
    return one_thread()(
        lambda: ours.advance(
            theta, packed, weights, work.training, range(work.runs), 1
        )[0]
    )


def executor(name: str) -> Callable[[Work], Callable[[], Tensor]]:
    def prepare(work: Work) -> Callable[[], Tensor]:
        ours = choose(work.task, work.training, name)
        return lambda: ours.advance(
            work.theta, work.packed, work.weights, work.training, range(work.runs), 1
        )[0]

    return prepare
