"""The server's accounts on disk: every order that can cost money, written before it is
sent, and the answer to it.

A round is two transactions. `begin` writes the price and the orders before any message
is sent. `settle` writes the answers, the ledger after them and the name of the
parameter file. If the server is killed in between, it sends the same orders again, and
clients admit nothing twice. An order is one row with one number of admitted samples, so
it is charged once; samples that a client reports later are a row of `corrections`.
"""

import json
import secrets
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headgate.books.anchor import Anchor
from headgate.books.durable import Durable, statements
from headgate.books.exact import NOTHING, exact, plainly, total
from headgate.books.messages import TEXT
from headgate.books.moments import now
from headgate.control.amendments import Amendment, amended
from headgate.control.charges import exactly
from headgate.control.supply import EVERYTHING, Supply
from headgate.control.types import Floats, Ledger, Losses, System, Terms
from headgate.errors import DataError, HeadgateError, LedgerError, SettingError
from headgate.escaping import one_line, shown

LEDGER = "ledger.sqlite"
"""name of the ledger's file in a run folder"""
EVALUATED = "evaluated by clients, round "
"""the key, before the number of a round, of what clients measured of its model"""
LARGEST_AMOUNT = 1e300
"""an amount above all others, and below infinity"""
DATA_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    InvalidOperation,
    RecursionError,
    SettingError,
)
"""errors from values that no ledger holds"""


SCHEMA = f"""
CREATE TABLE IF NOT EXISTS rounds (
    round INTEGER PRIMARY KEY CHECK (round > 0),
    price BLOB NOT NULL CHECK (length(price) > 0 AND length(price) % 8 = 0),
    reserved REAL NOT NULL CHECK (reserved BETWEEN 0 AND {LARGEST_AMOUNT}),
    begun TEXT NOT NULL,
    supply TEXT NOT NULL,
    settled INTEGER NOT NULL CHECK (settled IN (0, 1)),
    debt REAL CHECK (debt BETWEEN 0 AND {LARGEST_AMOUNT}),
    spent REAL CHECK (spent BETWEEN 0 AND {LARGEST_AMOUNT}),
    parameters TEXT,
    sha256 TEXT,
    metrics TEXT,
    clients TEXT,
    paid TEXT,
    CHECK ((settled = 1) = (spent IS NOT NULL)),
    CHECK ((debt IS NULL) = (spent IS NULL))
) STRICT;
CREATE TABLE IF NOT EXISTS orders (
    round INTEGER NOT NULL,
    client INTEGER NOT NULL CHECK (client >= 0),
    ordered INTEGER NOT NULL CHECK (ordered > 0),
    free INTEGER NOT NULL CHECK (free BETWEEN 0 AND ordered),
    price REAL NOT NULL CHECK (price BETWEEN 0 AND {LARGEST_AMOUNT}),
    admitted INTEGER CHECK (admitted BETWEEN 0 AND ordered),
    learned INTEGER CHECK (learned >= round),
    PRIMARY KEY (round, client),
    CHECK ((admitted IS NULL) = (learned IS NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS outstanding ON orders (client, round) WHERE admitted IS NULL;
CREATE INDEX IF NOT EXISTS by_client ON orders (client, round);
CREATE TABLE IF NOT EXISTS clients (
    client INTEGER PRIMARY KEY CHECK (client >= 0),
    heard INTEGER NOT NULL CHECK (heard >= 0),
    offences INTEGER NOT NULL CHECK (offences >= 0),
    quarantined INTEGER NOT NULL CHECK (quarantined IN (0, 1)),
    lost INTEGER NOT NULL CHECK (lost >= 0),
    distinct_used INTEGER NOT NULL CHECK (distinct_used >= 0),
    uses INTEGER NOT NULL CHECK (uses >= 0),
    squares INTEGER NOT NULL CHECK (squares >= 0),
    withdrawn INTEGER NOT NULL CHECK (withdrawn >= 0),
    erased INTEGER NOT NULL CHECK (erased >= 0)
) STRICT;
CREATE TABLE IF NOT EXISTS nodes (
    node TEXT PRIMARY KEY NOT NULL,
    client INTEGER NOT NULL CHECK (client >= 0),
    since REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    round INTEGER NOT NULL CHECK (round >= 0),
    client INTEGER NOT NULL CHECK (client >= -1),
    kind TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS corrections (
    round INTEGER NOT NULL,
    client INTEGER NOT NULL CHECK (client >= 0),
    ordered INTEGER NOT NULL CHECK (ordered > 0),
    free INTEGER NOT NULL CHECK (free BETWEEN 0 AND ordered),
    price REAL NOT NULL CHECK (price BETWEEN 0 AND {LARGEST_AMOUNT}),
    admitted INTEGER NOT NULL CHECK (admitted = ordered),
    learned INTEGER NOT NULL CHECK (learned > round),
    PRIMARY KEY (round, client, learned)
) STRICT;
CREATE TABLE IF NOT EXISTS amendments (
    id INTEGER PRIMARY KEY,
    round INTEGER NOT NULL CHECK (round >= 0),
    made TEXT NOT NULL,
    by TEXT NOT NULL,
    why TEXT NOT NULL,
    change TEXT NOT NULL,
    of_round INTEGER,
    of_client INTEGER,
    key TEXT UNIQUE,
    voided TEXT,
    CHECK ((of_round IS NULL) = (of_client IS NULL))
) STRICT;
CREATE TABLE IF NOT EXISTS samples (
    round INTEGER NOT NULL,
    client INTEGER NOT NULL CHECK (client >= 0),
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND {TEXT}),
    PRIMARY KEY (round, client, key)
) STRICT;
CREATE TABLE IF NOT EXISTS losses (
    round INTEGER PRIMARY KEY,
    losses BLOB NOT NULL
) STRICT;
"""
"""the tables of a ledger; a row of `losses` has the mean losses of each client's new
samples, then of the samples held before
"""


