"""Concepts, each of which states how the data look in one state of the world, and rules
for when clients change between them.

Every random draw is addressed by seed, round and client. All policies of a seed
therefore see the same changes.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError, require
from headgate.registry import Slot

if (
    TYPE_CHECKING
):  # planning a run does not need polars, which reads some of the formats
    from headgate.learning.formats import Labels, Pixels


class Concept:
    """Base class of concepts: how images look, which labels they have, and which of
    them occur. The fields are the settings.
    """

    def images(self, images: "Pixels") -> "Pixels":
        """Return the images as they look in this concept, of the same shape and
        type.
        """
        return images

    def labels(self, images: "Pixels", labels: "Labels") -> "Labels":
        """Return the labels that the images have in this concept; `images` are those of
        the data set.
        """
        return labels

    def shares(self, classes: int) -> Floats | None:
        """Return the share of the images of each class that occurs, (classes,); None:
        all images.
        """
        return None

    @property
    def untouched(self) -> bool:
        """Whether images and labels are those of the data set."""
        own = type(self)
        return own.images is Concept.images and own.labels is Concept.labels


@dataclass(frozen=True)
class Same(Concept):
    """The data are unchanged."""


@dataclass(frozen=True)
class Rotated(Concept):
    """Images are rotated to the left by this number of quarter turns; no pixel is
    lost.
    """

    quarters: int = 1

    def __post_init__(self) -> None:
        require(self.quarters in (1, 2, 3), "quarters", self.quarters, "1, 2 or 3")

    def images(self, images: "Pixels") -> "Pixels":
        height, width = images.shape[2:]
        if self.quarters != 2 and height != width:
            raise SettingError(
                f"quarters = {self.quarters}: images of {height} x {width} pixels can"
                " only be turned by 2"
            )
        return np.ascontiguousarray(np.rot90(images, self.quarters, axes=(2, 3)))


@dataclass(frozen=True)
class Swapped(Concept):
    """Labels are permuted: class c becomes class to[c]."""

    to: tuple[int, ...]

    def __post_init__(self) -> None:
        once = len(self.to) > 0 and sorted(self.to) == list(range(len(self.to)))
        require(once, "to", self.to, "the number of each class once, from 0 on")

    def labels(self, images: "Pixels", labels: "Labels") -> "Labels":
        if labels.max(initial=0) >= len(self.to):
            raise SettingError(
                f"to: names {len(self.to)} classes, the data set has class"
                f" {labels.max()}"
            )
        return np.array(self.to, dtype=np.int64)[labels]


@dataclass(frozen=True)
class OfClasses(Concept):
    """Only images of these classes occur."""

    classes: tuple[int, ...]

    def __post_init__(self) -> None:
        require(
            min(self.classes, default=-1) >= 0,
            "classes",
            self.classes,
            "numbers of classes, from 0 on",
        )

    def shares(self, classes: int) -> Floats:
        if max(self.classes) >= classes:
            raise SettingError(
                f"classes: there is no class {max(self.classes)}, the data set has"
                f" {classes}"
            )
        return np.isin(np.arange(classes), self.classes).astype(np.float64)


@dataclass(frozen=True)
class Prior(Concept):
    """Only the share weights[c] of the images of class c occurs, which changes how
    frequent the classes are.
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        shares = any(self.weights) and all(0 <= weight <= 1 for weight in self.weights)
        require(
            shares, "weights", self.weights, "shares from 0 to 1, not all of them 0"
        )

    def shares(self, classes: int) -> Floats:
        if len(self.weights) != classes:
            raise SettingError(
                f"weights: has {len(self.weights)} shares, the data set has {classes}"
                " classes"
            )
        return np.array(self.weights)


CONCEPT = Slot(
    "concept",
    Concept,
    {
        "same": Same,
        "rotated": Rotated,
        "swapped": Swapped,
        "classes": OfClasses,
        "prior": Prior,
    },
)


