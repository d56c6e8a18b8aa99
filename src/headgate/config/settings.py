"""The sections of a recipe, one model each."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict

from headgate.control import costs as cost_processes
from headgate.control.costs import CostProcess
from headgate.control.types import System
from headgate.errors import SettingError
from headgate.learning.partition import ByColumn, Dirichlet, Iid, Pairs, Partition
from headgate.theory.bound import BoundConstants


class Settings(BaseModel):
    """A section of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _whole(value: object) -> object:
    """JSON and TOML writers turn 10 into 10.0; true and false are not numbers."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]


class SystemSettings(Settings):
    buffers: list[Whole]
    clients: Whole | None = None
    budget: float
    weights: list[float] | None = None

    def build(self, horizon: int | None) -> System:
        buffers, weights = np.array(self.buffers, dtype=np.int64), self.weights
        if self.clients is not None:
            if self.clients < 1:
                raise SettingError(f"system.clients = {self.clients}: at least one client is needed")
            buffers = np.resize(buffers, self.clients) if buffers.size else buffers
        return System(buffers, self.budget, horizon, None if weights is None else np.array(weights))  # type: ignore[arg-type]


class UniformCost(Settings):
    kind: Literal["uniform"]
    low: float
    high: float

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Uniform(self.low, self.high)


class IntegerCost(Settings):
    kind: Literal["integer"]
    low: Whole
    high: Whole

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.UniformInteger(self.low, self.high)


class ConstantCost(Settings):
    kind: Literal["constant"]
    value: float

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Constant(self.value)


class MarkovCost(Settings):
    kind: Literal["markov"]
    levels: list[float]
    transition: list[list[float]]

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Markov(tuple(self.levels), tuple(tuple(row) for row in self.transition))


class SeasonalCost(Settings):
    kind: Literal["seasonal"]
    average: float
    amplitude: float
    period: float
    noise: float = 0.0

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Seasonal(self.average, self.amplitude, self.period, self.noise)


class TraceCost(Settings):
    kind: Literal["trace"]
    file: str
    column: str = "cost"
    at_end: str = "stop"

    def build(self, folder: Path) -> CostProcess:
        """A relative path is relative to the recipe that names it."""
        return cost_processes.read_trace(folder / self.file, self.column, self.at_end)


COSTS: dict[str, type[Settings]] = {
    "uniform": UniformCost,
    "integer": IntegerCost,
    "constant": ConstantCost,
    "markov": MarkovCost,
    "seasonal": SeasonalCost,
    "trace": TraceCost,
}


class RunSettings(Settings):
    rounds: Whole
    seeds: Whole = 10
    first_seed: Whole = 0
    policies: list[str] = ["oracle", "acdpp", "constant"]
    horizon: Whole | Literal["open"] | None = None
    """T as the policies know it: the rounds of the run, another number, or "open" for none"""


class DataSettings(Settings):
    name: str = "digits"
    """digits, mnist, cifar10, imagenette, or module:function"""
    partition: Literal["pairs", "iid", "dirichlet", "column"] = "pairs"
    per_class: Whole | None = None
    """pairs: most images of one class at one client"""
    per_client: Whole | None = None
    """iid: most images at one client"""
    alpha: float = 0.5
    """dirichlet"""
    column: str | None = None
    """column: the one that names the owner"""
    stream: Literal["reshuffle", "replacement", "stop"] = "reshuffle"

    def rule(self) -> Partition:
        if self.partition == "column" and self.column is None:
            raise SettingError('data.column: is missing; data.partition = "column" needs it')
        match self.partition:
            case "pairs":
                return Pairs(self.per_class)
            case "iid":
                return Iid(self.per_client)
            case "dirichlet":
                return Dirichlet(self.alpha)
            case _:
                return ByColumn(self.column or "")


class ModelSettings(Settings):
    name: str = "logistic"
    """logistic, lenet, resnet9, or module:Class"""


class TrainingSettings(Settings):
    lr: float = 0.1
    steps: Whole = 10
    """local gradient steps E; with batch_size: passes over the buffer"""
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: Whole | None = None
    aggregation: Literal["memory", "alpha", "uniform"] = "memory"
    evaluate_every: Whole = 1
    """rounds from one evaluation to the next; the last round is always evaluated"""
    target: float | None = None
    """test accuracy whose first round is reported"""
    dtype: Literal["float32", "float64"] = "float32"


class BoundSettings(Settings):
    """What is left out comes from the section [bound], and there from `BoundConstants`."""

    D: float | None = None
    sigma: float | None = None
    eta: float | None = None
    loss: float | None = None
    pdim: float | None = None
    C2: float | None = None

    def build(self, base: BoundConstants) -> BoundConstants:
        return BoundConstants(**{name: getattr(base, name) if value is None else value for name, value in self})
