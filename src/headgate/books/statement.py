"""The statement of the accounts: one line for each order, the amendments and the
totals, in decimal numbers.
"""

import csv
import io
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date
from decimal import Decimal
from functools import partial
from heapq import merge
from itertools import chain, groupby, islice, starmap, zip_longest
from operator import eq, itemgetter
from pathlib import Path
from textwrap import wrap
from typing import Any, BinaryIO, NamedTuple, TypeVar, get_type_hints, overload

import numpy as np

from headgate.books.addresses import Place, place_of
from headgate.books.border import Roll, name_of, order_of, signed
from headgate.books.database import ALWAYS
from headgate.books.durable import on_disk
from headgate.books.exact import NOTHING, exact, plainly, total
from headgate.books.journal import Journal
from headgate.books.moments import moment
from headgate.books.nouns import (
    DELIVERED,
    Client,
    Event,
    KeyedSample,
    OrderState,
)
from headgate.books.opening import tables_at
from headgate.books.recorded import AmendmentRow, Offered
from headgate.books.saved import BoughtRound, Saved, money_text, saved
from headgate.control.amendments import Amendment
from headgate.control.types import System
from headgate.errors import DataError, LedgerError, SettingError
from headgate.escaping import cell, printable
from headgate.writing import check_no_link, partial_of, replace_file, sync

MOST_DIGITS = 16
"""digits of a number that is surely the name of no client"""
PAGE = 100
"""orders whose keys are read at a time, and lines of a page"""
KEPT = 1_000
"""the most orders, or rounds, of a statement that are kept"""
BATCH = 10_000
"""rows of which a table of columns is made at a time"""
Thing = TypeVar("Thing")
LISTED = 20
"""the most orders that are shown; JSON has them all"""
WIDTH = 80
"""characters of a line of text"""
TEXTS = ("made", "by", "change", "why")
"""the columns that are texts"""


class OrderLine(NamedTuple):
    """One order, with exact amounts of money.

    Parameters
    ----------
    round : int
        Round of the order.
    client : int or str
        The client.
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
        Keys of the delivered samples; empty: none were reported.
    under_way : int
        Samples that may still arrive.
    cancelled : int
        Samples that will not arrive.
    rejected : int
        Delivered samples that were given back, and refunded.
    beyond : int
        Samples that arrived beyond the order, or too late: not charged.
    """

    round: int
    client: Client
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
    under_way: int = 0
    cancelled: int = 0
    rejected: int = 0
    beyond: int = 0


