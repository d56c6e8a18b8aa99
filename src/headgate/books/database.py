"""The tables of the accounts: the only file with their SQL. SQLite (`in_file`) and
PostgreSQL (`in_postgres`) are behind it.

What the accounts need of a database is here: a transaction in which a check and a write
are one, rows that are appended, a leader, and the types INTEGER and TEXT. The log is
the table `entries`. `orders` and `samples` follow from it, so that a statement need not
replay; `audit` compares them with the replay. All rows have the account that they are
of.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from itertools import groupby
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headgate.books.nouns import Entry, KeyedSample, Node, OrderState
from headgate.books.session import PAGE, Session
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line
from headgate.limits import LINE
from headgate.writing import InUseError

LEDGER = "ledger.sqlite"
"""name of the file of accounts in their folder"""
FORMAT = "headgate ledger 4"
OLD = "headgate ledger store 3"
"""what the names of the formats before begin with"""
SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    account TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    author TEXT NOT NULL,
    why TEXT NOT NULL,
    request TEXT,
    body TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (account, number),
    UNIQUE (account, request)
) STRICT;
CREATE TABLE IF NOT EXISTS snapshots (
    account TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    hash TEXT NOT NULL,
    state TEXT NOT NULL,
    course TEXT NOT NULL,
    PRIMARY KEY (account, number)
) STRICT;
CREATE TABLE IF NOT EXISTS orders (
    account TEXT NOT NULL,
    round INTEGER NOT NULL CHECK (round > 0),
    client INTEGER NOT NULL CHECK (client >= 0),
    at TEXT NOT NULL,
    price TEXT NOT NULL,
    asked INTEGER NOT NULL CHECK (asked > 0),
    free INTEGER NOT NULL CHECK (free BETWEEN 0 AND asked),
    delivered INTEGER NOT NULL CHECK (delivered BETWEEN 0 AND asked),
    cancelled INTEGER NOT NULL CHECK (cancelled BETWEEN 0 AND asked - delivered),
    rejected INTEGER NOT NULL CHECK (rejected BETWEEN 0 AND delivered),
    beyond INTEGER NOT NULL CHECK (beyond >= 0),
    adjusted TEXT NOT NULL,
    answered INTEGER,
    expires TEXT,
    PRIMARY KEY (account, round, client)
) STRICT;
CREATE TABLE IF NOT EXISTS samples (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    client INTEGER NOT NULL CHECK (client >= 0),
    round INTEGER NOT NULL CHECK (round > 0),
    place INTEGER NOT NULL CHECK (place >= 0),
    state TEXT NOT NULL,
    why TEXT NOT NULL,
    PRIMARY KEY (account, key, client)
) STRICT;
CREATE INDEX IF NOT EXISTS samples_of ON samples (account, round, client);
CREATE TABLE IF NOT EXISTS nodes (
    account TEXT NOT NULL,
    node TEXT NOT NULL,
    client INTEGER NOT NULL CHECK (client >= 0),
    since INTEGER NOT NULL,
    PRIMARY KEY (account, node)
) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    account TEXT NOT NULL,
    request TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (account, request)
) STRICT;
CREATE INDEX IF NOT EXISTS answers_of ON answers (account, number) WHERE answer <> '';
"""
COLUMNS = {
    name: dict(re.findall(r"(\w+) (TEXT|INTEGER)\b", columns))
    for name, columns in re.findall(
        r"CREATE TABLE IF NOT EXISTS (\w+) \((.*?)\n\)", SCHEMA, re.DOTALL
    )
}
"""the columns of each table, with their types"""
ORDER = (
    "round, client, at, price, asked, free, delivered, cancelled, rejected, beyond,"
    " adjusted, answered, expires"
)
SAMPLE = "client, key, round, place, state, why"
ENTRY = "number, at, kind, author, why, request, body, hash"
CHANGES = ("delivered", "cancelled", "rejected", "beyond", "adjusted", "answered")
"""the columns of an order that change"""
AT_ONCE = 500
"""rows that one statement asks for"""
END = "9999"
"""a time after all others"""
ALWAYS = ("", END)
"""the period from the first time to the last one"""
PAUSE = 0.2
"""seconds between two attempts to lead"""
KEPT = 2
"""snapshots that are kept"""
REMEMBERED = 1_000
"""the last entries of which the answers to requests are kept whole"""
UNREADABLE = (ValueError, TypeError, KeyError, InvalidOperation, SettingError)
"""errors from values that no ledger holds"""


