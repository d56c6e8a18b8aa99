"""Synthetic prices of our studies beside those that come with headgate."""

from dataclasses import dataclass

import numpy as np

from headgate.control.checks import a_share, positive, whole, zero_or_more
from headgate.control.prices import PriceProcess, Uniform, rounds_of
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError, require
from headgate.limits import ROUNDS


@dataclass(frozen=True)
class Integer(Uniform):
    """Independent prices, uniform on the whole numbers low..high.

    The released scripts use them.

    Parameters
    ----------
    low : int
        Lowest price.
    high : int
        Highest price.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("low", self.low), ("high", self.high)):
            require(int(value) == value, name, value, "a whole number")

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        numbers = self.high - self.low + 1
        return self.low + np.floor(numbers * uniform(seed, Purpose.PRICE, t))


@dataclass(frozen=True)
class Seasonal(PriceProcess):
    """A periodic price, average + amplitude·sin(2π·t/period), plus uniform noise.

    Parameters
    ----------
    average : float
        Mean of a period.
    amplitude : float
        Largest difference between the season and its mean.
    period : float
        Length of a season in rounds.
    noise : float, default 0.0
        Largest difference between a price and the season.
    """

    average: float
    amplitude: float
    period: float
    noise: float = 0.0

    def __post_init__(self) -> None:
        positive("average", self.average)
        positive("period", self.period)
        zero_or_more("amplitude", self.amplitude)
        zero_or_more("noise", self.noise)
        both = self.amplitude + self.noise
        if both > self.average:
            raise SettingError(
                f"amplitude + noise = {both}: more than average = {self.average}, so"
                " prices would fall below zero"
            )

    def _season(self, t: Ints) -> Floats:
        wave = np.sin(2 * np.pi * t / self.period)
        return np.asarray(self.average + self.amplitude * wave)

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        noise = self.noise * (2 * uniform(seed, Purpose.PRICE_NOISE, t) - 1)
        # Rounding alone could make a price negative.
        return np.maximum(self._season(t) + noise, 0.0)

    def mean(self, rounds: int | None) -> float:
        if rounds is None:
            return self.average
        return float(self._season(np.arange(1, rounds + 1)).mean())


@dataclass(frozen=True)
class Bursts(Uniform):
    """Uniform prices on [low, high], times `factor` during a burst.

    Parameters
    ----------
    factor : float
        Factor on the prices during a burst.
    chance : float
        Probability that a burst begins in a round.
    length : int
        Number of rounds of a burst.
    """

    factor: float
    chance: float
    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("factor", self.factor)
        whole("length", self.length, most=ROUNDS)
        a_share("chance", self.chance)

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        calm = super().path(seeds, start, stop)
        # Shifted by `length`, because bursts may begin before round 1.
        seed, t = rounds_of(seeds, start, stop + self.length - 1)
        begins = np.cumsum(uniform(seed, Purpose.PRICE_STATE, t) < self.chance, axis=-1)
        before = np.pad(begins, ((0, 0), (1, 0)))[:, : stop - start]
        bursting = begins[:, self.length - 1 :] > before
        return np.where(bursting, self.factor * calm, calm)

    def mean(self, rounds: int | None) -> float:
        bursting = 1 - (1 - self.chance) ** self.length
        return super().mean(rounds) * (1 + (self.factor - 1) * bursting)


@dataclass(frozen=True)
class Drift(PriceProcess):
    """Prices uniform on mean·(1 ± noise), where the mean moves and then stays.

    Parameters
    ----------
    first : float
        Mean in round 1.
    last : float
        Mean from round `rounds` on.
    rounds : int
        Number of rounds until the mean stays.
    noise : float, default 0.5
        Largest relative difference between a price and the mean, from 0 to 1.
    """

    first: float
    last: float
    rounds: int
    noise: float = 0.5

    def __post_init__(self) -> None:
        positive("first", self.first)
        positive("last", self.last)
        whole("rounds", self.rounds, most=ROUNDS)
        a_share("noise", self.noise)  # keeps prices at zero or above

    def _mean_at(self, t: Ints) -> Floats:
        done = np.minimum((t - 1) / max(self.rounds - 1, 1), 1.0)
        return np.asarray(self.first + (self.last - self.first) * done)

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        noise = self.noise * (2 * uniform(seed, Purpose.PRICE, t) - 1)
        return self._mean_at(t) * (1 + noise)

    def mean(self, rounds: int | None) -> float:
        if rounds is None:
            return self.last
        return float(self._mean_at(np.arange(1, rounds + 1)).mean())


@dataclass(frozen=True)
class Pareto(PriceProcess):
    """Independent prices whose P(c > x) falls like x^−tail between `low` and `high`.

    Parameters
    ----------
    low : float
        Lowest price.
    high : float
        Highest price.
    tail : float
        Exponent of the tail.
    """

    low: float
    high: float
    tail: float

    def __post_init__(self) -> None:
        positive("low", self.low)
        positive("tail", self.tail)
        fits = self.low < self.high < np.inf
        require(fits, "high", self.high, f"finite and above low = {self.low}")

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        beyond = (self.low / self.high) ** self.tail
        draw = uniform(seed, Purpose.PRICE, t)
        price = self.low * (1 - draw * (1 - beyond)) ** (-1 / self.tail)
        return np.asarray(np.minimum(price, self.high))

    def mean(self, rounds: int | None) -> float:
        ratio = self.high / self.low
        whole = 1 - ratio**-self.tail
        if self.tail == 1:
            return float(self.low * np.log(ratio) / whole)
        scale = self.low * self.tail / (self.tail - 1)
        return float(scale * (1 - ratio ** (1 - self.tail)) / whole)
