"""pfl-research's own CIFAR-10 i.i.d. benchmark, in pfl and in headgate: time of a
central iteration.

    python benchmarks/pfl_peer.py [--device cpu] [--threads 1] [--cohort 50]
    [--iterations 5] [--out FILE] [--commit ID]

Its configuration: users of 50 images of 3x32x32, 50 users drawn for each iteration, one
local epoch in batches of 10 at rate 0.1, then the unweighted mean of their updates; two
convolutions (32 and 64 channels, 3x3), pooling, 128 hidden units. Left out on both
sides: dropout, so that results can be compared, and evaluation. Images are made up: a
pattern for each class, and noise. An iteration is all of it: drawing users, fetching
their data, local training, averaging.

Both take turns in one process. Before that, an iteration on the same users and batches
shows that they do the same work. pfl is a peer, not a dependency: `make bench-peers`
installs it. All of it that is needed here is plain Python.
"""

import argparse
import copy
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from machine import peak_memory_mib, ratios, rounded, say, target, way, write
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining, batch_order
from headgate.simulation.executors import RaggedBatch, choose
from headgate.simulation.executors.types import Task

USERS, EACH, SHAPE, CLASSES, MEAN, STD = (
    200,
    50,
    (3, 32, 32),
    10,
    (0.49, 0.48, 0.45),
    (0.25, 0.24, 0.26),
)
TRAINING = LocalTraining(lr=0.1, steps=1, batch_size=10)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 128),
        nn.ReLU(),
        nn.Linear(128, CLASSES),
    )


def made_up(device: torch.device) -> tuple[Tensor, Tensor]:
    """Images (bytes) and labels of all users, one user after the other."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 128, (CLASSES, *SHAPE), dtype=np.uint8)
    labels = rng.integers(0, CLASSES, USERS * EACH)
    images = patterns[labels] + rng.integers(
        0, 128, (len(labels), *SHAPE), dtype=np.uint8
    )
    return torch.from_numpy(images).to(device), torch.from_numpy(labels).to(device)


class Ours:
    """headgate's executor, which is given the users of an iteration."""

    def __init__(self, images: Tensor, labels: Tensor, cohort: int, name: str) -> None:
        self.images, self.labels, self.cohort = images, labels, cohort
        self.task = Task(net(), SHAPE, CLASSES, MEAN, STD, device=images.device)
        self.executor = choose(self.task, TRAINING, name)
        self.theta = (
            nn.utils.parameters_to_vector(self.task.model.parameters())
            .detach()[None]
            .to(images.device)
        )
        self.offsets = np.arange(cohort + 1) * EACH
        self.weights = torch.full((1, cohort), 1 / cohort, device=images.device)
        self.rng, self.t = np.random.default_rng(1), 0

    def iterate(self) -> None:
        self.take(self._rows(self.rng.integers(0, USERS, self.cohort)))

    def _rows(self, users: np.ndarray) -> np.ndarray:
        return users[:, None] * EACH + np.arange(EACH)

    def in_their_order(self, users: np.ndarray) -> np.ndarray:
        """The users' rows such that the batches headgate makes of them are those of
        pfl, which takes rows as they lie.
        """
        rows, own = self._rows(users), np.empty((self.cohort, EACH), dtype=np.int64)
        for client in range(self.cohort):
            own[client, batch_order(0, client, 1, 0, EACH)] = rows[client]
        return own

    def take(self, rows: np.ndarray) -> None:
        self.t += 1
        own = torch.from_numpy(rows.reshape(-1)).to(self.images.device)
        packed = RaggedBatch(self.images[own], self.labels[own], self.offsets)
        self.theta, _ = self.executor.advance(
            self.theta, packed, self.weights, TRAINING, [0], self.t
        )


class Theirs:
    """pfl: FederatedAveraging on its SimulatedBackend, as its benchmark puts them
    together.
    """

    def __init__(
        self, images: Tensor, labels: Tensor, cohort: int, users: Sequence[int]
    ) -> None:
        """`users` are those of the first iteration, all others are drawn."""
        without_accountants()
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.aggregate.weighting import WeightByUser
        from pfl.data import FederatedDataset
        from pfl.model.pytorch import PyTorchModel

        normalised = Task(
            net(), SHAPE, CLASSES, MEAN, STD, device=images.device
        ).normalised(images)
        data = {
            user: (normalised[user * EACH :][:EACH], labels[user * EACH :][:EACH])
            for user in range(USERS)
        }
        rng, given = np.random.default_rng(1), list(users)

        def draw() -> int:
            return given.pop(0) if given else int(rng.integers(USERS))

        federated = FederatedDataset.from_slices(data, draw)
        module: Any = net()
        module.loss, module.metrics = (
            MethodType(loss, module),
            MethodType(metrics, module),
        )
        self.backend = SimulatedBackend(
            training_data=federated, val_data=federated, postprocessors=[WeightByUser()]
        )
        optimizer = torch.optim.SGD(module.to(images.device).parameters(), 1.0)
        self.model = PyTorchModel(module, torch.optim.SGD, optimizer)
        self.cohort = cohort

    def vector(self) -> Tensor:
        return (
            nn.utils.parameters_to_vector(self.model.pytorch_model.parameters())
            .detach()
            .clone()
        )

    def run(self, iterations: int, between: Any) -> None:
        """Calls `between` after each iteration."""
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.callback.base import TrainingProcessCallback
        from pfl.hyperparam import NNTrainHyperParams

        class Between(TrainingProcessCallback):
            def after_central_iteration(
                self, aggregate_metrics: Any, model: Any, *, central_iteration: int
            ) -> Any:
                from pfl.metrics import Metrics

                between()
                return False, Metrics()

        FederatedAveraging().run(
            NNAlgorithmParams(
                iterations,
                evaluation_frequency=10**9,
                train_cohort_size=self.cohort,
                val_cohort_size=0,
            ),
            self.backend,
            self.model,
            NNTrainHyperParams(
                local_num_epochs=1,
                local_learning_rate=TRAINING.lr,
                local_batch_size=TRAINING.batch_size,
            ),
            callbacks=[Between()],
            send_metrics_to_platform=False,
        )