class OldFormatError(DataError):
    """The file holds accounts of an older format."""


class Tables(Session):
    """The tables of one account, in any database."""

    account = ""
    """random name that identifies the account; empty before it has begun"""

    leads = False
    """whether this is the one process that runs rounds"""

    def lead(self, wait: float = 0.0) -> None:
        """Become the one process that runs rounds, after at most `wait` seconds; refuse
        if there is another.
        """
        until = monotonic() + wait
        while not self.leads:
            try:
                self._take_lead()
                self.leads = True
                return
            except InUseError:
                if monotonic() >= until:
                    raise
            sleep(PAUSE)

    @abstractmethod
    def _take_lead(self) -> None:
        """Become that process; raise InUseError if there is another."""

    def follow(self) -> None:
        """Let another process run rounds."""
        if self.leads:
            self.leads = False
            self._give_lead()

    @abstractmethod
    def _give_lead(self) -> None:
        """Be that process no more."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """Copy the whole content as it is now into a new file of SQLite at `path`, also
        while the accounts are in use.
        """

    def check_anchor(self, begun: int, settled: int, amendments: int) -> None:
        """Refuse accounts that had come farther, where something beside tells so."""

    def write_anchor(self, begun: int, settled: int, amendments: int) -> None:
        """Write beside how far the accounts have come, after a commit."""

    def create(self, account: str) -> None:
        """Name the account of a new database, in a transaction of the caller."""
        self._run("INSERT INTO meta VALUES ('account', ?)", (account,))
        self.account = account

    def fill(self, source: "Tables") -> None:
        """Write all content of other accounts into these new ones, in a transaction of
        the caller.
        """
        with source.snapshot():
            self.create(source.account)
            self.put_meta("refusals", str(source.meta("refusals") or "{}"))
            for name, columns in COLUMNS.items():
                names = ", ".join(columns)
                query = f"SELECT {names} FROM {name} WHERE account = ?"
                insert = f"INSERT INTO {name} ({names}) VALUES ({_marks(columns)})"
                for rows in source._pages(query, (source.account,)):
                    self._run_each(insert, rows)

    def remember(self, key: str, value: str) -> None:
        """Write what is no part of the accounts, as a hint to other processes."""
        if self.meta(key) != value:
            with self.transaction():
                self.put_meta(key, value)

    def put_meta(self, key: str, value: str) -> None:
        """Write what is stored beside the accounts, in a transaction of the caller."""
        self._run(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE"
            " SET value = excluded.value",
            (key, value),
        )

    @contextmanager
    def readable(self, what: str) -> Iterator[None]:
        """Turn errors from values that no ledger holds into a DataError of one line."""
        try:
            yield
        except UNREADABLE as error:
            raise DataError(
                f"{self.path}: is damaged ({what}: {one_line(error, LINE)})"
            ) from None

    # the log

    def append(self, entry: Entry) -> None:
        """Append an entry to the log."""
        self._run(
            f"INSERT INTO entries (account, {ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?,"
            " ?)",
            (self.account, *entry),
        )

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield the entries after a number, a page at a time."""
        query = (
            f"SELECT {ENTRY} FROM entries WHERE account = ? AND number > ? ORDER BY"
            f" number LIMIT {PAGE}"
        )
        rows = self._rows(query, (self.account, after))
        while rows:
            for row in rows:
                yield Entry(*row)
            if len(rows) < PAGE:
                return
            rows = self._rows(query, (self.account, rows[-1][0]))

    def hash_of(self, number: int) -> str | None:
        """Return the hash of an entry."""
        rows = self._rows(
            "SELECT hash FROM entries WHERE account = ? AND number = ?",
            (self.account, number),
        )
        return rows[0][0] if rows else None

    def of_kinds(
        self,
        *kinds: str,
        period: tuple[str, str] = ALWAYS,
    ) -> Iterator[Entry]:
        """Yield the entries of some kinds and of a period, a page at a time."""
        query = (
            f"SELECT {ENTRY} FROM entries WHERE account = ? AND number > ? AND kind IN"
            f" ({_marks(kinds)}) AND at >= ? AND at < ? ORDER BY number LIMIT {PAGE}"
        )
        number = 0
        while True:
            rows = self._rows(query, (self.account, number, *kinds, *period))
            yield from (Entry(*row) for row in rows)
            if len(rows) < PAGE:
                return
            number = rows[-1][0]

    def request(self, request: str) -> Entry | None:
        """Return the entry of a request."""
        rows = self._rows(
            f"SELECT {ENTRY} FROM entries WHERE account = ? AND request = ?",
            (self.account, request),
        )
        return Entry(*rows[0]) if rows else None

    def answer(self, request: str) -> tuple[int, str, str] | None:
        """Return what is known of a request: the last entry after it, the digest of its
        content and its answer, which is empty if it is not kept any more.
        """
        rows = self._rows(
            "SELECT number, digest, answer FROM answers WHERE account = ? AND request ="
            " ?",
            (self.account, request),
        )
        return rows[0] if rows else None

    def keep_answer(
        self,
        request: str,
        number: int,
        digest: str,
        answer: str,
    ) -> None:
        """Write the answer to a request, in the transaction of what it did."""
        self._run(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?)",
            (self.account, request, number, digest, answer),
        )
        self._run(
            "UPDATE answers SET answer = '' WHERE account = ? AND number < ? AND answer"
            " <> ''",
            (self.account, number - REMEMBERED),
        )

    def snapshot_before(self, number: int) -> tuple[int, str, str, str] | None:
        """Return the latest snapshot up to an entry: its number, hash, state and
        course.
        """
        rows = self._rows(
            "SELECT number, hash, state, course FROM snapshots WHERE account = ? AND"
            " number <= ? ORDER BY number DESC LIMIT 1",
            (self.account, number),
        )
        return rows[0] if rows else None

    def snapshots(self) -> dict[int, tuple[str, str, str]]:
        """Return all snapshots by their number."""
        rows = self._rows(
            "SELECT number, hash, state, course FROM snapshots WHERE account = ?",
            (self.account,),
        )
        return {number: (hash_, state, course) for number, hash_, state, course in rows}

    def keep_snapshot(self, entry: Entry, state: str, course: str) -> None:
        """Write a snapshot after an entry, and remove the oldest ones."""
        self._run(
            "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)",
            (self.account, entry.number, entry.hash, state, course),
        )
        old = sorted(
            number
            for (number,) in self._rows(
                "SELECT number FROM snapshots WHERE account = ?", (self.account,)
            )
        )[:-KEPT]
        self._run_each(
            "DELETE FROM snapshots WHERE account = ? AND number = ?",
            [(self.account, number) for number in old],
        )

    # what follows from it

    def put_orders(self, orders: Iterable[OrderState]) -> None:
        """Write orders as they are now."""
        changes = ", ".join(f"{name} = excluded.{name}" for name in CHANGES)
        self._run_each(
            f"INSERT INTO orders (account, {ORDER}) VALUES ({_marks(range(14))}) ON"
            f" CONFLICT (account, round, client) DO UPDATE SET {changes}",
            [(self.account, *_row_of(order)) for order in orders],
        )

    def orders(
        self,
        since: int = 1,
        until: int | None = None,
        after: tuple[int, int] = (0, -1),
        period: tuple[str, str] = ALWAYS,
        skip: int = 0,
    ) -> Iterator[OrderState]:
        """Yield the orders of the rounds `since` to `until`, by round and client, a
        page at a time; `after` is the order before the first one. Of those that were
        written in a period the first `skip` are left out.
        """
        until = 2**62 if until is None else until
        t, client = max(after, (since - 1, 2**62))
        query = (
            f"SELECT {ORDER} FROM orders WHERE account = ? AND (round > ? OR round = ?"
            " AND client > ?) AND round <= ? AND at >= ? AND at < ? ORDER BY round,"
            f" client LIMIT {PAGE} OFFSET ?"
        )
        while True:
            where = (self.account, t, t, client, until, *period, skip)
            rows = self._rows(query, where)
            for row in rows:
                with self.readable(f"order {row[:2]}"):
                    yield _order_of(row)
            if len(rows) < PAGE:
                return
            (t, client), skip = rows[-1][:2], 0

    def order(self, t: int, client: int) -> OrderState | None:
        """Return one order."""
        rows = self._rows(
            f"SELECT {ORDER} FROM orders WHERE account = ? AND round = ? AND client ="
            " ?",
            (self.account, t, client),
        )
        with self.readable(f"order of round {t}, client {client}"):
            return _order_of(rows[0]) if rows else None

    def orders_named(self, wanted: Sequence[tuple[int, int]]) -> list[OrderState]:
        """Return those orders that there are of these rounds and clients, in their
        order.
        """
        found = list[OrderState]()
        for t, named in groupby(wanted, lambda own: own[0]):
            clients = [client for _, client in named]
            for first in range(0, len(clients), AT_ONCE):
                found += self._orders_of(t, clients[first : first + AT_ONCE])
        return found

    def _orders_of(self, t: int, clients: Sequence[int]) -> list[OrderState]:
        rows = self._rows(
            f"SELECT {ORDER} FROM orders WHERE account = ? AND round = ? AND client IN"
            f" ({_marks(clients)}) ORDER BY client",
            (self.account, t, *clients),
        )
        with self.readable(f"orders of round {t}"):
            return [_order_of(row) for row in rows]

    def put_samples(self, samples: Iterable[KeyedSample]) -> None:
        """Write samples as they are now."""
        self._run_each(
            f"INSERT INTO samples (account, {SAMPLE}) VALUES (?, ?, ?, ?, ?, ?, ?) ON"
            " CONFLICT (account, key, client) DO UPDATE SET round = excluded.round,"
            " place = excluded.place, state = excluded.state, why = excluded.why",
            [(self.account, *sample) for sample in samples],
        )

    def known(self, keys: Sequence[str]) -> list[KeyedSample]:
        """Return the samples with these keys, of any client."""
        found = list[KeyedSample]()
        for first in range(0, len(keys), AT_ONCE):
            some = keys[first : first + AT_ONCE]
            query = (
                f"SELECT {SAMPLE} FROM samples WHERE account = ? AND key IN"
                f" ({_marks(some)})"
            )
            found += [
                KeyedSample(*row) for row in self._rows(query, (self.account, *some))
            ]
        return found

    def samples(self) -> Iterator[KeyedSample]:
        """Yield all samples with keys."""
        query = f"SELECT {SAMPLE} FROM samples WHERE account = ?"
        for row in self._rows(query, (self.account,)):
            yield KeyedSample(*row)

    def keys(
        self, first: tuple[int, int], last: tuple[int, int]
    ) -> Mapping[tuple[int, int], list[KeyedSample]]:
        """Return the samples with keys that arrived on the orders from one to another,
        by round and client.
        """
        rows = self._rows(
            f"SELECT {SAMPLE} FROM samples WHERE account = ? AND round BETWEEN ? AND ?"
            " AND (round > ? OR client >= ?) AND (round < ? OR client <= ?) ORDER BY"
            " round, client, key",
            (self.account, first[0], last[0], *first, *last),
        )
        found = dict[tuple[int, int], list[KeyedSample]]()
        for row in rows:
            sample = KeyedSample(*row)
            found.setdefault((sample.round, sample.client), []).append(sample)
        return found

    def put_nodes(self, nodes: Iterable[Node]) -> None:
        """Write which clients these nodes of Flower are, in a transaction of its
        own.
        """
        rows = [
            (self.account, str(node), client, since) for node, client, since in nodes
        ]
        with self.transaction():
            self._run_each(
                "INSERT INTO nodes VALUES (?, ?, ?, ?) ON CONFLICT (account, node) DO"
                " UPDATE SET client = excluded.client, since = excluded.since",
                rows,
            )

    def nodes(self) -> list[Node]:
        """Return the nodes of Flower."""
        rows = self._rows(
            "SELECT node, client, since FROM nodes WHERE account = ?", (self.account,)
        )
        with self.readable("nodes"):
            return [Node(int(node), client, since) for node, client, since in rows]

    def counts(self, period: tuple[str, str] = ALWAYS) -> tuple[int, int]:
        """Return how many orders of a period and samples with keys there are."""
        ((orders,),) = self._rows(
            "SELECT count(*) FROM orders WHERE account = ? AND at >= ? AND at < ?",
            (self.account, *period),
        )
        ((samples,),) = self._rows(
            "SELECT count(*) FROM samples WHERE account = ?", (self.account,)
        )
        return int(orders), int(samples)


def _marks(values: Iterable[Any]) -> str:
    return ", ".join("?" for _ in values)


def _row_of(order: OrderState) -> list[Any]:
    row = order.to_row()
    if isinstance(order.expires, int):
        row[-1] = str(order.expires)
    return row


def _order_of(row: Sequence[Any]) -> OrderState:
    order = OrderState.of_row(row)
    expires = order.expires
    if isinstance(expires, str) and expires.isdecimal():
        order = order._replace(expires=int(expires))
    if not isinstance(order.price, Decimal) or not order.price.is_finite():
        raise ValueError(f"price {order.price}")
    return order
