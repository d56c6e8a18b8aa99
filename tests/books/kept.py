"""What accounts have on disk, for tests that compare it before and after a call."""

import sqlite3
from contextlib import closing

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


def rows(folder):
    """All rows of all tables of the ledger in a folder."""
    with closing(
        sqlite3.connect(f"file:{folder / 'ledger.sqlite'}?mode=ro", uri=True)
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


def change(folder, *statements):
    """Change a ledger behind the accounts' back, as damage does."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            db.execute(statement)