class Ordered(NamedTuple):
    """An order to admit samples, and the number of samples admitted on it."""

    round: int
    client: int
    ordered: int
    free: int
    """ordered samples that are not paid for"""
    price: float
    admitted: int | None = None
    """samples admitted on the order; None: it is outstanding, and all of it may have
    been admitted
    """
    learned: int | None = None
    """round in which the answer arrived; None: there is no answer yet"""
    quantum: float | None = None
    """the quantum to which its cost is rounded"""

    @property
    def paid_samples(self) -> int:
        return max((self.admitted or 0) - self.free, 0)

    @property
    def charge(self) -> float:
        if self.quantum is None:
            return self.price * self.paid_samples
        return float(self.exact_charge)

    @property
    def exact_charge(self) -> Decimal:
        return exactly(self.price, self.paid_samples, self.quantum)


class RoundRow(NamedTuple):
    """A round whose orders were written and perhaps sent. The fields from `debt` on are
    its result, after it is settled.
    """

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
    paid: Decimal | None
    """exact sum of all that was spent by then; None: the round was settled by an older
    version
    """


class Offered(NamedTuple):
    """What could be bought in a settled round."""

    round: int
    begun: str
    """time in UTC at which the orders were written"""
    price: tuple[float, ...]
    """the price of a sample, or one for each client"""
    stated: str
    """the supply as it is written"""

    @property
    def supply(self) -> Supply:
        return _read(self.stated)


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
    """round and client of the order whose cost is adjusted to an invoice; None: no
    order is adjusted
    """
    key: str | None = None
    """name under which the amendment counts once, for example the number of an invoice
    """
    voided: str | None = None
    """when, by whom and why the amendment was taken out; None: it is in force"""

    def named(self) -> str:
        """Return the amendment as it is named in messages."""
        return f"amendment {self.id} ({self.stated()}, by {self.by}, {self.made})"

    def stated(self) -> str:
        """Return the change in one line, as in `money 500`."""
        own = changed(self.change).items()
        text = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in own
        )
        return (
            text
            if self.order is None
            else f"{text} of round {self.order[0]}, client {self.order[1]}"
        )


class Money(NamedTuple):
    """The money spent when an amendment is applied, formed as the running accounts form
    it.
    """

    asked: int = 0
    """the round after which the amendment is applied"""
    settled: int = 0
    """the last settled round by then"""
    spent: float = 0.0
    paid: Decimal | None = NOTHING
    """the exact sum; None: an older version settled the round, and summed floats"""

    def adjusted(self, amount: float) -> "Money":
        """Return the money after an invoice or a refund."""
        if amount == 0:
            return self
        if self.paid is None:
            return self._replace(spent=max(self.spent + amount, 0.0))
        paid = total([self.paid, exact(amount)])
        return self._replace(
            spent=float(paid),
            paid=paid,
        )


