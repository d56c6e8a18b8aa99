"""The server's accounts on disk: every order that can cost money, written before it is sent, and the answer to it.

A round is two transactions. `begin` writes the price and the orders before any message is sent. `settle` writes the answers,
the ledger after them and the name of the parameter file. If the server is killed in between, it sends the same orders again,
and clients admit nothing twice. An order is one row with one number of admitted samples, so it is charged once; samples
that a client reports later are a row of `corrections`.
"""

import json
import secrets
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headgate.books.durable import Durable
from headgate.books.messages import TEXT
from headgate.control.amendments import Amendment
from headgate.control.supply import EVERYTHING, Supply
from headgate.control.types import Floats, Losses, System, Terms
from headgate.errors import LedgerError, SettingError
from headgate.escaping import one_line

if TYPE_CHECKING:
    from headgate.books.accounts import Settlement

LEDGER = "ledger.sqlite"
"""name of the ledger's file in a run folder"""


class Ordered(NamedTuple):
    """An order to admit samples, and the number of samples admitted on it."""

    round: int
    client: int
    ordered: int
    free: int
    """ordered samples that are not paid for"""
    price: float
    admitted: int | None = None
    """samples admitted on the order; None: it is outstanding, and all of it may have been admitted"""
    learned: int | None = None
    """round in which the answer arrived; None: there is no answer yet"""

    @property
    def charge(self) -> float:
        return self.price * max((self.admitted or 0) - self.free, 0)


class RoundRow(NamedTuple):
    """A round whose orders were written and perhaps sent. The fields from `debt` on are its result, after it is settled."""

    round: int
    price: Floats
    reserved: float
    begun: str
    """time in UTC at which the orders were written"""
    supply: Supply
    debt: float
    spent: float
    parameters: str
    sha256: str
    metrics: dict[str, Any]
    clients: dict[str, Any] | None
    """row of the round in the table of clients"""


class AmendmentRow(NamedTuple):
    """An amendment with its date and its author."""

    id: int
    round: int
    """last round before the amendment"""
    made: str
    """time in UTC at which the amendment was made"""
    by: str
    why: str
    change: Amendment
    order: tuple[int, int] | None
    """round and client of the order whose cost is adjusted to an invoice; None: no order is adjusted"""

    def stated(self) -> str:
        """Return the change in one line, as in `money 500`."""
        own = changed(self.change).items()
        text = ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in own)
        return text if self.order is None else f"{text} of round {self.order[0]}, client {self.order[1]}"


class Event(NamedTuple):
    """An event for the record: for example a rejection, a quarantine, or late or lost samples."""

    round: int
    client: int
    kind: str
    reason: str


class ClientRow(NamedTuple):
    """The state of a client by its last valid answer."""

    client: int
    heard: int
    """round of the last valid answer"""
    offences: int
    quarantined: bool
    lost: int
    distinct: int
    uses: int
    squares: int
    withdrawn: int = 0
    erased: int = 0


class Node(NamedTuple):
    """The client that a node states it is."""

    node: int
    client: int
    since: float
    """logical time at which the node last became this client, counted by `Roster`"""


