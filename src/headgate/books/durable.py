"""The SQLite settings of both stores: a commit is on disk, and a killed process leaves only complete transactions."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.errors import DataError

SYNCHRONOUS = "FULL"
"""SQLite's mode in which a commit is on disk when it returns"""
PATIENCE = 60.0
"""seconds to wait for another process that writes the same file"""


FOREIGN = ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_FORMAT")
"""SQLite's errors for a file of another kind or a damaged file; all other errors come from the disk"""


@contextmanager
def on_disk(place: Path) -> Iterator[None]:
    """Turn an error of the disk, for example no space or no permission, into a DataError of one line. Settled rounds are
    kept, so the run can continue from there."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"{error.filename or place}: cannot be written ({why}); once it can, the run goes on") from None


class Durable:
    """A SQLite file of a certain format, created if it does not exist."""

    schema: tuple[str, ...]
    """statements that create the tables; they have no effect if the tables exist"""
    format: str

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            _private(self.path)
            self._db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{self.path}: cannot be opened ({getattr(error, 'strerror', None) or error})") from None
        try:
            with self._said():
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                if self._db.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone():
                    raise DataError(f"{self.path}: holds triggers or views, which no file of headgate does")
                if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
                    with self.transaction():  # two processes may open the file at once
                        for statement in ("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value)", *self.schema):
                            self._db.execute(statement)
                        self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (self.format,))
                found = self.meta("format")
                if found != self.format:
                    raise DataError(f"{self.path}: holds {found}, expected {self.format}")
                self._opened()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> None:
        """Prepare the store after its file is open; if this fails, the file is closed."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the body as one transaction: all of it is written or nothing, and no other process writes meanwhile."""
        with self._said():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk may have ended the transaction
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Turn an error of SQLite into a DataError of one line."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(FOREIGN):
                raise DataError(f"{self.path}: is not a file of {self.format} ({error})") from None
            raise DataError(f"{self.path}: cannot be written ({error}); once it can, the run goes on") from None

    def meta(self, key: str) -> str | int | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def _fixed(self, key: str, value: str | int) -> str | int:
        """Return the stored value of `key`; if there is none, store and return `value`."""
        found = self.meta(key)
        if found is None:
            with self.transaction():
                self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, value))
            found = self.meta(key)
        assert found is not None
        return found

    def close(self) -> None:
        self._db.close()


def _private(path: Path) -> None:
    """Make the file readable by its owner only, and a new folder too; SQLite gives its own files the same permissions."""
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        found = os.fstat(descriptor)
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():  # as after a copy or a restore
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
