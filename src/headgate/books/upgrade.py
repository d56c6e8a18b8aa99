"""Accounts of format 3 become accounts of format 4: every round is written again as
entries of the journal, with the orders as they were recorded.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from headgate.books.addresses import Address, place_of
from headgate.books.anchor import ANCHOR
from headgate.books.database import LEDGER, OldFormatError
from headgate.books.durable import on_disk
from headgate.books.exact import exact, plainly
from headgate.books.format3 import OldAmendment, OldLedger, OldOrder, OldRound
from headgate.books.in_file import FileTables
from headgate.books.journal import GENESIS, Journal, chained, changed, requested
from headgate.books.nouns import Entry, Event
from headgate.books.opening import tables_at
from headgate.books.state import system_table, to_text
from headgate.books.statement import Statement, statement
from headgate.errors import DataError
from headgate.writing import FolderLock, partial_of, sync

KEPT = "ledger-3.sqlite"
"""the copy of the accounts as they were"""
LOGS = ("-wal", "-shm")
OF_THE_LOG = ("rejected", "quarantined", "lifted")
"""kinds of events that follow from other fields of an entry"""


def upgrade(folder: Path | str) -> Statement | None:
    """Write the accounts of a folder in format 4, and keep a copy of them as they were.

    Parameters
    ----------
    folder : str or pathlib.Path
        The accounts, or a run on Flower. Nobody may have them open. Those in PostgreSQL
        are in format 4.

    Returns
    -------
    Statement or None
        The statement of the new accounts; None: they are in format 4 already.

    Raises
    ------
    DataError, LedgerError
        If the folder holds no accounts of format 3. It stays as it is.
    """
    place = place_of("upgrade: folder", folder)
    if isinstance(place, Address):
        tables_at(place).close()  # which adds what it lacks
        return None
    path, kept = place / LEDGER, place / KEPT
    if not path.is_file():
        raise DataError(
            f"{place}: holds no {LEDGER}; a folder of headgate.Books or of a run on"
            " Flower does"
        )
    partial = partial_of(path)
    with FolderLock() as lock, on_disk(place):
        lock.take(place, place)
        partial.unlink(missing_ok=True)
        if _is_new(path):
            return None
        try:
            with closing(OldLedger(path)) as old:
                _copy(old, kept)
                found = _written(old, partial)
            (place / ANCHOR).unlink(missing_ok=True)  # it may count other amendments
            for log in LOGS:  # of the old file, which is closed and whole
                path.with_name(path.name + log).unlink(missing_ok=True)
            sync(partial)
            partial.replace(path)
            sync(place)
        finally:
            for end in ("", *LOGS):
                partial.with_name(partial.name + end).unlink(missing_ok=True)
    return found


def _is_new(path: Path) -> bool:
    try:
        FileTables(path, writes=False).close()
    except OldFormatError:
        return False
    return True


def _copy(old: OldLedger, kept: Path) -> None:
    partial = partial_of(kept)
    partial.unlink(missing_ok=True)
    old.backup(partial)
    sync(partial)
    partial.replace(kept)


def _written(old: OldLedger, path: Path) -> Statement:
    """Write the new accounts into a file of their own, and compare what was spent."""
    with closing(FileTables(path)) as tables:
        with tables.transaction():
            tables.create(old.name)
            tables.append(_opening(old))
        if old.nodes():
            tables.put_nodes(old.nodes())
        journal = Journal(tables)
        History(old).write(journal)
        journal.audit()
        after = statement(journal)
        tables.close_log()
    if old.spent() != after.spent:
        raise DataError(
            f"{old.path}: {plainly(old.spent())} was spent, and would be"
            f" {plainly(after.spent)}; nothing was changed"
        )
    return after


def _opening(old: OldLedger) -> Entry:
    opening = {
        "name": old.name,
        "version": 4,
        "system": system_table(old.system),
        "terms": old.terms,
        "seed": None,
    }
    if not old.keeps:
        opening["keeps"] = False
    if old.initial():
        opening["initial"] = old.initial()
    at = min((row.begun for row in old.rounds()), default="")
    fields = (1, at, "opened", "", "from format 3", None, to_text(opening))
    return Entry(*fields, chained(GENESIS, *fields))


class History:
    """What a ledger of format 3 says happened, by round."""

    def __init__(self, old: OldLedger) -> None:
        self.old = old
        self.rounds = old.rounds()
        self.orders = defaultdict[int, list[OldOrder]](list)
        """orders by the round in which they were written"""
        self.learned = defaultdict[int, list[OldOrder]](list)
        """orders, and samples that were told of later, by the round of the answer"""
        self.later = defaultdict[tuple[int, int], int](int)
        """samples of an order that were told of after it was closed"""
        self.amendments = defaultdict[int, list[OldAmendment]](list)
        self.events = defaultdict[int, list[Event]](list)
        self.keys, self.told = old.keys(), old.told()
        self.seen = set[tuple[int, str]]()
        self.taken = set[tuple[int, int]]()
        """orders of which what was told of later is counted already"""
        for row in old.orders():
            self.orders[row.round].append(row)
        self.corrections = set(old.corrections())
        for row in self.corrections:
            self.later[row[:2]] += row.admitted or 0
        for row in (*old.orders(), *sorted(self.corrections)):
            if row.learned is not None:
                self.learned[row.learned].append(row)
        for each in old.amendments():
            self.amendments[each.round].append(each)
        for event in old.events():
            self.events[event.round].append(event)

    def write(self, journal: Journal) -> None:
        """Write everything as entries."""
        self._write_terms(journal, 0)
        evaluations = self.old.evaluations()
        for row in self.rounds:
            self._begin(journal, row)
            if row.settled:
                self._settle(journal, row)
            if row.round in evaluations:
                said = {"judged": {}, "said": evaluations[row.round]}
                journal.write("noted", {"round": row.round, **said})
            self._write_terms(journal, row.round)

    def _begin(self, journal: Journal, row: OldRound) -> None:
        state, present = journal.state, None
        if "present" in row.supply:
            present = np.flatnonzero(row.supply["present"]).tolist()
        orders = self.orders[row.round]
        body: dict[str, Any] = {
            "price": row.price,
            "supply": row.supply,
            "clients": state.there(present),
            "expires": None,
            "overdraft": 0.0,
            "delay": 0,
            "orders": sorted(list(order[1:4]) for order in orders),
            "recorded": True,
        }
        paid = _paid(orders, row.price, state.system.clients)
        if paid != row.price:
            body["paid"] = paid
        t = row.round
        asked = {"round": t}
        journal.write("begun", asked, lambda _: body, f"begun {t}", at=row.begun)

    def _settle(self, journal: Journal, row: OldRound) -> None:
        t = row.round
        events = self.events[t]
        refused = {e.client: e.reason for e in events if e.kind == "rejected"}
        caught = {e.client for e in events if e.kind == "quarantined"}
        asked = {
            "reports": self._reports(t, caught),
            "round": t,
            "refused": [list(each) for each in sorted(refused.items())],
            "all": False,
        }
        made: dict[str, Any] = {"caught": sorted(caught), "known": {}}
        if self.old.initial() and row.notes is not None:
            made |= self._notes(row.notes, t, journal.state.system.clients)
        journal.write("settled", asked, lambda _: made, f"settled {t}", at=row.begun)

    def _notes(
        self,
        notes: dict[str, Any],
        t: int,
        clients: int,
    ) -> dict[str, Any]:
        """Return what a run on Flower recorded of a round."""
        made: dict[str, Any] = {}
        flat = notes.pop("losses")
        if flat is not None:
            made["losses"] = [
                flat[i : i + clients] for i in range(0, len(flat), clients)
            ]
        events = [each for each in self.events[t] if each.kind not in OF_THE_LOG]
        if t in self.told:
            made["told"] = self.told[t]
        return {**made, "events": events, "notes": notes}

    def _reports(self, t: int, caught: set[int]) -> list[list[Any]]:
        """Return what was learned in a round as reports. What was told of later stays
        under way until then; of a client that came into quarantine it was told now,
        because that ends all that is under way at it.
        """
        found: dict[tuple[int, int], list[Any]] = {}
        for row in self.learned[t]:
            admitted, own = row.admitted or 0, (row.client, row.round)
            order = (row.round, row.client)
            correction, later = row in self.corrections, self.later[order]
            if correction and order in self.taken:
                continue
            if row.client in caught and not correction:
                admitted, later = admitted + later, 0
                self.taken.add(order)
            missing = 0 if correction else row.ordered - admitted - later
            keys = list[str]()
            if row.round == t:
                keys = self._keys(row.client, self.keys.get(order, []))
            if own in found:
                found[own][2] += admitted
                continue
            found[own] = [*own, admitted, keys, max(missing, 0), [], 0]
        return [found[own] for own in sorted(found)]

    def _keys(self, client: int, keys: Iterable[str]) -> list[str]:
        """Return the keys that the client's earlier samples do not have."""
        new = [key for key in keys if (client, key) not in self.seen]
        self.seen |= {(client, key) for key in new}
        return new

    def _write_terms(self, journal: Journal, t: int) -> None:
        """Write the amendments and adjustments after a round, and who was lifted."""
        for each in self.amendments[t]:
            made: dict[str, Any] = {"after": t}
            kind = "amended" if each.order is None else "adjusted"
            if each.order is None:
                made["change"] = changed(each.change)
            else:
                made["round"], made["client"] = each.order
                made["amount"] = plainly(exact(each.change.adjust))
                made["known"] = journal.closed(journal.state, [each.order])
            journal.write(
                kind,
                made,
                request=requested(each.key),
                by=each.by,
                why=each.why,
                at=each.made,
            )
        for event in self.events[t]:
            if event.kind == "lifted" and event.client in journal.state.quarantined:
                journal.write("lifted", {"client": event.client, "after": t})


def _paid(
    orders: Iterable[OldOrder],
    price: list[float],
    clients: int,
) -> list[float]:
    """Return the prices of a round without the looks that were not taken: one for all
    clients if these were none, else one for each.
    """
    listed = list(orders)
    each = price * clients if len(price) == 1 else list(price)
    if all(row.price == each[row.client] for row in listed):
        return price
    for row in listed:
        each[row.client] = row.price
    return each
