"""The statement of the accounts: one line for each order, the amendments and the totals, in decimal numbers."""

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
    """One order, with exact amounts of money."""

    round: int
    client: int
    time: str
    """time in UTC at which the order was written"""
    currency: str
    price: Decimal
    asked: int
    delivered: int
    """samples known to be delivered"""
    free: int
    """delivered samples that are not paid for"""
    charged: Decimal
    adjusted: Decimal
    """sum of the adjustments to invoices; below 0: a refund"""
    paid: Decimal
    """sum of `charged` and `adjusted`"""
    answered: int | None
    """round in which the answer arrived; None: there is no answer yet, and the money is reserved"""
    keys: str
    """keys of the samples, separated by spaces; empty: the client reported none"""


class Statement(NamedTuple):
    """All orders, amendments and totals."""

    lines: list[OrderLine]
    amendments: list[AmendmentRow]
    system: System
    """the system with all amendments"""
    rounds: int
    """number of settled rounds"""
    approved: Decimal
    """money approved up to the horizon; with an open end, up to the round after the last settled one"""
    spent: Decimal
    reserved: Decimal
    """the most that orders without an answer may cost"""

    @property
    def left(self) -> Decimal:
        """The approved money that is neither spent nor reserved; below 0 if a cut or an invoice came after it was spent."""
        return self.approved - self.spent - self.reserved

    def check(self, spent: float) -> None:
        """Raise LedgerError if the total of the statement differs from the ledger's `spent` by half a cent or more."""
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
        key_list = " ".join(keys.get(own, ()))
        lines.append(
            OrderLine(*own, begun[row.round], currency, _exact(row.price), row.ordered, delivered, free, charged, change,
                 charged + change, row.learned, key_list)
        )  # fmt: skip
    loose = sum((_exact(each.change.adjust) for each in amendments if each.order is None), Decimal(0))
    settled, spent = store.settled, sum((line.paid for line in lines), loose)
    system = _now(store, amendments)
    approved = _exact(system.money(settled + 1))
    return Statement(lines, amendments, system, settled, approved, spent, _exact(reserve(store.outstanding())))


def _now(store: LedgerStore, amendments: Iterable[AmendmentRow]) -> System:
    """Return the system after all amendments."""
    system, spent = store.system(), {past.round: past.spent for past in store.rounds()}
    later = 0.0
    for each in amendments:
        t = min(each.round, store.settled)
        system = amended(system, each.change, t, spent.get(t, 0.0) + later)
        later = later + each.change.adjust if t == store.settled else 0.0
    return system


def _exact(amount: float) -> Decimal:
    """Return the decimal number that a float is printed as: 0.1 is exactly one tenth."""
    return Decimal(repr(float(amount)))


@contextmanager
def opened(folder: Path | str) -> Iterator[LedgerStore]:
    """Open the store of a folder that holds accounts, and close it afterwards."""
    path = Path(folder) / LEDGER
    if not path.is_file():
        raise DataError(f"{folder}: holds no {LEDGER}; a folder of headgate.Books or of a run on Flower does")
    with closing(LedgerStore(path)) as store:
        yield store


def amend(folder: Path | str, change: Amendment, by: str, why: str, order: tuple[int, int] | None = None) -> Statement:
    """Write an amendment into the accounts of a folder, which may be in use, and return the new statement."""
    with opened(folder) as store:
        found = statement(store)
        begun = store.begun()
        amended(found.system, change, found.rounds if begun is None else begun.round, float(found.spent))
        if float(found.spent) + change.adjust < 0:
            raise LedgerError(f"adjust = {change.adjust:g}: is more than the {found.spent} that were spent")
        store.amend(change, by, why, order)
        return statement(store)


def export(found: Statement, path: Path, kind: str) -> None:
    """Write the lines as csv, json or parquet; amounts are decimal text in csv and json, and floats in parquet."""
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
