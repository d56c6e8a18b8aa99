"""The sections of a recipe, one model each."""

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict

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
    validation: float = 0.0
    """share of the training images of each class that no client gets and on which models are judged instead of the test set"""

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
    cohort: Whole | None = None
    """clients drawn to train in each round; left out: all of them"""
    aggregation: Literal["memory", "alpha", "uniform"] = "memory"
    average: float | None = None
    """judge the mean of the server's models over about the latest 1/(average + 1) of the rounds; left out: the latest model"""
    shift: Whole = 0
    """pixels by which each image may be moved at random in every round"""
    evaluate_every: Whole = 1
    """rounds from one evaluation to the next; the last round is always evaluated"""
    target: float | None = None
    """test accuracy whose first round is reported"""
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    """bfloat16: products in it, parameters in float32; on CUDA only"""


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