class DriftKind(ABC):
    """Base class of rules that state when clients change their concept. The fields are
    the settings.
    """

    @abstractmethod
    def at(
        self,
        seed: int,
        t: int,
        clients: Ints,
    ) -> Ints:
        """Return the number of the concept in which the stream of each of these clients
        is in round t = 1, 2, …
        """

    # optional for a user's own rule
    def check(self, concepts: int, clients: int) -> None:  # noqa: B027
        """Raise an error if the settings do not fit this number of concepts and
        clients.
        """


class ConceptSchedule:
    """The concept of every client in every round, for the seeds of some runs."""

    def __init__(
        self,
        changes: DriftKind,
        concepts: int,
        seeds: Ints,
        clients: int,
    ) -> None:
        self.changes, self.concepts = changes, concepts
        self.seeds, self.clients = [int(seed) for seed in seeds], np.arange(clients)
        self.at = lru_cache(maxsize=2)(self._at)
        """(round) → the concept of every client, for every seed, (S, M)"""

    def _at(self, t: int) -> Ints:
        each = [
            np.asarray(self.changes.at(seed, t, self.clients)) for seed in self.seeds
        ]
        for found in each:
            if found.shape != self.clients.shape or found.dtype.kind not in "iu":
                problem = (
                    f"must return a whole number for each client in round {t}, returned"
                    f" {found.dtype}"
                )
                raise SettingError(f"data.changes: {problem}")
            if found.min() < 0 or found.max() >= self.concepts:
                wrong = found[(found < 0) | (found >= self.concepts)][0]
                raise SettingError(
                    f"data.changes: concept {wrong} in round {t}; data.concepts has 0"
                    f" to {self.concepts - 1}"
                )
        return np.stack(each)

    def shares(self, t: int, weight: Floats) -> Floats:
        """Return the share of the total client weight that is in each concept in round
        t, (S, concepts).
        """
        shares = np.stack(
            [np.bincount(own, weight, self.concepts) for own in self.at(t)]
        )
        return np.asarray(
            shares
            / shares.sum(
                axis=1,
                keepdims=True,
            )
        )

    def changed(self, t: int, weight: Floats) -> Floats:
        """Return the share of the total client weight whose concept differs from that
        of the round before, (S,).
        """
        if t == 1:
            return np.zeros(len(self.seeds))
        return np.asarray(((self.at(t) != self.at(t - 1)) * weight).sum(axis=1))

    def columns(
        self,
        t: int,
        weight: Floats,
        by_concept: Floats,
    ) -> dict[str, list[float]]:
        """Return the columns of the record: the share of clients that changed, and the
        share and accuracy of each concept. `by_concept` holds the accuracies, (R,
        concepts); it repeats the seeds once for each policy."""
        again = len(by_concept) // len(self.seeds)
        columns = {"changed": self.changed(t, weight).tolist() * again}
        for concept, share in enumerate(self.shares(t, weight).T):
            columns |= {
                f"share_{concept}": share.tolist() * again,
                f"accuracy_{concept}": by_concept[:, concept].tolist(),
            }
        return columns


