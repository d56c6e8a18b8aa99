"""Samples under way: ordered, and not there yet.

The delay of a sample is drawn when it is ordered, and depends on the run's seed, its
client and its number among the client's orders alone. It is known when the sample
arrives, not before. A server learns from the samples that arrived how long it takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.limits import check_memory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LONGEST = 1_000
"""the longest delay in rounds that is counted; longer ones count as this"""
SLOW = 0.9
"""share of the samples that arrive within the delay that the decision reckons with"""
REST = 1e-6
"""share of the samples beyond the longest delay of a geometric distribution"""


@dataclass(
    frozen=True,
    eq=False,
)
class Delays:
    """How many rounds samples take from their order to their arrival.

    Parameters
    ----------
    rounds : array of int
        The delays that are possible, ascending, (K,).
    shares : array of float
        The share of the samples with each of them, (K,).

    Examples
    --------
    >>> Delays.of({"1": 3, "10": 1}).shares.tolist()
    [0.75, 0.25]
    """

    rounds: Ints
    shares: Floats

    @classmethod
    def of(cls, stated: int | Mapping[str, float]) -> Self:
        """Return the delays that a recipe states.

        Parameters
        ----------
        stated : int or mapping of str to float
            A number of rounds; or the weight of each; or the mean of a geometric
            distribution, as in {"geometric": 5}.

        Returns
        -------
        Delays
            The delays.

        Raises
        ------
        SettingError
            If there are no such delays.
        """
        weights = {str(stated): 1.0} if isinstance(stated, int) else dict(stated)
        if [*weights] == ["geometric"]:
            weights = _geometric(weights["geometric"])
        rounds = sorted(map(_round, weights))
        share = np.array([weights[str(each)] for each in rounds], dtype=np.float64)
        fine = (share >= 0) & (share < np.inf)
        if not fine.all() or not share.any():
            raise SettingError(
                f"delay = {shown(stated)}: weights must be finite, 0 or more, and not"
                " all 0"
            )
        there = share > 0
        return cls(np.array(rounds)[there], share[there] / share[there].sum())

    @property
    def longest(self) -> int:
        """The longest delay."""
        return int(self.rounds[-1])

    @property
    def mean(self) -> float:
        """The mean delay."""
        return float(self.rounds @ self.shares)

    @cached_property
    def _until(self) -> Floats:
        """The share of the samples that take no longer than each delay but the last."""
        return np.cumsum(self.shares)[:-1]

    def drawn(
        self,
        seeds: Ints,
        clients: Ints,
        numbers: Ints,
    ) -> Ints:
        """Return which delay each sample has, as its place in `rounds`.

        Parameters
        ----------
        seeds, clients, numbers : array of int
            Seed of the run, client, and number of each sample among those that the
            client was ever ordered.

        Returns
        -------
        array of int
            The places.
        """
        if self.rounds.size == 1:
            return np.zeros(numbers.shape, dtype=np.int64)
        draws = uniform(seeds, Purpose.DELAY, numbers, clients)
        return np.asarray(np.searchsorted(self._until, draws, side="right"))

    def counted(
        self,
        seeds: Ints,
        before: Ints,
        ordered: Ints,
    ) -> Ints:
        """Return how many samples of an order have each delay.

        Parameters
        ----------
        seeds : array of int
            Seed of each run, (R,).
        before : array of int
            Samples that each client was ordered before, (R, M).
        ordered : array of int
            Samples that each client is ordered now, (R, M).

        Returns
        -------
        array of int
            The samples by their delay, (R, M, K).
        """
        many = self.rounds.size
        if many == 1:
            return ordered[..., None]
        count = ordered.ravel()
        owner = np.repeat(np.arange(count.size), count)
        first = before.ravel() - (np.cumsum(count) - count)
        runs, clients = np.divmod(owner, ordered.shape[-1])
        numbers = np.arange(owner.size) + first[owner]
        places = self.drawn(seeds[runs], clients, numbers)
        counts = np.bincount(owner * many + places, minlength=count.size * many)
        return np.asarray(counts.reshape(*ordered.shape, many))


def _round(stated: str) -> int:
    """Return the delay that a key states."""
    if not (stated.isdecimal() and str(int(stated)) == stated):
        raise SettingError(
            f"delay: {shown(repr(stated))}: is no number of rounds; known: geometric"
        )
    if int(stated) > LONGEST:
        raise SettingError(f"delay = {shown(stated)}: at most {LONGEST:,} rounds")
    return int(stated)


def _geometric(mean: float) -> dict[str, float]:
    """Return the weights of delays that end in every round with the same chance."""
    if not 0 < mean <= LONGEST / 20:
        raise SettingError(
            f"delay.geometric = {mean:g}: must be above 0, and at most"
            f" {LONGEST / 20:g} rounds"
        )
    stays = mean / (1 + mean)
    longest = int(np.ceil(np.log(REST) / np.log(stays)))
    return {str(each): stays**each for each in range(longest + 1)}


def learned(arrived: Ints, waiting: Ints) -> Ints:
    """Return the rounds that samples take to arrive, (R,), as a server learns them.

    Those that have waited longer than any took count, too.

    Parameters
    ----------
    arrived : array of int
        Samples that arrived, by the number of rounds that they took, (R, D).
    waiting : array of int
        Samples under way, by the number of rounds since their order, (R, D).

    Returns
    -------
    array of int
        The delay within which nine samples in ten arrive; 0: nothing is known.

    Examples
    --------
    >>> learned(np.array([[0, 9, 1, 0]]), np.array([[0, 0, 0, 1]])).tolist()
    [2]
    """
    rounds = np.arange(arrived.shape[-1])
    longest = np.where(arrived > 0, rounds, 0).max(axis=-1)
    longer = rounds > longest[:, None]
    found = np.cumsum(arrived + np.where(longer, waiting, 0), axis=-1)
    return np.asarray(np.argmax(found >= SLOW * found[:, -1:], axis=-1))


@dataclass(
    frozen=True,
    eq=False,
)
class Pipeline:
    """The samples under way after a round, and what was learned of their delays.

    L is the longest delay, and K the number of delays that are possible.

    Parameters
    ----------
    coming : array of int
        Samples that arrive in the next round, in the one after it, and so on, (R, M,
        L).
    owed : array of float
        What they cost, (R, M, L).
    taking : array of int
        Samples under way by the round in which they arrive and their delay, (R, L, K).
    arrived : array of int
        Samples that arrived, by the number of rounds that they took, (R, L + 1).
    committed : array of float
        Money spent and reserved, (R,).
    paid : array of float
        What each client was paid in the last round, (R, M).
    """

    coming: Ints
    owed: Floats
    taking: Ints
    arrived: Ints
    committed: Floats
    paid: Floats

    @classmethod
    def empty(
        cls,
        delays: Delays,
        runs: int,
        clients: int,
    ) -> Self:
        """Return the pipeline before round 1."""
        longest = max(delays.longest, 1)
        size = runs * longest * (2 * clients + delays.rounds.size)
        what = f"delay = {longest}: {runs} runs of {clients} clients take"
        check_memory(what, 16 * size)
        shape = (runs, clients, longest)
        return cls(
            coming=np.zeros(shape, dtype=np.int64),
            owed=np.zeros(shape),
            taking=np.zeros((runs, longest, delays.rounds.size), dtype=np.int64),
            arrived=np.zeros((runs, longest + 1), dtype=np.int64),
            committed=np.zeros(runs),
            paid=np.zeros((runs, clients)),
        )

    @property
    def by_client(self) -> Ints:
        """The samples under way at each client, (R, M)."""
        return np.asarray(self.coming.sum(axis=-1))

    @property
    def under_way(self) -> Ints:
        """The samples under way in all, (R,)."""
        return np.asarray(self.taking.sum(axis=(1, 2)))

    def delay(self, delays: Delays) -> Ints:
        """Return the delay that each run has learned, (R,)."""
        waiting = np.zeros_like(self.arrived)
        for place, delay in enumerate(delays.rounds.tolist()):
            # what arrives first was ordered longest ago
            own = self.taking[:, :delay, place]
            waiting[:, 1 : delay + 1] += own[:, ::-1]
        return learned(self.arrived, waiting)

    def after(
        self,
        delays: Delays,
        drawn: Ints,
        charges: Floats,
        committed: Floats,
    ) -> Self:
        """Return the pipeline after the next round.

        Parameters
        ----------
        delays : Delays
            The delays that are possible.
        drawn : array of int
            Samples that each client was ordered, by their delay, (R, M, K).
        charges : array of float
            What they cost, (R, M, K).
        committed : array of float
            What they cost in all, (R,).

        Returns
        -------
        Pipeline
            The pipeline. What arrived is `coming` of this one in its first place, and
            what had no delay.
        """
        rounds = delays.rounds
        coming, owed = _longer(self.coming, -1), _longer(self.owed, -1)
        taking, arrived = _longer(self.taking, 1), self.arrived.copy()
        coming[..., rounds] += drawn
        owed[..., rounds] += charges
        taking[:, rounds, np.arange(rounds.size)] += drawn.sum(axis=1)
        arrived[:, rounds] += taking[:, 0]
        return replace(
            self,
            coming=coming[..., 1:],
            owed=owed[..., 1:],
            taking=taking[:, 1:],
            arrived=arrived,
            committed=self.committed + committed,
            paid=owed[..., 0],
        )

    def spent(self, spent: Floats) -> Floats:
        """Return the money spent, (R,), which is never more than was committed, however
        sums round, and all of it once nothing is under way.
        """
        there = self.under_way > 0
        least = np.minimum(spent, self.committed)
        return np.where(there, least, self.committed)

    def of_runs(self, rows: slice | Ints) -> Self:
        """Return the pipeline of some runs alone."""
        return replace(
            self, **{name: array[rows] for name, array in self.arrays().items()}
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {own.name: getattr(self, own.name) for own in fields(self)}


def _longer(array: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return a copy with one more round at the end of an axis."""
    more = [(0, 0)] * array.ndim
    more[axis] = (0, 1)
    return np.pad(array, more)
