"""What a round of local training costs: executors against the way it is usually written.

    python benchmarks/executors.py [--quick] [--threads 1] [--repeats 7] [--case logistic/1 logistic/40 lenet/1]

A round: 10 clients with ragged buffers, some empty, about 100 samples of 28x28 a run, 10 full-batch gradient steps each,
then the server's weighted average. Synthetic data. All ways take turns in one process; medians of the repeats, each of
which is the mean of as many rounds as fit into 50 ms.

- research style: a deep copy of the model and an SGD object for each client, a DataLoader over a Subset that reads and
  normalises image by image, the whole buffer as the batch
- lean loop: the same without a DataLoader, on slices of tensors normalised beforehand

"of peak" is the share of the speed of a 1024x1024x1024 matrix product, measured in the same process, at which a way
does its own arithmetic. The Gram form does about a fifth of the arithmetic of the others, and on the CPU always in one
thread, whatever --threads says.
"""

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, Subset

from headgate.learning.local import LocalTraining
from headgate.learning.models import build_model, initial_parameters
from headgate.simulation.executors import Packed, Task, pick

CLIENTS, SAMPLES, SHAPE, CLASSES, MEAN, STD = 10, 100, (1, 28, 28), 10, 0.1307, 0.3081
TRAINING = LocalTraining(lr=0.05, steps=10)
FLOPS = {"logistic": 4 * 7840, "lenet": 2_264_000}
"""Operations for a sample in a step, forward and backward, two for a multiplication and addition."""


@dataclass(frozen=True)
class Work:
    """A round of some runs."""

    name: str
    task: Task
    theta: Tensor
    packed: Packed
    weights: Tensor

    @property
    def runs(self) -> int:
        return len(self.theta)

    def part(self, runs: int) -> "Work":
        """Only the first runs."""
        offsets = self.packed.offsets[: runs * CLIENTS + 1]
        packed = Packed(self.packed.images[: offsets[-1]], self.packed.labels[: offsets[-1]], offsets)
        return Work(self.name, self.task, self.theta[:runs], packed, self.weights[:runs])

    def flops(self) -> float:
        return FLOPS[self.name] * TRAINING.steps * float(self.packed.offsets[-1])

    def gram_flops(self) -> float:
        """Logits and update with all features, the Gram matrices, and steps in the space of samples."""
        sizes = np.diff(self.packed.offsets).astype(float)
        samples, squares, features = float(sizes.sum()), float((sizes**2).sum()), 784
        return 4 * samples * features * CLASSES + 2 * features * squares + 2 * CLASSES * squares * (TRAINING.steps - 1)


def ragged(rng: np.random.Generator) -> np.ndarray:
    """How many samples each client of a run holds."""
    share = rng.dirichlet(np.ones(CLIENTS))
    share[rng.integers(CLIENTS)] = 0
    sizes = rng.multinomial(SAMPLES, share / share.sum())
    return sizes if sizes.max() <= 60 else ragged(rng)


def make(name: str, runs: int) -> Work:
    rng = np.random.default_rng(runs)
    sizes = np.array([ragged(rng) for _ in range(runs)])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    images = torch.from_numpy(rng.integers(0, 256, (int(offsets[-1]), *SHAPE), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(0, CLASSES, int(offsets[-1])))
    task = Task(build_model(name, SHAPE, CLASSES), SHAPE, CLASSES, (MEAN,), (STD,))
    theta = torch.stack([initial_parameters(name, SHAPE, CLASSES, seed) for seed in range(runs)])
    weights = torch.from_numpy(sizes / sizes.sum(axis=1, keepdims=True)).float()
    return Work(name, task, theta, Packed(images, labels, offsets), weights)


# the ways to do it


class Images(Dataset[tuple[Tensor, int]]):
    """As published code reads MNIST: a PIL image for each sample, turned into a tensor and normalised one by one.

    torchvision is not needed for this comparison: the steps are those of its ToTensor and Normalize.
    """

    def __init__(self, packed: Packed) -> None:
        self.images, self.labels = packed.images.squeeze(1).numpy(), packed.labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = Image.fromarray(self.images[index])
        pixels = torch.from_numpy(np.array(picture, np.uint8, copy=True))
        pixels = pixels.view(picture.size[1], picture.size[0], 1).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        mean, std = torch.as_tensor((MEAN,), dtype=torch.float32), torch.as_tensor((STD,), dtype=torch.float32)
        if (std == 0).any():
            raise ValueError("std is zero")
        return pixels.clone().sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1)), int(self.labels[index])