class Event(NamedTuple):
    """An event for the record: for example a rejection, a quarantine, or late or lost
    samples.
    """

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


@dataclass(
    frozen=True,
    eq=False,
)
class RoundResult:
    """What is written of a round when it is settled."""

    ledger: Ledger
    """the ledger after the round"""
    paid: Decimal
    """the exact sum of all that is spent after the round"""
    closed: list[Ordered]
    """orders that are open on disk, with what was admitted on them"""
    corrected: list[Ordered]
    """samples that were admitted on orders that are closed on disk"""
    clients: list[ClientRow]
    events: list[Event]


class Node(NamedTuple):
    """The client that a node states it is."""

    node: int
    client: int
    since: float
    """logical time at which the node last became this client, counted by `Roster`"""


class LedgerStore(Durable):
    """The ledger of one run.

    Parameters
    ----------
    path : Path or str
        The file of the ledger. Beside it stands a small file that tells how far the
        accounts have come.
    writes : bool
        As for `Durable`.
    """

    format = "headgate ledger store 3.1"
    older = ("headgate ledger store 3",)
    schema = statements(SCHEMA)

    def __init__(self, path: Path | str, writes: bool = True) -> None:
        path = Path(path)
        self._begun_with: dict[str, Any] | None = None
        self._has_anchor = path.name == LEDGER  # a backup has none
        self._anchor = (
            Anchor.of(path.parent) if self._has_anchor else None
        )  # read first: the ledger may go on meanwhile
        if self._anchor is not None and not path.exists():
            raise self._anchor.missing(path, "missing")
        super().__init__(path, writes)

    def _check_new(self) -> None:
        if self._anchor is not None:
            raise self._anchor.missing(self.path, "empty")

    def _create(self) -> None:
        super()._create()
        self._run(
            "INSERT OR IGNORE INTO meta VALUES ('experiment', ?)",
            (secrets.token_hex(8),),
        )

    def _opened(self) -> None:
        self.check()
        self.experiment = str(self._fixed("experiment", secrets.token_hex(8)))
        """random name of the run, with which the id of every admission begins"""
        if self._anchor is not None:
            self._anchor.check(self.path, self._reached())

    def _reached(self) -> Anchor:
        """Return how far the accounts have come."""
        ((amendments,),) = self._rows("SELECT count(*) FROM amendments")
        return Anchor(self.experiment, self.last_begun, self.settled, amendments)

    def check_terms(self, terms: Terms) -> None:
        """Refuse a controller whose terms differ from those of the first one."""
        first = self.meta("terms")
        if first is not None:
            with self._readable("meta"):
                known = Terms(**json.loads(str(first)))
            known.check(terms, str(self.path))

    def _check_not_refused(self, change: Amendment) -> None:
        with self._readable("meta"):
            refusals = dict(json.loads(str(self.meta("refusals") or "{}")))
        for name, value in changed(change).items():
            if (why := refusals.get(refused_as(name, value))) is not None:
                raise SettingError(
                    f"{name} = {value}: the policy of these accounts cannot work with"
                    f" it: {why}"
                )

    def remember(
        self,
        terms: Terms,
        system: System,
        keeps: bool,
        refusals: Mapping[str, str],
    ) -> None:
        """Write what the accounts begin with, once: later changes are amendments.

        Parameters
        ----------
        terms, system : Terms and System
            Of the first controller. Before this is written the file holds no accounts.
        keeps : bool
            Whether the policy keeps to its money.
        refusals : mapping of str to str
            Which fields of an amendment the policy cannot work with, and why, for
            processes that do not know the policy.
        """
        refused = json.dumps(dict(refusals))
        table = {"buffer": system.buffer.tolist(), "weight": system.weight.tolist()}
        table |= {
            name: getattr(system, name) for name in ("budget", "horizon", "currency")
        }
        if system.quantum is not None:
            table["quantum"] = system.quantum
        first = {
            "terms": json.dumps(terms._asdict()),
            "keeps": int(keeps),
            "system": json.dumps(table),
        }
        if self.meta("system") is not None:
            first = {}
        if first or self.meta("refusals") != refused:
            with self.transaction():
                rows = list({**first, "refusals": refused}.items())
                self._run_each("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    @property
    def quantum(self) -> float | None:
        """The quantum to which the cost of an order is rounded; None: to none."""
        if self._begun_with is None:
            text = self.meta("system")
            if text is None:
                return None
            with self._readable("meta"):
                self._begun_with = dict(json.loads(str(text)))
        return self._begun_with.get("quantum")

    def check_quantum(self, system: System) -> None:
        """Refuse a system with another quantum than that of the first one."""
        if self.meta("system") is not None and self.quantum != system.quantum:
            raise LedgerError(
                f"{self.path}: was opened with quantum = {self.quantum}, this system"
                f" has {system.quantum}"
            )

    def system(self) -> System:
        """Return the system at the beginning, without amendments."""
        text = self.meta("system")
        if text is None:
            raise DataError(f"{self.path}: holds no accounts yet")
        with self._readable("meta"):
            return System(**json.loads(str(text)))

    def terms(self) -> System:
        """Return the system with all amendments that were ever written, also those that
        hold from a later round on.
        """
        return self._terms_and_spent()[0]

    def _terms_and_spent(self) -> tuple[System, float]:
        """Return the system with all amendments, and the money spent up to now, as the
        next amendment is to be applied to.
        """
        system, amendments = self.system(), self.amendments()
        money = Money()
        for each in amendments:
            money = self._settled_by(each.round, money)
            try:
                system = amended(system, each.change, each.round, money.spent)
            except HeadgateError as error:
                raise self.cannot_apply(each, error) from None
            money = money.adjusted(each.change.adjust)
        return system, self._settled_by(self.last_begun, money).spent

    def cannot_apply(self, each: AmendmentRow, error: HeadgateError) -> LedgerError:
        """Return the error for an amendment that the accounts cannot be replayed
        with.
        """
        return LedgerError(
            f"{self.path}: {each.named()} cannot be applied: {error};"
            f" {self._way_out(each)}"
        )

    def remedy(self, each: AmendmentRow) -> str:
        """Return what to do about an amendment without which the accounts can be
        replayed.
        """
        return f"without {each.named()} it would replay; {self._way_out(each)}"

    def _way_out(self, each: AmendmentRow) -> str:
        command = f"headgate ledger void {self.path.parent} {each.id}"
        return f"`{command}` takes it out, on a copy"

    def _settled_by(self, t: int, known: "Money") -> "Money":
        """Return the money spent by the last settled round up to `t`; `known` is that
        at an earlier amendment.
        """
        if known.asked == t:
            return known
        query = (
            "SELECT round, spent, paid FROM rounds WHERE round <= ? AND settled = 1"
            " ORDER BY round DESC LIMIT 1"
        )
        rows = self._rows(query, (t,))
        settled, spent, paid = rows[0] if rows else (0, 0.0, "0")
        if settled == known.settled:
            return known._replace(asked=t)
        with self._readable("rounds"):
            return Money(t, settled, spent, None if paid is None else Decimal(paid))

    def spent(self) -> Decimal | None:
        """Return the exact sum that the ledger says was spent, with invoices since the
        last settled round.

        It is None as long as the last settled round was settled by an older version,
        which wrote no exact sum.
        """
        t = self.settled
        paid = self._settled_by(t, Money()).paid
        if paid is None:
            return None
        invoices = [each.change for each in self.amendments() if each.round >= t]
        with self._readable("rounds"):
            return total([paid, *(exact(change.adjust) for change in invoices)])

    def times(self) -> dict[int, str]:
        """Return the time in UTC at which the orders of each round were written."""
        return dict(self._rows("SELECT round, begun FROM rounds"))

    def offers(self) -> list[Offered]:
        """Return the prices and the supply of the settled rounds."""
        query = (
            "SELECT round, begun, price, supply FROM rounds WHERE settled = 1 ORDER BY"
            " round"
        )
        found = []
        for t, begun, price, stated in self._rows(query):
            with self._readable(f"round {t}"):
                _read(stated)
                prices = tuple(np.frombuffer(price).tolist())
                found.append(Offered(t, begun, prices, stated))
        return found

    @contextmanager
    def _readable(self, table: str) -> Iterator[None]:
        """Turn errors from values that no ledger holds into a DataError of one line."""
        try:
            yield
        except DATA_ERRORS as error:
            raise DataError(
                f"{self.path}: is damaged ({table}: {one_line(error, TEXT)})"
            ) from None

    # writing

    def begin(
        self,
        t: int,
        price: Floats,
        reserved: float,
        orders: Sequence[Ordered],
        supply: Supply,
        begun: str,
    ) -> None:
        """Write the price, the supply and the orders of a round, in the transaction in
        which the caller decided them.
        """
        self._run(
            "INSERT INTO rounds (round, price, reserved, begun, supply, settled) VALUES"
            " (?, ?, ?, ?, ?, 0)",
            (
                t,
                np.asarray(price, np.float64).tobytes(),
                reserved,
                begun,
                stated(supply),
            ),
        )
        self._run_each(
            "INSERT INTO orders (round, client, ordered, free, price) VALUES (?, ?, ?,"
            " ?, ?)",
            [row[:5] for row in orders],
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the body as one transaction, and then write how far the accounts have
        come.
        """
        with self.transaction():
            yield
            reached = self._reached()
        if self._has_anchor:
            reached.write(self.path.parent)

    def settle(
        self,
        done: RoundResult,
        events: Iterable[Event],
        parameters: tuple[str, str],
        metrics: Mapping[str, Any],
        by_client: Mapping[str, Any] | None,
        keys: Sequence[tuple[int, int, str]] = (),
    ) -> None:
        """Write all results of a round in one transaction."""
        t, ledger = done.ledger.t, done.ledger
        row_of_clients = None if by_client is None else json.dumps(dict(by_client))
        result = (
            float(ledger.debt[0]),
            float(ledger.spent[0]),
            *parameters,
            json.dumps(dict(metrics)),
            row_of_clients,
        )
        with self.writing():
            closed = self._run_each(
                "UPDATE orders SET admitted = ?, learned = ? WHERE round = ? AND client"
                " = ? AND admitted IS NULL",
                [
                    (row.admitted, row.learned, row.round, row.client)
                    for row in done.closed
                ],
            )
            if closed != len(done.closed):
                raise LedgerError(
                    f"round {t}: {len(done.closed) - closed} of its {len(done.closed)}"
                    " orders are closed already"
                )
            self._run_each(
                "INSERT INTO corrections VALUES (?, ?, ?, ?, ?, ?, ?)",
                [row[:7] for row in done.corrected],
            )
            self._run_each(
                "INSERT OR REPLACE INTO clients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                done.clients,
            )
            self._note(events)
            self._run_each("INSERT INTO samples VALUES (?, ?, ?)", keys)
            written = self._run(
                "UPDATE rounds SET settled = 1, debt = ?, spent = ?, parameters = ?,"
                " sha256 = ?, metrics = ?, clients = ?, paid = ? WHERE round = ? AND"
                " settled = 0",
                (*result, f"{done.paid:f}", t),
            )
            if written != 1:
                raise LedgerError(f"round {t}: is not open, so it cannot be settled")
            if ledger.losses is not None:
                self._run(
                    "INSERT INTO losses VALUES (?, ?)",
                    (t, np.concatenate(ledger.losses.arrays).tobytes()),
                )

    def remember_nodes(self, nodes: Iterable[Node]) -> None:
        """Write which clients these nodes are."""
        with self.transaction():
            rows = [(str(node.node), node.client, node.since) for node in nodes]
            self._run_each("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)", rows)

    def note(self, events: Iterable[Event]) -> None:
        with self.transaction():
            self._note(events)

    def _note(self, events: Iterable[Event]) -> None:
        rows = [event._replace(reason=one_line(event.reason, TEXT)) for event in events]
        self._run_each(
            "INSERT INTO events (round, client, kind, reason) VALUES (?, ?, ?, ?)", rows
        )

    def evaluated(
        self,
        t: int,
        judged: Mapping[str, float],
        said: Mapping[str, float],
    ) -> None:
        """Add to the metrics of a settled round what clients measured of its model;
        `said` has it under their own names.
        """
        ((text,),) = self._rows("SELECT metrics FROM rounds WHERE round = ?", (t,))
        metrics = json.dumps({**json.loads(text or "{}"), **judged})
        row = (f"{EVALUATED}{t}", json.dumps(dict(said)))
        with self.transaction():
            self._run("UPDATE rounds SET metrics = ? WHERE round = ?", (metrics, t))
            self._run("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)

    def evaluations(self) -> dict[int, dict[str, float]]:
        """Return what clients measured in each round, under their own names."""
        rows = self._rows(
            "SELECT key, value FROM meta WHERE key GLOB ?", (f"{EVALUATED}*",)
        )
        with self._readable("meta"):
            found = {
                int(key.removeprefix(EVALUATED)): dict(json.loads(text))
                for key, text in rows
            }
        return dict(sorted(found.items()))

    def lift(self, client: int) -> bool:
        """End a client's quarantine and reset its offences; return False if it is in
        none. A running server sends it orders again from its next round on."""
        with self.transaction():
            done = self._run(
                "UPDATE clients SET quarantined = 0, offences = 0 WHERE client = ? AND"
                " quarantined = 1",
                (client,),
            )
            if done:
                self._note([Event(self.settled, client, "lifted", "gets orders again")])
        return bool(done)

    def amend(
        self,
        change: Amendment,
        by: str,
        why: str,
        order: tuple[int, int] | None = None,
        key: str | None = None,
        accepts: Callable[[], object] = lambda: None,
    ) -> bool:
        """Write an amendment, which holds from the round after the last one begun.

        It is checked in the transaction that writes it, against the terms with all
        amendments written so far.

        Parameters
        ----------
        change : Amendment
            The change.
        by, why : str
            Who makes it, and the reason, in one line each.
        order : tuple of int, optional
            Round and client of the order whose cost is adjusted.
        key : str, optional
            A name for this amendment, for example the number of an invoice. Written
            again under the same key, it counts once.
        accepts : callable, optional
            Function that raises an error if the policy cannot go on under the amended
            terms.

        Returns
        -------
        bool
            False if the same amendment was written before under the same key; nothing
            is written then.

        Raises
        ------
        SettingError, LedgerError
            If the change does not fit. Nothing is written then.
        """
        with self.writing():
            if key is not None and self._is_written(key, change, order):
                return False
            if not self.meta("keeps"):
                raise SettingError(
                    "the policy does not keep to its money: terms can be amended with"
                    " one that does, as headgate"
                )
            self._check_not_refused(change)
            if order is not None:
                self._check_adjusted(order, change.adjust)
            elif change.adjust:
                raise SettingError(
                    f"adjust = {change.adjust:g}: belongs to an order; name its round"
                    " and its client"
                )
            t, (system, spent) = self.last_begun, self._terms_and_spent()
            amended(system, change, t, spent)
            accepts()
            self._run(
                "INSERT INTO amendments (round, made, by, why, change, of_round,"
                " of_client, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    t,
                    now(),
                    by,
                    why,
                    json.dumps(changed(change)),
                    *(order or (None, None)),
                    key,
                ),
            )
        return True

    def _is_written(
        self,
        key: str,
        change: Amendment,
        order: tuple[int, int] | None,
    ) -> bool:
        """Return whether this amendment was written under this key; raise LedgerError
        if another one was.
        """
        rows = self._rows("SELECT id FROM amendments WHERE key = ?", (key,))
        if not rows:
            return False
        each = self.amendments(
            after=rows[0][0] - 1,
            voided=True,
        )[0]
        if (each.change, each.order) == (change, order) and not each.voided:
            return True
        raise LedgerError(
            f"key = {shown(key)}: is that of {each.named()}; give this one another key"
        )

    def _check_adjusted(self, order: tuple[int, int], amount: float) -> None:
        t, client = order
        rows = [row for row in self.orders(t) if row.client == client]
        if not rows:
            raise LedgerError(f"order = round {t}, client {client}: there is none")
        rows += [row for row in self.corrections() if row[:2] == order]
        earlier = [
            exact(each.change.adjust)
            for each in self.amendments()
            if each.order == order
        ]
        paid = total([*(row.exact_charge for row in rows), *earlier])
        if total([paid, exact(amount)]) < 0:
            raise LedgerError(
                f"adjust = {amount:g}: is more than the {plainly(paid)} that were paid"
                " on this order"
            )

    def amendments(self, after: int = 0, voided: bool = False) -> list[AmendmentRow]:
        """Return the amendments whose id is greater than `after`, the oldest first,
        without or with those taken out.
        """
        rows = self._rows(
            "SELECT id, round, made, by, why, change, of_round, of_client, key, voided"
            " FROM amendments WHERE id > ? ORDER BY id",
            (after,),
        )
        found = []
        for id_, t, made, by, why, change, of, client, key, taken_out in rows:
            with self._readable(f"amendment {id_}"):
                order = None if of is None else (of, client)
                found.append(
                    AmendmentRow(
                        id_,
                        t,
                        made,
                        by,
                        why,
                        Amendment(**json.loads(change)),
                        order,
                        key,
                        taken_out,
                    )
                )
        return [each for each in found if voided or not each.voided]

    def void(
        self,
        id_: int,
        by: str,
        why: str,
    ) -> AmendmentRow:
        """Take an amendment out of the accounts and return it. Its row stays, signed.

        Raises
        ------
        LedgerError
            If there is no such amendment, or the other amendments cannot be applied
            without it.
        """
        with self.writing():
            found = [each for each in self.amendments() if each.id == id_]
            if not found:
                raise LedgerError(
                    f"{self.path}: there is no amendment {id_} to take out"
                )
            if found[0].change.adjust and found[0].round < self.settled:
                remedy = "adjust the order by the opposite amount instead"
                raise LedgerError(
                    f"{found[0].named()}: is in the sums of the rounds settled since;"
                    f" {remedy}"
                )
            applied_before = self.can_be_applied()
            self._run(
                "UPDATE amendments SET voided = ? WHERE id = ?",
                (f"{now()} by {by}: {why}", id_),
            )
            if applied_before:
                self.terms()
        return found[0]

    def can_be_applied(self) -> bool:
        """Return whether all amendments can be applied one after the other."""
        try:
            self.terms()
        except HeadgateError:
            return False
        return True

    def keys(self) -> dict[tuple[int, int], list[str]]:
        """Return the keys of the delivered samples by round and client, for clients
        that report keys.
        """
        found = dict[tuple[int, int], list[str]]()
        for t, client, key in self._rows(
            "SELECT round, client, key FROM samples ORDER BY round, client, key"
        ):
            found.setdefault((t, client), []).append(key)
        return found

    def remember_initial(self, parameters: str, sha256: str) -> None:
        """Write the name and the SHA-256 of the file that holds the parameters before
        round 1.
        """
        with self.transaction():
            self._run(
                "INSERT INTO meta VALUES ('parameters', ?), ('sha256', ?)",
                (parameters, sha256),
            )

    # reading

    def initial(self) -> tuple[str, str]:
        """Return the file of the parameters before round 1 and its SHA-256; both are
        empty if there is none yet.
        """
        return str(self.meta("parameters") or ""), str(self.meta("sha256") or "")

    @property
    def settled(self) -> int:
        """The last settled round; 0 before the first one."""
        rows = self._rows(
            "SELECT round FROM rounds WHERE settled = 1 ORDER BY round DESC LIMIT 1"
        )
        return int(rows[0][0]) if rows else 0

    @property
    def last_begun(self) -> int:
        """The last round that was begun; 0 before the first one."""
        ((t,),) = self._rows("SELECT coalesce(max(round), 0) FROM rounds")
        return int(t)

    def begun(self) -> RoundRow | None:
        """Return the round that was begun and is not settled; None: there is none."""
        return next(
            iter(
                self.rounds(
                    settled=False,
                    after=self.settled,
                )
            ),
            None,
        )

    def rounds(self, after: int = 0, settled: bool = True) -> list[RoundRow]:
        rows = self._rows(
            "SELECT round, price, reserved, begun, supply, debt, spent, parameters,"
            " sha256, metrics, clients, paid FROM rounds WHERE settled = ? AND round >"
            " ? ORDER BY round",
            (int(settled), after),
        )
        found = []
        for row in rows:
            with self._readable(f"round {row[0]}"):
                texts = {
                    "metrics": json.loads(row[9] or "null"),
                    "clients": json.loads(row[10] or "null"),
                }
                paid = None if row[11] is None else Decimal(row[11])
                found.append(
                    RoundRow(*row)._replace(
                        price=np.frombuffer(row[1]),
                        supply=_read(row[4]),
                        paid=paid,
                        **texts,
                    )
                )
        return found

    def orders(self, t: int | None = None) -> list[Ordered]:
        """Return the orders of round t; None: of all rounds."""
        where, values = ("", ()) if t is None else ("WHERE round = ?", (t,))
        query = (
            "SELECT round, client, ordered, free, price, admitted, learned FROM orders"
            f" {where} ORDER BY client, round"
        )
        return self._ordered(self._rows(query, values))

    def _ordered(self, rows: Iterable[Any]) -> list[Ordered]:
        """Return rows as orders, with the quantum of these accounts."""
        found, quantum = [Ordered(*row) for row in rows], self.quantum
        if quantum is None:
            return found
        return [row._replace(quantum=quantum) for row in found]

    def outstanding(self) -> list[Ordered]:
        """Return the orders that have no answer yet."""
        query = (
            "SELECT round, client, ordered, free, price FROM orders WHERE admitted IS"
            " NULL ORDER BY client, round"
        )
        return self._ordered(self._rows(query))

    def closed(self, client: int, rounds: Collection[int]) -> dict[int, Ordered]:
        """Return a client's closed orders of these rounds, by round, with all samples
        known to be admitted on them.
        """
        query = (
            "SELECT round, client, ordered, free, price, admitted + (SELECT"
            " coalesce(sum(admitted), 0) FROM corrections AS c WHERE c.round ="
            " orders.round AND c.client = orders.client), learned FROM orders WHERE"
            " client = ? AND round = ? AND admitted IS NOT NULL"
        )
        found = [row for t in rounds for row in self._rows(query, (client, t))]
        return {row.round: row for row in self._ordered(found)}

    def lasts(self, orders: Iterable[Ordered]) -> dict[int, int]:
        """Return the position up to which each of these orders to one client went, by
        round: known plus ordered samples.
        """
        orders = list(orders)
        if not orders:
            return {}
        rows = self._rows(
            "SELECT learned, admitted FROM orders WHERE client = ? AND learned IS NOT"
            " NULL UNION ALL SELECT learned, admitted FROM corrections WHERE client = ?"
            " ORDER BY learned",
            (orders[0].client, orders[0].client),
        )
        known = [0, *accumulate(admitted for _, admitted in rows)]
        learned = [round for round, _ in rows]
        return {
            row.round: known[bisect_left(learned, row.round)] + row.ordered
            for row in orders
        }

    def corrections(self) -> list[Ordered]:
        """Return the samples that were reported after their orders were closed, as
        separate orders.
        """
        query = (
            "SELECT round, client, ordered, free, price, admitted, learned FROM"
            " corrections ORDER BY client, round, learned"
        )
        return self._ordered(self._rows(query))

    def losses(self, each: int = 2) -> dict[int, Losses]:
        """Return the losses that clients reported in each round, `each` numbers for
        every client.
        """
        rows = self._rows("SELECT round, losses FROM losses")
        if any(len(content) % (8 * each) for _, content in rows):
            raise LedgerError(
                f"{self.path}: losses of a round are not {each} for each client; it is"
                " damaged"
            )
        return {
            t: Losses(*np.frombuffer(content).reshape(each, 1, -1))
            for t, content in rows
        }

    def quarantined(self) -> set[int]:
        rows = self._rows("SELECT client FROM clients WHERE quarantined = 1")
        return {client for (client,) in rows}

    def refusals(self) -> dict[str, int]:
        """Return how many answers were rejected, and how many clients are in
        quarantine.
        """
        ((refused,),) = self._rows(
            "SELECT count(*) FROM events WHERE kind = 'rejected'"
        )
        return {"refused": int(refused), "quarantined": len(self.quarantined())}

    def clients(self) -> dict[int, ClientRow]:
        query = (
            "SELECT client, heard, offences, quarantined, lost, distinct_used, uses,"
            " squares, withdrawn, erased FROM clients"
        )
        return {
            row[0]: ClientRow(*row)._replace(quarantined=bool(row[3]))
            for row in self._rows(query)
        }

    def nodes(self) -> list[Node]:
        rows = self._rows("SELECT node, client, since FROM nodes")
        with self._readable("nodes"):
            return [Node(int(node), client, since) for node, client, since in rows]

    def events(self) -> list[Event]:
        query = "SELECT round, client, kind, reason FROM events ORDER BY id"
        return [Event(*row) for row in self._rows(query)]


def refused_as(name: str, value: object) -> str:
    """Return the name under which it is written that a policy cannot work with a field
    of an amendment.
    """
    return "open end" if (name, value) == ("horizon", "open") else name


def changed(change: Amendment) -> dict[str, Any]:
    """Return the fields that an amendment changes, by name."""
    return {
        name: value
        for name, value in asdict(change).items()
        if value != getattr(Amendment, name)
    }


def stated(supply: Supply) -> str:
    """Return a supply as JSON; it lists the clients that were absent and omits limits
    that were not set.
    """
    usual = EVERYTHING._asdict()
    table = {
        name: getattr(supply, name)
        for name in ("in_all", "lot", "money")
        if getattr(supply, name) != usual[name]
    }
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
