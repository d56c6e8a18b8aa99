"""All runs of an experiment (policies × seeds) in one batch, a round at a time.

Control goes first: no policy looks at the model. The windows it orders become rows of the training set, the executor
does every client's local steps, and the server averages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headgate.config import Experiment
from headgate.control.controller import Controller
from headgate.control.types import Ints, Ledger, Orders, Report
from headgate.errors import SettingError
from headgate.learning.aggregate import aggregation_weights
from headgate.learning.datasets import Dataset
from headgate.learning.local import LocalTraining
from headgate.learning.models import build_model, initial_parameters
from headgate.learning.streams import Stream, UseCounts
from headgate.simulation.evaluate import Evaluator
from headgate.simulation.executors import pick
from headgate.simulation.executors.types import Packed, Task
from headgate.theory.bound import learning_error
from headgate.theory.reuse import effective_sample_size

MOST_CLIENTS = 10_000
"""every client of every run is looked at by itself when samples are packed"""


@dataclass(frozen=True)
class Round:
    """What a round did, as rows for the record."""

    t: int
    metrics: list[dict[str, Any]]
    occupancy: list[dict[str, Any]]


class Simulation:
    """The state of all runs after round t; `step` does the next one."""

    def __init__(self, experiment: Experiment, dataset: Dataset, device: torch.device, executor: str = "auto") -> None:
        self.experiment, self.device = experiment, device
        given, training, system = experiment, experiment.training, experiment.system
        self.names, self.seeds = list(given.policies), given.seeds
        self.run_seeds = [int(seed) for _ in self.names for seed in self.seeds]
        if system.clients > MOST_CLIENTS:
            raise SettingError(
                f"system.clients = {system.clients}: at most {MOST_CLIENTS} can learn in one simulation; "
                "headgate rehearse takes any number"
            )
        if training.evaluate_every < 1:
            raise SettingError(f"training.evaluate_every = {training.evaluate_every}: must be at least 1")
        self.training = LocalTraining(
            training.lr, training.steps, training.momentum, training.weight_decay, training.batch_size
        )
        classes = len(dataset.classes)
        dtype = {"float32": torch.float32, "float64": torch.float64}[training.dtype]
        task = Task(
            model=build_model(given.model.name, dataset.shape, classes),
            shape=dataset.shape,
            classes=classes,
            mean=dataset.mean,
            std=dataset.std,
            dtype=dtype,
            device=device,
        )
        self.executor = pick(task, self.training, executor)
        self.images = torch.from_numpy(np.ascontiguousarray(dataset.train_images)).to(device)
        self.labels = torch.from_numpy(dataset.train_labels).to(device)
        self.evaluate = Evaluator(
            task, torch.from_numpy(dataset.test_images).to(device), torch.from_numpy(dataset.test_labels).to(device)
        )
        rule = given.data.rule()
        self.streams = [
            Stream(rule.split(dataset.train_labels, system.clients, int(seed), dataset.columns), int(seed), given.data.stream)
            for seed in self.seeds
        ]
        self.controllers = {name: Controller(system, given.policies[name], len(self.seeds)) for name in self.names}
        self.t = 0
        self.ledgers: dict[str, Ledger] = {name: each.open() for name, each in self.controllers.items()}
        start = [initial_parameters(given.model.name, dataset.shape, classes, int(seed)) for seed in self.seeds]
        self.theta = torch.stack(start).repeat(len(self.names), 1).to(device, dtype)
        self.uses = UseCounts(len(self.run_seeds), max(stream.rows.size for stream in self.streams))
        self.diverged = np.zeros(len(self.run_seeds), dtype=np.int64)
        """the round in which a run's model stopped being finite; 0: it has not"""
        self.accuracy = np.full(len(self.run_seeds), np.nan)
        """as last evaluated"""
        self.chance = 1.0 / classes
        self.prices = np.ascontiguousarray(given.costs.path(self.seeds, 1, given.rounds + 1).T)
        """of every round and seed, (T, S)"""

    # one round

    def step(self) -> Round:
        """Round t + 1: decide, admit, train, average, evaluate."""
        t = self.t + 1
        price = self.prices[t - 1]
        before, orders = self.ledgers, {}
        after = {}
        for name, controller in self.controllers.items():
            orders[name] = controller.decide(before[name], price)
            after[name] = controller.post(before[name], orders[name], self._report(before[name], orders[name]))
        first = np.concatenate([after[name].dropped for name in self.names])
        last = np.concatenate([after[name].admitted for name in self.names])
        rows, offsets = self._pack(first, last)
        picked = torch.from_numpy(rows).to(self.device)
        packed = Packed(self.images[picked], self.labels[picked], offsets)
        n = last - first
        weights = aggregation_weights(self.experiment.training.aggregation, self.experiment.system.weight, n)
        weights[self.diverged > 0] = 0.0
        theta, train_loss = self.executor.advance(
            self.theta, packed, torch.from_numpy(weights).to(self.theta), self.training, self.run_seeds, t
        )
        theta = self._keep_finite(theta, t)
        self.t, self.ledgers, self.theta = t, after, theta
        return Round(t, self._metrics(price, orders, before, after, n, train_loss), self._occupancy(n))

    def _report(self, ledger: Ledger, orders: Orders) -> Report | None:
        """Where streams end, clients admit what is left of them."""
        if self.experiment.data.stream != "stop":
            return None
        ends = np.stack([stream.lengths for stream in self.streams])
        return Report(np.minimum(orders.admitted, np.maximum(ends - ledger.admitted, 0)))

    def _pack(self, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """(rows of the training set, run-major and then client; where each client's begin). Counts every use."""
        parts = []
        for r, (lows, highs) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            stream = self.streams[r % len(self.seeds)]
            samples = [stream.samples(m, lo, hi) for m, (lo, hi) in enumerate(zip(lows, highs, strict=True)) if hi > lo]
            if samples:
                own = np.concatenate(samples)
                self.uses.use(r, own)
                parts.append(stream.rows[own])
        offsets = np.concatenate([[0], np.cumsum((last - first).ravel())])
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64), offsets

    def _keep_finite(self, theta: Tensor, t: int) -> Tensor:
        """A model that is no longer finite keeps its last finite state, and its run is marked."""
        broken = ~torch.isfinite(theta).all(dim=1)
        self.diverged = np.where((self.diverged == 0) & broken.cpu().numpy(), t, self.diverged)
        return torch.where(broken[:, None], self.theta, theta)

    @property
    def guessing(self) -> NDArray[np.bool_]:
        """Runs whose model is finite but, when last evaluated, no better than guessing: learning broke down without a trace."""
        return np.asarray((self.diverged == 0) & (self.accuracy <= 1.2 * self.chance))

    # the record

    def _metrics(
        self,
        price: np.ndarray,
        orders: Mapping[str, Orders],
        before: Mapping[str, Ledger],
        after: Mapping[str, Ledger],
        n: Ints,
        train_loss: Tensor,
    ) -> list[dict[str, Any]]:
        runs = len(self.run_seeds)
        every = self.experiment.training.evaluate_every
        accuracy, loss = np.full(runs, np.nan), np.full(runs, np.nan)
        if self.t % every == 0 or self.t == self.experiment.rounds:
            accuracy, loss = (values.cpu().numpy() for values in self.evaluate(self.theta))
            self.accuracy = accuracy
        train = train_loss.double().cpu().numpy()
        for values in (accuracy, loss, train):
            values[self.diverged > 0] = np.nan
        N, n_eff = self.uses.distinct, effective_sample_size(self.uses.total, self.uses.squares)
        bound = learning_error(n.sum(axis=-1), N, np.where(N > 0, n_eff / np.maximum(N, 1), 1.0), self.experiment.bound)
        rows = []
        for p, name in enumerate(self.names):
            spend = after[name].spent - before[name].spent
            admitted = (after[name].admitted - before[name].admitted).sum(axis=-1)
            for s, seed in enumerate(self.seeds):
                r = p * len(self.seeds) + s
                rows.append(
                    {
                        "policy": name,
                        "seed": int(seed),
                        "t": self.t,
                        "test_accuracy": float(accuracy[r]),
                        "test_loss": float(loss[r]),
                        "train_loss": float(train[r]),
                        "n": int(n[r].sum()),
                        "N": int(N[r]),
                        "n_eff": float(n_eff[r]),
                        "admitted": int(admitted[s]),
                        "cost": float(price[s]),
                        "spend": float(spend[s]),
                        "debt": float(before[name].debt[s]),
                        "bound": float(bound[r]),
                    }
                )
        return rows

    def _occupancy(self, n: Ints) -> list[dict[str, Any]]:
        return [
            {"policy": self.names[r // len(self.seeds)], "seed": seed, "t": self.t, "n": n[r].tolist()}
            for r, seed in enumerate(self.run_seeds)
        ]

    # going on later

    def tensors(self) -> dict[str, Tensor]:
        """With the ledgers, all that `restore` needs."""
        return {
            "theta": self.theta.cpu().contiguous(),
            "counts": torch.from_numpy(self.uses.counts),
            "diverged": torch.from_numpy(self.diverged),
        }

    def restore(self, t: int, tensors: Mapping[str, Tensor], ledgers: Mapping[str, Ledger]) -> None:
        """Stand where a run stood after round t."""
        self.t, self.ledgers = t, dict(ledgers)
        self.theta = tensors["theta"].to(self.theta)
        self.uses = UseCounts.restored(tensors["counts"].numpy())
        self.diverged = tensors["diverged"].numpy().copy()
