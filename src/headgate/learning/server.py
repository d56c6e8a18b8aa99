"""What the server makes of the clients' mean: a part with a state of its own, in the simulator and on Flower alike.

Models come as arrays of any library with the usual arithmetic, one row for each run.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.checks import positive
from headgate.errors import SettingError
from headgate.registry import Slot

State = Mapping[str, Any]
"""named arrays, never changed in place"""


class ServerUpdate(ABC):
    """A rule: a frozen value whose fields are its settings."""

    def start(self, model: Any) -> State:
        """The state before round 1; its arrays are shaped like the model."""
        return {}

    @abstractmethod
    def step(self, t: int, model: Any, mean: Any, state: State) -> tuple[Any, State]:
        """The model after round t, where `mean` is what averaging the clients' models gives; and the state."""


@dataclass(frozen=True)
class Average(ServerUpdate):
    """The clients' mean is the new model: federated averaging, as in the paper."""

    def step(self, t: int, model: Any, mean: Any, state: State) -> tuple[Any, State]:
        return mean, state


@dataclass(frozen=True)
class Momentum(ServerUpdate):
    """FedAvgM (Hsu, Qi and Brown 2019): the mean's change is added to a velocity, which is followed."""

    momentum: float = 0.9
    lr: float = 1.0

    def __post_init__(self) -> None:
        positive("lr", self.lr, most=float("inf"))
        if not 0 <= self.momentum < 1:
            raise SettingError(f"momentum = {self.momentum}: must be 0 or more and less than 1")

    def start(self, model: Any) -> State:
        return {"velocity": model * 0}

    def step(self, t: int, model: Any, mean: Any, state: State) -> tuple[Any, State]:
        velocity = self.momentum * state["velocity"] + (mean - model)
        return model + self.lr * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class Adam(ServerUpdate):
    """FedAdam (Reddi et al. 2021, Algorithm 2): steps by the mean's change over its own root mean square, without correction of
    the first rounds, as there."""

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    """below it a change counts as small; larger: nearer to momentum"""

    def __post_init__(self) -> None:
        for name in ("lr", "tau"):
            positive(name, getattr(self, name), most=float("inf"))
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(f"{name} = {getattr(self, name)}: must be 0 or more and less than 1")

    def start(self, model: Any) -> State:
        return {"first": model * 0, "second": model * 0 + self.tau**2}

    def step(self, t: int, model: Any, mean: Any, state: State) -> tuple[Any, State]:
        change = mean - model
        first = self.beta1 * state["first"] + (1 - self.beta1) * change
        second = self.second(state["second"], change * change)
        return model + self.lr * first / (second**0.5 + self.tau), {"first": first, "second": second}

    def second(self, before: Any, square: Any) -> Any:
        """What is remembered of the squares of the changes."""
        return self.beta2 * before + (1 - self.beta2) * square


@dataclass(frozen=True)
class Yogi(Adam):
    """FedYogi (Reddi et al. 2021): the same, but what is remembered of squares falls no faster than they are small."""

    def second(self, before: Any, square: Any) -> Any:
        # before − (1 − β2)·square·sign(before − square), by products that keep the arrays' type
        return before + (1 - self.beta2) * (square * (before < square) - square * (before > square))


SERVER = Slot("server update", ServerUpdate, {"average": Average, "momentum": Momentum, "adam": Adam, "yogi": Yogi})
