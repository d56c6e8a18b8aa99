"""Ledgers of format 3, as earlier versions wrote them: they are read, and become
ledgers of format 4.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headgate.books.durable import Durable
from headgate.books.exact import NOTHING, charged, exact, total
from headgate.books.nouns import Event, Node
from headgate.books.state import quantum_of
from headgate.control.amendments import Amendment
from headgate.control.types import System
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line
from headgate.limits import LINE

UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    InvalidOperation,
    RecursionError,
    SettingError,
)
"""errors from values that no ledger holds"""
EVALUATED = "evaluated by clients, round "
"""the key, before the number of a round, of what clients measured of its model"""

LATER = (("rounds", "paid"), ("amendments", "key"), ("amendments", "voided"))
"""columns that the first version of the format did not have"""


class OldOrder(NamedTuple):
    """An order, or samples of a closed order that were told of later.

    Parameters
    ----------
    round, client : int
        Round and client of the order.
    ordered, free : int
        Samples that were ordered, and how many of them are not paid for.
    price : float
        Price of a sample.
    admitted : int or None
        Samples that were admitted on it; None: there is no answer yet.
    learned : int or None
        Round of the answer.
    """

    round: int
    client: int
    ordered: int
    free: int
    price: float
    admitted: int | None = None
    learned: int | None = None

    def charge(self, quantum: Decimal) -> Decimal:
        """Return what it cost."""
        paid = max((self.admitted or 0) - self.free, 0)
        return charged(exact(self.price), paid, quantum)


class OldRound(NamedTuple):
    """A round.

    Parameters
    ----------
    round : int
        The round.
    begun : str
        Time in UTC at which its orders were written.
    price : list of float
        The price of a sample, one for all clients or one for each.
    supply : dict
        Its supply, as format 4 states it.
    settled : bool
        Whether it is settled.
    paid : decimal.Decimal or None
        The exact sum of all that was spent by then, where it was written.
    notes : dict or None
        What a run on Flower recorded with it.
    """

    round: int
    begun: str
    price: list[float]
    supply: dict[str, Any]
    settled: bool
    paid: Decimal | None
    notes: dict[str, Any] | None


class OldAmendment(NamedTuple):
    """An amendment that is in force.

    Parameters
    ----------
    round : int
        The last round before it.
    made, by, why : str
        When, by whom and why it was made.
    change : Amendment
        What changes.
    order : tuple of int or None
        Round and client of the order that it adjusts.
    key : str or None
        Name under which it counts once.
    """

    round: int
    made: str
    by: str
    why: str
    change: Amendment
    order: tuple[int, int] | None
    key: str | None


class OldLedger(Durable):
    """A ledger of format 3, which is read into memory; the file is never changed."""

    format = "headgate ledger store 3.1"
    older = ("headgate ledger store 3",)
    schema = ()

    def __init__(self, path: Path | str) -> None:
        super().__init__(path, writes=False)

    def _prepare(self, new: bool) -> None:
        self._loose = self.meta("format") != self.format
        for table, column in LATER:
            known = self._rows(f"PRAGMA table_info({table})")
            if column not in [row[1] for row in known]:
                self._run(f"ALTER TABLE {table} ADD COLUMN {column} TEXT")

    def _opened(self) -> None:
        self.check()
        self.name = str(self.meta("experiment"))
        if self.meta("system") is None:
            raise DataError(f"{self.path}: holds no accounts yet")
        with self._readable("meta"):
            self.system = System(**json.loads(str(self.meta("system"))))
            self.terms = json.loads(str(self.meta("terms")))
        self.keeps = bool(self.meta("keeps"))

    @contextmanager
    def _readable(self, table: str) -> Iterator[None]:
        """Turn errors from values that no ledger holds into a DataError of one line."""
        try:
            yield
        except UNREADABLE as error:
            raise DataError(
                f"{self.path}: is damaged ({table}: {one_line(error, LINE)})"
            ) from None

    def _of(self, table: str, columns: str) -> list[Any]:
        """Return the rows of a table; an older version has integers as bytes of
        numpy.
        """
        rows = self._rows(f"SELECT {columns} FROM {table}")
        if not self._loose:
            return rows
        return [tuple(_plain(value) for value in row) for row in rows]

    def rounds(self) -> list[OldRound]:
        """Return all rounds, the first one first."""
        losses = dict(self._rows("SELECT round, losses FROM losses"))
        settled = (
            "round, begun, price, supply, settled, paid, parameters, sha256, spent,"
            " metrics, clients"
        )
        found = []
        for row in self._rows(f"SELECT {settled} FROM rounds ORDER BY round"):
            t, begun, price, supply, done, paid, *rest = row
            with self._readable(f"round {t}"):
                money = None if paid is None else Decimal(paid)
                made = OldRound(
                    t,
                    begun,
                    np.frombuffer(price).tolist(),
                    _supply(supply),
                    bool(done),
                    money,
                    _notes(rest, losses.get(t)) if done else None,
                )
                found.append(made)
        return found

    def orders(self) -> list[OldOrder]:
        """Return all orders, by round and client."""
        columns = ", ".join(OldOrder._fields)
        return sorted(OldOrder(*row) for row in self._of("orders", columns))

    def corrections(self) -> list[OldOrder]:
        """Return what was told of closed orders later, as orders of their own."""
        columns = ", ".join(OldOrder._fields)
        return sorted(OldOrder(*row) for row in self._of("corrections", columns))

    def amendments(self) -> list[OldAmendment]:
        """Return the amendments that are in force, the oldest first."""
        rows = self._rows(
            "SELECT round, made, by, why, change, of_round, of_client, key FROM"
            " amendments WHERE voided IS NULL ORDER BY id"
        )
        found = []
        for t, made, by, why, change, of, client, key in rows:
            with self._readable(f"amendment after round {t}"):
                order = None if of is None else (of, client)
                fields = Amendment(**json.loads(change))
                found.append(OldAmendment(t, made, by, why, fields, order, key))
        return found

    def events(self) -> list[Event]:
        """Return all events, the oldest first."""
        columns = "round, client, kind, reason"
        rows = self._rows(f"SELECT {columns} FROM events ORDER BY id")
        return [Event(*row) for row in rows]

    def told(self) -> dict[int, list[list[int]]]:
        """Return what clients have last told of themselves, by the round of it."""
        columns = "heard, client, lost, distinct_used, uses, squares, withdrawn, erased"
        found = dict[int, list[list[int]]]()
        for heard, *row in sorted(self._of("clients", columns)):
            found.setdefault(heard, []).append(row)
        return found

    def keys(self) -> dict[tuple[int, int], list[str]]:
        """Return the keys of the delivered samples by round and client."""
        found = dict[tuple[int, int], list[str]]()
        columns = "round, client, key"
        for t, client, key in sorted(self._of("samples", columns)):
            found.setdefault((t, client), []).append(key)
        return found

    def nodes(self) -> list[Node]:
        """Return the nodes of Flower."""
        rows = self._of("nodes", "node, client, since")
        return [Node(int(node), client, int(since)) for node, client, since in rows]

    def initial(self) -> str | None:
        """Return the name and the SHA-256 of the model before round 1; None: these are
        not the accounts of a run on Flower.
        """
        file = self.meta("parameters")
        return f"{file} {self.meta('sha256')}" if file else None

    def evaluations(self) -> dict[int, dict[str, float]]:
        """Return what clients measured of the models, by round."""
        query = "SELECT key, value FROM meta WHERE key LIKE ?"
        rows = self._rows(query, (f"{EVALUATED}%",))
        with self._readable("meta"):
            return {
                int(key.removeprefix(EVALUATED)): json.loads(value)
                for key, value in rows
            }

    def spent(self) -> Decimal:
        """Return the exact sum of what the orders cost, with all adjustments."""
        quantum = quantum_of(self.system)
        rows = [*self.orders(), *self.corrections()]
        adjusted = [exact(each.change.adjust) for each in self.amendments()]
        return total([NOTHING, *(row.charge(quantum) for row in rows), *adjusted])


def _supply(text: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(text)
    if "present" in table:
        clients, away = table["present"]
        table["present"] = (~np.isin(np.arange(clients), away)).tolist()
    return {name: table[name] for name in table if name != "money"}


def _notes(row: list[Any], losses: bytes | None) -> dict[str, Any]:
    parameters, sha256, spent, metrics, clients = row
    arrays = None
    if losses is not None:
        flat = np.frombuffer(losses).tolist()
        arrays = [None if np.isnan(each) else each for each in flat]
    return {
        "parameters": parameters,
        "sha256": sha256,
        "spent": spent,
        "metrics": json.loads(metrics or "null"),
        "clients": json.loads(clients or "null"),
        "losses": arrays,
    }


def _plain(value: Any) -> Any:
    """Return the number that an integer of numpy was when SQLite kept its bytes."""
    if isinstance(value, bytes) and len(value) in (1, 2, 4, 8):
        return int.from_bytes(value, "little", signed=True)
    return value
