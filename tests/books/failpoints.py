"""Failpoints: a second process is let in between any two SQL statements of a call of
the first.

A trace function is called right before each statement, BEGIN and COMMIT included.
The function counts the statements, and at the chosen ones it hands a request to the
second process. If the first process is in a transaction there, it holds the lock on
the accounts: the second one waits for it, the first one goes on, and the answer comes
later. Otherwise the first process waits for the answer.
"""

import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import psycopg
from psycopg.pq import TransactionStatus

from headgate.books.copying import copy
from headgate.books.database import LEDGER

from .kept import InPostgres, rows

SECOND = Path(__file__).with_name("second.py")
PATIENCE = 30.0
"""seconds after which a second process that does not answer is an error"""
A_MOMENT = 0.015
"""seconds for which the first process waits while it holds the lock: enough for the
second one to run into it
"""
OUTSIDE, INSIDE, AFTER = (
    "outside a transaction",
    "inside a transaction",
    "after the call",
)


def connection_of(books):
    """Return the SQLite connection of open accounts."""
    return books._journal.tables._db


def in_transaction(connection):
    if isinstance(connection, sqlite3.Connection):
        return connection.in_transaction
    return connection.info.transaction_status != TransactionStatus.IDLE


class Second:
    """The second process, from its start to its end."""

    def __init__(self):
        own, other = socket.socketpair()
        with other:
            command = [sys.executable, str(SECOND), str(other.fileno())]
            self.process = subprocess.Popen(
                command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL
            )
        self.line = Connection(own.detach())

    def send(self, name, *arguments):
        self.line.send((name, arguments))

    def answers(self, patience=PATIENCE):
        """Return whether an answer is there within some seconds."""
        return self.line.poll(patience)

    def receive(self):
        if not self.answers():
            raise TimeoutError(
                f"the second process did not answer within {PATIENCE:g} s"
            )
        return self.line.recv()

    def ask(self, name, *arguments):
        self.send(name, *arguments)
        return self.receive()

    def close(self):
        self.line.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Request(NamedTuple):
    """A request to the second process; `tag` is known to the first one only."""

    name: str
    arguments: tuple
    tag: str = ""


class Visit(NamedTuple):
    """A request to the second process, and the number of the statement before which it
    is sent.
    """

    at: int
    request: Request


class Visited(NamedTuple):
    """A request that was answered."""

    request: Request
    outcome: str
    result: object
    where: str
    commits: int
    """transactions of the call that had written and committed before the second process
    did its work
    """


class Watch:
    """Count the statements of a call, and let the second process in at the visits."""

    def __init__(self, second, visits):
        self.second, self.visits = second, sorted(visits, key=lambda visit: visit.at)
        self.statements, self.commits, self.wrote = 0, 0, False
        self.waiting, self.done, self.errors = [], [], []

    def before(self, connection, statement):
        """SQLite swallows what a trace function raises, so errors are kept."""
        try:
            word = statement.split(None, 1)[0].upper()
            self._before(in_transaction(connection), word)
        except BaseException as error:
            self.errors.append(error)

    def _before(self, inside, word):
        if not inside:
            self.hear()
        while self.visits and self.visits[0].at <= self.statements:
            self.let_in(self.visits.pop(0).request, INSIDE if inside else OUTSIDE)
        self.statements += 1
        if word == "COMMIT":
            self.commits += self.wrote
        if word in ("BEGIN", "COMMIT", "ROLLBACK"):
            self.wrote = False
        elif word not in ("SELECT", "PRAGMA"):
            self.wrote = True

    def let_in(self, request, where):
        self.second.send(request.name, *request.arguments)
        self.waiting.append((request, where))
        if where != INSIDE or (
            len(self.waiting) == 1 and self.second.answers(A_MOMENT)
        ):
            self.hear()

    def hear(self):
        """Wait for all answers that are due."""
        while self.waiting:
            request, where = self.waiting.pop(0)
            self.done.append(
                Visited(request, *self.second.receive(), where, self.commits)
            )

    def after(self):
        """Hear what waits after the call returned, and let in who is left. Return the
        visits before and after the call's own work was committed."""
        if self.errors:
            raise self.errors[0]
        self.hear()
        own = self.commits
        before = [each for each in self.done if not own or each.commits < own]
        for visit in self.visits:
            self.let_in(visit.request, AFTER)
        return before, self.done[len(before) :]


@contextmanager
def watched(connection, before):
    """Call `before(connection, statement)` right before each statement on an open
    connection.
    """
    connection.set_trace_callback(lambda statement: before(connection, statement))
    try:
        yield
    finally:
        connection.set_trace_callback(None)


@contextmanager
def watched_opening(before):
    """Call `before(connection, statement)` right before each statement on the
    connections that are opened meanwhile.
    """
    connect, opened = sqlite3.connect, []

    def traced(*given, **more):
        connection = connect(*given, **more)
        connection.set_trace_callback(lambda statement: before(connection, statement))
        opened.append(connection)
        return connection

    with patch("sqlite3.connect", traced):
        yield
    for connection in opened:
        try:
            connection.set_trace_callback(None)
        except sqlite3.ProgrammingError:  # it is closed
            continue


@contextmanager
def watched_in_postgres(before):
    """Call `before(connection, statement)` right before each statement on connections
    to PostgreSQL.
    """
    usual = psycopg.Connection.execute

    def traced(connection, query, *given, **more):
        before(connection, query)
        return usual(connection, query, *given, **more)

    with patch.object(psycopg.Connection, "execute", traced):
        yield


def watching(folder, connection, before):
    """Let `before` see each statement on a connection, or on those that are opened."""
    if before is None:
        return nullcontext()
    if isinstance(folder, InPostgres):
        return watched_in_postgres(before)
    return watched(connection, before) if connection else watched_opening(before)


def dump(place):
    """Return all tables of accounts: name → rows in order."""
    if isinstance(place, InPostgres):
        return {name: sorted(each, key=repr) for name, each in rows(place).items()}
    return dump_of_file(place / LEDGER)


def dump_of_file(path):
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN")
        names = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        return {
            name: sorted(
                connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr
            )
            for name in names
        }
    finally:
        connection.close()


def copied(place, target):
    """Copy accounts that are in use into a folder; a file with SQLite's online
    backup.
    """
    if isinstance(place, InPostgres):
        copy(place, target)
        return
    target.mkdir()
    with (
        closing(sqlite3.connect(place / LEDGER)) as source,
        closing(sqlite3.connect(target / LEDGER)) as file,
    ):
        source.backup(file)
