"""The sections of a recipe that are not parts: [system], [run] and [training]."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headgate.control.checks import zero_or_more
from headgate.control.types import System
from headgate.errors import SettingError, require
from headgate.escaping import shown
from headgate.learning.local import LocalTraining
from headgate.limits import CLIENTS, ROUNDS, RUNS, SEEDS


@dataclass(frozen=True)
class SystemTable:
    """The section [system] as a recipe states it; the buffers are repeated until every
    client has one.
    """

    buffers: tuple[int, ...]
    budget: float
    clients: int | None = None
    weights: tuple[float, ...] | None = None
    currency: str = ""
    """unit of money, as in "$"; it is only printed beside amounts"""
    quantum: float | None = None
    """smallest amount on an invoice, as in 0.01: what an order costs is rounded to it;
    left out: nothing is rounded
    """
    names: tuple[str, ...] | None = None
    """name of each client; left out: clients have numbers"""

    def __post_init__(self) -> None:
        require(
            self.clients is None or self.clients > 0,
            "clients",
            self.clients,
            "at least one",
        )
        if self.clients is not None and len(self.buffers) > self.clients:
            raise SettingError(
                f"buffers = {shown(list(self.buffers), 100)}: are"
                f" {len(self.buffers)}, for clients = {self.clients}; state at most one"
                " for each client"
            )
        if (self.clients or len(self.buffers)) > CLIENTS:
            raise SettingError(
                f"clients = {self.clients or len(self.buffers)}: at most {CLIENTS:,}"
            )

    def system(self, horizon: int | None) -> System:
        buffers = np.array(self.buffers, dtype=np.int64)
        if self.clients is not None:
            buffers = np.resize(buffers, self.clients) if buffers.size else buffers
        weight = None if self.weights is None else np.array(self.weights)
        unit, quantum = self.currency, self.quantum
        names = self.names
        return System(buffers, self.budget, horizon, weight, unit, quantum, names=names)


def system_table(system: System) -> dict[str, Any]:
    """Return the section [system] of a system: the shortest period of its buffers, and
    weights only if they differ.
    """
    clients, buffer = system.clients, system.buffer
    tried = (
        p
        for p in range(1, min(clients, 64) + 1)
        if np.array_equal(np.resize(buffer[:p], clients), buffer)
    )
    period = next(tried, clients)
    table: dict[str, Any] = {
        "buffers": buffer[:period].tolist(),
        "clients": clients,
        "budget": float(system.budget),
    }
    if np.any(system.weight != system.weight[0]):
        table["weights"] = system.weight.tolist()
    if system.currency:
        table["currency"] = system.currency
    if system.quantum is not None:
        table["quantum"] = system.quantum
    if system.names is not None:
        table["names"] = list(system.names)
    return table


@dataclass(frozen=True)
class RunTable:
    """The section [run] as a recipe states it."""

    rounds: int
    seeds: int = 10
    first_seed: int = 0
    policies: tuple[str, ...] = ("headgate", "oracle", "acdpp", "constant")
    horizon: int | Literal["open"] | None = None
    """horizon T that the policies know; left out: `rounds`; "open": no horizon"""
    folder: str | None = None
    """folder of the modules that the recipe names"""

    def __post_init__(self) -> None:
        require(self.rounds >= 1, "rounds", self.rounds, "at least 1")
        if self.rounds > ROUNDS or (
            isinstance(self.horizon, int) and self.horizon > ROUNDS
        ):
            name = "rounds" if self.rounds > ROUNDS else "horizon"
            raise SettingError(f"{name} = {getattr(self, name)}: at most {ROUNDS:,}")
        if self.seeds > SEEDS:
            raise SettingError(f"seeds = {self.seeds}: at most {SEEDS:,}")
        if self.seeds < 1 or self.first_seed < 0:
            raise SettingError(
                f"seeds = {self.seeds}, run.first_seed = {self.first_seed}: needs at"
                " least one seed, from 0 on"
            )
        if not self.policies:
            raise SettingError("policies = []: at least one policy is needed")
        if len(self.policies) * self.seeds > RUNS:
            many = f"{len(self.policies):,} policies and {self.seeds:,} seeds"
            raise SettingError(f"policies: {many} are more than {RUNS:,} runs")

    @property
    def known_horizon(self) -> int | None:
        """The horizon that the policies know; None: there is none."""
        if self.horizon == "open":
            return None
        return self.rounds if self.horizon is None else self.horizon

    @property
    def all_seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def runs(self) -> list[tuple[str, int]]:
        """The policy and the seed of each run."""
        return [
            (policy, seed)
            for policy in dict.fromkeys(self.policies)
            for seed in self.all_seeds
        ]


@dataclass(frozen=True)
class Training:
    """The section [training]: local training, aggregation and averaging by the server,
    and evaluation.
    """

    lr: float = 0.1
    steps: int = 10
    """local gradient steps E in a round; with `batch_size`, passes over the buffer"""
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: int | None = None
    cohort: int | None = None
    """clients drawn to train in each round; left out: all of them"""
    aggregation: Literal["memory", "alpha", "uniform"] = "memory"
    average: float | None = None
    """evaluate the mean of the server's models over about the latest 1/(average + 1) of
    the rounds; left out: the latest one
    """
    shift: int = 0
    """the most pixels by which each image is shifted at random in every round"""
    evaluate_every: int = 1
    """rounds from one evaluation to the next; the last round is always evaluated"""
    losses: bool | None = None
    """record the losses of clients' samples before training, for every policy; left
    out: only for policies that use them
    """
    target: float | None = None
    """test accuracy; the first round that reaches it is reported"""
    dtype: Literal["auto", "float32", "float64", "bfloat16"] = "auto"
    """bfloat16: products in bfloat16, parameters in float32, only on CUDA. auto:
    bfloat16 if the executor can, else float32
    """

    def __post_init__(self) -> None:
        LocalTraining(
            self.lr, self.steps, self.momentum, self.weight_decay, self.batch_size
        )  # refuses wrong values
        zero_or_more("average", self.average, optional=True)
        require(
            self.evaluate_every >= 1,
            "evaluate_every",
            self.evaluate_every,
            "at least 1",
        )
        wanted = "an accuracy above 0 and at most 1, as in 0.9 for 90 %"
        require(
            self.target is None or 0 < self.target <= 1, "target", self.target, wanted
        )
