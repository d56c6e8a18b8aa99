"""What a full client drops where neither age nor order decides: lots, classes, or how much is new.

Each rule is a function of the samples a client holds, those that arrive and draws addressed by their positions. It remembers
nothing else, so a client alone, a batch of runs and a run that was resumed choose the same. Of a client's candidates the
rule ranks each (`rank`), the draw decides among equals, and the first of them stay, as many as there is room for.

A sample may be dropped in the round in which it arrives. It was admitted and paid for but never trained on, and is counted
in `unused`, not in N.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.control.retention.windows import check_capacity
from headgate.control.types import Arrays, Floats, Ints, Streams, System, Window
from headgate.errors import SettingError

Bools = NDArray[np.bool_]
_NOBODY = np.iinfo(np.int64).max
"""the rank of an empty place"""


class Candidates(NamedTuple):
    """What some clients hold and what they have just admitted, a client a row, (C, W)."""

    position: Ints
    """ascending but for empty places, which are −1"""
    new: Bools
    label: NDArray[Any] | None
    """None: nobody knows, so all are one class"""
    seed: Ints
    """(C, 1), like all that follows"""
    client: Ints
    room: Ints
    """the most that the client can hold"""

    @property
    def there(self) -> Bools:
        return self.position >= 0

    @property
    def end(self) -> Ints:
        """How many samples the client has ever admitted."""
        return np.asarray(self.position.max(axis=-1, keepdims=True) + 1)

    def draw(self, position: Ints, again: Ints | int = 0) -> Floats:
        """One draw for each position; others whenever `again` is another number."""
        return uniform(self.seed, Purpose.RETENTION, np.maximum(position, 0) + (np.asarray(again) << 32), self.client)


@dataclass(frozen=True, eq=False)
class Replacement(ABC):
    """A rule for full clients; `capacity` is one number or one per client."""

    capacity: int | Ints

    by_class: ClassVar[bool] = False
    """whether the rule looks at classes, so that they must be remembered"""

    def __post_init__(self) -> None:
        check_capacity(self.capacity)

    @abstractmethod
    def rank(self, given: Candidates) -> tuple[Ints, Floats]:
        """(rank, draw) of every candidate, (C, W): the lowest stay."""

    def keeps(self, given: Candidates) -> Bools:
        """Who stays, (C, W)."""
        rank, draw = self.rank(given)
        rank = np.where(given.there, rank, _NOBODY)
        return given.there & (_places(np.lexsort((draw, rank), axis=-1)) < given.room)

    # as a retention rule

    def open(self, system: System, runs: int) -> Arrays:
        """The positions in memory, the rounds of their admission, their classes, and how many were never used."""
        slots = (runs, system.clients, int(self._room(system.clients).max()))
        state: dict[str, NDArray[Any]] = {
            "place": np.full(slots, -1, dtype=np.int64),
            "born": np.zeros(slots, dtype=np.int32),
            "unused": np.zeros(runs, dtype=np.int64),
        }
        return {**state, "label": np.zeros(slots, dtype=np.int32)} if self.by_class else state

    def limit(self, system: System) -> Ints | None:
        return self._room(system.clients)

    def expire(self, state: Arrays, t: int, held: Window) -> Ints:
        return held.first

    def settle(
        self, state: Arrays, t: int, held: Window, kept_from: Ints, last: Ints, streams: Streams
    ) -> tuple[Arrays, Ints, Ints]:
        room = self._room(last.shape[-1])
        first = np.maximum(kept_from, last - room)
        run, client = np.nonzero(last > held.last)
        if run.size == 0:
            return state, first, np.zeros(len(last), dtype=np.int64)
        slots = state["place"].shape[-1]
        nth = np.arange((last - held.last).max())
        arriving = held.last[run, client, None] + nth
        arriving = np.where(arriving < last[run, client, None], arriving, -1)
        values = {
            "place": np.concatenate([state["place"][run, client], arriving], axis=1),
            "born": np.concatenate([state["born"][run, client], np.full(arriving.shape, t, dtype=np.int32)], axis=1),
        }
        if self.by_class:
            labels = _labels(streams, run, client, arriving)
            values["label"] = np.concatenate([state["label"][run, client], labels], axis=1)
        given = Candidates(
            position=values["place"],
            new=np.broadcast_to(np.arange(slots + nth.size) >= slots, values["place"].shape),
            label=values.get("label"),
            seed=streams.seeds[run, None],
            client=client[:, None],
            room=room[client, None],
        )
        stays = self.keeps(given)
        left = given.there & ~stays
        slot = np.argsort(~stays, axis=1, kind="stable")[:, :slots]  # those that stay, in their order, and then others
        empty = ~np.take_along_axis(stays, slot, axis=1)
        after = {name: state[name].copy() for name in values}
        for name, array in after.items():
            nothing = -1 if name == "place" else 0
            array[run, client] = np.where(empty, nothing, np.take_along_axis(values[name], slot, axis=1))
        used = np.where(left, t - values["born"], 0)  # once in every round since it was admitted; a new one never
        unused = state["unused"] + _by_run(len(last), run, left & given.new)
        return {**state, **after, "unused": unused}, first, _by_run(len(last), run, used)

    def _room(self, clients: int) -> Ints:
        return np.broadcast_to(np.asarray(self.capacity, dtype=np.int64), (clients,))


class Reservoir(Replacement):
    """At any time an equally likely choice among all samples ever admitted.

    In law Vitter's algorithm R (1985): the i-th sample enters with probability B/i and an equally likely one leaves. It is
    done with one random key a sample, of which the smallest stay (Fan, Muller and Rezucha 1962), so the choice does not
    depend on how the samples were spread over rounds.
    """

    def rank(self, given: Candidates) -> tuple[Ints, Floats]:
        return np.zeros_like(given.position), given.draw(given.position)


class ClassBalanced(Replacement):
    """What is too much leaves the client's most numerous class, again and again: at random, but new samples last.

    The greedy balancing of Prabhu, Torr and Dokania (2020) for a round's samples at once. Among classes of the same size
    lots decide. Without labels all samples are one class, and old ones leave at random.
    """

    by_class = True

    def rank(self, given: Candidates) -> tuple[Ints, Floats]:
        draw = given.draw(given.position, again=given.end)
        group = np.where(given.there, 0 if given.label is None else given.label.astype(np.int64), _NOBODY)
        return _rank_within(group, np.where(given.new, 0, 1), draw), draw


@dataclass(frozen=True, eq=False)
class Ratio(Replacement):
    """A client takes a certain number of the new samples, at random, in place of as many old ones, at random.

    Free places are always filled. After the static and dynamic ratio selective replacement (SRSR, DRSR) of Wang, Bian and
    Xu (2023), arXiv 2303.16340. From its abstract we have the names, the limited cache and the aim, a cache that is like the
    client's data in the long run; what the ratio is of, both choices at random and the rounding are ours.
    """

    @abstractmethod
    def wanted(self, given: Candidates) -> Floats:
        """How many new samples to take, a real number, (C, 1)."""

    def rank(self, given: Candidates) -> tuple[Ints, Floats]:
        end = given.end
        draw = given.draw(given.position, again=end)
        taken = np.floor(self.wanted(given) + given.draw(end, again=end)).astype(np.int64)  # right on average
        group = np.where(given.there, given.new, 2)
        place = _rank_within(group, np.zeros_like(group), draw)
        beyond = place >= np.where(given.new, taken, given.room - taken)  # they stay only where places are free
        return beyond.astype(np.int64), draw


@dataclass(frozen=True, eq=False)
class StaticRatio(Ratio):
    """The same share `ratio` of the places is for new samples in every round that brings as many."""

    ratio: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ratio <= 1:
            raise SettingError(f"ratio = {self.ratio}: must be above 0 and at most 1")

    def wanted(self, given: Candidates) -> Floats:
        return np.asarray(np.minimum(self.ratio * given.room, _new(given)))


class DynamicRatio(Ratio):
    """New samples get the share of the places that they have of all samples ever admitted.

    So every sample ever admitted is in memory with the same probability, as under `Reservoir`, but how many of the round's
    samples are taken is not left to chance.
    """

    def wanted(self, given: Candidates) -> Floats:
        return np.asarray(given.room * (_new(given) / given.end))


def keeps(
    rule: Replacement, seed: int, client: int, held: Ints, arriving: Ints, labels: Ints | None = None
) -> NDArray[np.bool_]:
    """What one client does by itself: which of its samples stay, those `held` and those `arriving`, in this order.

    Both are positions of its stream, ascending; `labels` are their classes. The same as in a batch with the same seed.
    """
    position = np.concatenate([held, arriving]).astype(np.int64)
    if arriving.size == 0:
        return np.ones(position.size, dtype=bool)
    capacity = np.asarray(rule.capacity, dtype=np.int64)
    given = Candidates(
        position=position[None],
        new=(np.arange(position.size) >= held.size)[None],
        label=None if labels is None else np.asarray(labels)[None],
        seed=np.array([[seed]]),
        client=np.array([[client]]),
        room=(capacity if capacity.ndim == 0 else capacity[client]).reshape(1, 1),
    )
    return np.asarray(rule.keeps(given)[0])


def _new(given: Candidates) -> Ints:
    """How many of the candidates are new, (C, 1)."""
    return np.asarray((given.there & given.new).sum(axis=-1, keepdims=True))


def _by_run(runs: int, run: Ints, counts: NDArray[Any]) -> Ints:
    """Counts of each row, added up for each run; exact below 2^53."""
    return np.bincount(run, weights=counts.sum(axis=1), minlength=runs).astype(np.int64)


def _labels(streams: Streams, run: Ints, client: Ints, arriving: Ints) -> NDArray[np.int32]:
    """The classes of the new samples; 0 where there is none."""
    labels = np.zeros(arriving.shape, dtype=np.int32)
    if streams.labels is not None:
        row, nth = np.nonzero(arriving >= 0)
        labels[row, nth] = streams.labels(run[row], client[row], arriving[row, nth])
    return labels


def _places(order: Ints) -> Ints:
    """Where each one stands in `order`, row by row."""
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return places


def _rank_within(group: Ints, before: Ints, draw: Floats) -> Ints:
    """Where each one stands in its row among those of its group: by `before`, then by draw.

    >>> _rank_within(np.array([[5, 3, 5, 5]]), np.array([[1, 1, 1, 0]]), np.array([[0.2, 0.9, 0.1, 0.7]])).tolist()
    [[2, 0, 1, 0]]
    """
    order = np.lexsort((draw, before, group), axis=-1)
    sorted_group = np.take_along_axis(group, order, axis=-1)
    nth = np.broadcast_to(np.arange(group.shape[-1]), group.shape)
    begins = np.ones(group.shape, dtype=bool)
    begins[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
    return np.take_along_axis(nth - np.maximum.accumulate(np.where(begins, nth, 0), axis=-1), _places(order), axis=-1)
