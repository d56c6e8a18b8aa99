"""An open database, whichever it is: used by one process and one thread, written in
transactions, with errors of one line.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import get_ident
from typing import Any, ClassVar

from headgate.books.addresses import Place
from headgate.errors import DataError

PATIENCE = 60.0
"""seconds to wait for another process that writes the same accounts"""
PAGE = 2_000
"""rows that are read at a time"""


class Session(ABC):
    """An open database.

    Parameters
    ----------
    path : Path or Address
        Where it is.
    writes : bool
        Whether anything may be written.
    """

    write_begin: ClassVar[str]
    """statements that begin a transaction in which nobody else writes"""
    read_begin: ClassVar[str]
    """statements that begin a transaction in which all queries see the same content"""

    def __init__(self, path: Place, writes: bool) -> None:
        self.path, self.writes = path, writes
        self._process, self._thread = os.getpid(), get_ident()

    @abstractmethod
    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it changed."""

    @abstractmethod
    def _run_each(self, statement: str, rows: Collection[Sequence[Any]]) -> int:
        """Execute a statement once for each row of values; return how many rows it
        changed in all.
        """

    @abstractmethod
    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a query."""

    @abstractmethod
    def _pages(self, query: str, values: Sequence[Any] = ()) -> Iterator[list[Any]]:
        """Yield the rows of a query, a page at a time, within a snapshot."""

    @abstractmethod
    def _is_open(self) -> bool:
        """Whether a transaction is open."""

    @abstractmethod
    def _one_line(self, done: str) -> AbstractContextManager[None]:
        """Turn an error of the database into a DataError of one line; `done` is what
        was tried, "read" or "written".
        """

    @abstractmethod
    def check(self) -> None:
        """Raise DataError if the database is damaged."""

    @abstractmethod
    def close(self) -> None:
        """Close it; what a transaction has not committed is not written."""

    def _is_own_process(self) -> bool:
        return os.getpid() == self._process

    def _check_owner(self) -> None:
        """Refuse a forked process and another thread."""
        if not self._is_own_process():
            raise DataError(
                f"{self.path}: was opened by process {self._process}; process"
                f" {os.getpid()} must open it itself"
            )
        if get_ident() != self._thread:
            raise DataError(
                f"{self.path}: cannot be used here: it was opened in another thread,"
                " which alone may use it"
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the body as one transaction: all of it is written or nothing, and no
        other process writes meanwhile.
        """
        if not self.writes:
            raise DataError(
                f"{self.path}: was opened for reading; nothing can be written"
            )
        with self._whole():
            yield

    @contextmanager
    def _whole(self) -> Iterator[None]:
        if self._is_open():
            raise DataError(f"{self.path}: a transaction is open already")
        try:
            self._run(self.write_begin)
            with self._one_line("written"):
                yield
            self._commit()
        except BaseException:
            if self._is_open():  # a full disk may have ended the transaction
                self._roll_back()
            raise

    def _commit(self) -> None:
        self._run("COMMIT")

    def _roll_back(self) -> None:
        self._run("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of the body see the same content, whatever other processes
        write meanwhile.
        """
        if self._is_open():
            yield
            return
        try:
            self._run(self.read_begin)
            yield
        finally:
            if self._is_open():
                self._roll_back()

    def meta(self, key: str) -> str | int | None:
        """Return what is stored beside the accounts under a key."""
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else None