@dataclass(
    frozen=True,
    kw_only=True,
)
class _InOrder(DriftKind):
    """Clients pass through the concepts of an order; client m changes `stagger`·m
    rounds after client 0.
    """

    stagger: int = 0
    clients: tuple[int, ...] | None = None
    """clients that change, while the others stay in the first concept of the order;
    left out: all clients
    """
    order: tuple[int, ...] = ()
    """numbers of the concepts in the order in which clients pass through them; left
    out: 0, 1 and so on
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", self.order or (0, 1))
        require(self.stagger >= 0, "stagger", self.stagger, "rounds, 0 or more")
        if self.clients is not None:
            require(
                min(self.clients, default=-1) >= 0,
                "clients",
                self.clients,
                "numbers of clients, from 0 on",
            )
        several = len(self.order) > 1 and min(self.order) >= 0
        require(
            several, "order", self.order, "two or more numbers of concepts, from 0 on"
        )

    def check(self, concepts: int, clients: int) -> None:
        if max(self.order) >= concepts:
            raise SettingError(
                f"order: names concept {max(self.order)}; data.concepts has 0 to"
                f" {concepts - 1}"
            )
        if self.clients is not None and max(self.clients) >= clients:
            raise SettingError(
                f"clients: names client {max(self.clients)}; there are 0 to"
                f" {clients - 1}"
            )

    def at(
        self,
        seed: int,
        t: int,
        clients: Ints,
    ) -> Ints:
        place = self._place(seed, t, t - self.stagger * clients, clients)
        if self.clients is not None:
            place = np.where(np.isin(clients, self.clients), place, 0)
        return np.array(self.order, dtype=np.int64)[place]

    @abstractmethod
    def _place(
        self,
        seed: int,
        t: int,
        own: Ints,
        clients: Ints,
    ) -> Ints:
        """Return each client's place in the order; `own` is its own time, t less the
        rounds by which it changes later.
        """


@dataclass(
    frozen=True,
    kw_only=True,
)
class Sudden(_InOrder):
    """Each of the rounds in `rounds` brings the next concept of the order at once.

    >>> changes = Sudden(rounds=(3,), stagger=1)
    >>> [changes.at(0, t, np.arange(3)).tolist() for t in (2, 3, 4, 5)]
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    rounds: tuple[int, ...]

    def __post_init__(self) -> None:
        ascending = min(self.rounds, default=0) > 1 and list(self.rounds) == sorted(
            set(self.rounds)
        )
        require(ascending, "rounds", self.rounds, "rounds from 2 on, ascending")
        object.__setattr__(
            self, "order", self.order or tuple(range(len(self.rounds) + 1))
        )
        super().__post_init__()
        if len(self.order) != len(self.rounds) + 1:
            raise SettingError(
                f"order: has {len(self.order)} concepts for {len(self.rounds)} changes;"
                " it needs one more"
            )

    def _place(
        self,
        seed: int,
        t: int,
        own: Ints,
        clients: Ints,
    ) -> Ints:
        return np.searchsorted(self.rounds, own, side="right")


@dataclass(
    frozen=True,
    kw_only=True,
)
class Gradual(_InOrder):
    """In each round, each client is in the new concept with a probability that rises
    linearly from 0 in round `start` to 1 in round `stop`; the draws of clients and
    rounds are independent."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 <= self.start < self.stop,
            "start",
            self.start,
            f"a round from 1 on, and before stop, {self.stop}",
        )
        if len(self.order) != 2:
            raise SettingError(
                f"order: has {len(self.order)} concepts; a gradual change is from one"
                " to another"
            )

    def _place(
        self,
        seed: int,
        t: int,
        own: Ints,
        clients: Ints,
    ) -> Ints:
        chance = (own - self.start) / (self.stop - self.start)
        return (uniform(seed, Purpose.CONCEPT, t, clients) < chance).astype(np.int64)


@dataclass(
    frozen=True,
    kw_only=True,
)
class Recurring(_InOrder):
    """The concepts of the order follow one another, each for `every` rounds, and the
    order repeats.

    >>> changes = Recurring(every=2)
    >>> [changes.at(0, t, np.array([0])).item() for t in range(1, 8)]
    [0, 0, 1, 1, 0, 0, 1]
    """

    every: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.every >= 1, "every", self.every, "rounds, 1 or more")

    def _place(
        self,
        seed: int,
        t: int,
        own: Ints,
        clients: Ints,
    ) -> Ints:
        return np.maximum(own - 1, 0) // self.every % len(self.order)


CHANGES = Slot(
    "change", DriftKind, {"sudden": Sudden, "gradual": Gradual, "recurring": Recurring}
)
