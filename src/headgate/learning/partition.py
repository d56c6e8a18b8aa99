"""Partitions of the training images among the clients. Every draw is addressed by seed
and client. All policies therefore see the same owners, and the images of a client can
be computed on demand instead of stored for a million clients.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive
from headgate.control.randomness import Purpose, permutations, uniform
from headgate.control.types import Bools, Ints
from headgate.errors import SettingError, require
from headgate.registry import Slot

RETRIES = 100
Columns = Mapping[str, NDArray[Any]]
"""further values of the training images, by name"""


class Owners(Protocol):
    """The owner of each row of the training set; the images of each client are numbered
    from 0.
    """

    @property
    def lengths(self) -> Ints:
        """The number of images that each client owns, (M,), at least 1."""

    def rows(self, clients: Ints, own: Ints) -> Ints:
        """Return the row of image own[i] of client clients[i], for every i."""


class OwnerTable:
    """Owners whose images are all stored in one table."""

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
    def split(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> list[Ints]:
        """Return the rows of each client, at least one row for each."""

    def owners(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> Owners:
        """Return the same owners in a form that may compute the rows of a client on
        demand.
        """
        return OwnerTable(self.split(labels, clients, seed, columns))


def shuffled(rows: Ints, seed: int) -> Ints:
    """Return the rows in a random order that depends on the seed."""
    drawn = uniform(seed, Purpose.PARTITION, rows)
    return rows[np.argsort(drawn, kind="stable")]


def share_of_each_class(
    labels: Ints,
    share: float,
    purpose: Purpose,
) -> Bools:
    """Return a mask of a random share of the rows of each class, rounded down; it is
    the same for all seeds.
    """
    chosen = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        order = np.argsort(uniform(0, purpose, rows), kind="stable")
        chosen[rows[order[: int(share * len(rows))]]] = True
    return chosen


def _at_least_one(name: str, value: int | None) -> None:
    require(value is None or value >= 1, name, value, "at least 1")


@dataclass(frozen=True)
class Pairs(Partition):
    """Client m owns at most `per_class` images of each of the classes m and m + 1
    (modulo their number), as in the paper.
    """

    per_class: int | None = None

    def __post_init__(self) -> None:
        _at_least_one("per_class", self.per_class)

    def split(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> list[Ints]:
        owners = self.owners(labels, clients, seed, columns)
        table = owners.table(np.arange(clients))
        return [
            rows[:length].astype(np.int64)
            for rows, length in zip(table, owners.lengths, strict=True)
        ]

    def owners(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> "PairOwners":
        return PairOwners(labels, clients, seed, self.per_class)


class PairOwners:
    """The owners of `Pairs`, computed on demand.

    A client's images are drawn from all images of a class, so computing them takes as
    many draws as the class has images, for any `per_class`.
    """

    def __init__(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        per_class: int | None,
    ) -> None:
        of_class = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
        self.seed, self.per_class = seed, per_class
        self.held = [
            [of_class[c] for c in dict.fromkeys((first, (first + 1) % len(of_class)))]
            for first in range(len(of_class))
        ]
        """the rows of both classes, for clients whose first class is 0, 1, …"""
        lengths = [
            sum(rows[:per_class].size for rows in classes) for classes in self.held
        ]
        for m in range(min(clients, len(lengths))):
            if lengths[m] == 0:
                raise SettingError(
                    f"data.partition = pairs: client {m} would have no data"
                )
        self.lengths: Ints = np.resize(np.array(lengths, dtype=np.int64), clients)

    def rows(self, clients: Ints, own: Ints) -> Ints:
        distinct, place = np.unique(clients, return_inverse=True)
        return self.table(distinct)[place, own].astype(np.int64)

    def table(self, clients: Ints) -> NDArray[np.int32]:
        """Return the images of some clients, (clients, most images); entries beyond a
        client's own number are undefined.
        """
        most = int(self.lengths[clients].max(initial=0))
        table = np.empty((clients.size, most), dtype=np.int32)
        for first, classes in enumerate(self.held):
            members = np.flatnonzero(clients % len(self.held) == first)
            at = 0
            for rows in classes:
                until = at + rows[: self.per_class].size
                for some, order in permutations(
                    self.seed, Purpose.PARTITION, rows, clients[members]
                ):
                    table[members[some], at:until] = rows[order[:, : self.per_class]]
                at = until
        return table


@dataclass(frozen=True)
class Iid(Partition):
    """All images are divided evenly and at random among the clients; each owns at most
    `per_client` of them.
    """

    per_client: int | None = None

    def __post_init__(self) -> None:
        _at_least_one("per_client", self.per_client)

    def split(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> list[Ints]:
        _enough_for_all(labels, clients, "iid")
        order = shuffled(np.arange(labels.size), seed)
        return [part[: self.per_client] for part in np.array_split(order, clients)]


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class is divided among the clients by a Dirichlet(alpha) draw; the draw is
    repeated if a client has no image.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        positive("alpha", self.alpha)

    def split(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> list[Ints]:
        _enough_for_all(labels, clients, "dirichlet")
        of_class = [
            shuffled(np.flatnonzero(labels == c), seed)
            for c in range(int(labels.max()) + 1)
        ]
        for attempt in range(RETRIES):
            key = [seed, 2**32 * Purpose.PARTITION + attempt]
            generator = np.random.Generator(np.random.Philox(key=key))
            parts = [
                np.split(rows, self._cuts(generator, clients, rows.size))
                for rows in of_class
            ]
            owned = [np.concatenate(own) for own in zip(*parts, strict=True)]
            if all(own.size for own in owned):
                return owned
        raise SettingError(
            f"data.alpha = {self.alpha}: in {RETRIES} draws some of the {clients}"
            " clients always stayed without data; raise alpha or use fewer clients"
        )

    def _cuts(
        self,
        generator: np.random.Generator,
        clients: int,
        size: int,
    ) -> Ints:
        """Return the places at which a class is cut."""
        shares = generator.dirichlet(np.full(clients, self.alpha))
        return (np.cumsum(shares)[:-1] * size).astype(np.int64)


@dataclass(frozen=True)
class ByColumn(Partition):
    """Each client owns the rows with one value of a column; if there are more values
    than clients, they take turns.
    """

    column: str

    def split(
        self,
        labels: Ints,
        clients: int,
        seed: int,
        columns: Columns,
    ) -> list[Ints]:
        if self.column not in columns:
            known = ", ".join(columns) or "none"
            raise SettingError(
                f"data.column = {self.column}: the data set has no such column; it has"
                f" {known}"
            )
        values, owner = np.unique(columns[self.column], return_inverse=True)
        if len(values) < clients:
            raise SettingError(
                f"data.column = {self.column}: has {len(values)} values for {clients}"
                " clients"
            )
        return [np.flatnonzero(owner % clients == m) for m in range(clients)]


def _enough_for_all(
    labels: Ints,
    clients: int,
    name: str,
) -> None:
    """Refuse more clients than images, for partitions in which each image has one
    owner.
    """
    if clients > labels.size:
        raise SettingError(
            f"data.partition = {name}: client {labels.size} would have no data;"
            f" {labels.size} images are dealt out to {clients} clients"
        )


KINDS = {"pairs": Pairs, "iid": Iid, "dirichlet": Dirichlet, "column": ByColumn}
PARTITION = Slot("partition", Partition, KINDS)
