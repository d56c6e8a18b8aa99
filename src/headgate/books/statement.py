"""The statement of the accounts: one line for each order, the amendments and the
totals, in decimal numbers.
"""

import csv
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from typing import Any, NamedTuple, get_type_hints

from headgate.books.accounts import reserve
from headgate.books.anchor import ANCHOR, Anchor
from headgate.books.border import name_of, order_of, signed
from headgate.books.durable import on_disk
from headgate.books.exact import exact, plainly, times, total
from headgate.books.ledger_store import LEDGER, AmendmentRow, LedgerStore
from headgate.control.amendments import Amendment
from headgate.control.checks import path as checked_path
from headgate.control.types import System
from headgate.errors import DataError, LedgerError
from headgate.escaping import cell
from headgate.writing import PARTIAL, check_no_link, partial_of, replace_file, sync


class OrderLine(NamedTuple):
    """One order, with exact amounts of money.

    Parameters
    ----------
    round, client : int
        Round and client of the order.
    time : str
        Time in UTC at which the order was written.
    currency : str
        Currency of the amounts.
    price : decimal.Decimal
        Price of a sample.
    asked : int
        Samples that were ordered.
    delivered : int
        Samples known to be delivered.
    free : int
        Delivered samples that are not paid for.
    charged : decimal.Decimal
        Price of the other delivered samples.
    adjusted : decimal.Decimal
        Sum of the adjustments to invoices; below 0: a refund.
    paid : decimal.Decimal
        Sum of `charged` and `adjusted`.
    answered : int or None
        Round in which the answer arrived; None: there is no answer yet, and the money
        is reserved.
    keys : tuple of str
        Keys of the samples; empty: the client reported none.
    """

    round: int
    client: int
    time: str
    currency: str
    price: Decimal
    asked: int
    delivered: int
    free: int
    charged: Decimal
    adjusted: Decimal
    paid: Decimal
    answered: int | None
    keys: tuple[str, ...]


class Statement(NamedTuple):
    """All orders, amendments and totals.

    Parameters
    ----------
    lines : list of OrderLine
        The orders, by round and client.
    amendments : list of AmendmentRow
        The amendments, the oldest first, also those that were taken out.
    system : System
        The system with all amendments.
    rounds : int
        Number of settled rounds.
    approved : decimal.Decimal
        Money approved up to the horizon; with an open end, up to the round after the
        last settled one.
    spent : decimal.Decimal
        Money spent.
    reserved : decimal.Decimal
        The most that orders without an answer may cost.
    """

    lines: list[OrderLine]
    amendments: list[AmendmentRow]
    system: System
    rounds: int
    approved: Decimal
    spent: Decimal
    reserved: Decimal

    @property
    def left(self) -> Decimal:
        """The approved money that is neither spent nor reserved; below 0 if a cut or an
        invoice came after it was spent.
        """
        return total([self.approved, -self.spent, -self.reserved])


def statement(store: LedgerStore) -> Statement:
    """Return the statement of a store, as it is at one moment.

    Raises
    ------
    LedgerError
        If the orders do not come to exactly what the ledger says was spent.
    """
    with store.snapshot():
        system, settled, amendments = (
            store.terms(),
            store.settled,
            store.amendments(voided=True),
        )
        in_force = [each for each in amendments if not each.voided]
        lines = _lines(store, in_force, system.currency)
        reserved, recorded = reserve(store.outstanding(), exact), store.spent()
    loose = [exact(each.change.adjust) for each in in_force if each.order is None]
    spent = total([*(line.paid for line in lines), *loose])
    if (
        recorded is not None and spent != recorded
    ):  # an older version recorded no exact sum
        raise LedgerError(
            f"{store.path}: the orders come to {plainly(spent)}, the ledger says"
            f" {plainly(recorded)}"
        )
    return Statement(
        lines,
        amendments,
        system,
        settled,
        exact(system.money(settled + 1)),
        spent,
        reserved,
    )


def _lines(
    store: LedgerStore,
    amendments: Iterable[AmendmentRow],
    currency: str,
) -> list[OrderLine]:
    """Return one line for each order, by round and client."""
    keys, begun = store.keys(), store.times()
    late, adjusted = (
        defaultdict[tuple[int, int], int](int),
        defaultdict[tuple[int, int], list[Decimal]](list),
    )
    for row in store.corrections():
        late[row[:2]] += row.admitted or 0
    for each in amendments:
        if each.order is not None:
            adjusted[each.order].append(exact(each.change.adjust))
    lines = []
    for row in sorted(store.orders()):
        order = row[:2]
        delivered = (row.admitted or 0) + late[order]
        charged = times(row.price, max(delivered - row.free, 0))
        change = total(adjusted[order])
        line = OrderLine(
            round=row.round,
            client=row.client,
            time=begun[row.round],
            currency=currency,
            price=exact(row.price),
            asked=row.ordered,
            delivered=delivered,
            free=min(row.free, delivered),
            charged=charged,
            adjusted=change,
            paid=total([charged, change]),
            answered=row.learned,
            keys=tuple(keys.get(order, ())),
        )
        lines.append(line)
    return lines