def averaged(work: Work, train: Callable[[nn.Module, int, int], None]) -> Tensor:
    """What both loops share: a copy of the model for each client that has samples, and the server's average."""
    after = work.theta.clone()
    for r in range(work.runs):
        server = copy.deepcopy(work.task.model)
        nn.utils.vector_to_parameters(work.theta[r].clone(), server.parameters())
        for m in range(CLIENTS):
            first, last = (int(work.packed.offsets[r * CLIENTS + m + end]) for end in (0, 1))
            if first == last:
                continue
            model = copy.deepcopy(server)
            train(model, first, last)
            local = nn.utils.parameters_to_vector(model.parameters()).detach()
            after[r] += work.weights[r, m] * (local - work.theta[r])
    return after


def research_style(work: Work) -> Callable[[], Tensor]:
    images = Images(work.packed)

    def train(model: nn.Module, first: int, last: int) -> None:
        loader = DataLoader(Subset(images, range(first, last)), batch_size=last - first, shuffle=True)
        optimizer, criterion = torch.optim.SGD(model.parameters(), lr=TRAINING.lr), nn.CrossEntropyLoss()
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
        optimizer = torch.optim.SGD(model.parameters(), lr=TRAINING.lr)
        for _ in range(TRAINING.steps):
            optimizer.zero_grad()
            cross_entropy(model(images[first:last]), labels[first:last]).backward()
            optimizer.step()

    return lambda: averaged(work, train)


def executor(name: str) -> Callable[[Work], Callable[[], Tensor]]:
    def prepare(work: Work) -> Callable[[], Tensor]:
        ours = pick(work.task, TRAINING, name)
        return lambda: ours.advance(work.theta, work.packed, work.weights, TRAINING, range(work.runs), 1)[0]

    return prepare


WAYS = {
    "research style": research_style,
    "lean loop": lean_loop,
    **{name: executor(name) for name in ("reference", "flat", "compiled", "batched", "gram")},
}
ONLY = {"gram": "logistic", "compiled": "lenet"}
"""The model that an executor takes, where it does not take both."""
SLOW = {"research style": 2, "lean loop": 4, "reference": 2}
"""Of many runs, how many are timed; the time is scaled up, as these ways take one run after the other."""


# timing


def seconds(function: Callable[[], object]) -> float:
    """For one call: the mean of as many as fit into 50 ms."""
    calls, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < 0.05 or calls == 0:
        function()
        calls += 1
    return passed / calls


def measure(work: Work, repeats: int) -> None:
    ways = [name for name in WAYS if name not in ONLY or work.name == ONLY[name]]
    parts = {name: work.part(min(work.runs, SLOW.get(name, work.runs))) for name in ways}
    rounds = {name: WAYS[name](parts[name]) for name in ways}
    matrix = torch.randn(1024, 1024)
    results = {name: rounds[name]() for name in ways}  # also warms up
    times: dict[str, list[float]] = {name: [] for name in ways}
    peaks = []
    for _ in range(repeats):
        peaks.append(2 * 1024**3 / seconds(lambda: matrix @ matrix))
        for name in ways:
            times[name].append(seconds(rounds[name]) * work.runs / parts[name].runs)
    middle = {name: median(values) for name, values in times.items()}
    peak = median(peaks)

    print(f"\n{work.name}, {work.runs} run(s), {int(work.packed.offsets[-1])} samples; GEMM peak {peak / 1e9:.1f} GFLOP/s")
    print(f"{'':18}{'ms a round':>12}{'ms a run':>10}{'x research':>12}{'x lean':>9}{'of peak':>9}{'off':>10}")
    judged = results["reference"]
    for name in ways:
        flops = work.gram_flops() if name == "gram" else work.flops()
        least = min(len(results[name]), len(judged))
        update = judged[:least] - work.theta[:least]
        off = float((results[name][:least] - judged[:least]).norm() / update.norm())
        mark = " *" if parts[name].runs < work.runs else ""
        print(
            f"{name + mark:18}{1e3 * middle[name]:12.2f}{1e3 * middle[name] / work.runs:10.2f}"
            f"{middle['research style'] / middle[name]:12.1f}{middle['lean loop'] / middle[name]:9.1f}"
            f"{flops / middle[name] / peak:9.1%}{off:10.1e}",
            flush=True,
        )
    if any(parts[name].runs < work.runs for name in ways):
        scaled = ", ".join(f"{name} on {parts[name].runs}" for name in ways if parts[name].runs < work.runs)
        print(f"* timed on fewer runs and scaled up: {scaled}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three repeats")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", nargs="*", default=["logistic/1", "logistic/40", "lenet/1"], help="model/runs")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(f"torch {torch.__version__}, {given.threads} thread(s), medians of {3 if given.quick else given.repeats}")
    print("off: distance from the reference (float64), relative to the update")
    for case in given.case:
        name, _, runs = case.partition("/")
        measure(make(name, int(runs)), 3 if given.quick else given.repeats)


if __name__ == "__main__":
    main()
