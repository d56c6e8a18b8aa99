"""What a retention rule is: it says who stays when a client is full. Ages and use counts are kept by the controller."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import whole_numbers
from headgate.control.randomness import Purpose, uniform
from headgate.control.scores import Scores
from headgate.control.types import Floats, Ints, System
from headgate.errors import SettingError
from headgate.field_docs import fields_in_help

Bools = NDArray[np.bool_]
Capacity = int | tuple[int, ...] | Ints | Literal["buffer"]
"""the most samples a client can hold: "buffer" for B_m, one number for all, or one for each client"""
NOBODY = np.iinfo(np.int64).max
"""the rank of an empty place"""


@fields_in_help
class Candidates(NamedTuple):
    """What some clients hold and what they have just admitted, a client a row, (C, W)."""

    position: Ints
    """in the client's stream; ascending but for empty places, which are −1"""
    age: Ints
    """rounds since the sample was admitted, 0 if it is new"""
    label: NDArray[Any] | None
    """None: nobody knows, so all are one class"""
    seed: Ints
    """(C, 1), like all that follows"""
    client: Ints
    room: Ints
    """the most that the client can hold"""
    scores: Scores | None = None
    """what the rule asks for, of each sample; None: there is no model to ask, as in a plan"""

    @property
    def there(self) -> Bools:
        return np.asarray(self.position >= 0)

    @property
    def new(self) -> Bools:
        return np.asarray(self.age == 0)

    @property
    def end(self) -> Ints:
        """How many samples the client has ever admitted."""
        return np.asarray(self.position.max(axis=-1, keepdims=True) + 1)

    def of(self, clients: Ints) -> "Candidates":
        """The same of some of the clients, without the places behind the last that any of them has."""
        held = self.there[clients].any(axis=0)
        width = int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0
        return Candidates(
            position=self.position[clients, :width],
            age=self.age[clients, :width],
            label=None if self.label is None else self.label[clients, :width],
            seed=self.seed[clients],
            client=self.client[clients],
            room=self.room[clients],
        )

    def draw(self, position: Ints, again: Ints | int = 0) -> Floats:
        """One draw for each position, (C, …); others whenever `again` is another number."""
        index = np.maximum(position, 0) + (np.asarray(again) << 32)
        seed, client = (each.reshape(-1, *[1] * (max(index.ndim, 2) - 1)) for each in (self.seed, self.client))
        return uniform(seed, Purpose.RETENTION, index, client)

    def by_lot(self) -> Bools:
        """Of each client an equally likely choice of all samples ever admitted: every one has a key, the smallest stay."""
        return self.lowest(np.zeros_like(self.position), self.draw(self.position))

    def lowest(self, rank: NDArray[Any], draw: NDArray[Any] | None = None) -> Bools:
        """Of each client the candidates of the lowest rank, as many as there is room for; the draw decides among equals."""
        last = np.inf if np.asarray(rank).dtype.kind == "f" else NOBODY
        rank = np.where(self.there, rank, last)
        order = np.lexsort((self.position if draw is None else draw, rank), axis=-1)
        return self.there & (places_in(order) < self.room)


@dataclass(frozen=True, eq=False)
class Retention(ABC):
    """A rule: a frozen value whose fields are its settings.

    It chooses who stays, never how many: a client holds all it kept and all that is new, or as much of both as its
    limit allows. So the server knows every occupancy from its own orders. A rule remembers nothing, so a client alone,
    a batch of runs and a run that was resumed choose the same.

    One that asks for `scores` is given them where there is a model. Where there is none it must still keep as many.
    """

    capacity: Capacity | None = field(default="buffer", kw_only=True)

    by_class: ClassVar[bool] = False
    """whether the rule looks at classes, so that they must be remembered"""
    scores: ClassVar[tuple[str, ...]] = ()
    """what the rule wants to know of each sample: fields of `Scores`, under the model that the server sent in this round"""

    def __post_init__(self) -> None:
        if self.capacity is not None and not isinstance(self.capacity, str):
            if np.any(whole_numbers("capacity", self.capacity) < 1):
                raise SettingError(f"capacity = {self.capacity}: every client needs room for at least one sample")
        elif self.capacity not in (None, "buffer"):
            raise SettingError(f'capacity = "{self.capacity}": must be "buffer", a number, or one number per client')

    def limit(self, system: System) -> Ints | None:
        """The most samples each client can hold, (M,); None: no limit, which window rules alone may have."""
        return capacity_of(self.capacity, system)

    @abstractmethod
    def keeps(self, given: Candidates) -> Bools:
        """Who stays, (C, W): exactly as many as there is room for, or all where there is room for all."""


def capacity_of(capacity: Capacity | None, system: System) -> Ints | None:
    """A capacity as users state it, for the clients of a system, (M,)."""
    if capacity is None or isinstance(capacity, str):
        return None if capacity is None else system.buffer
    room = whole_numbers("capacity", capacity)
    if room.ndim > 1 or (room.ndim == 1 and room.size != system.clients):
        raise SettingError(f"capacity has {room.size} entries for {system.clients} clients")
    return np.broadcast_to(room, (system.clients,))


def places_in(order: Ints) -> Ints:
    """Where each one stands in `order`, row by row."""
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return places


def rank_within(group: Ints, before: NDArray[Any], draw: NDArray[Any]) -> Ints:
    """Where each one stands in its row among those of its group: by `before`, then by draw.

    >>> rank_within(np.array([[5, 3, 5, 5]]), np.array([[1, 1, 1, 0]]), np.array([[0.2, 0.9, 0.1, 0.7]])).tolist()
    [[2, 0, 1, 0]]
    """
    order = np.lexsort((draw, before, group), axis=-1)
    sorted_group = np.take_along_axis(group, order, axis=-1)
    nth = np.broadcast_to(np.arange(group.shape[-1]), group.shape)
    begins = np.ones(group.shape, dtype=bool)
    begins[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
    return np.take_along_axis(nth - np.maximum.accumulate(np.where(begins, nth, 0), axis=-1), places_in(order), axis=-1)
