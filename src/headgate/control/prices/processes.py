"""The base class of price processes, and the synthetic processes.

A process gives c(1), c(2), …, the price of a sample in each round.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from headgate.control.checks import a_share, positive, whole, zero_or_more
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError
from headgate.limits import LEVELS, ROUNDS

ROUNDS_TO_ONE = 1e-9
"""largest difference to 1 of the sum of probabilities"""


class PriceProcess(ABC):
    """The base class of price processes: a frozen value whose fields are settings.

    The price of a round depends only on seed and round, so more rounds never change
    earlier prices and all policies with the same seed meet the same prices. Each
    process knows its mean, which the plan needs.

    Examples
    --------
    >>> from headgate.testing import check_prices
    >>> class Rising(PriceProcess):
    ...     def path(self, seeds, start, stop):
    ...         return np.tile(np.arange(start, stop, dtype=float), (len(seeds), 1))
    ...     def mean(self, rounds):
    ...         return 1.0 if rounds is None else (rounds + 1) / 2
    >>> Rising().path([0, 1], start=1, stop=4)
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """

    unit: ClassVar[str] = ""
    """currency symbol of the prices; empty for synthetic prices"""

    @abstractmethod
    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        """Return the prices of rounds start ≤ t < stop.

        Parameters
        ----------
        seeds : array
            The seed of each run, (R,).
        start, stop : int
            The first round and the round after the last one; rounds are counted from 1.

        Returns
        -------
        array
            Prices, (R, stop − start), or (R, stop − start, M) if each client has its
            own price.
        """

    @abstractmethod
    def mean(self, rounds: int | None) -> float:
        """Return c̄_T, the expected average price.

        Parameters
        ----------
        rounds : int or None
            The number of rounds T of the average over rounds 1..T. None means the
            long-run average.

        Returns
        -------
        float
            The mean price.
        """


def rounds_of(
    seeds: Ints,
    start: int,
    stop: int,
) -> tuple[Ints, Ints]:
    """Return seeds and rounds that broadcast to (R, stop − start).

    They are for `headgate.control.randomness.uniform`.

    Parameters
    ----------
    seeds : array of int
        The seed of each run, (R,).
    start, stop : int
        The first round and the round after the last one.

    Returns
    -------
    seeds, rounds : tuple of array of int
        The seeds, (R, 1), and the rounds, (1, stop − start).
    """
    seed = np.asarray(seeds, dtype=np.int64)[:, None]
    return seed, np.arange(start, stop, dtype=np.int64)[None, :]


@dataclass(frozen=True)
class Uniform(PriceProcess):
    """Independent prices, uniform on [low, high]. The paper uses 1 and 10.

    Parameters
    ----------
    low : float
        Lowest price.
    high : float
        Highest price.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        zero_or_more("low", self.low)
        positive("high", self.high)
        if self.low > self.high:
            raise SettingError(
                f"low = {self.low}: must not be above high = {self.high}"
            )

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        return self.low + (self.high - self.low) * uniform(seed, Purpose.PRICE, t)

    def mean(self, rounds: int | None) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Fixed(PriceProcess):
    """The same price in every round.

    Parameters
    ----------
    value : float
        The price.
    """

    value: float

    def __post_init__(self) -> None:
        positive("value", self.value)

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        return np.full((len(seeds), stop - start), float(self.value))

    def mean(self, rounds: int | None) -> float:
        return self.value