@contextmanager
def opened(folder: Path | str, writes: bool = False) -> Iterator[LedgerStore]:
    """Open the store of a folder that holds accounts, and close it afterwards.

    Without `writes` nothing is written, so that the folder may be on a disk that cannot
    be written.
    """
    path = checked_path("folder", folder) / LEDGER
    if not path.is_file() and Anchor.of(path.parent) is None:
        raise DataError(
            f"{folder}: holds no {LEDGER}; a folder of headgate.Books or of a run on"
            " Flower does"
        )
    with closing(LedgerStore(path, writes)) as store:
        yield store


def amend(
    folder: Path | str,
    change: Amendment,
    by: str,
    why: str,
    order: tuple[int, int] | None = None,
    key: str | None = None,
) -> Statement:
    """Write an amendment into the accounts of a folder, which may be in use, and return
    the new statement.
    """
    author, reason = signed("amend", by, why)
    known = None if order is None else order_of("amend", *order)
    with opened(folder, writes=True) as store:
        store.amend(change, author, reason, known, name_of("amend: key", key))
        return statement(store)


def backup(store: LedgerStore, file: Path) -> Statement:
    """Copy the accounts as they are now into one file, whole or not at all, and return
    the statement of the copy.
    """
    _check_plain(file)
    if file.exists() and file.samefile(store.path):
        raise DataError(f"{file}: is the ledger itself; name another file for the copy")
    partial = partial_of(file)
    with on_disk(file):
        try:
            store.backup(partial)
            with closing(LedgerStore(partial, writes=False)) as copy:
                found = statement(copy)
            sync(partial)
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    return found


def void(
    folder: Path,
    id_: int,
    by: str,
    why: str,
    out: Path,
) -> tuple[AmendmentRow, Statement | None]:
    """Copy the accounts of a folder to `out`, and take an amendment out of the copy.

    Parameters
    ----------
    folder : Path
        The accounts, which stay as they are.
    id_ : int
        Number of the amendment.
    by, why : str
        Who takes it out, and the reason.
    out : Path
        The new folder. Of a run on Flower it has all files.

    Returns
    -------
    amendment, statement : tuple of AmendmentRow and Statement
        The amendment, and the statement of the copy; None as long as another amendment
        cannot be applied either.
    """
    author, reason = signed("void", by, why)
    if out.exists():
        raise DataError(f"{out}: exists already; choose another folder for the copy")
    partial = partial_of(out)
    with on_disk(out), opened(folder) as store:
        try:
            copytree(
                folder,
                partial,
                symlinks=True,
                ignore=ignore_patterns(f"{LEDGER}*", ANCHOR, f".*{PARTIAL}"),
            )
            partial.chmod(0o700)
            store.backup(partial / LEDGER)
            with closing(LedgerStore(partial / LEDGER)) as copy:
                found = _voided(copy, id_, author, reason, out)
                after = statement(copy) if copy.can_be_applied() else None
            partial.rename(out)
        finally:
            rmtree(partial, ignore_errors=True)
    return found, after


def _voided(
    copy: LedgerStore,
    id_: int,
    by: str,
    why: str,
    out: Path,
) -> AmendmentRow:
    """Take an amendment out of a copy that is not in its place yet; errors name the
    place.
    """
    try:
        return copy.void(id_, by, why)
    except LedgerError as error:
        raise LedgerError(str(error).replace(str(copy.path.parent), str(out))) from None


def export(
    found: Statement,
    path: Path | None,
    kind: str,
) -> None:
    """Write the lines as csv, json or parquet, whole or not at all; None: to standard
    output.

    Amounts are decimal text in csv and json, and floats in parquet. In csv the keys of
    an order are a JSON list.
    """
    content = _exported(found, kind)
    if path is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    _check_plain(path)
    with on_disk(path):
        replace_file(path, content)


def _exported(found: Statement, kind: str) -> bytes:
    rows: list[dict[str, Any]] = [line._asdict() for line in found.lines]
    if kind == "parquet":
        return _parquet(rows)
    for row in rows:
        row |= {
            name: f"{value:f}"
            for name, value in row.items()
            if isinstance(value, Decimal)
        }
    if kind == "json":
        totals = {"spent": f"{found.spent:f}", "reserved": f"{found.reserved:f}"}
        return json.dumps({"lines": rows, **totals}, indent=1).encode()
    for row in rows:
        row["keys"] = json.dumps(row["keys"], ensure_ascii=False) if row["keys"] else ""
        row |= {
            name: cell(value) for name, value in row.items() if isinstance(value, str)
        }
    file = io.StringIO(newline="")
    table = csv.DictWriter(file, OrderLine._fields)
    table.writeheader()
    table.writerows(rows)
    return file.getvalue().encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import polars as pl

    kinds: dict[Any, Any] = {
        int: pl.Int64,
        str: pl.String,
        Decimal: pl.Float64,
        int | None: pl.Int64,
        tuple[str, ...]: pl.List(pl.String),
    }
    schema = {name: kinds[hint] for name, hint in get_type_hints(OrderLine).items()}
    for row in rows:
        row |= {
            name: float(value)
            for name, value in row.items()
            if isinstance(value, Decimal)
        }
        row["keys"] = list(row["keys"])
    file = io.BytesIO()
    pl.DataFrame(rows, schema=schema).write_parquet(file)
    return file.getvalue()


def _check_plain(path: Path) -> None:
    """Refuse to write through a link or into what is no plain file, as a device is."""
    check_no_link(path)
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is no plain file; nothing is written there")
