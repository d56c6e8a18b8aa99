"""The common interface of retention rules (which samples a full client keeps) and
selection rules (which a client buys).

A rule gives every candidate a rank. The lowest ranks stay or are bought, as many as
fit. So a rule decides which samples, never how many, and the server knows every
occupancy from its own orders. Ranking uses no stored state: a single client, a batch of
runs and a resumed run choose the same samples.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.control.scores import NAMES, Scores
from headgate.control.types import Bools, Floats, Ints
from headgate.errors import SettingError

NOBODY = np.iinfo(np.int64).max
"""group number of an empty place"""


class Candidates(NamedTuple):
    """The samples that clients choose from, with one row for each client, (C, W).

    Parameters
    ----------
    position : array of int
        Position of each sample in the client's stream, ascending, −1 for an empty
        place.
    room : array of int
        Number of samples that the client may keep or buy, (C, 1).
    seed : array of int
        Seed of the client's run, (C, 1).
    client : array of int
        Number of the client, (C, 1).
    age : array of int, optional
        Rounds since the sample was admitted, 0 if it is new; None in a selection.
    label : NDArray[Any], optional
        Class of each sample; None: labels are not known, so all samples are one class.
    scores : Scores, optional
        Scores that the rule needs for each sample, 0 at empty places; None: there is no
        model, as in a plan.
    held : array of float, optional
        Features of the samples that the client holds, (C, B, H), for a buying rule that
        is `beside_held`.
    held_there : array of bool, optional
        Which of the samples held exist, (C, B).
    purpose : Purpose, default Purpose.RETENTION
        Purpose of the random draws.
    """

    position: Ints
    room: Ints
    seed: Ints
    client: Ints
    age: Ints | None = None
    label: NDArray[Any] | None = None
    scores: Scores | None = None
    held: Floats | None = None
    held_there: Bools | None = None
    purpose: Purpose = Purpose.RETENTION

    @property
    def there(self) -> Bools:
        """Which places hold a sample, (C, W)."""
        return np.asarray(self.position >= 0)

    @property
    def new(self) -> Bools:
        """Which samples were admitted in this round, (C, W)."""
        return np.asarray(self.age == 0)

    @property
    def group(self) -> Ints:
        """The class of each sample, (C, W); one class for all samples if labels are not
        known.
        """
        return np.where(
            self.there, 0 if self.label is None else self.label.astype(np.int64), NOBODY
        )

    @property
    def end(self) -> Ints:
        """The number of samples that the client has ever admitted, (C, 1)."""
        return np.asarray(self.position.max(axis=-1, keepdims=True) + 1)

    def of(self, clients: Ints) -> "Candidates":
        """Return the candidates of the given clients, without the empty places behind
        the last sample.
        """
        held = self.there[clients].any(axis=0)
        width = int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0
        samples = {
            name: getattr(self, name)
            for name in ("position", "age", "label")
            if getattr(self, name) is not None
        }
        of_each = {name: array[clients, :width] for name, array in samples.items()}
        return self._replace(
            **of_each,
            room=self.room[clients],
            seed=self.seed[clients],
            client=self.client[clients],
        )

    def draw(self, position: Ints | None = None, again: Ints | int = 0) -> Floats:
        """Return a random number in [0, 1) for each position, (C, …). The same position
        always has the same number.

        Parameters
        ----------
        position : array, optional
            Positions in the stream. By default those of the candidates.
        again : int or array
            Each value gives different numbers.
        """
        index = np.maximum(self.position if position is None else position, 0) + (
            np.asarray(again) << 32
        )
        seed, client = (
            each.reshape(-1, *[1] * (max(index.ndim, 2) - 1))
            for each in (self.seed, self.client)
        )
        return uniform(seed, self.purpose, index, client)


@dataclass(frozen=True, eq=False)
class RankingRule(ABC):
    """The base class of `Retention` and `Selection`: a frozen value whose fields are
    settings.
    """

    scores: ClassVar[tuple[str, ...]] = ()
    """names of the fields of `Scores` that the rule needs, under the model that the
    server sent in this round
    """
    known_scores: ClassVar[tuple[str, ...]] = NAMES
    """names of the scores that a rule of this kind may use"""

    @abstractmethod
    def rank(self, candidates: Candidates) -> NDArray[Any]:
        """Return a number for each candidate, (C, W).

        The lowest numbers stay or are bought; of equal ones, those with the lowest
        position. Empty places are ignored.
        """

    def check(self) -> None:
        """Raise SettingError if the rule names scores that it may not use."""
        asked = self.scores
        if not isinstance(asked, tuple) or not set(asked) <= set(self.known_scores):
            known = ", ".join(self.known_scores)
            raise SettingError(
                f"{type(self).__name__}.scores = {asked!r}: must be a tuple of {known}"
            )


def chosen(rule: RankingRule, candidates: Candidates) -> Bools:
    """Return which candidates stay or are bought, (C, W), for each client as many as it
    has room for.
    """
    rank, shape = np.asarray(rule.rank(candidates)), candidates.position.shape
    if (
        rank.shape != shape
        or rank.dtype.kind not in "biuf"
        or np.isnan(rank[candidates.there]).any()
    ):
        found = f"{rank.dtype}{rank.shape}"
        found += (
            " with some that are not a number"
            if rank.shape == shape and rank.dtype.kind == "f"
            else ""
        )
        raise SettingError(
            f"{type(rule).__name__}.rank: must return a number for each of {shape},"
            f" returned {found}"
        )
    order = np.lexsort((candidates.position, rank, ~candidates.there), axis=-1)
    return candidates.there & (places_in(order) < candidates.room)


def ordered(first: NDArray[Any], then: NDArray[Any]) -> Ints:
    """Return the rank of each entry in its row, from 0 on, sorted by `first` and then
    by `then`.

    >>> ordered(np.array([[1, 0, 1]]), np.array([[0.5, 0.9, 0.1]])).tolist()
    [[2, 0, 1]]
    """
    return places_in(np.lexsort((then, first), axis=-1))


def places_in(order: Ints) -> Ints:
    """Return the inverse of the permutation `order` of each row: the index at which
    each entry is listed.
    """
    places = np.empty_like(order)
    np.put_along_axis(
        places, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1
    )
    return places


def rank_within(group: Ints, first: NDArray[Any], then: NDArray[Any]) -> Ints:
    """Return the rank of each entry among those of its group in its row, from 0 on,
    sorted by `first` and then by `then`.

    >>> rank_within(np.array([[5, 3, 5, 5]]), np.array([[1, 1, 1, 0]]), np.array([[0.2, 0.9, 0.1, 0.7]])).tolist()
    [[2, 0, 1, 0]]
    """
    order = np.lexsort((then, first, group), axis=-1)
    sorted_group = np.take_along_axis(group, order, axis=-1)
    nth = np.broadcast_to(np.arange(group.shape[-1]), group.shape)
    begins = np.ones(group.shape, dtype=bool)
    begins[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
    return np.take_along_axis(
        nth - np.maximum.accumulate(np.where(begins, nth, 0), axis=-1),
        places_in(order),
        axis=-1,
    )
