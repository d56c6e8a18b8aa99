"""Accounts of format 3 become accounts of format 4: every round is written again as
entries of the journal, with the orders as they were recorded.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from headgate.books.addresses import Address, place_of
from headgate.books.course import supply_table
from headgate.books.database import OldFormatError
from headgate.books.durable import on_disk
from headgate.books.exact import exact, plainly
from headgate.books.in_file import FileTables
from headgate.books.journal import GENESIS, Journal, chained, changed, requested
from headgate.books.ledger_store import (
    LEDGER,
    AmendmentRow,
    Event,
    LedgerStore,
    Ordered,
    RoundRow,
)
from headgate.books.nouns import Entry
from headgate.books.opening import tables_at
from headgate.books.state import system_table, to_text
from headgate.books.statement import Statement, statement
from headgate.errors import DataError
from headgate.writing import FolderLock, partial_of, sync

KEPT = "ledger-3.sqlite"
"""the copy of the accounts as they were"""
LOGS = ("-wal", "-shm")


def upgrade(folder: Path | str) -> Statement | None:
    """Write the accounts of a folder in format 4, and keep a copy of them as they were.

    Parameters
    ----------
    folder : str or pathlib.Path
        The accounts. Nobody may have them open. Those in PostgreSQL are in format 4.

    Returns
    -------
    Statement or None
        The statement of the new accounts, which is that of the old ones; None: they are
        in format 4 already.

    Raises
    ------
    DataError, LedgerError
        If the folder holds no accounts of format 3, or those of a run on Flower. It
        stays as it is.
    """
    place = place_of("upgrade: folder", folder)
    if isinstance(place, Address):
        tables_at(place).close()  # which adds what it lacks
        return None
    path, kept = place / LEDGER, place / KEPT
    if not path.is_file():
        raise DataError(f"{place}: holds no {LEDGER}; a folder of headgate.Books does")
    partial = partial_of(path)
    with FolderLock() as lock, on_disk(place):
        lock.take(place, place)
        partial.unlink(missing_ok=True)
        if _is_new(path):
            return None
        try:
            with closing(LedgerStore(path)) as store:
                _check_of_books(store)
                _copy(store, kept)
                before = statement(store)
                found = _written(store, partial, before)
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


def _check_of_books(store: LedgerStore) -> None:
    if store.initial()[0]:
        raise DataError(
            f"{store.path}: holds the accounts of a run on Flower, which stay in format"
            " 3"
        )


def _copy(store: LedgerStore, kept: Path) -> None:
    partial = partial_of(kept)
    partial.unlink(missing_ok=True)
    store.backup(partial)
    sync(partial)
    partial.replace(kept)


def _written(
    store: LedgerStore,
    path: Path,
    before: Statement,
) -> Statement:
    """Write the new accounts into a file of their own, and compare both statements."""
    with closing(FileTables(path)) as tables:
        with tables.transaction():
            tables.create(store.experiment)
            tables.append(_opening(store))
        journal = Journal(tables)
        History(store).write(journal)
        journal.audit()
        after = statement(journal)
        tables.close_log()
    for name in ("spent", "reserved"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            raise DataError(
                f"{store.path}: {name} is {plainly(old)}, and would be {plainly(new)};"
                " nothing was changed"
            )
    return after


def _opening(store: LedgerStore) -> Entry:
    system = store.system()
    opening = {
        "name": store.experiment,
        "version": 4,
        "system": system_table(system),
        "terms": json.loads(str(store.meta("terms"))),
        "seed": None,
    }
    times = store.times()
    at = min(times.values(), default="")
    fields = (1, at, "opened", "", "from format 3", None, to_text(opening))
    return Entry(*fields, chained(GENESIS, *fields))


class History:
    """What a store of format 3 says happened, by round."""

    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self.orders = defaultdict[int, list[Ordered]](list)
        """orders by the round in which they were written"""
        self.learned = defaultdict[int, list[Ordered]](list)
        """orders, and samples that were told of later, by the round of the answer"""
        self.later = defaultdict[tuple[int, int], int](int)
        """samples of an order that were told of after it was closed"""
        self.amendments = defaultdict[int, list[AmendmentRow]](list)
        self.events = defaultdict[int, list[Event]](list)
        self.keys = store.keys()
        self.seen = set[tuple[int, str]]()
        for row in store.orders():
            self.orders[row.round].append(row)
        self.corrections = set(store.corrections())
        for row in self.corrections:
            self.later[row[:2]] += row.admitted or 0
        for row in (*store.orders(), *self.corrections):
            if row.learned is not None:
                self.learned[row.learned].append(row)
        for each in store.amendments():
            self.amendments[each.round].append(each)
        for event in store.events():
            self.events[event.round].append(event)

    def write(self, journal: Journal) -> None:
        """Write everything as entries."""
        self._write_terms(journal, 0)
        for row in self.store.rounds():
            self._begin(journal, row)
            self._settle(journal, row)
            self._write_terms(journal, row.round)
        open_ = self.store.begun()
        if open_ is not None:
            self._begin(journal, open_)
            self._write_terms(journal, open_.round)

    def _begin(self, journal: Journal, row: RoundRow) -> None:
        state, supply = journal.state, row.supply
        present = None
        if supply.present is not None:
            present = np.flatnonzero(np.asarray(supply.present)).tolist()
        orders = self.orders[row.round]
        body = {
            "price": row.price.tolist(),
            "supply": supply_table(supply),
            "clients": state.there(present),
            "expires": None,
            "overdraft": 0.0,
            "delay": 0,
            "orders": sorted(list(order[1:4]) for order in orders),
            "recorded": True,
        }
        t = row.round
        asked = {"round": t}
        journal.write("begun", asked, lambda _: body, f"begun {t}", at=row.begun)

    def _settle(self, journal: Journal, row: RoundRow) -> None:
        t = row.round
        events = self.events[t]
        refused = {e.client: e.reason for e in events if e.kind == "rejected"}
        caught = {e.client for e in events if e.kind == "quarantined"}
        asked = {
            "reports": self._reports(t),
            "round": t,
            "refused": [list(each) for each in sorted(refused.items())],
            "all": False,
        }
        made = {"caught": sorted(caught), "known": {}}
        journal.write("settled", asked, lambda _: made, f"settled {t}", at=row.begun)

    def _reports(self, t: int) -> list[list[Any]]:
        """Return what was learned in a round as reports. What was told of later stays
        under way until then.
        """
        found: dict[tuple[int, int], list[Any]] = {}
        for row in self.learned[t]:
            admitted, own = row.admitted or 0, (row.client, row.round)
            correction = row in self.corrections
            missing = 0 if correction else row.ordered - admitted - self.later[row[:2]]
            keys = list[str]()
            if row.round == t:
                keys = self._keys(row.client, self.keys.get(row[:2], []))
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
