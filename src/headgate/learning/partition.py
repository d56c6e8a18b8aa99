"""Who owns which training images. Every draw is addressed by seed and client, so all policies meet the same owners."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError

RETRIES = 100


class Partition(Protocol):
    """A rule that gives each client its rows of the training set."""

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        """The rows of each client, none of them empty."""


def shuffled(rows: Ints, seed: int, client: int) -> Ints:
    """The rows in an order of their own for every seed and client."""
    return rows[np.argsort(uniform(seed, Purpose.PARTITION, rows, client), kind="stable")]


@dataclass(frozen=True)
class Pairs:
    """Client m holds the classes m and m + 1 (wrapping round), at most `per_class` images of each: the paper's two classes."""

    per_class: int | None = None

    def __post_init__(self) -> None:
        if self.per_class is not None and self.per_class < 1:
            raise SettingError(f"data.per_class = {self.per_class}: must be at least 1")

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        of_class = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
        owned = []
        for m in range(clients):
            pair = dict.fromkeys((m % len(of_class), (m + 1) % len(of_class)))
            owned.append(np.concatenate([shuffled(of_class[c], seed, m)[: self.per_class] for c in pair]))
        return _none_empty(owned, "pairs")


@dataclass(frozen=True)
class Iid:
    """All images dealt out evenly at random, at most `per_client` to each."""

    per_client: int | None = None

    def __post_init__(self) -> None:
        if self.per_client is not None and self.per_client < 1:
            raise SettingError(f"data.per_client = {self.per_client}: must be at least 1")

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        order = shuffled(np.arange(labels.size), seed, 0)
        return _none_empty([part[: self.per_client] for part in np.array_split(order, clients)], "iid")


@dataclass(frozen=True)
class Dirichlet:
    """Each class is divided among the clients by a Dirichlet(alpha) draw; drawn again while somebody has nothing."""

    alpha: float

    def __post_init__(self) -> None:
        positive("data.alpha", self.alpha)

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        for attempt in range(RETRIES):
            generator = np.random.Generator(np.random.Philox(key=[seed, 2**32 * Purpose.PARTITION + attempt]))
            owned: list[list[Ints]] = [[] for _ in range(clients)]
            for c in range(int(labels.max()) + 1):
                rows = shuffled(np.flatnonzero(labels == c), seed, 0)
                cuts = np.cumsum(generator.dirichlet(np.full(clients, self.alpha)))[:-1] * rows.size
                for m, part in enumerate(np.split(rows, cuts.astype(np.int64))):
                    owned[m].append(part)
            whole = [np.concatenate(parts) for parts in owned]
            if all(part.size for part in whole):
                return whole
        raise SettingError(
            f"data.alpha = {self.alpha}: in {RETRIES} draws some of the {clients} clients always stayed without data; "
            "raise alpha or use fewer clients"
        )


@dataclass(frozen=True)
class ByColumn:
    """One client per value of a column of the data set; with more values than clients they are dealt out in turn."""

    column: str

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        if self.column not in columns:
            known = ", ".join(columns) or "none"
            raise SettingError(f"data.column = {self.column}: the data set has no such column; it has {known}")
        values, owner = np.unique(columns[self.column], return_inverse=True)
        if len(values) < clients:
            raise SettingError(f"data.column = {self.column}: has {len(values)} values for {clients} clients")
        return [np.flatnonzero(owner % clients == m) for m in range(clients)]


def _none_empty(owned: list[Ints], name: str) -> list[Ints]:
    for m, rows in enumerate(owned):
        if rows.size == 0:
            raise SettingError(f"data.partition = {name}: client {m} would have no data")
    return owned
