"""The tables of the accounts in a PostgreSQL database: each account is a schema.

A transaction locks the log before it sees anything, so of two writers one comes after
the other, as in SQLite. The process that runs rounds holds an advisory lock, which the
server takes from it when it dies. A lost connection is opened again between two
transactions, never within one.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.adapt import Dumper
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from headgate.books.addresses import Address
from headgate.books.database import COLUMNS, FORMAT, PAUSE, SCHEMA, Tables
from headgate.books.durable import META, statements
from headgate.books.in_file import FileTables
from headgate.books.nouns import Entry
from headgate.books.session import PAGE, PATIENCE
from headgate.errors import DataError
from headgate.escaping import one_line, shown
from headgate.writing import InUseError

TYPES = {
    " STRICT": "",
    " INTEGER": " BIGINT",
    " ANY": " TEXT",
    " TEXT": ' TEXT COLLATE "C"',
}
"""what SQLite says → what PostgreSQL says, in this order"""
SESSION = {
    "lock_timeout": f"{PATIENCE:g}s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "TimeZone": "UTC",
}
"""settings of a session: a machine that is gone holds a lock for half a minute"""
CONNECTION = {
    "application_name": "headgate",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""settings of libpq that an address may change"""
OLDEST = 120000
"""the oldest PostgreSQL, as libpq numbers them"""
RELATIONS = """
SELECT relname, relkind IN ('v', 'm', 'f') OR relhastriggers OR relhasrules
    OR relrowsecurity
FROM pg_class JOIN pg_namespace AS own ON own.oid = relnamespace
WHERE nspname = ?
"""
"""query for what is in a schema, and whether it is anything but a plain table"""
KINDS = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = ?
"""
INSERT = re.compile(r"INSERT INTO (\w+) \(([^)]+)\) VALUES \([?, ]+\)(.*)")
"""a statement that is executed for many rows: its table, its columns and its end"""
KIND = {"TEXT": "text", "INTEGER": "bigint"}
ACCOUNTS = """
SELECT nspname FROM pg_class JOIN pg_namespace AS own ON own.oid = relnamespace
WHERE relkind = 'r' AND relname IN ('meta', 'entries', 'answers')
GROUP BY nspname HAVING count(*) = 3 ORDER BY nspname COLLATE "C"
"""
"""query for the schemas with tables of accounts"""
REFUSED = (errors.IntegrityError, errors.DataError, errors.DatatypeMismatch)
"""errors for a value that the rules of a table refuse"""
DAMAGED = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
    errors.DataCorrupted,
    errors.IndexCorrupted,
)


class AsText(Dumper):
    """A float as text, so that the database refuses it as a whole number, which it
    would round.
    """

    def dump(self, obj: float) -> bytes:
        return repr(obj).encode()


class ServedTables(Tables):
    """The tables of one account in one schema.

    Parameters
    ----------
    address : Address
        The database, and the name of the account.
    writes : bool
        Whether anything may be written.
    new : bool
        Whether the account may begin.
    """

    path: Address
    write_begin = (
        "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE entries IN EXCLUSIVE MODE"
    )
    read_begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(
        self, address: Address, writes: bool = True, new: bool = False
    ) -> None:
        super().__init__(address, writes)
        self._inside = self._closed = False
        self._appended: Entry | None = None
        self._cursors = count()
        with self._one_line("opened"):
            self._db = self._connected()
        try:
            self._prepare(new and writes)
            self.check()
            self.account = str(self.meta("account") or "")
        except BaseException:
            self.close()
            raise

    # the connection

    def _connected(self) -> psycopg.Connection:
        stated = make_conninfo(**CONNECTION | dict(self.path.settings))
        db = psycopg.connect(stated, autocommit=True)
        db.adapters.register_dumper(float, AsText)
        try:
            if db.info.server_version < OLDEST:
                raise DataError(f"{self.path}: is older than PostgreSQL 12")
            if db.info.parameter_status("server_encoding") != "UTF8":
                raise DataError(
                    f"{self.path}: the encoding of the database is not UTF8"
                )
            path = sql.Identifier(self.path.account).as_string(db)
            given = {**SESSION, "search_path": path}
            calls = ", ".join("set_config(%s, %s, false)" for _ in given)
            values = [text for pair in given.items() for text in pair]
            db.execute(f"SELECT {calls}", values)
        except BaseException:
            db.close()
            raise
        return db

    def _reconnect(self) -> None:
        """Open the connection again; the process that runs rounds still runs them."""
        if self._closed:
            raise DataError(f"{self.path}: cannot be used here (it is closed)")
        until = monotonic() + PATIENCE
        while True:
            try:
                self._db = self._connected()
                if self.leads and not self._leads_now():
                    raise self._in_use()
                return
            except (psycopg.OperationalError, InUseError):
                self._db.close()
                if monotonic() >= until:
                    raise
            sleep(PAUSE)

    def _execute(self, query: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Execute a statement; outside of a transaction, also on a new connection."""
        self._check_owner()
        try:
            return self._executed(query, values)
        except psycopg.OperationalError:
            if self._inside or not self._db.closed:
                raise
        self._reconnect()
        return self._executed(query, values)

    def _executed(self, query: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        prepare = None if values else False  # a commit is one message, not two
        try:
            return self._db.execute(translated(query), values, prepare=prepare)
        finally:
            self._look()

    def _look(self) -> None:
        """See whether a transaction is open; one whose connection was lost still is, so
        that nothing of it is done outside.
        """
        if not self._db.closed:
            status = self._db.info.transaction_status
            self._inside = status != TransactionStatus.IDLE

    def _run(self, statement: str, values: Sequence[Any] = ()) -> int:
        with self._one_line("written"):
            return self._execute(statement, values).rowcount

    def _run_each(self, statement: str, rows: Collection[Sequence[Any]]) -> int:
        found = INSERT.fullmatch(statement)
        if found is None:
            return sum(self._run(statement, row) for row in rows)
        if not rows:
            return 0
        table, names, tail = found.groups()
        columns = names.split(", ")
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        # one message: a message for each row takes five times as long
        return self._run(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM"
            f" json_populate_recordset(NULL::{table}, ?){tail}",
            (json.dumps(records),),
        )

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._one_line("read"):
            return self._execute(query, values).fetchall()

    def _pages(self, query: str, values: Sequence[Any] = ()) -> Iterator[list[Any]]:
        self._check_owner()
        name = f"pages_{next(self._cursors)}"
        with self._one_line("read"), self._db.cursor(name) as cursor:
            cursor.execute(translated(query), values)
            while rows := cursor.fetchmany(PAGE):
                yield rows

    def _is_open(self) -> bool:
        self._check_owner()
        return self._inside

    def _roll_back(self) -> None:
        self._appended = None
        try:
            if not self._db.closed:
                super()._roll_back()
        except DataError:  # the server does so when the connection ends
            self._db.close()
        finally:
            self._inside = False

    def _commit(self) -> None:
        """Commit; if the connection is lost meanwhile, look whether it was done."""
        appended, self._appended = self._appended, None
        try:
            super()._commit()
        except DataError:
            if not self._db.closed:
                raise
            self._inside = False
            if appended is None or not self._was_written(appended):
                raise

    def _was_written(self, entry: Entry) -> bool:
        """Whether an entry was committed before the connection was lost. The lock on
        the log waits for the end of what the server still does.
        """
        try:
            with self._whole():
                return self.hash_of(entry.number) == entry.hash
        except DataError as error:
            raise DataError(
                f"{error}; whether entry {entry.number} was written is not known;"
                " repeat the call with the same key, and it counts once"
            ) from None

    @contextmanager
    def _one_line(self, done: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise DataError(f"{self.path}: {self._reason(error, done)}") from None

    def _reason(self, error: psycopg.Error, done: str) -> str:
        said = one_line(self.path.without_password(error), 300)
        if isinstance(error, REFUSED):
            return f"refuses a value ({said}); nothing was written"
        if isinstance(error, DAMAGED):
            return f"is damaged ({said})"
        return f"cannot be {done} ({said}); once it can, the run goes on"

    def append(self, entry: Entry) -> None:
        self._appended = entry
        super().append(entry)

    def close(self) -> None:
        self._closed = True
        if self._is_own_process():
            self._db.close()

    # the schema

    def _prepare(self, new: bool) -> None:
        """Create the tables of new accounts; refuse what is none of headgate's."""
        relations = self._rows(RELATIONS, (self.path.account,))
        if not relations:
            if not new:
                raise DataError(
                    f"{self.path}: holds no accounts; those of headgate.Books do"
                )
            self._create()
        elif "meta" not in dict(relations):
            raise DataError(f"{self.path}: holds tables, which are none of headgate")
        elif any(found for _, found in relations):
            raise DataError(
                f"{self.path}: holds triggers, views or rules, which no accounts of"
                " headgate do"
            )
        elif self.writes and COLUMNS.keys() - dict(relations):
            self._create()  # what accounts of an earlier version lack

    def _create(self) -> None:
        name = sql.Identifier(self.path.account)
        with self._one_line("written"), self._db.transaction():
            # two processes may begin the account at once
            self._db.execute("SELECT pg_advisory_xact_lock(%s)", (self._key("new"),))
            query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
            if not self._db.execute(query, (self.path.account,)).fetchall():
                self._db.execute(sql.SQL("CREATE SCHEMA {}").format(name))
            for statement in (META, *statements(SCHEMA)):
                self._db.execute(in_types_of_postgres(statement))
            self._db.execute(
                "INSERT INTO meta VALUES ('format', %s) ON CONFLICT DO NOTHING",
                (FORMAT,),
            )

    def check(self) -> None:
        """Raise DataError if these are no tables of this format."""
        found = self.meta("format")
        if found != FORMAT:
            raise DataError(f"{self.path}: holds {shown(found)}, expected {FORMAT}")
        kinds = {row[:2]: row[2] for row in self._rows(KINDS, (self.path.account,))}
        if COLUMNS.keys() - {table for table, _ in kinds}:
            raise DataError(
                f"{self.path}: lacks tables of this version; `headgate ledger upgrade"
                f" {self.path}` adds them"
            )
        for table, columns in COLUMNS.items():
            for name, kind in columns.items():
                if kinds.get((table, name)) != KIND[kind]:
                    raise DataError(
                        f"{self.path}: is damaged (column {name} of {table} is missing"
                        " or of another type)"
                    )

    def _key(self, what: str) -> int:
        """Return the number of an advisory lock of this account."""
        text = f"headgate {what} {self.path.account}".encode()
        return int.from_bytes(hashlib.sha256(text).digest()[:8], signed=True)

    def _take_lead(self) -> None:
        with self._one_line("read"):
            leads = self._leads_now()
        if not leads:
            raise self._in_use()

    def _give_lead(self) -> None:
        self._rows("SELECT pg_advisory_unlock(?)", (self._key("lead"),))

    def _leads_now(self) -> bool:
        """Whether this connection has the lock of who runs rounds, or got it."""
        query = "SELECT pg_try_advisory_lock(%s)"
        return self._db.execute(query, (self._key("lead"),)).fetchone() == (True,)

    def _in_use(self) -> InUseError:
        return InUseError(
            f"{self.path}: is in use by another process; wait for it to end"
        )

    def backup(self, path: Path) -> None:
        with closing(FileTables(path)) as copy:
            with copy.transaction():
                copy.fill(self)
            copy.close_log()


def accounts_in(address: Address) -> list[str]:
    """Return the names of all accounts in the database of an address, sorted."""
    try:
        with psycopg.connect(
            make_conninfo(**CONNECTION | dict(address.settings))
        ) as db:
            rows = db.execute(ACCOUNTS).fetchall()
    except psycopg.Error as error:
        said = one_line(address.without_password(error), 300)
        raise DataError(f"{address}: cannot be read ({said})") from None
    return [name for (name,) in rows]


@cache
def translated(query: str) -> str:
    """Return a statement with the placeholders of psycopg.

    >>> translated("SELECT 1 FROM meta WHERE key = ?")
    'SELECT 1 FROM meta WHERE key = %s'
    """
    return query.replace("%", "%%").replace("?", "%s")


def in_types_of_postgres(statement: str) -> str:
    """Return a statement of the schema with the types of PostgreSQL.

    >>> in_types_of_postgres("CREATE TABLE a (n INTEGER NOT NULL) STRICT")
    'CREATE TABLE a (n BIGINT NOT NULL)'
    """
    for own, other in TYPES.items():
        statement = re.sub(rf"{own}\b", other, statement)
    return statement
