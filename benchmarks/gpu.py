"""What a round of local training costs on a GPU: executors against a lean loop.

    python benchmarks/gpu.py [--repeats 7] [--case resnet9 lenet evaluate]
                             [--out FILE] [--commit ID]
    python benchmarks/gpu.py --accuracy [--data cifar10] [--rounds 60] [--seeds 3]

A round: 10 clients a run, 10 full-batch gradient steps each, then the server's weighted
average. ResNet-9 with 20 images of 32x32 at each client; LeNet with ragged buffers,
some empty, about 100 images of 28x28 a run. Synthetic data. All ways take turns in one
process; median, least and most of the repeats.

- lean loop: a copy of the model and an SGD object for each client, on slices of tensors
  normalised beforehand, float32 without TF32. Of 40 runs it does two, and its time is
  scaled up: it takes one run after the other.

"of peak" is the share of the speed of an 8192x8192x8192 matrix product of the same
precision in the same process. "off" is the distance from the reference in float64,
relative to the update.

--accuracy learns CIFAR-10 with constant admission in float32 and in bfloat16 and
compares final accuracies with the spread over seeds.
"""

import argparse
import copy
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from machine import commit
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining
from headgate.learning.models import MODEL, ResNet9
from headgate.learning.networks import build_model, initial_parameters
from headgate.simulation.executors import Executor, RaggedBatch, choose
from headgate.simulation.executors.reference import Reference
from headgate.simulation.executors.types import Task
from headgate.simulation.nets import Evaluator
from headgate_kernels.streams import CudaStreams

