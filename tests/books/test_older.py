"""Ledgers of the version before: they open, their tables become STRICT, and what cannot
be replayed is named and taken out.
"""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from headgate.books.accounts import Standing
from headgate.books.ledger_store import LEDGER
from headgate.books.statement import amend, opened, statement, void
from headgate.control import Amendment
from headgate.errors import DataError, LedgerError

from .format3_books import old_books as books
from .kept import rows

TABLES = {
    "meta": "key TEXT PRIMARY KEY, value",
    "rounds": (
        "round INTEGER PRIMARY KEY, price BLOB NOT NULL, reserved REAL NOT NULL, begun"
        " TEXT NOT NULL, supply TEXT NOT NULL, settled INTEGER NOT NULL, debt REAL,"
        " spent REAL, parameters TEXT, sha256 TEXT, metrics TEXT, clients TEXT"
    ),
    "orders": (
        "round INTEGER, client INTEGER, ordered INTEGER NOT NULL, free INTEGER NOT"
        " NULL, price REAL NOT NULL, admitted INTEGER, learned INTEGER, PRIMARY KEY"
        " (round, client)"
    ),
    "clients": (
        "client INTEGER PRIMARY KEY, heard INTEGER NOT NULL, offences INTEGER NOT NULL,"
        " quarantined INTEGER NOT NULL, lost INTEGER NOT NULL, distinct_used INTEGER"
        " NOT NULL, uses INTEGER NOT NULL, squares INTEGER NOT NULL, withdrawn INTEGER"
        " NOT NULL, erased INTEGER NOT NULL"
    ),
    "nodes": "node TEXT PRIMARY KEY, client INTEGER NOT NULL, since REAL NOT NULL",
    "events": (
        "id INTEGER PRIMARY KEY, round INTEGER NOT NULL, client INTEGER NOT NULL, kind"
        " TEXT NOT NULL, reason TEXT NOT NULL"
    ),
    "corrections": (
        "round INTEGER, client INTEGER, ordered INTEGER NOT NULL, free INTEGER NOT"
        " NULL, price REAL NOT NULL, admitted INTEGER NOT NULL, learned INTEGER,"
        " PRIMARY KEY (round, client, learned)"
    ),
    "amendments": (
        "id INTEGER PRIMARY KEY, round INTEGER NOT NULL, made TEXT NOT NULL, by TEXT"
        " NOT NULL, why TEXT NOT NULL, change TEXT NOT NULL, of_round INTEGER,"
        " of_client INTEGER"
    ),
    "samples": (
        "round INTEGER, client INTEGER, key TEXT, PRIMARY KEY (round, client, key)"
    ),
    "losses": "round INTEGER PRIMARY KEY, losses BLOB NOT NULL",
}
"""the tables of format 3"""


def made_older(folder, *statements):
    """Write the ledger of a folder again as the version before had it, and change it by
    these statements.
    """
    kept = rows(folder)
    for path in folder.iterdir():
        path.unlink()
    with closing(sqlite3.connect(folder / LEDGER)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
            many = len(db.execute(f"PRAGMA table_info({name})").fetchall())
            db.executemany(
                f"INSERT INTO {name} VALUES ({', '.join('?' * many)})",
                [row[:many] for row in kept[name]],
            )
        db.execute(
            "CREATE INDEX outstanding ON orders (client, round) WHERE admitted IS NULL"
        )
        db.execute(
            "UPDATE meta SET value = 'headgate ledger store 3' WHERE key = 'format'"
        )
        for statement_, *values in statements:
            db.execute(statement_, values)


def played(folder, rounds=4):
    with books(folder) as own:
        for t in range(rounds):
            own.begin(3.0 - t / 2)
            own.settle()
        return own.audit().spent


def test_an_older_ledger_goes_on_and_its_tables_become_strict(tmp_path):
    spent = played(tmp_path)
    made_older(tmp_path)
    with opened(tmp_path) as store:
        assert statement(store).spent == spent, "shown without being changed"
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db:
        assert (
            "STRICT"
            not in db.execute(
                "SELECT sql FROM sqlite_master WHERE name = 'orders'"
            ).fetchone()[0]
        )
    with books(tmp_path) as own:
        assert own.audit().spent == spent
        own.begin(1.0)
        own.settle()
        own.audit()
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db:
        made = dict(
            db.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT"
                " LIKE 'sqlite%'"
            )
        )
        assert [name for name, sql in made.items() if not sql.endswith("STRICT")] == []
        assert db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == (
            "headgate ledger store 3.1",
        )
        assert [paid for (paid,) in db.execute("SELECT paid FROM rounds")][:4] == [
            None
        ] * 4
    books(tmp_path).close()


