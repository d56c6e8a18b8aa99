"""Recorded prices, of the user's own and of two markets.

They are given in Python or in a column of a CSV or parquet file.
"""

import io
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from headgate.control.checks import checksum, positive
from headgate.control.prices.processes import PriceProcess, rounds_of
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line, shown
from headgate.limits import NUMBER, PRICES
from headgate.reading import check_parquet, csv_text, remedy_of_number

if TYPE_CHECKING:
    import polars

AT_END = ("stop", "repeat")


@dataclass(
    frozen=True,
    eq=False,
)
class Trace(PriceProcess):
    """The same recorded prices for every seed.

    Parameters
    ----------
    prices : tuple of float, optional
        Prices of rounds 1, 2, ….
    at_end : "stop", "repeat", default "stop"
        What happens after the last price: "stop" raises an error, "repeat" starts over.
    file : str, optional
        CSV or parquet file in place of `prices`, relative to the recipe that names it.
    column : str, optional
        Name of the column that holds the prices; left out: price or, if it is missing,
        cost.
    sha256 : str, optional
        Sha256 checksum of the file; a file with another checksum is refused.

    Examples
    --------
    >>> Trace((2.0, 3.0), at_end="repeat").path(np.array([7]), 1, 5).tolist()
    [[2.0, 3.0, 2.0, 3.0]]
    """

    prices: tuple[float, ...] | None = None
    at_end: Literal["stop", "repeat"] = "stop"
    file: str | None = field(
        default=None,
        metadata={"path": True},
    )
    column: str | None = None
    sha256: str | None = None

    def __post_init__(self) -> None:
        if (self.prices is None) == (self.file is None):
            raise SettingError("file: a trace needs either a file or prices")
        if self.at_end not in AT_END:
            raise SettingError(
                f'at_end = "{self.at_end}": must be one of {", ".join(AT_END)}'
            )
        values = self._values
        if values.ndim != 1 or values.size == 0:
            raise DataError(f"{self.source}: holds no prices")
        bad = np.flatnonzero(~((values >= 0) & (values <= NUMBER)))
        if bad.size:
            wanted = f"prices must be finite and zero or more, at most {NUMBER:g}"
            raise DataError(
                f"{self.source}: price {values[bad[0]]} in row {bad[0] + 1}; {wanted}"
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
        if path.suffix not in (".csv", ".parquet"):
            raise DataError(f"file = {path}: must end in .csv or .parquet")
        content = path.read_bytes()
        values = np.array(prices_in(path, content, self.column), dtype=np.float64)
        object.__setattr__(self, "sha256", checksum(path, self.sha256, content))
        return values

    def _upto(self, stop: int) -> Floats:
        rounds, last = self._values.size, stop - 1
        if last > rounds and self.at_end == "stop":
            raise DataError(
                f"{self.source}: ends after {rounds} rounds, round {last} was asked"
                ' for; shorten the run or set prices.at_end = "repeat"'
            )
        return self._values[np.arange(last) % rounds]

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        return np.tile(self._upto(stop)[start - 1 :], (len(seeds), 1))

    def mean(self, rounds: int | None) -> float:
        prices = self._values if rounds is None else self._upto(rounds + 1)
        mean = float(prices.mean())
        if mean <= 0:
            raise DataError(
                f"{self.source}: every price in rounds 1 to {rounds} is zero"
            )
        return mean


def prices_in(
    path: Path,
    content: bytes,
    asked: str | None,
) -> list[float]:
    """Return the prices in the content of a file, with NaN for a missing one.

    `path` is its name in error messages, and its suffix says how to read it. `asked` is
    the name of the column; left out: price or, if it is missing, cost.
    """
    import polars

    kind = path.suffix[1:]
    unreadable = (
        OSError,
        ValueError,
        polars.exceptions.PolarsError,
        polars.exceptions.PanicException,
    )
    try:
        frame = _frame(path, kind, content)
        name = _named(path, frame.collect_schema().names(), asked)
        column = frame.select(name).collect()[name]
        if kind == "csv":
            column = column.fill_null("").str.strip_chars()
            _check_numbers(path, column)
        elif not column.dtype.is_numeric():
            raise DataError(
                f'{path}: column "{name}" holds {column.dtype}, not numbers'
            )
        values = column.cast(polars.Float64)
    except unreadable as error:
        if kind == "csv":
            _check_commas(path, content)
        raise DataError(
            f"{path}: cannot be read as {kind} ({one_line(error, 200)})"
        ) from None
    if len(values) > PRICES:
        raise DataError(f"{path}: more than {PRICES:,} prices")
    return values.fill_null(float("nan")).to_list()


def _frame(
    path: Path,
    kind: str,
    content: bytes,
) -> "polars.LazyFrame":
    import polars

    if kind == "csv":
        text = csv_text(path, content).encode()
        return polars.read_csv(
            text,
            infer_schema=False,
            n_rows=PRICES + 1,
        ).lazy()
    check_parquet(path, content, most=PRICES)
    return polars.scan_parquet(io.BytesIO(content))


def _named(
    path: Path,
    columns: list[str],
    asked: str | None,
) -> str:
    """Return the name of the column that holds the prices."""
    wanted = ("price", "cost") if asked is None else (asked,)
    for name in wanted:
        if name in columns:
            return name
    named = ", ".join(f'"{each}"' for each in columns) or "nothing"
    raise DataError(
        f'{path}: no column "{wanted[0]}"; its header names {shown(named, 300)}'
    )


def _check_commas(path: Path, content: bytes) -> None:
    """Refuse a row with more commas than the header, for example decimal commas."""
    header, *rows = csv_text(path, content).splitlines() or [""]
    for number, row in enumerate(rows, 1):
        if row.count(",") > header.count(","):
            raise DataError(
                f'{path}: "{shown(row)}" in row {number} has more columns than the'
                " header; write numbers with a point, not with a comma"
            )


def _check_numbers(path: Path, column: "polars.Series") -> None:
    import polars

    odd = column.cast(polars.Float64, strict=False).is_null()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise DataError(
            f'{path}: "{shown(column[row])}" in row {row + 1} of column'
            f' "{column.name}" is not a number{remedy_of_number(column[row])}'
        )


# market prices; recorded/README.md has sources and licences


@cache
def market_table(name: str) -> tuple[tuple[str, ...], Floats]:
    """Return the points of a file in recorded/ and its prices, (rows, points).

    The file holds whole cents, (points, rows) of int32, stored as byte planes from the
    lowest byte on, which compresses best.
    """
    path = Path(__file__).parent / "recorded" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as file:
        points = tuple(file["points"].tolist())
        planes = np.stack(file["cents"], axis=-1)
    cents = planes.view("<i4")[..., 0]
    values = np.ascontiguousarray(cents.T) / 100
    values.flags.writeable = False
    return points, values


@dataclass(frozen=True)
class Market(PriceProcess):
    """Recorded market prices, with 0 for negative ones.

    Each seed starts at a random row; the first row follows the last.

    Parameters
    ----------
    scale : float, default 0.1
        Factor from the market's price to the price of a sample.
    """

    scale: float = 0.1

    market: ClassVar[str]
    unit = "$"

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    @property
    def _prices(self) -> Floats:
        """The prices of samples, (rows,); (rows, clients) if each has its own price."""
        _, values = market_table(self.market)
        return self._scaled(values[:, 0])

    def _scaled(self, values: Floats) -> Floats:
        return self.scale * np.maximum(values, 0.0)

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        prices = self._prices
        seed, t = rounds_of(seeds, start, stop)
        first = (uniform(seed, Purpose.PRICE_START, 0) * len(prices)).astype(np.int64)
        return np.asarray(prices[(first + t - 1) % len(prices)])

    def mean(self, rounds: int | None) -> float:
        """Return the mean over all rows and clients.

        Every starting row is equally likely.
        """
        return float(self._prices.mean())


@dataclass(frozen=True)
class Ercot(Market):
    """Hourly electricity prices in Texas.

    They are the mean of the hubs as one price or, with `points`, a price for each
    client.

    Parameters
    ----------
    points : tuple of str, default ()
        Hub or load zone of each client, for example HB_WEST or LZ_HOUSTON.
    """

    points: tuple[str, ...] = ()

    market = "ercot"

    def __post_init__(self) -> None:
        super().__post_init__()
        known, _ = market_table(self.market)
        for point in self.points:
            if point not in known:
                raise SettingError(
                    f"points = {list(self.points)}: {point} is none of"
                    f" {', '.join(known)}"
                )

    @property
    def _prices(self) -> Floats:
        if not self.points:
            return super()._prices
        known, values = market_table(self.market)
        return self._scaled(values[:, [known.index(point) for point in self.points]])


@dataclass(frozen=True)
class Brent(Market):
    """Daily crude oil prices, which change slowly over a wide range."""

    market = "brent"
