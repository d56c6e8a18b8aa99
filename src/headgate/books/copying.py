"""Accounts are copied from one database into another: folders, and PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from headgate.books.addresses import Address, Place, place_of
from headgate.books.anchor import Anchor
from headgate.books.database import LEDGER, Tables
from headgate.books.durable import on_disk
from headgate.books.in_file import FileTables
from headgate.books.journal import Journal
from headgate.books.opening import tables_at
from headgate.books.statement import Statement, statement
from headgate.errors import DataError
from headgate.writing import FolderLock, partial_of, sync


def copy(source: Path | str, target: Path | str) -> Statement:
    """Copy accounts, as they are now, to where there are none.

    The copy has the same entries, so it is the same account: let only one of the two go
    on.

    Parameters
    ----------
    source, target : str or pathlib.Path
        A folder, or an address in PostgreSQL. The source may be in use.

    Returns
    -------
    Statement
        The statement of the copy.

    Raises
    ------
    DataError, LedgerError
        If there are accounts at the target, or those of the source do not replay.
        Nothing is left at the target.
    """
    given, place = place_of("copy: FROM", source), place_of("copy: TO", target)
    with closing(tables_at(given, writes=False)) as tables:
        if not tables.account:
            raise DataError(f"{given}: holds no accounts yet")
        with _new_tables(place) as own:
            if own.account:
                raise DataError(
                    f"{place}: holds accounts already; choose another place"
                )
            with own.transaction():
                own.fill(tables)
                journal = Journal(own)
                journal.audit()
                found = statement(journal)
    return found


@contextmanager
def _new_tables(place: Place) -> Iterator[Tables]:
    """Open the tables of new accounts; no other process begins them meanwhile."""
    if isinstance(place, Address):
        with closing(tables_at(place, new=True)) as served:
            served.lead()
            yield served
        return
    path = place / LEDGER
    with FolderLock() as lock, on_disk(place):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.take(place, place)
        if path.exists() or Anchor.of(place) is not None:
            raise _taken(place)
        with _moved_to(path) as tables:
            yield tables


def _taken(place: Place) -> DataError:
    return DataError(f"{place}: holds accounts already; choose another place")


@contextmanager
def _moved_to(path: Path) -> Iterator[Tables]:
    """Open tables in a file that becomes `path` if the body ends without an error."""
    partial = partial_of(path)
    try:
        with closing(FileTables(partial)) as tables:
            yield tables
            tables.close_log()
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    finally:
        for end in ("", "-wal", "-shm"):
            partial.with_name(partial.name + end).unlink(missing_ok=True)