CLIENTS, CLASSES, DEVICE = 10, 10, torch.device("cuda")
SHAPES = {"resnet9": (3, 32, 32), "lenet": (1, 28, 28)}
FLOPS = {"resnet9": 2.27e9, "lenet": 2.264e6}
"""Operations for a sample in a step, forward and backward, two for a multiplication and
addition.
"""
TRAINING = {"resnet9": LocalTraining(lr=5e-3, steps=10)}
OTHERS = LocalTraining(lr=0.05, steps=10)
EVALUATED = (
    ("lenet", 40, False, ("batched", "triton")),
    ("resnet9", 10, True, ("streams", "triton")),
)
"""model, runs, whether in bfloat16, and by which executors; the first one leaves it to
the model
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

    @property
    def training(self) -> LocalTraining:
        return TRAINING.get(self.name, OTHERS)

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

    def flops(self) -> float:
        return FLOPS[self.name] * self.training.steps * float(self.packed.offsets[-1])


def ragged(rng: np.random.Generator) -> np.ndarray:
    """How many of about 100 samples each client of a run holds."""
    share = rng.dirichlet(np.ones(CLIENTS))
    share[rng.integers(CLIENTS)] = 0
    sizes = rng.multinomial(100, share / share.sum())
    return sizes if sizes.max() <= 60 else ragged(rng)


def make(
    name: str, runs: int, bfloat16: bool = False, sizes: np.ndarray | None = None
) -> Work:
    rng, shape = np.random.default_rng(runs), SHAPES[name]
    if sizes is None:
        even = np.full((runs, CLIENTS), 20)
        sizes = (
            even if name == "resnet9" else np.array([ragged(rng) for _ in range(runs)])
        )
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    images = torch.from_numpy(
        rng.integers(0, 256, (int(offsets[-1]), *shape), dtype=np.uint8)
    ).to(DEVICE)
    labels = torch.from_numpy(rng.integers(0, CLASSES, int(offsets[-1]))).to(DEVICE)
    model = build_model(MODEL.kinds[name](), shape, CLASSES)
    task = Task(
        model,
        shape,
        CLASSES,
        (0.4,) * shape[0],
        (0.3,) * shape[0],
        device=DEVICE,
        bfloat16=bfloat16,
    )
    theta = torch.stack(
        [
            initial_parameters(MODEL.kinds[name](), shape, CLASSES, seed)
            for seed in range(runs)
        ]
    ).to(DEVICE)
    weights = torch.from_numpy(sizes / sizes.sum(axis=1, keepdims=True)).to(theta)
    return Work(name, task, theta, RaggedBatch(images, labels, offsets), weights)


# the ways to do it


def lean_loop(work: Work) -> Callable[[], Tensor]:
    images, labels = work.task.normalised(work.packed.images), work.packed.labels

    def learn() -> Tensor:
        after = work.theta.clone()
        for r in range(work.runs):
            server = copy.deepcopy(work.task.model).to(DEVICE)
            nn.utils.vector_to_parameters(work.theta[r].clone(), server.parameters())
            for m in range(CLIENTS):
                first, last = (
                    int(work.packed.offsets[r * CLIENTS + m + end]) for end in (0, 1)
                )
                if first == last:
                    continue
                model = copy.deepcopy(server)
                optimizer = torch.optim.SGD(model.parameters(), lr=work.training.lr)
                for _ in range(work.training.steps):
                    optimizer.zero_grad()
                    cross_entropy(
                        model(images[first:last]), labels[first:last]
                    ).backward()
                    optimizer.step()
                local = nn.utils.parameters_to_vector(model.parameters()).detach()
                after[r] += work.weights[r, m] * (local - work.theta[r])
        return after

    return learn


def by_executor(work: Work, executor: Executor) -> Callable[[], Tensor]:
    return lambda: executor.advance(
        work.theta, work.packed, work.weights, work.training, range(work.runs), 1
    )[0]


# timing


def seconds(function: Callable[[], object], least: float = 0.02) -> float:
    """For one call: the mean of as many as fit into `least`."""
    torch.cuda.synchronize()
    calls, start = 0, time.perf_counter()
    while calls == 0 or time.perf_counter() - start < least:
        function()
        torch.cuda.synchronize()
        calls += 1
    return (time.perf_counter() - start) / calls


def peaks() -> dict[str, float]:
    """FLOP/s of large products and bytes/s of a large copy."""
    found = {}
    for dtype in (torch.bfloat16, torch.float32):
        a, b = (torch.randn(8192, 8192, device=DEVICE, dtype=dtype) for _ in range(2))
        found[str(dtype)[6:]] = (
            2 * 8192**3 / min(seconds(lambda a=a, b=b: a @ b) for _ in range(5))
        )
    source = torch.randn(1 << 30, device=DEVICE)
    target = torch.empty_like(source)
    found["copy"] = (
        2 * source.nbytes / min(seconds(lambda: target.copy_(source)) for _ in range(5))
    )
    return found


@dataclass(frozen=True)
class Way:
    """One way to do a work; `scale`: it is timed on so many times fewer runs."""

    name: str
    work: Work
    round: Callable[[], Tensor]
    scale: float = 1.0
    precision: str = "float32"


def measure(
    ways: list[Way], repeats: int, peak: dict[str, float]
) -> list[dict[str, Any]]:
    """Milliseconds of all ways, in turns; the first one is what the others are compared
    with, run by run.
    """
    memory = {}
    for way in ways:
        way.round()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        way.round()
        way.round()
        torch.cuda.synchronize()
        memory[way.name] = torch.cuda.max_memory_allocated()
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            times[way.name].append(1e3 * way.scale * seconds(way.round))
    rows, base = [], None
    for way in ways:
        runs, middle = way.work.runs * way.scale, median(times[way.name])
        base = base or middle / runs
        rows.append(
            {
                "model": way.work.name,
                "way": way.name,
                "runs": int(runs),
                "timed_runs": way.work.runs,
                "ms_round": middle,
                "ms_least": min(times[way.name]),
                "ms_most": max(times[way.name]),
                "ms_run": middle / runs,
                "times_lean": base / (middle / runs),
                "of_peak": (
                    way.work.flops() * way.scale / (middle / 1e3) / peak[way.precision]
                ),
                "peak_memory_gb": memory[way.name] / 1e9,
            }
        )
        row = rows[-1]
        print(
            f"{row['model']:9}{row['way']:26}{row['runs']:4} runs {middle:10.2f} ms a"
            f" round ({row['ms_least']:.2f} to {row['ms_most']:.2f}),"
            f" {row['ms_run']:8.3f} a run, {row['times_lean']:7.1f}x,"
            f" {row['of_peak']:6.1%} of peak, {row['peak_memory_gb']:.2f} GB",
            flush=True,
        )
    return rows


def off(work: Work, after: Tensor) -> float:
    judged = by_executor(work, Reference(work.task))().double()
    return float(
        (after.double() - judged).norm() / (judged - work.theta.double()).norm()
    )


def check(name: str, work: Work, way: Callable[[], Tensor]) -> dict[str, Any]:
    first, second = way().clone(), way().clone()
    found = {
        "model": work.name,
        "way": name,
        "precision": str(work.task.arithmetic)[6:],
        "samples": np.diff(work.packed.offsets).tolist(),
        "off": off(work, first),
        "repeats_to_the_bit": bool(torch.equal(first, second)),
    }
    print(found, flush=True)
    return found


# the cases


def resnet9(
    repeats: int, peak: dict[str, float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    single, many = make("resnet9", 1, bfloat16=True), make("resnet9", 10, bfloat16=True)
    streams, one = (
        choose(single.task, single.training, name) for name in ("streams", "triton")
    )
    ten = choose(many.task, many.training, "triton")
    ways = [
        Way("lean loop", make("resnet9", 1), lean_loop(make("resnet9", 1))),
        Way(
            "streams bfloat16",
            single,
            by_executor(single, streams),
            precision="bfloat16",
        ),
        Way("triton bfloat16", single, by_executor(single, one), precision="bfloat16"),
        Way(
            "triton bfloat16, together",
            many,
            by_executor(many, ten),
            precision="bfloat16",
        ),
    ]
    rows = measure(ways, repeats, peak)
    print("streams:", getattr(streams, "note", None) or "compiled and recorded")
    sizes = np.array([[5, 0, 20, 33, 1, 17, 40, 9, 55, 20]])
    fine, coarse = make("resnet9", 1, False, sizes), make("resnet9", 1, True, sizes)
    checks = [
        check(
            "triton",
            coarse,
            by_executor(coarse, choose(coarse.task, coarse.training, "triton")),
        ),
        check(
            "triton",
            fine,
            by_executor(fine, choose(fine.task, fine.training, "triton")),
        ),
        check("lean loop", fine, lean_loop(fine)),
        check("streams", single, ways[1].round),
        check("triton", single, ways[2].round),
    ]
    return rows, checks


def forty(
    name: str, executor: str, repeats: int, peak: dict[str, float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    work = make(name, 40)
    two, ours = work.part(2), choose(work.task, work.training, executor)
    ways = [
        Way("lean loop", two, lean_loop(two), scale=20.0),
        Way(executor, work, by_executor(work, ours)),
    ]
    rows = measure(ways, repeats, peak)
    print(f"{executor}:", getattr(ours, "note", None) or "nothing given up")
    return rows, [
        check(executor, two, by_executor(two, choose(two.task, two.training, executor)))
    ]


def evaluate(repeats: int) -> list[dict[str, Any]]:
    """10,000 test images: forty LeNets and ten ResNet-9, by the model itself and by
    executors that offer it.
    """
    rows = []
    for model, runs, bfloat16, names in (
        ("lenet", 40, False, ("batched", "triton")),
        ("resnet9", 10, True, ("streams", "triton")),
    ):
        work, rng, shape = (
            make(model, runs, bfloat16=bfloat16),
            np.random.default_rng(0),
            SHAPES[model],
        )
        images = torch.from_numpy(
            rng.integers(0, 256, (10_000, *shape), dtype=np.uint8)
        ).to(DEVICE)
        labels, hits = torch.from_numpy(rng.integers(0, CLASSES, 10_000)).to(DEVICE), []
        for name in names:
            executor = choose(work.task, work.training, name)
            if name == "triton":
                by_executor(
                    work, executor
                )()  # what it has made for training serves here too
            judge = Evaluator(work.task, images, labels, executor)
            judge(work.theta)
            times = [1e3 * seconds(partial(judge, work.theta)) for _ in range(repeats)]
            hits.append(judge(work.theta)[0] * len(labels))
            rows.append(
                {
                    "way": f"evaluate {model} with {name}",
                    "runs": runs,
                    "images": 10_000,
                    "ms": median(times),
                }
            )
            rows[-1] |= {
                "ms_least": min(times),
                "hits_apart": int((hits[-1] - hits[0]).abs().sum().round()),
            }
            print(rows[-1], flush=True)
    return rows


# does bfloat16 learn as well?


def accuracy(name: str, rounds: int, seeds: int) -> list[dict[str, Any]]:
    """10 clients of two classes each that admit 4 images a round and keep the newest
    20.
    """
    from headgate.learning.datasets import load_dataset

    data = load_dataset(name)
    rows = []
    for executor, coarse in (("streams", False), ("triton", True)):
        accuracies = learn(data, executor, coarse, rounds, seeds)
        rows.append(
            {
                "executor": executor,
                "bfloat16": coarse,
                "rounds": rounds,
                "accuracies": accuracies,
            }
        )
        print(rows[-1], flush=True)
    difference = np.mean(rows[1]["accuracies"]) - np.mean(rows[0]["accuracies"])
    noise = np.std([row["accuracies"] for row in rows], axis=1, ddof=1).max() / np.sqrt(
        seeds
    )
    rows.append({"difference": float(difference), "standard_error": float(noise)})
    print(rows[-1])
    return rows


def learn(
    data: Any, executor: str, coarse: bool, rounds: int, seeds: int
) -> list[float]:
    training, admitted, kept = TRAINING["resnet9"], 4, 20
    classes = len(data.classes)
    task = Task(
        build_model(ResNet9(), data.shape, classes),
        data.shape,
        classes,
        data.mean,
        data.std,
        device=DEVICE,
        bfloat16=coarse,
    )
    # several sizes for a few rounds each: float32 is not worth compiling
    ours = (
        choose(task, training, executor)
        if coarse
        else CudaStreams(task, compiled=False)
    )
    theta = torch.stack(
        [
            initial_parameters(ResNet9(), data.shape, classes, seed)
            for seed in range(seeds)
        ]
    ).to(DEVICE)
    images, labels = (
        torch.from_numpy(data.train_images).to(DEVICE),
        torch.from_numpy(data.train_labels).to(DEVICE),
    )
    owners = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        for m in range(CLIENTS):
            own = np.flatnonzero(
                np.isin(data.train_labels, (m % classes, (m + 1) % classes))
            )
            owners.append(rng.permutation(own)[: admitted * rounds])
    for t in range(1, rounds + 1):
        rows = np.concatenate(
            [own[max(0, admitted * t - kept) : admitted * t] for own in owners]
        )
        sizes = [min(kept, admitted * t)] * len(owners)
        chosen = torch.from_numpy(rows).to(DEVICE)
        packed = RaggedBatch(
            images[chosen], labels[chosen], np.concatenate([[0], np.cumsum(sizes)])
        )
        weights = torch.full((seeds, CLIENTS), 1 / CLIENTS, device=DEVICE)
        theta, _ = ours.advance(theta, packed, weights, training, range(seeds), t)
    judge = Evaluator(
        task,
        torch.from_numpy(data.test_images).to(DEVICE),
        torch.from_numpy(data.test_labels).to(DEVICE),
        ours,
    )
    return judge(theta)[0].tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--case", nargs="*", default=["resnet9", "lenet", "evaluate"])
    parser.add_argument(
        "--out",
        type=Path,
        help="by default results/gpu.json or results/gpu_accuracy.json",
    )
    parser.add_argument("--commit", help="where git is not there to say it")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--data", default="cifar10", help="what --accuracy learns")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py: no GPU here")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    import triton

    record: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": given.commit or commit(),
    }
    if given.accuracy:
        record["accuracy"] = accuracy(given.data, given.rounds, given.seeds)
    else:
        peak = record["peaks"] = peaks()
        print(record)
        rows, checks = record["times"], record["checks"] = [], []
        for case in given.case:
            if case == "evaluate":
                record["evaluation"] = evaluate(given.repeats)
                continue
            found = (
                forty(case, "triton", given.repeats, peak)
                if case == "lenet"
                else resnet9(given.repeats, peak)
            )
            rows += found[0]
            checks += found[1]
    out = given.out or Path(__file__).parent / "results" / (
        "gpu_accuracy.json" if given.accuracy else "gpu.json"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
