"""Where prices come from. A process is a frozen value; `path` is addressed by seed and round.

Asking for more rounds never changes earlier ones, every policy with the same seed meets the same
prices, and each process knows its mean, which the plan needs.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import positive, zero_or_more
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import DataError, SettingError


class PriceProcess(Protocol):
    """c(1), c(2), …: the price of one sample in each round."""

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        """Prices of rounds start ≤ t < stop, one row per seed, (R, stop − start)."""

    def mean(self, rounds: int | None) -> float:
        """c̄_T: the expected average price over rounds 1..T; None: in the long run."""

    def most(self, rounds: int | None) -> float:
        """No price is higher."""


def rounds_of(seeds: Ints, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Addresses that broadcast to (R, stop − start)."""
    return np.asarray(seeds, dtype=np.int64)[:, None], np.arange(start, stop, dtype=np.int64)[None, :]


@dataclass(frozen=True)
class Uniform:
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
class UniformInteger:
    """Independent and uniform on the whole numbers low..high: the prices of the released scripts."""

    low: int
    high: int

    def __post_init__(self) -> None:
        Uniform(self.low, self.high)
        for name in ("low", "high"):
            if int(getattr(self, name)) != getattr(self, name):
                raise SettingError(f"cost.{name} = {getattr(self, name)}: must be a whole number")

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        seed, t = rounds_of(seeds, start, stop)
        return self.low + np.floor((self.high - self.low + 1) * uniform(seed, Purpose.PRICE, t))

    def mean(self, rounds: int | None) -> float:
        return (self.low + self.high) / 2

    def most(self, rounds: int | None) -> float:
        return float(self.high)


@dataclass(frozen=True)
class Constant:
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
class Markov:
    """The price jumps between levels; row i of `transition` says where from level i. It starts in equilibrium."""

    levels: tuple[float, ...]
    transition: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        zero_or_more("levels", self.levels)
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
class Seasonal:
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


AT_END = ("stop", "repeat")


@dataclass(frozen=True, eq=False)
class Trace:
    """Recorded prices, the same for every seed. Past its end: "stop" refuses, "repeat" starts over."""

    prices: Floats
    at_end: str = "stop"
    source: str = "trace"

    def __post_init__(self) -> None:
        prices = np.array(self.prices, dtype=np.float64)
        if prices.ndim != 1 or prices.size == 0:
            raise DataError(f"{self.source}: holds no prices")
        bad = np.flatnonzero(~np.isfinite(prices) | (prices < 0))
        if bad.size:
            raise DataError(
                f"{self.source}: price {prices[bad[0]]} in row {bad[0] + 1}; prices must be finite and zero or more"
            )
        if not prices.any():
            raise DataError(f"{self.source}: every price is zero")
        if self.at_end not in AT_END:
            raise SettingError(f'at_end = "{self.at_end}": must be one of {", ".join(AT_END)}')
        prices.setflags(write=False)
        object.__setattr__(self, "prices", prices)

    def _upto(self, stop: int) -> Floats:
        if stop - 1 > self.prices.size and self.at_end == "stop":
            raise DataError(
                f"{self.source}: ends after {self.prices.size} rounds, round {stop - 1} was asked for; "
                'shorten the run or set at_end = "repeat"'
            )
        return self.prices[np.arange(stop - 1) % self.prices.size]

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        return np.tile(self._upto(stop)[start - 1 :], (len(seeds), 1))

    def mean(self, rounds: int | None) -> float:
        mean = float(self.prices.mean() if rounds is None else self._upto(rounds + 1).mean())
        if mean <= 0:
            raise DataError(f"{self.source}: every price in rounds 1 to {rounds} is zero")
        return mean

    def most(self, rounds: int | None) -> float:
        return float(self.prices.max())


def read_trace(path: Path, column: str = "cost", at_end: str = "stop") -> Trace:
    """Prices from one column of a CSV or parquet file, in the order of its rows."""
    if not path.is_file():
        raise DataError(f"file = {path}: no such file")
    readers = {".csv": _csv_column, ".parquet": _parquet_column}
    if path.suffix not in readers:
        raise DataError(f"file = {path}: must end in .csv or .parquet")
    return Trace(np.asarray(readers[path.suffix](path, column), dtype=np.float64), at_end, str(path))


def _csv_column(path: Path, column: str) -> Sequence[float]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            if column not in (rows.fieldnames or ()):
                raise DataError(f'{path}: no column "{column}"; it has {", ".join(rows.fieldnames or ["none"])}')
            prices = []
            for number, row in enumerate(rows, start=1):
                try:
                    prices.append(float(row[column] or ""))
                except ValueError:
                    raise DataError(f'{path}: "{row[column]}" in row {number} of column "{column}" is not a number') from None
            return prices
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from None


def _parquet_column(path: Path, column: str) -> Sequence[float]:
    import polars

    try:
        columns = polars.read_parquet_schema(path)
        if column not in columns:
            raise DataError(f'{path}: no column "{column}"; it has {", ".join(columns)}')
        if not columns[column].is_numeric():
            raise DataError(f'{path}: column "{column}" holds {columns[column]}, not numbers')
        values = polars.read_parquet(path, columns=[column])[column].cast(polars.Float64)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise DataError(f"{path}: cannot be read as parquet ({str(error).splitlines()[0]})") from None
    return [float("nan") if value is None else value for value in values.to_list()]