class Lines(Sequence[OrderLine]):
    """The orders of a period, by round and client, as a sequence: `lines[200:300]` is a
    page of it. How many there are is counted at once, and up to `KEPT` of them are
    kept. More are read when they are asked for, a page at a time, from accounts that
    are open then.

    Parameters
    ----------
    journal : Journal
        The accounts.
    period : tuple of str
        The time in UTC from which on orders count, and the one before which they do.
    """

    def __init__(
        self,
        journal: Journal,
        period: tuple[str, str] = ALWAYS,
    ) -> None:
        self.journal, self.period = journal, period
        self._count, _ = journal.tables.counts(period)
        self._kept: list[OrderLine] | None = None
        if self._count <= KEPT:
            self._kept = list(lines(journal, period=period))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[OrderLine]:
        return self._read(with_keys=True)

    def _read(self, with_keys: bool) -> Iterator[OrderLine]:
        if self._kept is not None:
            return iter(self._kept)
        found = lines(self.journal, period=self.period, with_keys=with_keys)
        return islice(found, self._count)

    def amounts(self) -> Iterator[OrderLine]:
        """Yield the lines without their keys, which is faster."""
        return self._read(with_keys=False)

    @overload
    def __getitem__(self, at: int) -> OrderLine: ...

    @overload
    def __getitem__(self, at: slice) -> list[OrderLine]: ...

    def __getitem__(self, at: int | slice) -> OrderLine | list[OrderLine]:
        if self._kept is not None:
            return self._kept[at]
        if isinstance(at, slice):
            first, last, step = at.indices(self._count)
            found = lines(self.journal, period=self.period, skip=first)
            return list(islice(found, 0, max(last - first, 0), step))
        place = range(self._count)[at]
        return self[place : place + 1][0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and _same(self, other)

    __hash__ = None  # type: ignore[assignment]


class Statement(NamedTuple):
    """All orders, amendments and totals.

    Parameters
    ----------
    lines : sequence of OrderLine
        The orders, by round and client, read when they are asked for.
    amendments : list of AmendmentRow
        The amendments, the oldest first.
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
    offers : iterable of Offered
        The prices and the supply of the settled rounds, also of those without an order,
        read when they are asked for.
    short : dict of int to Event
        The latest event of each client whose source had fewer samples than were
        ordered.
    """

    lines: Sequence[OrderLine]
    amendments: list[AmendmentRow]
    system: System
    rounds: int
    approved: Decimal
    spent: Decimal
    reserved: Decimal
    offers: Iterable[Offered]
    short: dict[int, Event]

    @property
    def left(self) -> Decimal:
        """The approved money that is neither spent nor reserved; below 0 if a cut or an
        invoice came after it was spent.
        """
        return total([self.approved, -self.spent, -self.reserved])

    @property
    def saved(self) -> Saved:
        """What the settled rounds saved, beside two buyers who spread them evenly."""
        return saved(Again(self._bought))

    def _bought(self) -> Iterator[BoughtRound]:
        """Yield what was offered and bought in each settled round.

        A client that delivered less than was ordered had no more.
        """
        orders = self._by_round()
        for each, clients, suspended in self._terms_of_rounds():
            buffer = self.system.buffer[:clients]
            system = System(buffer, self.system.budget)
            places = each.supply.places(system, None, each.round)
            places = np.array(buffer if places is None else places)
            if suspended:
                places[:] = 0
            bought, paid = np.zeros_like(places), 0.0
            for line in orders(each.round):
                client = self._number(line.client)
                bought[client] = line.delivered - line.rejected - line.free
                paid += float(line.charged)
                came = line.delivered + line.under_way
                if line.answered is not None and came < line.asked:
                    places[client] = came
            yield BoughtRound(np.array(each.price), bought, paid, places)

    def _by_round(self) -> Callable[[int], list[OrderLine]]:
        """Return a function of the round, which must not fall, that returns its
        lines.
        """
        groups = groupby(_amounts(self.lines), lambda line: line.round)
        ahead = [next(groups, None)]

        def of(t: int) -> list[OrderLine]:
            while ahead[0] is not None and ahead[0][0] < t:
                ahead[0] = next(groups, None)
            if ahead[0] is None or ahead[0][0] > t:
                return []
            found = list(ahead[0][1])
            ahead[0] = next(groups, None)
            return found

        return of

    def _number(self, client: Client) -> int:
        names = self.system.names
        return int(client) if names is None else names.index(str(client))

    def _terms_of_rounds(self) -> Iterator[tuple[Offered, int, bool]]:
        """Yield each settled round with the number of its clients, and whether
        purchases were suspended in it.
        """
        changes = [(each.round, each.change) for each in self.amendments]
        clients = self.system.clients - sum(own.join is not None for _, own in changes)
        suspended, waiting = False, deque(changes)
        for each in self.offers:
            while waiting and waiting[0][0] < each.round:
                _, own = waiting.popleft()
                clients += own.join is not None
                suspended = suspended if own.suspend is None else own.suspend
            yield each, clients, suspended

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what `export` writes: the orders, and what was offered and not bought.

        A settled round without an order has one row without a client. If each client
        has its own price, a settled round has a row for every client.
        """
        parts = merge(
            ((line.round, line._asdict()) for line in self.lines),
            ((each.round, each) for each in self.offers),
            key=itemgetter(0),
        )
        for _, of_round in groupby(parts, itemgetter(0)):
            every = [part for _, part in of_round]
            rows = [part for part in every if isinstance(part, dict)]
            ordered = {row["client"] for row in rows}
            for each in every:
                if isinstance(each, Offered):
                    rows += self._not_ordered(each, ordered)
            yield from sorted(rows, key=lambda row: str(row["client"] or 0))

    def _not_ordered(
        self,
        each: Offered,
        ordered: set[Client],
    ) -> list[dict[str, Any]]:
        """Return the rows of what was offered in a round and not bought."""
        prices: list[tuple[int | None, float]] = [*enumerate(each.price)]
        if len(each.price) == 1:
            prices = [] if ordered else [(None, each.price[0])]
        return [
            self._not_bought(each, client, price)
            for client, price in prices
            if self._named(client) not in ordered
        ]

    def _not_bought(
        self,
        each: Offered,
        client: int | None,
        price: float,
    ) -> dict[str, Any]:
        empty = OrderLine(
            each.round,
            client or 0,
            each.begun,
            self.system.currency,
            exact(price),
            *(0, 0, 0),
            *(NOTHING, NOTHING, NOTHING),
            None,
            (),
        )
        return {**empty._asdict(), "client": self._named(client)}

    def _named(self, client: int | None) -> Client | None:
        return None if client is None else self.system.named(client)

    @property
    def sentence(self) -> str:
        """What was saved, in words."""
        text = self.saved.sentence(self.system.currency)
        charges = (-line.charged for line in _amounts(self.lines))
        adjusted = total(chain([self.spent], charges))
        if not adjusted:
            return text
        amount = money_text(float(adjusted), self.system.currency)
        return f"{text} Invoices and refunds, {amount} in all, are not in this."

    @property
    def dry(self) -> str:
        """The clients whose sources ran dry, in words; empty if there are none."""
        named = [
            f"client {self.system.named(client)} in round {each.round} ({each.reason})"
            for client, each in sorted(self.short.items())
        ]
        if len(named) > LISTED:
            named[LISTED:] = [f"{len(named) - LISTED} more"]
        return f"Sources that ran dry: {', '.join(named)}." if named else ""

    def __repr__(self) -> str:
        """Return the statement as `headgate ledger show` prints it."""
        return self.text()

    def text(self, page: slice | None = None) -> str:
        """Return the statement as `headgate ledger show` prints it.

        Parameters
        ----------
        page : slice, optional
            The orders to show; left out: the latest ones.

        Returns
        -------
        str
            Some lines of text.
        """
        system, unit = self.system, self.system.currency
        until = "open" if system.horizon is None else system.horizon
        amounts = [
            f"{name} {money_text(float(getattr(self, name)), unit)}"
            for name in ("approved", "spent", "reserved", "left")
        ]
        lines = [
            f"round {self.rounds} of {until}, {system.clients} clients",
            ", ".join(amounts),
            *_wrapped(self.sentence, unit),
        ]
        if self.left < 0:
            lines.append("Nothing more is bought: more is spent than is approved.")
        lines += _wrapped(self.dry, unit)
        lines += _table("Amendments", [*map(shown_change, self.amendments)])
        shown = self.lines[page or slice(-LISTED, None)]
        title, many = "Orders", len(self.lines)
        if page is not None:
            title += f", from number {page.start + 1} on, of {many:,}"
        elif len(shown) < many:
            title += f", the last {len(shown)} of {many}"
        lines += _table(title, [*map(_shown_order, shown)])
        return "\n".join(printable(line) for line in lines)


def _amounts(every: Iterable[OrderLine]) -> Iterator[OrderLine]:
    """Yield lines of which the keys are not needed."""
    return every.amounts() if isinstance(every, Lines) else iter(every)


def _wrapped(text: str, unit: str) -> list[str]:
    """Return the lines of a text; a currency stays beside its amount."""
    kept = f"{unit or '$'}\N{NO-BREAK SPACE}"
    lines = wrap(text.replace(f"{unit or '$'} ", kept), WIDTH)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def shown_change(each: AmendmentRow) -> dict[str, str | int]:
    """Return an amendment as it is shown."""
    change, why = each.stated(), each.why
    if each.key is not None:
        why = f"{why} [{each.key}]".strip()
    return {
        "id": each.id,
        "round": each.round,
        "made": each.made[:16].replace("T", " "),
        "by": each.by,
        "change": change,
        "why": why,
    }


def _shown_order(line: OrderLine) -> dict[str, str | int]:
    """Return an order as it is shown, with amounts for people."""
    return {
        "round": line.round,
        "client": line.client,
        "price": money_text(float(line.price)),
        "asked": line.asked,
        "delivered": line.delivered,
        "under_way": line.under_way,
        "adjusted": money_text(float(line.adjusted)),
        "paid": money_text(float(line.paid)),
        "answered": "-" if line.answered is None else line.answered,
    }


def _table(title: str, rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the lines of a table, numbers to the right; none if it has no rows."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    texts = [
        "  ".join(
            cell.ljust(width) if name in TEXTS else cell.rjust(width)
            for name, cell, width in zip(names, row, widths, strict=True)
        )
        for row in cells
    ]
    return ["", title, *map(str.rstrip, texts)]


def statement(
    journal: Journal,
    since: str | date | None = None,
    until: str | date | None = None,
) -> Statement:
    """Return the statement of accounts, as they are at one moment.

    Parameters
    ----------
    journal : Journal
        The accounts.
    since, until : str, date or datetime, optional
        The orders from this time on, and before this one; left out: all.

    Raises
    ------
    LedgerError
        If the orders do not come to exactly what the ledger says was spent.
    """
    first = ALWAYS[0] if since is None else moment("since", since)
    last = ALWAYS[1] if until is None else moment("until", until)
    period = (first, last)
    with journal.newest() as state:
        balance = state.balance()
        if period == ALWAYS:
            _check_sum(journal, balance.spent)
        made, own = amendments(journal), Lines(journal, period)
        offers = Again(partial(_offers, journal, journal.settled, period), KEPT)
        short = {each.client: each for each in journal.events() if each.kind == "short"}
        return Statement(own, made, state.system_ahead(), *balance, offers, short)


def is_within(
    time: str,
    since: str | None,
    until: str | None,
) -> bool:
    """Return whether a time is in a period."""
    return (since is None or since <= time) and (until is None or time < until)


def _check_sum(journal: Journal, recorded: Decimal) -> None:
    """Raise LedgerError if the orders do not come to what was spent."""
    quantum = journal.state.quantum
    spent = total(order.paid(quantum) for order in journal.tables.orders())
    if spent != recorded:
        raise LedgerError(
            f"{journal.path}: the orders come to {plainly(spent)}, the ledger says"
            f" {plainly(recorded)}"
        )


class Again(Iterable[Thing]):
    """What can be read several times, each time by a call of `read`; nothing more than
    `most` things are kept, and if there are more, none.
    """

    def __init__(self, read: Callable[[], Iterator[Thing]], most: int = 0) -> None:
        self._read = read
        first = list(islice(read(), most + 1)) if most else []
        self._kept = first if most > 0 and len(first) <= most else None

    def __iter__(self) -> Iterator[Thing]:
        return self._read() if self._kept is None else iter(self._kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and _same(self, other)

    __hash__ = None  # type: ignore[assignment]


def _same(ours: Iterable[object], theirs: Iterable[object]) -> bool:
    """Return whether both yield the same things."""
    return all(starmap(eq, zip_longest(ours, theirs)))


def _offers(
    journal: Journal,
    settled: int,
    period: tuple[str, str],
) -> Iterator[Offered]:
    """Yield the prices and the supply of the settled rounds of a period."""
    for entry in journal.tables.of_kinds("begun", period=period):
        body = json.loads(entry.body)
        if body["round"] <= settled:
            prices = tuple(body["price"])
            yield Offered(body["round"], entry.at, prices, body["supply"])


def lines(
    journal: Journal,
    since: int = 1,
    until: int | None = None,
    after: tuple[int, int] = (0, -1),
    period: tuple[str, str] = ALWAYS,
    skip: int = 0,
    with_keys: bool = True,
) -> Iterator[OrderLine]:
    """Yield one line for each order of the rounds `since` to `until`, by round and
    client, without holding them all; `after` is the order before the first one. Of
    those of a period the first `skip` are left out.
    """
    system, quantum = journal.state.system_ahead(), journal.state.quantum
    every = journal.tables.orders(since, until, after, period, skip)
    while orders := list(islice(every, PAGE)):
        keys: Mapping[tuple[int, int], list[KeyedSample]] = {}
        if with_keys:
            keys = journal.tables.keys(orders[0][:2], orders[-1][:2])
        for order in orders:
            own = keys.get(order[:2], ())
            yield _line(order, own, system, quantum)


def _line(
    order: OrderState,
    samples: Iterable[KeyedSample],
    system: System,
    quantum: Decimal,
) -> OrderLine:
    return OrderLine(
        round=order.round,
        client=system.named(order.client),
        time=order.at,
        currency=system.currency,
        price=order.price,
        asked=order.asked,
        delivered=order.delivered,
        free=min(order.free, order.delivered),
        charged=order.charged(quantum),
        adjusted=order.adjusted,
        paid=order.paid(quantum),
        answered=order.answered,
        keys=tuple(each.key for each in samples if each.state == DELIVERED),
        under_way=order.under_way,
        cancelled=order.cancelled,
        rejected=order.rejected,
        beyond=order.beyond,
    )


def amendments(journal: Journal) -> list[AmendmentRow]:
    """Return all amendments and adjustments, the oldest first."""
    found = []
    for id_, entry in enumerate(journal.tables.of_kinds("amended", "adjusted"), 1):
        body, order = json.loads(entry.body), None
        if entry.kind == "amended":
            change = Amendment(**body["change"])
        else:
            order = body["round"], body["client"]
            change = Amendment(adjust=float(body["amount"]))
        key = None if entry.request is None else entry.request.removeprefix("key ")
        named = entry.at, entry.by, entry.why, change, order, key
        found.append(AmendmentRow(id_, body["after"], *named))
    return found


@contextmanager
def opened(folder: Place | str, writes: bool = False) -> Iterator[Journal]:
    """Open the accounts of a folder or an address, and close them afterwards.

    Without `writes` nothing is written, so that the folder may be on a disk that cannot
    be written.
    """
    with closing(_accounts_in(place_of("folder", folder), writes)) as accounts:
        yield accounts


def _accounts_in(place: Place, writes: bool = True) -> Journal:
    tables = tables_at(place, writes)
    try:
        return Journal(tables)
    except BaseException:
        tables.close()
        raise


def client_in(
    folder: Path | str,
    name: str,
    stated: str,
) -> int:
    """Return the number of a client that a command names by number or by name."""
    number = stated.removeprefix("-")
    if number.isdecimal() and len(number) < MOST_DIGITS:
        return int(stated)
    with opened(folder) as accounts:
        return number_of(accounts, name, stated)


def number_of(
    journal: Journal,
    name: str,
    stated: str,
) -> int:
    """Return the number of a client that is named by its number or its name."""
    number = int(stated) if stated.isdecimal() and len(stated) < MOST_DIGITS else stated
    return Roll(journal.state.system_ahead()).number(name, number)


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
    name = name_of("amend: key", key)
    with opened(folder, writes=True) as accounts:
        if order is None:
            _check_no_adjust(change)
            accounts.amend(change, author, reason, name)
        else:
            roll = Roll(accounts.state.system_ahead())
            t, client = order_of("amend", *order, roll)
            amount = exact(change.adjust)
            accounts.adjust(t, client, amount, author, reason, name)
        return statement(accounts)


def _check_no_adjust(change: Amendment) -> None:
    if change.adjust:
        raise SettingError(
            f"adjust = {change.adjust:g}: belongs to an order; name its round and its"
            " client"
        )


def backup(accounts: Journal, file: Path) -> Statement:
    """Copy the accounts as they are now into one file, whole or not at all, and return
    the statement of the copy.
    """
    _check_plain(file)
    own = accounts.path
    if isinstance(own, Path) and file.exists() and file.samefile(own):
        raise DataError(f"{file}: is the ledger itself; name another file for the copy")
    partial = partial_of(file)
    with on_disk(file):
        try:
            accounts.tables.backup(partial)
            with closing(_accounts_in(partial, writes=False)) as copy:
                found = statement(copy)
            sync(partial)
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    return found


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
    write = partial(WRITERS[kind], found)
    if path is None:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    _check_plain(path)
    with on_disk(path):
        replace_file(path, write)


def exported(found: Statement, kind: str) -> bytes:
    """Return the content of the file that `export` writes."""
    file = io.BytesIO()
    WRITERS[kind](found, file)
    return file.getvalue()


def _plain_rows(found: Statement) -> Iterator[dict[str, Any]]:
    """Yield the rows with amounts as decimal text."""
    for row in found.rows():
        yield {
            name: f"{value:f}" if isinstance(value, Decimal) else value
            for name, value in row.items()
        }


def _write_json(found: Statement, file: BinaryIO) -> None:
    totals = {"spent": f"{found.spent:f}", "reserved": f"{found.reserved:f}"}
    for part in json_parts({}, "lines", _plain_rows(found), totals, 1):
        file.write(part.encode())


def json_parts(
    before: Mapping[str, Any],
    name: str,
    rows: Iterable[Any],
    after: Mapping[str, Any],
    indent: int,
    ascii_only: bool = True,
) -> Iterator[str]:
    """Yield the text of a JSON object a row at a time: what stands before a list of
    rows, the list under its name, and what follows it.

    >>> whole = json.dumps({"a": 1, "rows": [{"b": 2}, {}], "sum": 3}, indent=1)
    >>> "".join(json_parts({"a": 1}, "rows", [{"b": 2}, {}], {"sum": 3}, 1)) == whole
    True
    """
    text = partial(json.dumps, indent=indent, ensure_ascii=ascii_only)
    inside = f"\n{' ' * 2 * indent}"
    head = text(before).removesuffix("\n}") + "," if before else "{"
    yield f"{head}\n{' ' * indent}{json.dumps(name)}: ["
    mark, end = "", ""
    for row in rows:
        own = text(row).replace("\n", inside)
        yield f"{mark}{inside}{own}"
        mark, end = ",", f"\n{' ' * indent}"
    tail = f",{text(after).removeprefix('{')}" if after else "\n}"
    yield f"{end}]{tail}"


def _write_csv(found: Statement, file: BinaryIO) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    table = csv.DictWriter(text, OrderLine._fields)
    table.writeheader()
    for row in _plain_rows(found):
        keys = json.dumps(row["keys"], ensure_ascii=False) if row["keys"] else ""
        row["keys"] = keys
        cells = {
            name: cell(value) if isinstance(value, str) else value
            for name, value in row.items()
        }
        table.writerow(cells)
    text.detach()


def _write_parquet(found: Statement, file: BinaryIO) -> None:
    """Write all columns at once, which take little beside the rows."""
    import polars as pl

    kinds: dict[Any, Any] = {
        int: pl.Int64,
        str: pl.String,
        Decimal: pl.Float64,
        Client: pl.String,
        int | None: pl.Int64,
        tuple[str, ...]: pl.List(pl.String),
    }
    schema = {name: kinds[hint] for name, hint in get_type_hints(OrderLine).items()}
    frames, rows = [pl.DataFrame(schema=schema)], map(_of_parquet, found.rows())
    while some := list(islice(rows, BATCH)):
        frames.append(pl.DataFrame(some, schema=schema))
    pl.concat(frames).write_parquet(file)


def _of_parquet(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as a table of numbers holds it."""
    plain = {
        name: float(value) if isinstance(value, Decimal) else value
        for name, value in row.items()
    }
    return {**plain, "keys": list(row["keys"]), "client": str(row["client"])}


WRITERS: dict[str, Callable[[Statement, BinaryIO], None]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
"""what writes a statement into a file, by the name of the format"""


def _check_plain(path: Path) -> None:
    """Refuse to write through a link or into what is no plain file, as a device is."""
    check_no_link(path)
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is no plain file; nothing is written there")
