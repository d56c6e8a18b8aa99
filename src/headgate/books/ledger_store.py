"""The server's accounts on disk: every order that can cost money, written before it is sent, and its answer.

A round is two transactions. `begin`: its price and its orders, before any message is sent. `settle`: what clients told,
what the ledger says after it, and which file holds the parameters. Killed in between, the round is sent again with the same
orders, which admit nothing twice. An order is one row with one place for what was admitted on it, so it is charged once.
Where a client turns out to have admitted more than it told, the rest is a row of its own in `corrections`.
"""

import json
import secrets
import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from headgate.books.durable import Durable
from headgate.books.messages import one_line
from headgate.control.types import Floats, Ledger, Losses, Terms
from headgate.errors import LedgerError

LEDGER = "ledger.sqlite"
"""name of the file in a run folder"""
Medians = tuple[float | None, float | None]
"""the largest median length of a round's updates so far, of real and of whole numbers; None: not known yet"""
NOTHING_KNOWN: Medians = (None, None)


class Ordered(NamedTuple):
    """An order to admit, and what was admitted on it."""

    round: int
    client: int
    ordered: int
    free: int
    """how many of them are not paid for"""
    price: float
    admitted: int | None = None
    """None: no answer yet, the order is outstanding and may have cost all it could"""
    learned: int | None = None
    """the round in which its answer came"""

    @property
    def charge(self) -> float:
        return self.price * max((self.admitted or 0) - self.free, 0)


class SettledRound(NamedTuple):
    """A round that is over."""

    round: int
    price: Floats
    reserved: float
    debt: float
    spent: float
    parameters: str
    sha256: str
    medians: Medians
    metrics: dict[str, Any]
    clients: dict[str, Any] | None
    """the row of the table of clients; its column has been called occupancy since it told no more than that"""


class BegunRound(NamedTuple):
    """A round whose orders were written, and perhaps sent."""

    round: int
    price: Floats
    reserved: float


class Event(NamedTuple):
    """What the record should tell beside numbers: a rejection, a quarantine, late or lost samples."""

    round: int
    client: int
    kind: str
    reason: str


class ClientRow(NamedTuple):
    """What the server last heard of a client."""

    client: int
    heard: int
    """the round of its last valid answer"""
    offences: int
    quarantined: bool
    lost: int
    distinct: int
    uses: int
    squares: int
    withdrawn: int = 0


class Node(NamedTuple):
    """Which client a node says it is."""

    node: int
    client: int
    since: float
    """when it last became that client, as the server counts it: see Roster"""


