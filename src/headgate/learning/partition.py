"""Who owns which training images. Every draw is addressed by seed and client, so all policies meet the same owners,
and a client's images can be worked out when they are wanted: a million owners need not be written down.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.randomness import Purpose, permutations, uniform
from headgate.control.types import Ints
from headgate.errors import SettingError, require
from headgate.registry import Slot

RETRIES = 100


class Owners(Protocol):
    """Whose image is which row of the training set; a client's own images are numbered from 0."""

    @property
    def lengths(self) -> Ints:
        """How many images each client owns, (M,), none of them 0."""

    def rows(self, clients: Ints, own: Ints) -> Ints:
        """The row of image own[i] of client clients[i], for every i."""


class OwnerTable:
    """Owners whose images are all written down."""

    def __init__(self, owned: Sequence[Ints]) -> None:
        self.lengths = np.array([rows.size for rows in owned], dtype=np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        """where each client's images begin in `table`"""
        self.table = np.concatenate(owned)

    def rows(self, clients: Ints, own: Ints) -> Ints:
        return np.asarray(self.table[self.starts[clients] + own])


class Partition(ABC):
    """A rule that gives each client its rows of the training set."""

    @abstractmethod
    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        """The rows of each client, none of them empty."""

    def owners(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> Owners:
        """The same owners, for a system of which only some clients train in a round."""
        return OwnerTable(self.split(labels, clients, seed, columns))


def shuffled(rows: Ints, seed: int, client: int) -> Ints:
    """The rows in an order of their own for every seed and client."""
    return rows[np.argsort(uniform(seed, Purpose.PARTITION, rows, client), kind="stable")]


@dataclass(frozen=True)
class Pairs(Partition):
    """Client m holds the classes m and m + 1 (wrapping round), at most `per_class` images of each: the paper's two classes."""

    per_class: int | None = None

    def __post_init__(self) -> None:
        require(self.per_class is None or self.per_class >= 1, "per_class", self.per_class, "at least 1")

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        owners = self.owners(labels, clients, seed, columns)
        table = owners.table(np.arange(clients))
        return [rows[:length].astype(np.int64) for rows, length in zip(table, owners.lengths, strict=True)]

    def owners(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> "PairOwners":
        return PairOwners(labels, clients, seed, self.per_class)


class PairOwners:
    """The owners of `Pairs`, worked out when they are asked for.

    A client has drawn its images from all those of a class, so finding them takes as many draws as the class has images,
    whatever `per_class` is.
    """

    def __init__(self, labels: Ints, clients: int, seed: int, per_class: int | None) -> None:
        of_class = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
        self.seed, self.per_class = seed, per_class
        self.held = [
            [of_class[c] for c in dict.fromkeys((first, (first + 1) % len(of_class)))] for first in range(len(of_class))
        ]
        """the images of both classes, for the clients that begin with class 0, 1, …"""
        lengths = [sum(rows[:per_class].size for rows in classes) for classes in self.held]
        for m in range(min(clients, len(lengths))):
            if lengths[m] == 0:
                raise SettingError(f"data.partition = pairs: client {m} would have no data")
        self.lengths: Ints = np.resize(np.array(lengths, dtype=np.int64), clients)

    def rows(self, clients: Ints, own: Ints) -> Ints:
        distinct, place = np.unique(clients, return_inverse=True)
        return self.table(distinct)[place, own].astype(np.int64)

    def table(self, clients: Ints) -> NDArray[np.int32]:
        """All images of some clients, (clients, most images); a row's end is undefined for one that owns fewer."""
        table = np.empty((clients.size, int(self.lengths[clients].max(initial=0))), dtype=np.int32)
        for first, classes in enumerate(self.held):
            members, at = np.flatnonzero(clients % len(self.held) == first), 0
            for rows in classes:
                until = at + rows[: self.per_class].size
                for some, order in permutations(self.seed, Purpose.PARTITION, rows, clients[members]):
                    table[members[some], at:until] = rows[order[:, : self.per_class]]
                at = until
        return table


@dataclass(frozen=True)
class Iid(Partition):
    """All images dealt out evenly at random, at most `per_client` to each."""

    per_client: int | None = None

    def __post_init__(self) -> None:
        require(self.per_client is None or self.per_client >= 1, "per_client", self.per_client, "at least 1")

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        _enough_for_all(labels, clients, "iid")
        order = shuffled(np.arange(labels.size), seed, 0)
        return [part[: self.per_client] for part in np.array_split(order, clients)]


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class is divided among the clients by a Dirichlet(alpha) draw; drawn again while somebody has nothing."""

    alpha: float = 0.5

    def __post_init__(self) -> None:
        positive("alpha", self.alpha)

    def split(self, labels: Ints, clients: int, seed: int, columns: Mapping[str, NDArray[Any]]) -> list[Ints]:
        _enough_for_all(labels, clients, "dirichlet")
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
        empty = f"in {RETRIES} draws some of the {clients} clients always stayed without data"
        raise SettingError(f"data.alpha = {self.alpha}: {empty}; raise alpha or use fewer clients")


@dataclass(frozen=True)
class ByColumn(Partition):
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


def _enough_for_all(labels: Ints, clients: int, name: str) -> None:
    """Where images are dealt out, each goes to one client."""
    if clients > labels.size:
        dealt = f"{labels.size} images are dealt out to {clients} clients"
        raise SettingError(f"data.partition = {name}: client {labels.size} would have no data; {dealt}")


KINDS = {"pairs": Pairs, "iid": Iid, "dirichlet": Dirichlet, "column": ByColumn}
PARTITION = Slot("partition", Partition, KINDS)