@dataclass(frozen=True)
class Markov(PriceProcess):
    """The price jumps between levels and starts in equilibrium.

    Parameters
    ----------
    levels : tuple of float
        Prices between which the process jumps.
    transition : tuple[tuple of float, ...]
        Probabilities of the next level; row i holds those from level i.
    """

    levels: tuple[float, ...]
    transition: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        zero_or_more("levels", self.levels)
        size = len(self.levels)
        if size > LEVELS:
            raise SettingError(f"levels: {size:,} of them; at most {LEVELS:,}")
        lengths = [len(row) for row in self.transition]
        if size == 0 or lengths != [size] * size:
            raise SettingError(f"transition: needs {size} rows of {size} probabilities")
        matrix = self._matrix
        possible = np.all(np.isfinite(matrix)) and np.all(matrix >= 0)
        if not possible or np.any(np.abs(matrix.sum(axis=1) - 1) > ROUNDS_TO_ONE):
            raise SettingError(
                "transition: every row must hold probabilities that sum to 1"
            )
        if np.linalg.matrix_rank(np.eye(size) - matrix) < size - 1:
            raise SettingError(
                "transition: some levels can never be reached from others, so there is"
                " no one mean price"
            )
        positive("mean of levels", self.mean(None))

    @property
    def _matrix(self) -> Floats:
        return np.asarray(self.transition, dtype=np.float64)

    @cached_property
    def equilibrium(self) -> Floats:
        """The long-run share of rounds at each level."""
        matrix = self._matrix
        size = len(matrix)
        system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
        goal = np.append(np.zeros(size), 1.0)
        found: Floats = np.linalg.lstsq(system, goal, rcond=None)[0]
        share = np.maximum(found, 0.0)
        return np.asarray(share / share.sum())

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        seed, t = rounds_of(seeds, 0, stop)
        draws = uniform(seed, Purpose.PRICE_STATE, t)[..., None]
        reach = np.cumsum(self._matrix, axis=1)[:, :-1]
        state = (draws[:, 0] >= np.cumsum(self.equilibrium)[:-1]).sum(axis=1)
        states = np.empty((len(seeds), max(stop - 1, 0)), dtype=np.int64)
        # The state of a round depends on all earlier ones.
        for i in range(stop - 1):
            state = (draws[:, i + 1] >= reach[state]).sum(axis=1)
            states[:, i] = state
        return np.asarray(self.levels, dtype=np.float64)[states[:, start - 1 :]]

    def mean(self, rounds: int | None) -> float:
        return float(self.equilibrium @ np.asarray(self.levels))


@dataclass(frozen=True)
class Switches(PriceProcess):
    """The price stays at each level for its number of rounds.

    It is the same for every seed, as an adversary could choose it. After all levels the
    price stays at the last one or, with `repeat`, the sequence starts over.

    Parameters
    ----------
    levels : tuple of float
        Prices, in order.
    lengths : tuple of int
        Number of rounds for each level.
    repeat : bool, default False
        Whether the sequence starts over after the last level.
    """

    levels: tuple[float, ...]
    lengths: tuple[int, ...]
    repeat: bool = False

    def __post_init__(self) -> None:
        zero_or_more("levels", self.levels)
        if not self.levels or len(self.levels) != len(self.lengths):
            raise SettingError(
                f"lengths: needs one for each of the {len(self.levels)} levels, has"
                f" {len(self.lengths)}"
            )
        for length in self.lengths:
            whole("lengths", length, most=ROUNDS)
        positive("mean of levels", self.mean(None))

    def _prices(self, start: int, stop: int) -> Floats:
        ends = np.cumsum(self.lengths)
        t = np.arange(start - 1, stop - 1)
        place = t % ends[-1] if self.repeat else np.minimum(t, ends[-1] - 1)
        at = np.searchsorted(ends, place, side="right")
        return np.asarray(np.asarray(self.levels, dtype=np.float64)[at])

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        return np.tile(self._prices(start, stop), (len(seeds), 1))

    def mean(self, rounds: int | None) -> float:
        if rounds is not None:
            return float(self._prices(1, rounds + 1).mean())
        if self.repeat:
            return float(np.average(self.levels, weights=self.lengths))
        return float(self.levels[-1])


@dataclass(frozen=True)
class PerClient(PriceProcess):
    """A price for each client, c_m(t), (R, T, M).

    It is the common price × the client's factor × a uniform number in 1 ± `noise`.

    Parameters
    ----------
    common : PriceProcess
        Price process that all clients share.
    factors : tuple of float
        Factor of each client.
    noise : float, default 0.0
        Largest relative difference between a client's price and its factor times the
        common price, from 0 to 1.
    """

    common: PriceProcess
    factors: tuple[float, ...]
    noise: float = 0.0

    def __post_init__(self) -> None:
        positive("factors", self.factors)
        if not self.factors:
            raise SettingError("factors = []: needs one factor for each client")
        a_share("noise", self.noise)  # keeps prices at zero or above

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        clients = np.arange(len(self.factors))
        draw = uniform(seed[..., None], Purpose.PRICE_CLIENT, t[..., None], clients)
        own = np.asarray(self.factors) * (1 + self.noise * (2 * draw - 1))
        return self.common.path(seeds, start, stop)[..., None] * own

    def mean(self, rounds: int | None) -> float:
        """Return the expected average price over rounds and clients."""
        return self.common.mean(rounds) * float(np.mean(self.factors))


@dataclass(frozen=True)
class WithLooks(PriceProcess):
    """The price of a label plus the price of the looks for it.

    It is for clients that look at samples before they choose.

    Parameters
    ----------
    labels : PriceProcess
        Price of a label.
    looks : float
        Price of the looks for a label.
    """

    labels: PriceProcess
    looks: float

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        return self.labels.path(seeds, start, stop) + self.looks

    def mean(self, rounds: int | None) -> float:
        return self.labels.mean(rounds) + self.looks
