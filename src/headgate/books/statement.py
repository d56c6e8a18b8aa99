"""The accounts as finance reads them: a line for each order, amendments and totals in decimal numbers."""

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from headgate.books.accounts import reserve
from headgate.books.ledger_store import LEDGER, AmendmentRow, LedgerStore
from headgate.control.amendments import Amendment, amended
from headgate.control.types import System
from headgate.errors import DataError, LedgerError

CENT = Decimal("0.01")


class OrderLine(NamedTuple):
    """One order. Amounts are exact."""

    round: int
    client: int
    time: str
    """when the order was written, in UTC"""
    currency: str
    price: Decimal
    asked: int
    delivered: int
    """as far as is known"""
    free: int
    """delivered samples that are not paid for"""
    charged: Decimal
    adjusted: Decimal
    """by invoices; below 0: refunded"""
    paid: Decimal
    """charged and adjusted"""
    answered: int | None
    """the round in which its answer came; None: none yet, and the money is reserved"""
    keys: str
    """of the samples, where clients told them"""


class Statement(NamedTuple):
    """What was ordered and paid, and what is left."""

    lines: list[OrderLine]
    amendments: list[AmendmentRow]
    system: System
    """as the latest amendment leaves it"""
    rounds: int
    """that are settled"""
    approved: Decimal
    """up to the horizon; with an open end, up to the round after the last settled one"""
    spent: Decimal
    reserved: Decimal
    """the most that orders without an answer may cost"""

    @property
    def left(self) -> Decimal:
        """Approved, neither spent nor reserved; below 0 where a cut or an invoice came after the money was spent."""
        return self.approved - self.spent - self.reserved

    def check(self, spent: float) -> None:
        """Refuse lines that do not come to what the ledger says was spent, to the cent."""
        if abs(self.spent - Decimal(spent)) >= CENT / 2:
            raise LedgerError(f"the orders come to {self.spent}, the ledger says {spent}")


def statement(store: LedgerStore) -> Statement:
    """Return the statement of a store."""
    keys, amendments, orders = store.keys(), store.amendments(), store.orders()
    begun, more, adjusted = store.times(), dict[tuple[int, int], int](), dict[tuple[int, int], Decimal]()
    for row in store.corrections():
        more[row[:2]] = more.get(row[:2], 0) + (row.admitted or 0)
    for each in amendments:
        if each.order is not None:
            adjusted[each.order] = adjusted.get(each.order, Decimal(0)) + _exact(each.change.adjust)
    currency, lines = store.system().currency, list[OrderLine]()
    for row in sorted(orders):
        own = row[:2]
        delivered = (row.admitted or 0) + more.get(own, 0)
        charged = _exact(row.price) * max(delivered - row.free, 0)
        change = adjusted.get(own, Decimal(0))
        free = min(row.free, delivered)
        told = " ".join(keys.get(own, ()))
        lines.append(
            OrderLine(*own, begun[row.round], currency, _exact(row.price), row.ordered, delivered, free, charged, change,
                 charged + change, row.learned, told)
        )  # fmt: skip
    loose = sum((_exact(each.change.adjust) for each in amendments if each.order is None), Decimal(0))
    settled, spent = store.settled, sum((line.paid for line in lines), loose)
    system = _now(store, amendments)
    approved = _exact(system.money(settled + 1))
    return Statement(lines, amendments, system, settled, approved, spent, _exact(reserve(store.outstanding())))


def _now(store: LedgerStore, amendments: Iterable[AmendmentRow]) -> System:
    """The system after all amendments."""
    system, spent = store.system(), {past.round: past.spent for past in store.rounds()}
    later = 0.0
    for each in amendments:
        t = min(each.round, store.settled)
        system = amended(system, each.change, t, spent.get(t, 0.0) + later)
        later = later + each.change.adjust if t == store.settled else 0.0
    return system


def _exact(amount: float) -> Decimal:
    """The number as it is printed: 0.1 is one tenth."""
    return Decimal(repr(float(amount)))


@contextmanager
def opened(folder: Path | str) -> Iterator[LedgerStore]:
    """The store of a folder that holds accounts."""
    path = Path(folder) / LEDGER
    if not path.is_file():
        raise DataError(f"{folder}: holds no {LEDGER}; a folder of headgate.Books or of a run on Flower does")
    with closing(LedgerStore(path)) as store:
        yield store


def amend(folder: Path | str, change: Amendment, by: str, why: str, order: tuple[int, int] | None = None) -> Statement:
    """Write an amendment into a folder's accounts, which may be in use, and return the statement after it."""
    with opened(folder) as store:
        found = statement(store)
        begun = store.begun()
        amended(found.system, change, found.rounds if begun is None else begun.round, float(found.spent))
        if float(found.spent) + change.adjust < 0:
            raise LedgerError(f"adjust = {change.adjust:g}: is more than the {found.spent} that were spent")
        store.amend(change, by, why, order)
        return statement(store)


def export(found: Statement, path: Path, kind: str) -> None:
    """Write the lines as csv, json or parquet. Amounts are decimal text in csv and json, and numbers in parquet."""
    rows: list[dict[str, Any]] = [line._asdict() for line in found.lines]
    if kind == "parquet":
        import polars as pl

        money = [name for name, hint in OrderLine.__annotations__.items() if hint is Decimal]
        pl.DataFrame(rows, schema=list(OrderLine._fields)).with_columns(pl.col(money).cast(pl.Float64)).write_parquet(path)
        return
    for row in rows:
        row |= {name: f"{value:f}" for name, value in row.items() if isinstance(value, Decimal)}
    with path.open("w", newline="", encoding="utf-8") as file:
        if kind == "json":
            json.dump({"lines": rows, "spent": f"{found.spent:f}", "reserved": f"{found.reserved:f}"}, file, indent=1)
        else:
            table = csv.DictWriter(file, OrderLine._fields)
            table.writeheader()
            table.writerows(rows)