class LedgerStore(Durable):
    format = "headgate ledger store 3"
    schema = (
        "CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, price BLOB NOT NULL, reserved REAL NOT NULL, "
        "begun TEXT NOT NULL, supply TEXT NOT NULL, settled INTEGER NOT NULL, debt REAL, spent REAL, parameters TEXT, "
        "sha256 TEXT, metrics TEXT, clients TEXT)",
        "CREATE TABLE IF NOT EXISTS orders (round INTEGER, client INTEGER, ordered INTEGER NOT NULL, free INTEGER NOT NULL, "
        "price REAL NOT NULL, admitted INTEGER, learned INTEGER, PRIMARY KEY (round, client))",
        "CREATE INDEX IF NOT EXISTS outstanding ON orders (client, round) WHERE admitted IS NULL",
        "CREATE TABLE IF NOT EXISTS clients (client INTEGER PRIMARY KEY, heard INTEGER NOT NULL, offences INTEGER NOT NULL, "
        "quarantined INTEGER NOT NULL, lost INTEGER NOT NULL, distinct_used INTEGER NOT NULL, uses INTEGER NOT NULL, "
        "squares INTEGER NOT NULL, withdrawn INTEGER NOT NULL, erased INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS nodes (node TEXT PRIMARY KEY, client INTEGER NOT NULL, since REAL NOT NULL)",
        "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, round INTEGER NOT NULL, client INTEGER NOT NULL, "
        "kind TEXT NOT NULL, reason TEXT NOT NULL)",
        "CREATE TABLE IF NOT EXISTS corrections (round INTEGER, client INTEGER, ordered INTEGER NOT NULL, "
        "free INTEGER NOT NULL, price REAL NOT NULL, admitted INTEGER NOT NULL, learned INTEGER, "
        "PRIMARY KEY (round, client, learned))",
        "CREATE TABLE IF NOT EXISTS amendments (id INTEGER PRIMARY KEY, round INTEGER NOT NULL, made TEXT NOT NULL, "
        "by TEXT NOT NULL, why TEXT NOT NULL, change TEXT NOT NULL, of_round INTEGER, of_client INTEGER)",
        "CREATE TABLE IF NOT EXISTS samples (round INTEGER, client INTEGER, key TEXT, PRIMARY KEY (round, client, key))",
        # mean losses of each client's new samples, then of the samples held before
        "CREATE TABLE IF NOT EXISTS losses (round INTEGER PRIMARY KEY, losses BLOB NOT NULL)",
    )

    def _opened(self) -> None:
        self.experiment = str(self._fixed("experiment", secrets.token_hex(8)))
        """random name of the run, with which the id of every admission begins"""

    def check_terms(self, terms: Terms) -> None:
        """Refuse a controller whose terms differ from those of the first one."""
        first = self._fixed("terms", json.dumps(terms._asdict()))
        Terms(**json.loads(str(first))).check(terms, str(self.path))

    def remember_system(self, system: System, keeps: bool) -> None:
        """Write the system at the beginning, and whether the policy keeps to its money; later changes are amendments."""
        self._fixed("keeps", int(keeps))
        table = {"buffer": system.buffer.tolist(), "weight": system.weight.tolist()}
        table |= {name: getattr(system, name) for name in ("budget", "horizon", "currency")}
        self._fixed("system", json.dumps(table))

    def system(self) -> System:
        """Return the system at the beginning, without amendments."""
        return System(**json.loads(str(self.meta("system") or "{}")))

    def spent(self) -> float:
        """Return the money spent by the ledger, including adjustments to invoices since the last settled round."""
        last = self._db.execute("SELECT round, spent FROM rounds WHERE settled = 1 ORDER BY round DESC LIMIT 1").fetchone()
        t, spent = last or (0, 0.0)
        return float(spent + sum(each.change.adjust for each in self.amendments() if each.round >= t))

    def times(self) -> dict[int, str]:
        """Return the time in UTC at which the orders of each round were written."""
        return dict(self._db.execute("SELECT round, begun FROM rounds").fetchall())

    # writing

    def begin(
        self,
        t: int,
        price: Floats,
        reserved: float,
        orders: Sequence[Ordered],
        supply: Supply = EVERYTHING,
        begun: str | None = None,
    ) -> None:
        """Write the price, the supply and the orders of a round before any order is sent."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO rounds (round, price, reserved, begun, supply, settled) VALUES (?, ?, ?, ?, ?, 0)",
                (t, np.asarray(price, np.float64).tobytes(), reserved, begun or now(), _stated(supply)),
            )
            self._db.executemany(
                "INSERT INTO orders (round, client, ordered, free, price) VALUES (?, ?, ?, ?, ?)", [row[:5] for row in orders]
            )

    def settle(
        self,
        done: "Settlement",
        events: Iterable[Event],
        parameters: tuple[str, str],
        metrics: Mapping[str, Any],
        by_client: Mapping[str, Any] | None,
        keys: Iterable[tuple[int, int, str]] = (),
    ) -> None:
        """Write all results of a round in one transaction."""
        t, ledger = done.ledger.t, done.ledger
        with self.transaction():
            for row in done.closed:
                written = self._db.execute(
                    "UPDATE orders SET admitted = ?, learned = ? WHERE round = ? AND client = ? AND admitted IS NULL",
                    (row.admitted, row.learned, row.round, row.client),
                )
                if written.rowcount != 1:
                    raise LedgerError(f"round {t}: the order of round {row.round} to client {row.client} is closed already")
            self._db.executemany("INSERT INTO corrections VALUES (?, ?, ?, ?, ?, ?, ?)", list(done.corrected))
            self._db.executemany("INSERT OR REPLACE INTO clients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", list(done.clients))
            self._note(events)
            self._db.executemany("INSERT INTO samples VALUES (?, ?, ?)", list(keys))
            written = self._db.execute(
                "UPDATE rounds SET settled = 1, debt = ?, spent = ?, parameters = ?, sha256 = ?, metrics = ?, "
                "clients = ? WHERE round = ? AND settled = 0",
                (
                    float(ledger.debt[0]),
                    float(ledger.spent[0]),
                    *parameters,
                    json.dumps(dict(metrics)),
                    None if by_client is None else json.dumps(dict(by_client)),
                    t,
                ),
            )
            if written.rowcount != 1:
                raise LedgerError(f"round {t}: is not open, so it cannot be settled")
            if ledger.losses is not None:
                self._db.execute("INSERT INTO losses VALUES (?, ?)", (t, np.concatenate(ledger.losses.arrays).tobytes()))

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
        rows = [event._replace(reason=one_line(event.reason, TEXT)) for event in events]
        self._db.executemany("INSERT INTO events (round, client, kind, reason) VALUES (?, ?, ?, ?)", rows)

    def lift(self, client: int) -> bool:
        """End a client's quarantine and reset its offences; return False if it is in none. A running server sends it orders
        again from its next round on."""
        with self.transaction():
            done = self._db.execute(
                "UPDATE clients SET quarantined = 0, offences = 0 WHERE client = ? AND quarantined = 1", (client,)
            )
            if done.rowcount:
                self._note([Event(self.settled, client, "lifted", "gets orders again")])
        return bool(done.rowcount)

    def amend(self, change: Amendment, by: str, why: str, order: tuple[int, int] | None = None) -> None:
        """Write an amendment, which is valid from the round after the last one begun."""
        if not self.meta("keeps"):
            raise SettingError("the policy does not keep to its money: terms can be amended with one that does, as headgate")
        with self.transaction():
            t = int(self._db.execute("SELECT coalesce(max(round), 0) FROM rounds").fetchone()[0])
            if order is not None:
                self._check_adjusted(order, change.adjust)
            row = (t, now(), one_line(by, TEXT), one_line(why, TEXT), json.dumps(changed(change)), *(order or (None, None)))
            self._db.execute(
                "INSERT INTO amendments (round, made, by, why, change, of_round, of_client) VALUES (?, ?, ?, ?, ?, ?, ?)", row
            )

    def _check_adjusted(self, order: tuple[int, int], amount: float) -> None:
        t, client = order
        rows = [row for row in self.orders(t) if row.client == client]
        if not rows:
            raise LedgerError(f"order = round {t}, client {client}: there is none")
        rows += [row for row in self.corrections() if row[:2] == order]
        earlier = [each.change.adjust for each in self.amendments() if each.order == order]
        if (paid := sum(row.charge for row in rows) + sum(earlier)) + amount < 0:
            raise LedgerError(f"adjust = {amount:g}: is more than the {paid:g} that were paid on this order")

    def amendments(self, after: int = 0) -> list[AmendmentRow]:
        """Return the amendments whose id is greater than `after`, the oldest first."""
        rows = self._db.execute("SELECT * FROM amendments WHERE id > ? ORDER BY id", (after,))
        return [
            AmendmentRow(id, t, made, by, why, Amendment(**json.loads(change)), None if of is None else (of, client))
            for id, t, made, by, why, change, of, client in rows
        ]

    def keys(self) -> dict[tuple[int, int], list[str]]:
        """Return the keys of the delivered samples by round and client, for clients that report keys."""
        found = dict[tuple[int, int], list[str]]()
        for t, client, key in self._db.execute("SELECT round, client, key FROM samples ORDER BY round, client, key"):
            found.setdefault((t, client), []).append(key)
        return found

    def remember_initial(self, parameters: str, sha256: str) -> None:
        """Write the name and the SHA-256 of the file that holds the parameters before round 1."""
        with self.transaction():
            self._db.execute("INSERT INTO meta VALUES ('parameters', ?), ('sha256', ?)", (parameters, sha256))

    # reading

    def initial(self) -> tuple[str, str]:
        """Return the file of the parameters before round 1 and its SHA-256; both are empty if there is none yet."""
        return str(self.meta("parameters") or ""), str(self.meta("sha256") or "")

    @property
    def settled(self) -> int:
        """The last settled round; 0 before the first one."""
        return int(self._db.execute("SELECT coalesce(max(round), 0) FROM rounds WHERE settled = 1").fetchone()[0])

    def begun(self) -> RoundRow | None:
        """Return the round that was begun and is not settled; None: there is none."""
        return next(iter(self.rounds(settled=False)), None)

    def rounds(self, after: int = 0, settled: bool = True) -> list[RoundRow]:
        rows = self._db.execute(
            "SELECT round, price, reserved, begun, supply, debt, spent, parameters, sha256, metrics, clients "
            "FROM rounds WHERE settled = ? AND round > ? ORDER BY round",
            (settled, after),
        )
        return [
            RoundRow(*row)._replace(
                price=np.frombuffer(row[1]),
                supply=_read(row[4]),
                metrics=json.loads(row[9] or "null"),
                clients=json.loads(row[10] or "null"),
            )
            for row in rows
        ]

    def orders(self, t: int | None = None) -> list[Ordered]:
        """Return the orders of round t; None: of all rounds."""
        where, values = ("", ()) if t is None else ("WHERE round = ?", (t,))
        rows = self._db.execute(
            f"SELECT round, client, ordered, free, price, admitted, learned FROM orders {where} ORDER BY client, round", values
        )
        return [Ordered(*row) for row in rows]

    def outstanding(self) -> list[Ordered]:
        """Return the orders that have no answer yet."""
        rows = self._db.execute(
            "SELECT round, client, ordered, free, price FROM orders WHERE admitted IS NULL ORDER BY client, round"
        )
        return [Ordered(*row) for row in rows]

    def closed(self, client: int, rounds: Collection[int]) -> dict[int, Ordered]:
        """Return a client's closed orders of these rounds, by round, with all samples known to be admitted on them."""
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
        """Return the position up to which each of these orders to one client went, by round: known plus ordered samples."""
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
        """Return the samples that were reported after their orders were closed, as separate orders."""
        return [Ordered(*row) for row in self._db.execute("SELECT * FROM corrections ORDER BY client, round, learned")]

    def losses(self, each: int = 2) -> dict[int, Losses]:
        """Return the losses that clients reported in each round, `each` numbers for every client."""
        rows = self._db.execute("SELECT round, losses FROM losses").fetchall()
        if any(len(content) % (8 * each) for _, content in rows):
            raise LedgerError(f"{self.path}: losses of a round are not {each} for each client; it is damaged")
        return {t: Losses(*np.frombuffer(content).reshape(each, 1, -1)) for t, content in rows}

    def quarantined(self) -> set[int]:
        return {client for (client,) in self._db.execute("SELECT client FROM clients WHERE quarantined = 1")}

    def refusals(self) -> dict[str, int]:
        """Return how many answers were rejected, and how many clients are in quarantine."""
        refused = self._db.execute("SELECT count(*) FROM events WHERE kind = 'rejected'").fetchone()[0]
        return {"refused": int(refused), "quarantined": len(self.quarantined())}

    def clients(self) -> dict[int, ClientRow]:
        rows = self._db.execute("SELECT * FROM clients")
        return {row[0]: ClientRow(*row)._replace(quarantined=bool(row[3])) for row in rows}

    def nodes(self) -> list[Node]:
        return [Node(int(node), client, since) for node, client, since in self._db.execute("SELECT * FROM nodes")]

    def events(self) -> list[Event]:
        return [Event(*row) for row in self._db.execute("SELECT round, client, kind, reason FROM events ORDER BY id")]


def now() -> str:
    """Return the present time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def changed(change: Amendment) -> dict[str, Any]:
    """Return the fields that an amendment changes, by name."""
    return {name: value for name, value in asdict(change).items() if value != getattr(Amendment, name)}


def _stated(supply: Supply) -> str:
    """Return a supply as JSON; it lists the clients that were absent and omits limits that were not set."""
    usual = EVERYTHING._asdict()
    table = {name: getattr(supply, name) for name in ("in_all", "lot", "money") if getattr(supply, name) != usual[name]}
    if supply.present is not None:
        present = np.asarray(supply.present)
        table["present"] = [present.size, np.flatnonzero(~present).tolist()]
    if supply.most is not None:
        table["most"] = np.asarray(supply.most).tolist()
    return json.dumps(table)


def _read(text: str) -> Supply:
    table = json.loads(text)
    if "present" in table:
        clients, away = table["present"]
        table["present"] = ~np.isin(np.arange(clients), away)
    return Supply(**table)