@pytest.mark.parametrize(
    "kind", [np.int64, np.int32, np.int16, np.int8], ids=lambda kind: kind.__name__
)
def test_accounts_that_a_number_of_numpy_destroyed_open_again(tmp_path, kind):
    """SQLite kept the bytes of the number, and the older version could not read
    them.
    """
    spent = played(tmp_path)
    eight = kind(8).tobytes()
    made_older(
        tmp_path,
        ("UPDATE orders SET admitted = ? WHERE round = 1 AND client = 0", eight),
        ("UPDATE clients SET withdrawn = ? WHERE client = 0", kind(0).tobytes()),
    )
    with opened(tmp_path) as store:
        assert statement(store).spent == spent
    with books(tmp_path) as own:
        assert own.audit().spent == spent
        own.begin(1.0)
        own.settle()
        own.audit()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("UPDATE orders SET admitted = 6.5 WHERE round = 2 AND client = 1",),
            "the row of orders with round 2, client 1",
        ),
        (
            ("INSERT INTO samples VALUES (1, 0, ?)", b"a"),
            "the row of samples with round 1, client 0, key",
        ),
        (
            ("UPDATE clients SET offences = 'many' WHERE client = 2",),
            "the row of clients with client 2",
        ),
    ],
)
def test_a_row_that_no_ledger_can_hold_is_named_and_the_file_stays_as_it_is(
    tmp_path, change, said
):
    played(tmp_path)
    made_older(tmp_path, change)
    before = rows(tmp_path)
    with pytest.raises(DataError) as caught:
        books(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert rows(tmp_path) == before


def broken(folder, kind):
    """Accounts as races of the older version left them, and what was spent."""
    with books(folder) as own:
        own.begin(3.0)
        own.settle()
        if kind == "twice":
            own.amend(leave=1, by="anna", why="moved")
        for _ in range(3):
            own.begin(2.0)
            own.settle()
        spent = own.audit().spent
    row = (
        "INSERT INTO amendments (round, made, by, why, change) VALUES (1,"
        " '2026-11-19T10:00:00+00:00', 'ben', 'race', ?)"
    )
    made_older(
        folder, (row, '{"leave": 1}' if kind == "twice" else '{"money": -1900.0}')
    )
    return spent


@pytest.mark.parametrize(("kind", "id_"), [("twice", 2), ("ignored", 1)])
def test_an_amendment_that_does_not_replay_is_named_and_taken_out_on_a_copy(
    tmp_path, headgate, kind, id_
):
    folder = tmp_path / "accounts"
    folder.mkdir()
    spent = broken(folder, kind)
    with pytest.raises(LedgerError) as caught:
        books(folder)
    said = str(caught.value)
    assert f"amendment {id_} (" in said
    assert "by ben, 2026-11-19" in said
    assert f"`headgate ledger void {folder} {id_}` takes it out, on a copy" in said
    assert "\n" not in said
    before = rows(folder)
    out, _ = headgate(
        "ledger", "void", folder, id_, "--by", "carla", "--why", "written by a race"
    )
    assert f"accounts-without-{id_}: without amendment {id_} (" in out
    assert rows(folder) == before, "the accounts stay as they are"
    copy = tmp_path / f"accounts-without-{id_}"
    assert copy.stat().st_mode & 0o777 == 0o700
    with books(copy) as own:
        found = own.audit()
        assert found.spent == spent
        (taken_out,) = [each for each in found.amendments if each.voided]
        assert taken_out.id == id_
        assert "by carla: written by a race" in taken_out.voided
        own.begin(2.0)
        own.settle()
        own.audit()
    shown, _ = headgate("ledger", "show", copy)
    assert "void: " in shown


def test_what_cannot_be_taken_out_leaves_no_copy(tmp_path, headgate):
    folder = tmp_path / "accounts"
    with books(folder) as own:
        own.amend(join=5)
        own.amend(leave=3)
        own.begin(3.0)
        own.settle()
    for id_, said in (
        (9, "there is no amendment 9 to take out"),
        (1, "amendment 2 (leave 3, by"),
    ):
        _, err = headgate("ledger", "void", folder, id_, code=5)
        assert said in err
    (tmp_path / "there").mkdir()
    with pytest.raises(DataError, match="exists already; choose another folder"):
        void(folder, 2, "anna", "", tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accounts", "there"]


def test_of_two_amendments_that_do_not_replay_both_are_named_one_after_the_other(
    tmp_path, headgate
):
    folder = tmp_path / "accounts"
    played(folder)
    row = (
        "INSERT INTO amendments (round, made, by, why, change) VALUES (1,"
        " '2026-11-19T10:00:00+00:00', 'ben', '', ?)"
    )
    made_older(folder, (row, '{"leave": 7}'), (row, '{"leave": 8}'))
    out, _ = headgate("ledger", "void", folder, 1, "--out", tmp_path / "once")
    assert "Another amendment cannot be applied either" in out
    _, err = headgate("ledger", "show", tmp_path / "once", code=5)
    assert "amendment 2 (leave 8" in err
    headgate("ledger", "void", tmp_path / "once", 2, "--out", tmp_path / "twice")
    with books(tmp_path / "twice") as own:
        assert own.audit().spent > 0


def test_a_copy_without_an_amendment_has_all_files_of_a_run(tmp_path):
    folder = tmp_path / "run"
    with books(folder) as own:
        own.amend(money=5.0)
        own.begin(3.0)
        own.settle()
    (folder / "parameters").mkdir()
    (folder / "parameters" / "model").write_bytes(b"model")
    (folder / "config.toml").write_text("[run]")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / ".model.12345678.partial").write_bytes(b"mod")
    found, after = void(folder, 1, "anna", "", tmp_path / "copy")
    assert (found.id, after.approved) == (1, Decimal("2000.0"))
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [
        "config.toml", "ledger.last", LEDGER, "link", "parameters",
    ]  # fmt: skip
    assert (tmp_path / "copy" / "link").is_symlink()
    shutil.rmtree(tmp_path / "copy")


def test_an_older_ledger_with_invoices_replays_as_it_was_summed(tmp_path, monkeypatch):
    """The older version added invoices to a sum of floats: 0.30000000000000004 where
    the exact sum is 0.3.
    """
    usual = Standing.after_amendment
    monkeypatch.setattr(
        Standing,
        "after_amendment",
        lambda before, each: usual(replace(before, by_older=True), each),
    )
    with books(tmp_path) as own:
        own.begin(0.1, in_all=3)
        own.settle()
        line = own._store.orders()[0]
        own.adjust(line.round, line.client, 0.3)
        own.adjust(line.round, line.client, -0.1)
        assert own.ledger.spent[0] == 0.5000000000000001
        own.begin(0.1, in_all=2)
        own.settle()
        spent = own.ledger.spent[0]
    monkeypatch.undo()
    made_older(tmp_path)
    with books(tmp_path) as again:
        found = again.audit()
        assert again.ledger.spent[0] == spent
        again.adjust(line.round, line.client, -0.2)
        again.begin(0.3, in_all=2)
        again.settle()
        again.adjust(line.round, line.client, -0.2)
        assert again.ledger.spent[0] == float(again.audit().spent), (
            "summed exactly from now on"
        )
    with books(tmp_path) as again:
        assert again.audit().spent == found.spent + Decimal("0.2")


def test_an_invoice_that_was_settled_is_not_taken_out(tmp_path, headgate):
    folder = tmp_path / "accounts"
    with books(folder) as own:
        own.begin(3.0)
        own.settle()
        own.adjust(1, 0, 2.0)
        own.begin(2.0)
        own.settle()
    _, err = headgate("ledger", "void", folder, 1, code=5)
    assert (
        "is in the sums of the rounds settled since; adjust the order by the opposite"
        " amount instead" in err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["accounts"]


def test_a_copy_of_the_folder_one_stands_in_is_made_beside_it(
    tmp_path, headgate, monkeypatch
):
    folder = tmp_path / "accounts"
    with books(folder) as own:
        own.amend(money=5.0)
    monkeypatch.chdir(folder)
    headgate("ledger", "void", ".", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "accounts",
        "accounts-without-1",
    ]


def test_the_key_of_an_amendment_that_was_taken_out_is_not_used_again(tmp_path):
    """Its row stays, so a repeat under this key is neither the same amendment nor a new
    one.
    """
    with books(tmp_path / "accounts") as own:
        own.amend(money=5.0, key="board 7")
    copy = tmp_path / "copy"
    void(tmp_path / "accounts", 1, "anna", "", copy)
    with pytest.raises(
        LedgerError,
        match=(
            r"key = board 7: is that of amendment 1 \(money 5, .*; give this one"
            r" another key"
        ),
    ):
        amend(copy, Amendment(money=5.0), "ben", "", key="board 7")
    assert (
        amend(copy, Amendment(money=5.0), "ben", "", key="board 7, again").approved
        == 2005
    )


def test_exact_sums_are_written_from_the_first_round_that_this_version_settles(
    tmp_path,
):
    spent = played(tmp_path)
    made_older(tmp_path)
    with opened(tmp_path) as store:
        assert store.spent() is None
    with books(tmp_path) as own:
        own.begin(1.0)
        own.settle()
    with opened(tmp_path) as store:
        assert store.spent() == statement(store).spent >= spent


def test_a_refund_that_was_taken_out_counts_no_more(tmp_path):
    with books(tmp_path / "accounts") as own:
        own.begin(3.0)
        own.settle()
        own.adjust(1, 0, -4.5)
        assert own.statement().spent == Decimal("76.5")
    _, after = void(tmp_path / "accounts", 1, "anna", "", tmp_path / "copy")
    assert after.spent == 81
    with books(tmp_path / "copy") as own:
        assert own.audit().spent == 81


def test_accounts_that_go_on_while_they_are_copied_leave_a_copy_that_is_not_old(
    tmp_path, monkeypatch
):
    folder = tmp_path / "accounts"
    with books(folder) as own:
        own.amend(money=5.0)
        own.begin(3.0)

        def slow(*given, **named):
            own.settle()
            return shutil.copytree(*given, **named)

        monkeypatch.setattr("headgate.books.statement.copytree", slow)
        _, after = void(folder, 1, "anna", "", tmp_path / "copy")
        assert after.rounds == 0
    books(tmp_path / "copy").close()