class LedgerStore(Durable):
    format = "headgate flower ledger 2"
    schema = (
        "CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, price BLOB NOT NULL, reserved REAL NOT NULL, "
        "settled INTEGER NOT NULL, debt REAL, spent REAL, parameters TEXT, sha256 TEXT, medians TEXT, metrics TEXT, "
        "occupancy TEXT)",
        "CREATE TABLE IF NOT EXISTS orders (round INTEGER, client INTEGER, ordered INTEGER NOT NULL, free INTEGER NOT NULL, "
        "price REAL NOT NULL, admitted INTEGER, learned INTEGER, PRIMARY KEY (round, client))",
        "CREATE INDEX IF NOT EXISTS outstanding ON orders (client, round) WHERE admitted IS NULL",
        "CREATE TABLE IF NOT EXISTS clients (client INTEGER PRIMARY KEY, heard INTEGER NOT NULL, offences INTEGER NOT NULL, "
        "quarantined INTEGER NOT NULL, lost INTEGER NOT NULL, distinct_used INTEGER NOT NULL, uses INTEGER NOT NULL, "
        "squares INTEGER NOT NULL, withdrawn INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS nodes (node TEXT PRIMARY KEY, client INTEGER NOT NULL, since REAL NOT NULL)",
        "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, round INTEGER NOT NULL, client INTEGER NOT NULL, "
        "kind TEXT NOT NULL, reason TEXT NOT NULL)",
        "CREATE TABLE IF NOT EXISTS corrections (round INTEGER, client INTEGER, ordered INTEGER NOT NULL, "
        "free INTEGER NOT NULL, price REAL NOT NULL, admitted INTEGER NOT NULL, learned INTEGER, "
        "PRIMARY KEY (round, client, learned))",
        # what samples lost: of new ones for each client, then of those held before
        "CREATE TABLE IF NOT EXISTS losses (round INTEGER PRIMARY KEY, losses BLOB NOT NULL)",
    )

    def _opened(self) -> None:
        self.experiment = str(self._fixed("experiment", secrets.token_hex(8)))
        """the first part of every admission's id, another one in every run"""

    def check_terms(self, terms: Terms) -> None:
        """Refuse a controller of other terms than the first one's."""
        first = self._fixed("terms", json.dumps(terms._asdict()))
        Terms(**json.loads(str(first))).check(terms, str(self.path))

    # writing

    def begin(self, t: int, price: Floats, reserved: float, orders: Sequence[Ordered]) -> None:
        """Write a round's price and orders, before any of them is sent."""
        with self.transaction():
            self._insert(
                "INSERT INTO rounds (round, price, reserved, settled) VALUES (?, ?, ?, 0)",
                (t, np.asarray(price, np.float64).tobytes(), reserved),
            )
            self._db.executemany(
                "INSERT INTO orders (round, client, ordered, free, price) VALUES (?, ?, ?, ?, ?)", [row[:5] for row in orders]
            )

    def settle(
        self,
        t: int,
        closed: Iterable[Ordered],
        corrected: Iterable[Ordered],
        ledger: Ledger,
        clients: Iterable[ClientRow],
        events: Iterable[Event],
        parameters: tuple[str, str],
        metrics: Mapping[str, Any],
        by_client: Mapping[str, Any] | None,
        medians: Medians = NOTHING_KNOWN,
    ) -> None:
        """Write all that a round came to, in one transaction."""
        with self.transaction():
            for row in closed:
                done = self._db.execute(
                    "UPDATE orders SET admitted = ?, learned = ? WHERE round = ? AND client = ? AND admitted IS NULL",
                    (row.admitted, row.learned, row.round, row.client),
                )
                if done.rowcount != 1:
                    raise LedgerError(f"round {t}: the order of round {row.round} to client {row.client} is closed already")
            self._db.executemany("INSERT INTO corrections VALUES (?, ?, ?, ?, ?, ?, ?)", list(corrected))
            self._db.executemany("INSERT OR REPLACE INTO clients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", list(clients))
            self._note(events)
            done = self._db.execute(
                "UPDATE rounds SET settled = 1, debt = ?, spent = ?, parameters = ?, sha256 = ?, medians = ?, metrics = ?, "
                "occupancy = ? WHERE round = ? AND settled = 0",
                (
                    float(ledger.debt[0]),
                    float(ledger.spent[0]),
                    *parameters,
                    json.dumps(medians),
                    json.dumps(dict(metrics)),
                    None if by_client is None else json.dumps(dict(by_client)),
                    t,
                ),
            )
            if done.rowcount != 1:
                raise LedgerError(f"round {t}: is not open, so it cannot be settled")
            if ledger.losses is not None:
                self._db.execute("INSERT INTO losses VALUES (?, ?)", (t, np.concatenate(ledger.losses).tobytes()))

    def remember_nodes(self, nodes: Iterable[Node]) -> None:
        """Write which clients these nodes are."""
        with self.transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", [(str(node.node), node.client, node.since) for node in nodes]
            )

    def note(self, events: Iterable[Event]) -> None:
        with self.transaction():
            self._note(events)

    def _note(self, events: Iterable[Event]) -> None:
        rows = [event._replace(reason=one_line(event.reason)) for event in events]
        self._db.executemany("INSERT INTO events (round, client, kind, reason) VALUES (?, ?, ?, ?)", rows)

    def lift(self, client: int) -> bool:
        """Give a client in quarantine orders again, with no offences; False where it is in none. A server that plays takes it
        up with its next round."""
        with self.transaction():
            done = self._db.execute(
                "UPDATE clients SET quarantined = 0, offences = 0 WHERE client = ? AND quarantined = 1", (client,)
            )
            if done.rowcount:
                self._note([Event(self.settled, client, "lifted", "gets orders again")])
        return bool(done.rowcount)

    def _insert(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self._db.execute(statement, values)
        except sqlite3.IntegrityError:
            raise LedgerError(f"round {values[0]}: was begun already") from None

    def remember_initial(self, parameters: str, sha256: str) -> None:
        """Which file holds the parameters before round 1."""
        with self.transaction():
            self._db.execute("INSERT INTO meta VALUES ('parameters', ?), ('sha256', ?)", (parameters, sha256))

    # reading

    def initial(self) -> tuple[str, str]:
        """The file of the parameters before round 1 and its SHA-256; empty where there is none yet."""
        return str(self.meta("parameters") or ""), str(self.meta("sha256") or "")

    @property
    def settled(self) -> int:
        """The last round that is over; 0 before the first."""
        return int(self._db.execute("SELECT coalesce(max(round), 0) FROM rounds WHERE settled = 1").fetchone()[0])

    def begun(self) -> BegunRound | None:
        """The round that was begun and is not settled."""
        row = self._db.execute("SELECT round, price, reserved FROM rounds WHERE settled = 0").fetchone()
        return None if row is None else BegunRound(row[0], np.frombuffer(row[1]), row[2])

    def rounds(self, after: int = 0) -> list[SettledRound]:
        rows = self._db.execute(
            "SELECT round, price, reserved, debt, spent, parameters, sha256, medians, metrics, occupancy FROM rounds "
            "WHERE settled = 1 AND round > ? ORDER BY round",
            (after,),
        )
        return [
            SettledRound(*row)._replace(
                price=np.frombuffer(row[1]),
                medians=tuple(json.loads(row[7])),
                metrics=json.loads(row[8]),
                clients=None if row[9] is None else json.loads(row[9]),
            )
            for row in rows
        ]

    def orders(self, t: int | None = None) -> list[Ordered]:
        """All, or those of round t."""
        where, values = ("", ()) if t is None else ("WHERE round = ?", (t,))
        rows = self._db.execute(
            f"SELECT round, client, ordered, free, price, admitted, learned FROM orders {where} ORDER BY client, round", values
        )
        return [Ordered(*row) for row in rows]

    def outstanding(self) -> list[Ordered]:
        """Orders without an answer yet."""
        rows = self._db.execute(
            "SELECT round, client, ordered, free, price FROM orders WHERE admitted IS NULL ORDER BY client, round"
        )
        return [Ordered(*row) for row in rows]

    def closed(self, client: int, rounds: Collection[int]) -> dict[int, Ordered]:
        """A client's closed orders of these rounds, with all that is known to have been admitted on them."""
        if not rounds:
            return {}
        rows = self._db.execute(
            "SELECT round, client, ordered, free, price, admitted + (SELECT coalesce(sum(admitted), 0) FROM corrections AS c "
            "WHERE c.round = orders.round AND c.client = orders.client), learned FROM orders "
            "WHERE client = ? AND round BETWEEN ? AND ? AND admitted IS NOT NULL",
            (client, min(rounds), max(rounds)),
        )
        wanted = set(rounds)
        return {row[0]: Ordered(*row) for row in rows if row[0] in wanted}

    def lasts(self, orders: Iterable[Ordered]) -> dict[int, int]:
        """Up to which admission these orders to one client went, by round: what was known of it then, and what was ordered."""
        orders = list(orders)
        if not orders:
            return {}
        rows = self._db.execute(
            "SELECT learned, admitted FROM orders WHERE client = ? AND learned IS NOT NULL "
            "UNION ALL SELECT learned, admitted FROM corrections WHERE client = ? ORDER BY learned",
            (orders[0].client, orders[0].client),
        ).fetchall()
        known = [0, *accumulate(admitted for _, admitted in rows)]
        learned = [round for round, _ in rows]
        return {row.round: known[bisect_left(learned, row.round)] + row.ordered for row in orders}

    def corrections(self) -> list[Ordered]:
        """Samples that became known of after their orders were closed."""
        return [Ordered(*row) for row in self._db.execute("SELECT * FROM corrections ORDER BY client, round, learned")]

    def losses(self, clients: int) -> dict[int, Losses]:
        """What a policy that listens was told after each round."""
        rows = self._db.execute("SELECT round, losses FROM losses").fetchall()
        if any(len(told) != 16 * clients for _, told in rows):
            raise LedgerError(f"{self.path}: losses of a round are not two for each of {clients} clients; it is damaged")
        return {t: Losses(*np.frombuffer(told).reshape(2, 1, clients)) for t, told in rows}

    def quarantined(self) -> set[int]:
        return {client for (client,) in self._db.execute("SELECT client FROM clients WHERE quarantined = 1")}

    def refusals(self) -> dict[str, int]:
        """How many answers were refused, and how many clients are in quarantine."""
        refused = self._db.execute("SELECT count(*) FROM events WHERE kind = 'rejected'").fetchone()[0]
        return {"refused": int(refused), "quarantined": len(self.quarantined())}

    def clients(self) -> dict[int, ClientRow]:
        rows = self._db.execute("SELECT * FROM clients")
        return {row[0]: ClientRow(*row)._replace(quarantined=bool(row[3])) for row in rows}

    def nodes(self) -> list[Node]:
        return [Node(int(node), client, since) for node, client, since in self._db.execute("SELECT * FROM nodes")]

    def events(self) -> list[Event]:
        return [Event(*row) for row in self._db.execute("SELECT round, client, kind, reason FROM events ORDER BY id")]