def loss(self: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(self(x), y)


def metrics(self: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    """pfl looks at its first iteration, which is not timed."""
    from pfl.metrics import Weighted

    with torch.no_grad():
        return {
            "loss": Weighted(float(cross_entropy(self(x), y, reduction="sum")), len(y))
        }


def without_accountants() -> None:
    """pfl imports accountants of differential privacy, which are not used here; absent
    ones get an empty stand-in.
    """

    class Empty(ModuleType):
        def __getattr__(self, name: str) -> type:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    if importlib.util.find_spec("multiprocess") is None:
        sys.modules["multiprocess"] = multiprocessing
    for name in ("dp_accounting", "prv_accountant"):
        if importlib.util.find_spec(name) is None:
            for part in (
                name,
                f"{name}.dp_event",
                f"{name}.pld",
                f"{name}.pld.privacy_loss_distribution",
                f"{name}.rdp",
            ):
                sys.modules[part] = Empty(part)


def compare(
    device: torch.device, cohort: int, iterations: int, name: str
) -> dict[str, Any]:
    images, labels = made_up(device)
    first = np.random.default_rng(2).integers(USERS, size=cohort)
    theirs = Theirs(images, labels, cohort, first.tolist())
    ours = Ours(images, labels, cohort, name)
    start, times, off = ours.theta[0].clone(), {"pfl": [], "headgate": []}, []

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    clock = [now()]

    def between() -> None:
        """After an iteration of pfl: note its time, then it is headgate's turn."""
        begun = now()
        if off:
            times["pfl"].append(begun - clock[0])
            ours.iterate()
            times["headgate"].append(now() - begun)
            say(
                f"cohort {cohort}: pfl {times['pfl'][-1]:.3f} s, headgate"
                f" {times['headgate'][-1]:.3f} s"
            )
        else:  # the first one warms up, and both take the same users
            same = copy.copy(ours)
            same.take(ours.in_their_order(first))
            update = theirs.vector() - start
            off.append(float((same.theta[0] - theirs.vector()).norm() / update.norm()))
            say(f"after the same iteration: {off[0]:.1e} apart, relative to the update")
        clock[0] = now()

    theirs.run(iterations + 1, between)
    ways = [
        way("pfl", times["pfl"]),
        way("headgate", times["headgate"], off=rounded(off[0])),
    ]
    for each in ways:
        each["ratio_to"] = ratios(ways, each, ["pfl"])
    settings = {
        "device": str(device),
        "threads": torch.get_num_threads(),
        "cohort": cohort,
        "executor": ours.executor.name,
    }
    if device.type == "cpu":
        settings["peak_memory_mib_of_both"] = rounded(peak_memory_mib())
    title = "pfl-research's CIFAR-10 i.i.d. benchmark, a central iteration"
    return {
        "name": f"pfl/{device.type}/{torch.get_num_threads()}",
        "title": title,
        "settings": settings,
        "ways": ways,
    }


def targets(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for case in cases:
        told = case["settings"]
        where = (
            "the GPU"
            if told["device"] != "cpu"
            else f"the CPU with {told['threads']} thread(s)"
        )
        text = f"pfl-research's CIFAR-10 benchmark on {where}: times as fast as pfl"
        rows.append(target(text, 1, case["ways"][1]["ratio_to"]["pfl"]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--executor", default="auto")
    parser.add_argument(
        "--out",
        type=Path,
        help="where to leave the results as JSON; without it they are printed",
    )
    parser.add_argument("--commit", help="where git is not there to say it")
    given = parser.parse_args()
    os.environ["PFL_PYTORCH_DEVICE"] = given.device
    torch.set_num_threads(given.threads)
    case = compare(
        torch.device(given.device), given.cohort, given.iterations, given.executor
    )
    if not given.out:
        print(json.dumps(case))
        return
    settings = {"cohort": given.cohort, "iterations": given.iterations}
    device = {} if given.device == "cpu" else {"device": torch.cuda.get_device_name()}
    write(
        given.out, "pfl_peer", settings, [case], targets([case]), given.commit, **device
    )


if __name__ == "__main__":
    main()
