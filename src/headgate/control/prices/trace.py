"""Recorded prices, from Python or from a column of a CSV or parquet file."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from headgate.control.checks import checksum
from headgate.control.prices.processes import PriceProcess
from headgate.control.types import Floats, Ints
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.limits import NUMBER, PRICES
from headgate.reading import check_parquet

AT_END = ("stop", "repeat")


@dataclass(frozen=True, eq=False)
class Trace(PriceProcess):
    """The same prices for every seed. Past their end: "stop" refuses, "repeat" starts over.

    >>> Trace((2.0, 3.0), at_end="repeat").path(np.array([7]), 1, 5).tolist()
    [[2.0, 3.0, 2.0, 3.0]]
    """

    prices: tuple[float, ...] | None = None
    at_end: Literal["stop", "repeat"] = "stop"
    file: str | None = field(default=None, metadata={"path": True})
    """instead of `prices`; relative to the recipe that names it"""
    column: str | None = None
    """left out: price, or cost"""
    sha256: str | None = None
    """of the file; another content is refused"""

    def __post_init__(self) -> None:
        if (self.prices is None) == (self.file is None):
            raise SettingError("file: a trace needs either a file or prices")
        if self.at_end not in AT_END:
            raise SettingError(f'at_end = "{self.at_end}": must be one of {", ".join(AT_END)}')
        values = self._values
        if values.ndim != 1 or values.size == 0:
            raise DataError(f"{self.source}: holds no prices")
        bad = np.flatnonzero(~((values >= 0) & (values <= NUMBER)))
        if bad.size:
            raise DataError(
                f"{self.source}: price {values[bad[0]]} in row {bad[0] + 1}; prices must be finite and zero or more, "
                f"at most {NUMBER:g}"
            )
        if not values.any():
            raise DataError(f"{self.source}: every price is zero")

    @property
    def source(self) -> str:
        return "prices" if self.file is None else self.file

    @cached_property
    def _values(self) -> Floats:
        if self.file is None:
            return np.array(self.prices, dtype=np.float64)
        path = Path(self.file)
        if not path.is_file():
            raise DataError(f"file = {path}: no such file")
        readers = {".csv": _csv_column, ".parquet": _parquet_column}
        if path.suffix not in readers:
            raise DataError(f"file = {path}: must end in .csv or .parquet")
        values = np.asarray(readers[path.suffix](path, self.column), dtype=np.float64)
        object.__setattr__(self, "sha256", checksum(path, self.sha256, path.read_bytes()))
        return values

    def _upto(self, stop: int) -> Floats:
        if stop - 1 > self._values.size and self.at_end == "stop":
            raise DataError(
                f"{self.source}: ends after {self._values.size} rounds, round {stop - 1} was asked for; "
                'shorten the run or set prices.at_end = "repeat"'
            )
        return self._values[np.arange(stop - 1) % self._values.size]

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        return np.tile(self._upto(stop)[start - 1 :], (len(seeds), 1))

    def mean(self, rounds: int | None) -> float:
        mean = float(self._values.mean() if rounds is None else self._upto(rounds + 1).mean())
        if mean <= 0:
            raise DataError(f"{self.source}: every price in rounds 1 to {rounds} is zero")
        return mean


def _column(path: Path, asked: str | None, there: Sequence[str]) -> str:
    """The column that is meant; refused where it is not there."""
    wanted = ("price", "cost") if asked is None else (asked,)
    for name in wanted:
        if name in there:
            return name
    named = ", ".join(f'"{name}"' for name in there) or "nothing"
    raise DataError(f'{path}: no column "{wanted[0]}"; its header names {shown(named, 300)}')


def _csv_column(path: Path, asked: str | None) -> Sequence[float]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            column = _column(path, asked, rows.fieldnames or ())
            prices = []
            for number, row in enumerate(rows, start=1):
                if number > PRICES:
                    raise DataError(f"{path}: more than {PRICES:,} prices")
                try:
                    prices.append(float(row[column] or ""))
                except ValueError:
                    raise DataError(
                        f'{path}: "{shown(row[column])}" in row {number} of column "{column}" is not a number'
                    ) from None
            return prices
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from None


def _parquet_column(path: Path, asked: str | None) -> Sequence[float]:
    import polars

    try:
        columns = polars.read_parquet_schema(path)
        column = _column(path, asked, list(columns))
        if not columns[column].is_numeric():
            raise DataError(f'{path}: column "{column}" holds {columns[column]}, not numbers')
        check_parquet(path, most=PRICES)
        lazy = polars.scan_parquet(path, glob=False, hive_partitioning=False)
        values = lazy.select(column).collect()[column].cast(polars.Float64)
    except (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise DataError(f"{path}: cannot be read as parquet ({str(error).splitlines()[0]})") from None
    return [float("nan") if value is None else value for value in values.to_list()]
