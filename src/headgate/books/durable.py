"""The SQLite settings of both stores: a commit is on disk, and a killed process leaves
only complete transactions.

Tables are STRICT, so that the database itself refuses a value of a wrong type. Every
error of SQLite becomes one line.
"""

import os
import re
import sqlite3
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from headgate.books.session import PAGE, PATIENCE, Session
from headgate.errors import DataError
from headgate.escaping import one_line, shown
from headgate.writing import check_no_link

SYNCHRONOUS = "FULL"
"""SQLite's mode in which a commit is on disk when it returns"""
FOREIGN = ("SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_FORMAT")
"""SQLite's errors for a file of another kind"""
REFUSED = ("SQLITE_CONSTRAINT", "SQLITE_MISMATCH")
"""SQLite's errors for a value that the rules of a table refuse"""
BESIDE = ("", "-wal")
"""ends of the names of the files that hold the content; SQLite recreates all others"""
META = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY NOT NULL, value ANY NOT"
    " NULL) STRICT"
)
OLDEST = (3, 37)
"""the first version of SQLite with STRICT tables"""


@contextmanager
def on_disk(place: Path) -> Iterator[None]:
    """Turn an error of the disk, for example no space or no permission, into a
    DataError of one line. Settled rounds are kept, so the run can continue from there.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise DataError(
            f"{error.filename or place}: cannot be written ({why}); once it can, the"
            " run goes on"
        ) from None


class Durable(Session):
    """A SQLite file of a certain format.

    Parameters
    ----------
    path : Path or str
        The file.
    writes : bool
        True: the file is created if it does not exist, and tables of an older version
        are rewritten as STRICT ones. False: the content is read into memory at once,
        and nothing is ever written, also where nothing can be written.
    """

    path: Path
    write_begin = "BEGIN IMMEDIATE"
    read_begin = "BEGIN"
    schema: tuple[str, ...]
    """statements that create the tables and indexes; they have no effect on those that
    exist
    """
    format: str
    older: tuple[str, ...] = ()
    """formats whose tables have the same rows, which are rewritten when such a file is
    opened
    """

    def __init__(self, path: Path | str, writes: bool = True) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise DataError(
                f"SQLite {sqlite3.sqlite_version}: is too old; headgate needs a Python"
                " with SQLite 3.37 or newer"
            )
        super().__init__(Path(path), writes)
        try:
            self._db = self._opened_for_writing() if writes else _in_memory(self.path)
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f"{self.path}: cannot be opened"
                f" ({getattr(error, 'strerror', None) or error})"
            ) from None
        try:
            new = not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'meta'")
            if new and not writes:
                raise DataError(f"{self.path}: holds nothing")
            if new:
                self._check_new()
            else:
                self._check_kind()
            if writes:
                self._run("PRAGMA journal_mode = WAL")
                self._run(f"PRAGMA synchronous = {SYNCHRONOUS}")
            self._prepare(new)
            self._opened()
        except BaseException:
            self.close()
            raise

    def _prepare(self, new: bool) -> None:
        """Create the tables of a new file, and make those of an older version
        STRICT.
        """
        if new:
            with self._whole():  # two processes may open the file at once
                self._create()
        if self._loose_tables():
            with self._whole():
                self._make_strict()
                self._run(
                    "UPDATE meta SET value = ? WHERE key = 'format'", (self.format,)
                )

    def _check_new(self) -> None:
        """Raise an error if the file should not be a new one."""

    def _check_kind(self) -> None:
        """Raise an error if the file is not one of these, before anything in it is
        changed.
        """
        if self._rows("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')"):
            raise DataError(
                f"{self.path}: holds triggers or views, which no file of headgate does"
            )
        found = self.meta("format")
        if found not in (self.format, *self.older):
            raise DataError(
                f"{self.path}: holds {shown(found)}, expected {self.format}"
            )

    def _opened(self) -> None:
        """Prepare the store after its file is open; if this fails, the file is
        closed.
        """

    def _opened_for_writing(self) -> sqlite3.Connection:
        _private(self.path)
        # another thread may only close it, which `_connection` sees to
        return sqlite3.connect(
            self.path,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )

    # statements

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        with self._one_line("written"):
            return self._connection.execute(statement, values).rowcount

    def _run_each(self, statement: str, rows: Collection[Sequence[Any]]) -> int:
        with self._one_line("written"):
            return self._connection.executemany(statement, rows).rowcount if rows else 0

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._one_line("read"):
            return self._connection.execute(query, values).fetchall()

    def _pages(self, query: str, values: Sequence[Any] = ()) -> Iterator[list[Any]]:
        with self._one_line("read"):
            cursor = self._connection.execute(query, values)
            while rows := cursor.fetchmany(PAGE):
                yield rows

    @property
    def _connection(self) -> sqlite3.Connection:
        self._check_owner()
        return self._db

    def _is_open(self) -> bool:
        return bool(self._connection.in_transaction)

    @contextmanager
    def _one_line(self, done: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: {self._reason(error, done)}") from None
        except UnicodeDecodeError as error:
            # raised by SQLite's module itself, for a text or an error about one
            raise DataError(
                f"{self.path}: is damaged ({one_line(error, 200)})"
            ) from None

    def _reason(self, error: sqlite3.Error, done: str) -> str:
        name, said = getattr(error, "sqlite_errorname", None), one_line(error, 200)
        if isinstance(error, sqlite3.ProgrammingError):
            return f"cannot be used here ({said})"
        if name is None or name.startswith("SQLITE_CORRUPT"):
            return f"is damaged ({said})"
        if (
            name.startswith(REFUSED) or "cannot store" in said
        ):  # Python 3.11 has no name for a wrong type
            return f"refuses a value ({said}); nothing was written"
        if name.startswith(FOREIGN):
            return f"is not a file of {self.format} ({said})"
        return f"cannot be {done} ({said}); once it can, the run goes on"

    # settings of the file itself

    def _fixed(self, key: str, value: str | int) -> str | int:
        """Return the stored value of `key`; if there is none, store and return
        `value`.
        """
        found = self.meta(key)
        if found is None:
            self._run("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, value))
            found = self.meta(key)
        assert found is not None
        return found

    def check(self) -> None:
        """Raise DataError if the file is damaged, or holds a value that its own rules
        refuse.
        """
        found = self._rows("PRAGMA integrity_check(1)")
        if found != [("ok",)]:
            raise DataError(
                f"{self.path}: is damaged"
                f" ({shown(found[0][0] if found else 'it holds nothing')})"
            )

    def backup(self, path: Path) -> None:
        """Copy the whole content as it is now into a new file at `path`, also while
        this file is in use.
        """
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with (
            self._one_line("copied"),
            closing(sqlite3.connect(path, isolation_level=None)) as copy,
        ):
            self._connection.backup(copy)
            copy.execute(
                "PRAGMA journal_mode = DELETE"
            )  # one file, with no log beside it

    def close(self) -> None:
        if self._is_own_process():
            self._db.close()

    # tables of older versions

    def _create(self) -> None:
        """Write what a new file begins with."""
        self._create_tables()
        self._run("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (self.format,))

    def _create_tables(self) -> None:
        for statement in (META, *self.schema):
            self._run(statement)

    def _loose_tables(self) -> list[str]:
        """Return the names of the tables that were created by other statements than
        those of the schema.
        """
        wanted = {
            _name(statement): statement.replace("IF NOT EXISTS ", "")
            for statement in (META, *self.schema)
        }
        found = dict(
            self._rows("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        )
        return [
            name for name, statement in wanted.items() if found.get(name) != statement
        ]

    def _make_strict(self) -> None:
        """Recreate all tables and indexes by the schema, with the rows that they
        have.
        """
        kept: dict[str, tuple[list[str], list[Any]]] = {}
        for name in self._loose_tables():
            kind = self._rows("SELECT type FROM sqlite_master WHERE name = ?", (name,))
            if kind == [("table",)]:
                columns = [row[1] for row in self._rows(f"PRAGMA table_info({name})")]
                kept[name] = (
                    columns,
                    self._rows(f"SELECT {', '.join(columns)} FROM {name}"),
                )
                self._run(f"DROP TABLE {name}")
            elif kind:
                self._run(f"DROP INDEX IF EXISTS {name}")
        self._create_tables()
        for name, (columns, rows) in kept.items():
            self._refill(name, columns, rows)

    def _refill(
        self,
        name: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
    ) -> None:
        """Write the rows of an older table into the STRICT one."""
        kinds = {row[1]: row[2] for row in self._rows(f"PRAGMA table_info({name})")}
        known = [column for column in columns if column in kinds]
        statement = (
            f"INSERT INTO {name} ({', '.join(known)}) VALUES"
            f" ({', '.join('?' * len(known))})"
        )
        for row in rows:
            given = dict(zip(columns, row, strict=True))
            values = [_plain(given[column], kinds[column]) for column in known]
            try:
                self._run(statement, values)
            except DataError as error:
                first = ", ".join(
                    f"{column} {shown(given[column])}" for column in known[:3]
                )
                raise DataError(f"{error}: the row of {name} with {first}") from None


def statements(script: str) -> tuple[str, ...]:
    """Return the statements of a script, each in one line.

    >>> statements("CREATE TABLE a (   key TEXT  ) STRICT; CREATE INDEX b ON a (key);")
    ('CREATE TABLE a (key TEXT) STRICT', 'CREATE INDEX b ON a (key)')
    """
    lines = [" ".join(statement.split()) for statement in script.split(";")]
    return tuple(line.replace("( ", "(").replace(" )", ")") for line in lines if line)


def _name(statement: str) -> str:
    """Return the name of the table or index that a statement creates."""
    found = re.match(
        r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) IF NOT EXISTS (\w+)", statement
    )
    assert found is not None
    return found[1]


def _plain(value: Any, kind: str) -> Any:
    """Return the number that an integer of numpy was when SQLite kept its bytes; all
    other values stay as they are.
    """
    if kind == "INTEGER" and isinstance(value, bytes) and len(value) in (1, 2, 4, 8):
        return int.from_bytes(value, "little", signed=True)
    return value


def _in_memory(path: Path) -> sqlite3.Connection:
    """Return the content of a file, also of one in use and on a disk that cannot be
    written. Nothing is left beside it.
    """
    check_no_link(path)
    memory = sqlite3.connect(
        ":memory:",
        isolation_level=None,
        check_same_thread=False,
    )
    if _nobody_writes(path):
        before = _mark(path)
        with closing(_connected(path, "immutable=1")) as file:
            file.backup(memory)
        if _nobody_writes(path) and _mark(path) == before:
            return memory
    try:
        with closing(_connected(path, "mode=ro")) as file:
            file.backup(memory)
    except (
        sqlite3.OperationalError
    ):  # SQLite's index of the log can neither be read nor written there
        with (
            TemporaryDirectory() as folder,
            closing(_copied(path, Path(folder))) as copy,
        ):
            copy.backup(memory)
    return memory


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    name = quote(os.fsencode("/" + str(path.absolute()).lstrip("/")))
    return sqlite3.connect(
        f"file:{name}?{mode}",
        timeout=PATIENCE,
        uri=True,
    )


def _nobody_writes(path: Path) -> bool:
    """Whether all content is in the file itself: who has it open for writing has a log
    beside it.
    """
    return not path.with_name(f"{path.name}-wal").exists()


def _mark(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _copied(path: Path, folder: Path) -> sqlite3.Connection:
    """Return a connection to a copy of the file and its log in another folder.

    This is only done where nothing can be written, so this process has no locks on the
    file that reading it would release.
    """
    for end in BESIDE:
        own = path.with_name(path.name + end)
        if own.is_file():
            copyfile(own, folder / f"copy{end}", follow_symlinks=False)
    return sqlite3.connect(folder / "copy")


def _private(path: Path) -> None:
    """Make the file readable by its owner only, and a new folder too; SQLite gives its
    own files the same permissions.

    A file that exists is never opened here: closing it again would release all locks
    that this process has on it, and another process would then remove the log of
    accounts that are in use.
    """
    path.parent.parent.mkdir(
        parents=True,
        exist_ok=True,
    )
    path.parent.mkdir(
        mode=0o700,
        exist_ok=True,
    )
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        check_no_link(path)
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"{path}: cannot be opened (it is no plain file)") from None
        if (
            found.st_mode & 0o077 and found.st_uid == os.geteuid()
        ):  # as after a copy or a restore
            path.chmod(0o600)
