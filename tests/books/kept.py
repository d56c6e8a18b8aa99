"""What accounts have on disk, for tests that compare it before and after a call."""

import secrets
import sqlite3
from contextlib import closing, contextmanager

import psycopg

from headgate import Books, System
from headgate.control.policies import Headgate

SYSTEM = System([8, 9, 10], budget=20.0, horizon=100)


def books(folder, policy=None, offences=None, **given):
    system = (
        System([8, 9, 10], **{"budget": 20.0, "horizon": 100, **given})
        if given
        else SYSTEM
    )
    return Books(folder, system, policy or Headgate(fill=8.0), offences=offences)


class InPostgres(str):
    """The address of accounts; with a slash, that of others beside it."""

    def __truediv__(self, name):
        return InPostgres(f"{self}_{str(name).replace(' ', '_')}")


def one_more(place):
    """Another place beside those before."""
    return place / secrets.token_hex(6)


def begun(place):
    """Whether anything of accounts is in a place."""
    return bool(rows(place)) if isinstance(place, InPostgres) else place.exists()


def rows(place):
    """All rows of all tables of the ledger in a place."""
    if isinstance(place, InPostgres):
        return rows_in_postgres(place)
    with closing(
        sqlite3.connect(f"file:{place / 'ledger.sqlite'}?mode=ro", uri=True)
    ) as db:
        tables = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        return {
            name: db.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()
            for name in tables
        }


@contextmanager
def in_schema(place):
    """A connection to the database of a place, with its account as the schema."""
    database, _, account = place.rpartition("/")
    with psycopg.connect(database) as db:
        db.execute(f'SET search_path TO "{account}"')
        yield db


def rows_in_postgres(place):
    with in_schema(place) as db:
        account = place.rpartition("/")[2]
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        tables = [name for (name,) in db.execute(query, (account,))]
        return {
            name: db.execute(f'SELECT * FROM "{name}" ORDER BY 1, 2').fetchall()
            for name in tables
        }


def change(place, *statements):
    """Change a ledger behind the accounts' back, as damage does."""
    if isinstance(place, InPostgres):
        return change_in_postgres(place, *statements)
    with closing(sqlite3.connect(place / "ledger.sqlite")) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            db.execute(statement)
    return None


def change_in_postgres(place, *statements):
    with in_schema(place) as db:
        checks = db.execute(
            "SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'c'"
            " AND connamespace = current_schema()::regnamespace"
        )
        for table, name in checks.fetchall():
            db.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        for statement in statements:
            db.execute(statement)


@contextmanager
def queries(own):
    """The queries of open accounts, and their values, while the body runs."""
    tables, found = own._journal.tables, []
    usual = tables._rows

    def noted(query, values=()):
        found.append((query, values))
        return usual(query, values)

    tables._rows = noted
    try:
        yield found
    finally:
        del tables._rows
