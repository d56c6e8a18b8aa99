"""Purchases that somebody made, from a CSV file: when, at which price, how many samples, and for which client."""

import csv
import io
import math
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np

from headgate.control.types import Bools, Floats, Ints
from headgate.errors import DataError
from headgate.escaping import shown
from headgate.limits import NUMBER, PURCHASES, SAMPLES
from headgate.reading import read_text

Moment = float | datetime
NEEDED = {"time": ("time",), "price": ("price",), "samples": ("samples", "bought")}
"""columns, each with the names that its header may have"""

LONGEST = 40
"""characters of a time"""


@dataclass(frozen=True, eq=False)
class Purchases:
    """Prices that were offered and samples that were bought. Rows of one time are one round."""

    times: tuple[str, ...]
    """of each round, as the file writes them"""
    price: Floats
    """of one sample, (T, M); not a number where a client has no row, which is no offer"""
    bought: Ints
    """(T, M)"""

    @cached_property
    def offered(self) -> Bools:
        return ~np.isnan(self.price)

    def paid(self, bought: Ints) -> Floats:
        """What so many samples cost at these prices, round by round, (T,)."""
        return np.asarray((np.where(self.offered, self.price, 0.0) * bought).sum(axis=-1))

    def of_clients(self, some: Bools) -> "Purchases":
        """The same of some clients alone, in the rounds in which one of them has an offer."""
        rounds = np.flatnonzero(self.offered[:, some].any(axis=-1))
        return Purchases(tuple(self.times[t] for t in rounds), self.price[rounds][:, some], self.bought[rounds][:, some])


def moment(text: str) -> Moment | None:
    """A number or an ISO 8601 date, with or without a time; None where it is neither.

    >>> moment("3.5"), moment("2026-01-05"), moment("Monday"), moment("nan")
    (3.5, datetime.datetime(2026, 1, 5, 0, 0), None, None)
    """
    for read in (float, datetime.fromisoformat) if len(text) <= LONGEST else ():
        try:
            value: Moment = read(text)
        except ValueError:
            continue
        return value if isinstance(value, datetime) or math.isfinite(value) else None
    return None


def read_purchases(path: Path) -> Purchases:
    """All rows of a CSV file with the columns time, price, samples (or bought) and perhaps client, in the order of time."""
    rows = csv.DictReader(io.StringIO(read_text(path).removeprefix("\ufeff"), newline=""))
    found: dict[tuple[Moment, str], tuple[str, float, int]] = {}
    try:
        rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
        columns = {column: _column(path, names, rows.fieldnames) for column, names in NEEDED.items()}
        for row in rows:
            where = f"{path}: line {rows.line_num}"
            if None in row:
                raise DataError(f"{where}: has more cells than the header has columns")
            cells = {name: (text or "").strip() for name, text in row.items()}
            client = cells.get("client", "")
            if "client" in cells and not client:
                raise DataError(f"{where}: client is empty")
            when = moment(cells["time"])
            if when is None:
                raise DataError(f"{where}: time = {shown(cells['time'])}: must be a number or an ISO date, as in 2026-01-05")
            if found and _kind(when) != (before := _kind(next(iter(found))[0])):
                raise DataError(f"{where}: time = {shown(cells['time'])}: is a {_kind(when)}, the first one a {before}")
            if (when, client) in found:
                whose = f" for client {shown(client)}" if client else ""
                raise DataError(f"{where}: time = {shown(cells['time'])}: comes twice{whose}; one row for each is needed")
            price = _number(where, "price", cells[columns["price"]], NUMBER)
            samples = _number(where, columns["samples"], cells[columns["samples"]], SAMPLES)
            if samples % 1:
                raise DataError(f"{where}: {columns['samples']} = {samples:g}: must be a whole number")
            found[when, client] = cells["time"], price, int(samples)
            if len(found) > PURCHASES:
                raise DataError(f"{path}: more than {PURCHASES:,} purchases")
    except csv.Error as error:
        raise DataError(f"{path}: cannot be read as CSV ({error})") from None
    return _arranged(path, found)


def _column(path: Path, names: tuple[str, ...], there: list[str]) -> str:
    if column := next((name for name in names if name in there), None):
        return column
    raise DataError(f'{path}: no column "{names[0]}"; its header names {shown(", ".join(there) or "nothing", 300)}')


def _kind(when: Moment) -> str:
    """Times of one kind can be put in order."""
    return "number" if isinstance(when, float) else "date" if when.tzinfo is None else "date with a time zone"


def _number(where: str, column: str, text: str, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise DataError(f"{where}: {column} = {shown(text)}: must be a number, 0 or more and at most {most:g}")
    return value


def _arranged(path: Path, found: dict[tuple[Moment, str], tuple[str, float, int]]) -> Purchases:
    """By round and client."""
    if not found:
        raise DataError(f"{path}: holds no purchases")
    texts = {when: text for (when, _), (text, _, _) in found.items()}
    rounds = {when: t for t, when in enumerate(sorted(texts))}
    clients = {client: m for m, client in enumerate(sorted({client for _, client in found}))}
    if (cells := len(rounds) * len(clients)) > PURCHASES:
        raise DataError(f"{path}: {len(rounds):,} times and {len(clients):,} clients; at most {PURCHASES:,} of both multiplied")
    price, bought = np.full(cells, np.nan), np.zeros(cells, dtype=np.int64)
    for (when, client), (_, own, samples) in found.items():
        place = rounds[when] * len(clients) + clients[client]
        price[place], bought[place] = own, samples
    shape = len(rounds), len(clients)
    purchases = Purchases(tuple(texts[when] for when in rounds), price.reshape(shape), bought.reshape(shape))
    paid = float(purchases.paid(purchases.bought).sum())
    if not 1 / NUMBER <= paid <= NUMBER:
        raise DataError(f"{path}: {paid:g} was paid in all; must be more than nothing and at most {NUMBER:g}")
    return purchases
