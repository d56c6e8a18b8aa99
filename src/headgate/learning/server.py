"""The server's part of a round: it draws the cohort, weighs the updates, makes the new
model and averages its models.

Models are arrays of any library that has the usual arithmetic, with one row for each
run.
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
"""state of a server update: named arrays, never changed in place"""


class ServerUpdate(ABC):
    """Base class of the rules by which the server makes its new model. The fields are
    the settings.
    """

    def start(self, model: Any) -> State:
        """Return the state before round 1; its arrays have the shape of the model."""
        return {}

    @abstractmethod
    def step(
        self,
        t: int,
        model: Any,
        mean: Any,
        state: State,
    ) -> tuple[Any, State]:
        """Return the model after round t and the new state; `mean` is the weighted mean
        of the clients' models.
        """


@dataclass(frozen=True)
class Average(ServerUpdate):
    """The mean of the clients' models is the new model (federated averaging, as in the
    paper).
    """

    def step(
        self,
        t: int,
        model: Any,
        mean: Any,
        state: State,
    ) -> tuple[Any, State]:
        return mean, state


def _below_one(name: str, value: float) -> None:
    require(0 <= value < 1, name, value, "0 or more and less than 1")


@dataclass(frozen=True)
class Momentum(ServerUpdate):
    """FedAvgM (Hsu, Qi and Brown 2019): the change of the mean is added to a velocity,
    and the model moves by the velocity.
    """

    momentum: float = 0.9
    lr: float = 1.0

    def __post_init__(self) -> None:
        positive("lr", self.lr, most=float("inf"))
        _below_one("momentum", self.momentum)

    def start(self, model: Any) -> State:
        return {"velocity": model * 0}

    def step(
        self,
        t: int,
        model: Any,
        mean: Any,
        state: State,
    ) -> tuple[Any, State]:
        velocity = self.momentum * state["velocity"] + (mean - model)
        return model + self.lr * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class Adam(ServerUpdate):
    """FedAdam (Reddi et al. 2021, Algorithm 2): each step is the change of the mean
    divided by its root mean square. As in the paper by Reddi et al., the first rounds
    have no bias correction."""

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    """changes below this size lead to smaller steps; a larger value brings the rule
    closer to momentum
    """

    def __post_init__(self) -> None:
        for name in ("lr", "tau"):
            positive(name, getattr(self, name), most=float("inf"))
        for name in ("beta1", "beta2"):
            _below_one(name, getattr(self, name))

    def start(self, model: Any) -> State:
        return {"first": model * 0, "second": model * 0 + self.tau**2}

    def step(
        self,
        t: int,
        model: Any,
        mean: Any,
        state: State,
    ) -> tuple[Any, State]:
        change = mean - model
        first = self.beta1 * state["first"] + (1 - self.beta1) * change
        second = self.second(state["second"], change * change)
        step = self.lr * first / (second**0.5 + self.tau)
        return model + step, {"first": first, "second": second}

    def second(self, before: Any, square: Any) -> Any:
        """Return the new mean of the squares of the changes."""
        return self.beta2 * before + (1 - self.beta2) * square


@dataclass(frozen=True)
class Yogi(Adam):
    """FedYogi (Reddi et al. 2021): FedAdam, but the mean of the squares changes only by
    (1 − β2) times the new square.
    """

    def second(self, before: Any, square: Any) -> Any:
        # square·sign(square − before), written as products that keep the type of the
        # arrays
        signed = square * (before < square) - square * (before > square)
        return before + (1 - self.beta2) * signed


SERVER = Slot(
    "server update",
    ServerUpdate,
    {"average": Average, "momentum": Momentum, "adam": Adam, "yogi": Yogi},
)


@paper("eq:global-aggregation")
def aggregation_weights(
    rule: str,
    alpha: Floats,
    n: Ints,
) -> Floats:
    """Return w_m for every run (R, M): proportional to α_m·n_m, to α_m, or equal; a
    client without a sample weighs 0.

    If only a cohort trains, `alpha` and `n` (R, cohort) are those of its clients, and
    the weights sum to one over the cohort.

    A run in which no client has a sample has weights of zero, and its model does not
    change.
    """
    require(
        rule in ("memory", "alpha", "uniform"),
        "training.aggregation",
        rule,
        "one of memory, alpha, uniform",
    )
    if rule == "memory":
        return memory_proportional_weight(alpha, n)
    if rule == "uniform":
        alpha = np.ones_like(alpha)
    return memory_proportional_weight(alpha, (n > 0).astype(np.float64))


def newest_share(t: int, eta: float) -> float:
    """Return the share of the model of round t in the averaged model: polynomial-decay
    averaging (Shamir and Zhang 2013).

    The average covers about the last t/(η + 1) rounds: few at the beginning, when
    models change much, and more later. With η = 0 it is the plain mean of all models so
    far.

    >>> [newest_share(t, eta=0.0) for t in (1, 2, 4)]
    [1.0, 0.5, 0.25]
    >>> [newest_share(t, eta=8.0) for t in (1, 28)]
    [1.0, 0.25]
    """
    return (eta + 1) / (t + eta)


def between(
    old: NDArray[Any],
    new: NDArray[Any],
    share: float,
) -> NDArray[Any]:
    """Return old + share·(new − old), rounded once like torch.lerp: for float32 the
    product and the sum are in float64.
    """
    part = old.dtype.type(share)
    base = old
    if part >= 0.5:
        base, part = new, part - 1
    return np.asarray(base + np.float64(part) * (new - old)).astype(old.dtype)


def draw_cohort(
    seed: int,
    t: int,
    clients: int,
    size: int,
) -> Ints:
    """Draw `size` distinct clients of `clients`, ascending: each set is equally likely,
    and seed and round determine it.

    Clients are drawn one after the other, and repeated draws are skipped, so a small
    cohort takes few draws for any number of clients. If the cohort is more than half of
    the clients, the clients that do not train are drawn instead.

    >>> draw_cohort(seed=7, t=1, clients=1_000_000, size=3).tolist()
    [52094, 510552, 773480]
    """
    out = size > clients - size
    wanted = clients - size if out else size
    drawn: Ints = np.empty(0, dtype=np.int64)
    chosen = drawn
    while chosen.size < wanted:
        more = drawn.size + np.arange(2 * (wanted - chosen.size))
        draws = uniform(seed, Purpose.COHORT, (t << 32) + more) * clients
        drawn = np.concatenate([drawn, draws.astype(np.int64)])
        distinct, first_time = np.unique(drawn, return_index=True)
        chosen = distinct[np.argsort(first_time)][:wanted]
    if out:
        return np.setdiff1d(np.arange(clients), chosen, assume_unique=True)
    return np.sort(chosen)
