"""The common interface of retention rules and selection rules.

Retention rules choose which samples a full client keeps, selection rules which a client
buys. A rule gives every candidate a rank. The lowest ranks stay or are bought, as many
as fit. So a rule decides which samples, never how many, and the server knows every
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

    Examples
    --------
    >>> import numpy as np
    >>> one, two = np.array([[1]]), np.array([[2]])
    >>> found = Candidates(np.array([[4, 7, -1]]), room=two, seed=one, client=one)
    >>> found.there
    array([[ True,  True, False]])
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
        return self.position >= 0

    @property
    def new(self) -> Bools:
        """Which samples were admitted in this round, (C, W)."""
        return np.asarray(self.age == 0)

    @property
    def group(self) -> Ints:
        """The class of each sample, (C, W); the same for all if none is known."""
        group = 0 if self.label is None else self.label.astype(np.int64)
        return np.where(self.there, group, NOBODY)

    @property
    def end(self) -> Ints:
        """The number of samples that the client has ever admitted, (C, 1)."""
        return np.asarray(
            self.position.max(
                axis=-1,
                keepdims=True,
            )
            + 1
        )

    def of(self, clients: Ints) -> "Candidates":
        """Return the candidates of some clients alone.

        Empty places behind the last sample are left out.

        Parameters
        ----------
        clients : array of int
            The rows of the clients.

        Returns
        -------
        Candidates
            The candidates of these clients.
        """
        taken = self.there[clients].any(axis=0)
        width = int(np.flatnonzero(taken)[-1]) + 1 if taken.any() else 0
        some: dict[str, Any] = {}
        for name in ("position", "age", "label"):
            array = getattr(self, name)
            if array is not None:
                some[name] = array[clients, :width]
        for name in ("room", "seed", "client"):
            some[name] = getattr(self, name)[clients]
        return self._replace(**some)

    def draw(self, position: Ints | None = None, again: Ints | int = 0) -> Floats:
        """Return a random number in [0, 1) for each position, (C, …).

        The same position always has the same number.

        Parameters
        ----------
        position : array, optional
            Positions in the stream. By default those of the candidates.
        again : int or array
            Each value gives different numbers.

        Returns
        -------
        array
            The random numbers.
        """
        index = np.maximum(self.position if position is None else position, 0)
        index = index + (np.asarray(again) << 32)
        by_row = (-1, *[1] * (max(index.ndim, 2) - 1))
        seed, client = self.seed.reshape(by_row), self.client.reshape(by_row)
        return uniform(seed, self.purpose, index, client)


@dataclass(
    frozen=True,
    eq=False,
)
class RankingRule(ABC):
    """The base class of `Retention` and `Selection`.

    A rule is a frozen value whose fields are settings.

    Examples
    --------
    >>> import numpy as np
    >>> class Oldest(RankingRule):
    ...     def rank(self, candidates):
    ...         return candidates.position
    >>> one = np.array([[1]])
    >>> found = Candidates(np.array([[4, 7, 9]]), room=one, seed=one, client=one)
    >>> chosen(Oldest(), found)
    array([[ True, False, False]])
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

        Parameters
        ----------
        candidates : Candidates
            The samples that clients choose from.

        Returns
        -------
        array
            The numbers, (C, W).
        """

    def check(self) -> None:
        """Check the names of the scores.

        Raises
        ------
        SettingError
            If the rule names scores that it may not use.
        """
        asked = self.scores
        if not isinstance(asked, tuple) or not set(asked) <= set(self.known_scores):
            known = ", ".join(self.known_scores)
            raise SettingError(
                f"{type(self).__name__}.scores = {asked!r}: must be a tuple of {known}"
            )


def chosen(rule: RankingRule, candidates: Candidates) -> Bools:
    """Return which candidates stay or are bought, (C, W).

    For each client they are as many as it has room for.
    """
    there = candidates.there
    rank = np.asarray(rule.rank(candidates))
    if rank.shape != there.shape or rank.dtype.kind not in "biuf":
        raise _no_rank(rule, there, rank)
    if np.isnan(rank[there]).any():
        raise _no_rank(rule, there, rank)
    order = np.lexsort((candidates.position, rank, ~there), axis=-1)
    return there & (places_in(order) < candidates.room)


def _no_rank(
    rule: RankingRule,
    there: Bools,
    rank: NDArray[Any],
) -> SettingError:
    found = f"{rank.dtype}{rank.shape}"
    if rank.shape == there.shape and rank.dtype.kind == "f":
        found += " with some that are not a number"
    return SettingError(
        f"{type(rule).__name__}.rank: must return a number for each of {there.shape},"
        f" returned {found}"
    )


def ordered(first: NDArray[Any], then: NDArray[Any]) -> Ints:
    """Return the rank of each entry in its row, from 0 on.

    Entries are sorted by `first` and then by `then`.

    >>> ordered(np.array([[1, 0, 1]]), np.array([[0.5, 0.9, 0.1]])).tolist()
    [[2, 0, 1]]
    """
    return places_in(np.lexsort((then, first), axis=-1))


def places_in(order: Ints) -> Ints:
    """Return the inverse of the permutation `order` of each row.

    It is the index at which each entry is listed.
    """
    places = np.empty_like(order)
    numbers = np.broadcast_to(np.arange(order.shape[-1]), order.shape)
    np.put_along_axis(places, order, numbers, axis=-1)
    return places


def rank_within(
    group: Ints,
    first: NDArray[Any],
    then: NDArray[Any],
) -> Ints:
    """Return the rank of each entry among those of its group in its row, from 0 on.

    Entries are sorted by `first` and then by `then`.

    >>> group, first = np.array([[5, 3, 5, 5]]), np.array([[1, 1, 1, 0]])
    >>> rank_within(group, first, then=np.array([[0.2, 0.9, 0.1, 0.7]])).tolist()
    [[2, 0, 1, 0]]
    """
    order = np.lexsort((then, first, group), axis=-1)
    sorted_group = np.take_along_axis(group, order, axis=-1)
    nth = np.broadcast_to(np.arange(group.shape[-1]), group.shape)
    begins = np.ones(group.shape, dtype=bool)
    begins[:, 1:] = sorted_group[:, 1:] != sorted_group[:, :-1]
    begin = np.maximum.accumulate(np.where(begins, nth, 0), axis=-1)
    return np.take_along_axis(nth - begin, places_in(order), axis=-1)
