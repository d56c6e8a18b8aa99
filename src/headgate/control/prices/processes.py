"""Prices of the usual kinds: independent, fixed, jumping between levels, seasonal."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive, zero_or_more
from headgate.control.prices.process import PriceProcess, rounds_of
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError
from headgate.limits import LEVELS


@dataclass(frozen=True)
class Uniform(PriceProcess):
    """Independent and uniform on [low, high]: the paper's prices with 1 and 10."""

    low: float
    high: float

    def __post_init__(self) -> None:
        zero_or_more("low", self.low)
        positive("high", self.high)
        if self.low > self.high:
            raise SettingError(f"low = {self.low}: must not be above high = {self.high}")

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        return self.low + (self.high - self.low) * uniform(seed, Purpose.PRICE, t)

    def mean(self, rounds: int | None) -> float:
        return (self.low + self.high) / 2

    def most(self, rounds: int | None) -> float:
        return self.high


@dataclass(frozen=True)
class UniformInteger(Uniform):
    """Independent and uniform on the whole numbers low..high: the prices of the released scripts."""

    low: int
    high: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            if int(getattr(self, name)) != getattr(self, name):
                raise SettingError(f"{name} = {getattr(self, name)}: must be a whole number")

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        return self.low + np.floor((self.high - self.low + 1) * uniform(seed, Purpose.PRICE, t))


@dataclass(frozen=True)
class Fixed(PriceProcess):
    """The same price in every round."""

    value: float

    def __post_init__(self) -> None:
        positive("value", self.value)

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        return np.full((len(seeds), stop - start), float(self.value))

    def mean(self, rounds: int | None) -> float:
        return self.value

    def most(self, rounds: int | None) -> float:
        return self.value


@dataclass(frozen=True)
class Markov(PriceProcess):
    """The price jumps between levels; row i of `transition` says where from level i. It starts in equilibrium."""

    levels: tuple[float, ...]
    transition: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        zero_or_more("levels", self.levels)
        if len(self.levels) > LEVELS:
            raise SettingError(f"levels: {len(self.levels):,} of them; at most {LEVELS:,}")
        matrix = np.asarray(self.transition, dtype=np.float64) if self._is_square() else np.zeros((0, 0))
        if matrix.shape != (len(self.levels),) * 2 or not self.levels:
            raise SettingError(f"transition: needs {len(self.levels)} rows of {len(self.levels)} probabilities")
        if not np.all(np.isfinite(matrix)) or np.any(matrix < 0) or np.any(np.abs(matrix.sum(axis=1) - 1) > 1e-9):
            raise SettingError("transition: every row must hold probabilities that sum to 1")
        if np.linalg.matrix_rank(np.eye(len(matrix)) - matrix) < len(matrix) - 1:
            raise SettingError("transition: some levels can never be reached from others, so there is no one mean price")
        positive("mean of levels", self.mean(None))

    def _is_square(self) -> bool:
        return all(len(row) == len(self.levels) for row in self.transition)

    @cached_property
    def equilibrium(self) -> Floats:
        """The share of rounds spent at each level."""
        matrix = np.asarray(self.transition, dtype=np.float64)
        size = len(matrix)
        system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
        share: Floats = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
        return np.asarray(np.maximum(share, 0.0) / np.maximum(share, 0.0).sum())

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, 0, stop)
        draws = uniform(seed, Purpose.PRICE_STATE, t)
        reach = np.cumsum(np.asarray(self.transition, dtype=np.float64), axis=1)[:, :-1]
        state = (draws[:, 0, None] >= np.cumsum(self.equilibrium)[:-1]).sum(axis=1)
        states = np.empty((len(seeds), max(stop - 1, 0)), dtype=np.int64)
        for i in range(stop - 1):  # the state of round t hangs on all earlier ones
            state = (draws[:, i + 1, None] >= reach[state]).sum(axis=1)
            states[:, i] = state
        return np.asarray(self.levels, dtype=np.float64)[states[:, start - 1 :]]

    def mean(self, rounds: int | None) -> float:
        return float(self.equilibrium @ np.asarray(self.levels))

    def most(self, rounds: int | None) -> float:
        return max(self.levels)


@dataclass(frozen=True)
class Seasonal(PriceProcess):
    """average + amplitude·sin(2π·t/period), plus noise uniform on [−noise, noise]."""

    average: float
    amplitude: float
    period: float
    noise: float = 0.0

    def __post_init__(self) -> None:
        positive("average", self.average)
        positive("period", self.period)
        zero_or_more("amplitude", self.amplitude)
        zero_or_more("noise", self.noise)
        if self.amplitude + self.noise > self.average:
            raise SettingError(
                f"amplitude + noise = {self.amplitude + self.noise}: more than average = {self.average}, "
                "so prices would fall below zero"
            )

    def _season(self, t: NDArray[np.int64]) -> Floats:
        return np.asarray(self.average + self.amplitude * np.sin(2 * np.pi * t / self.period))

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        noise = self.noise * (2 * uniform(seed, Purpose.PRICE_NOISE, t) - 1)
        return np.maximum(self._season(t) + noise, 0.0)  # rounding alone could go below zero

    def mean(self, rounds: int | None) -> float:
        return self.average if rounds is None else float(self._season(np.arange(1, rounds + 1)).mean())

    def most(self, rounds: int | None) -> float:
        return self.average + self.amplitude + self.noise
