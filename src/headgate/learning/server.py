"""What the server does in a round: who trains, how much each update weighs, what it makes of the mean, and its own average.

Models come as arrays of any library with the usual arithmetic, one row for each run.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import require
from headgate.registry import Slot
from headgate.theory.bound import memory_proportional_weight
from headgate.theory.labels import paper

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
        require(0 <= self.momentum < 1, "momentum", self.momentum, "0 or more and less than 1")

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
            require(0 <= getattr(self, name) < 1, name, getattr(self, name), "0 or more and less than 1")

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


@paper("eq:global-aggregation")
def aggregation_weights(rule: str, alpha: Floats, n: Ints) -> Floats:
    """w_m for every run (R, M): by α_m·n_m, by α_m alone, or equal; clients without a sample never count.

    Where only a cohort trains, `alpha` and `n` (R, cohort) are those of its clients, and the weights sum to one over it.

    A run in which nobody has a sample gets weights of zero, so its model stays as it is.
    """
    require(rule in ("memory", "alpha", "uniform"), "training.aggregation", rule, "one of memory, alpha, uniform")
    present = (n > 0).astype(np.float64)
    if rule == "memory":
        return memory_proportional_weight(alpha, n)
    return memory_proportional_weight(alpha if rule == "alpha" else np.ones_like(alpha), present)


def newest_share(t: int, eta: float) -> float:
    """How much the model of round t counts in the mean after it: polynomial-decay averaging (Shamir and Zhang 2013).

    The mean reaches back about t/(η + 1) rounds: a short way while much is learnt, a long one when little is. η = 0 is
    the plain mean of all models so far.

    >>> [newest_share(t, 0.0) for t in (1, 2, 4)], newest_share(1, 8.0), newest_share(28, 8.0)
    ([1.0, 0.5, 0.25], 1.0, 0.25)
    """
    return (eta + 1) / (t + eta)


def between(old: NDArray[Any], new: NDArray[Any], share: float) -> NDArray[Any]:
    """old + share·(new − old). As torch.lerp, which multiplies and adds in one: so does float64, for float32."""
    part = old.dtype.type(share)
    base, part = (old, part) if part < 0.5 else (new, part - 1)
    return np.asarray(base + np.float64(part) * (new - old)).astype(old.dtype)


def draw_cohort(seed: int, t: int, clients: int, size: int) -> Ints:
    """`size` different ones of `clients` clients, ascending: the same for a seed and a round, each set equally likely.

    Clients are drawn one after the other and one who comes again is passed over, so that a small cohort takes few draws
    however many clients there are. Of a cohort larger than half of them, those who stay out are drawn.

    >>> draw_cohort(seed=7, t=1, clients=1_000_000, size=3).tolist()
    [52094, 510552, 773480]
    """
    out = size > clients - size
    wanted = clients - size if out else size
    drawn: Ints = np.empty(0, dtype=np.int64)
    chosen = drawn
    while chosen.size < wanted:
        index = (t << 32) + np.arange(drawn.size, drawn.size + 2 * (wanted - chosen.size))
        drawn = np.concatenate([drawn, (uniform(seed, Purpose.COHORT, index) * clients).astype(np.int64)])
        distinct, first_time = np.unique(drawn, return_index=True)
        chosen = distinct[np.argsort(first_time)][:wanted]
    if out:
        return np.setdiff1d(np.arange(clients), chosen, assume_unique=True)
    return np.sort(chosen)
