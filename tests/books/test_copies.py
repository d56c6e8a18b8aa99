"""Accounts are copied from a folder into PostgreSQL and back, and stay the same."""

import sqlite3
from contextlib import closing

import pytest

from headgate import Delivery
from headgate.books import journal
from headgate.books.copying import copy
from headgate.books.statement import exported, opened, statement
from headgate.errors import DataError, HeadgateError, LedgerError

from .kept import books, change, queries, rows


@pytest.fixture
def places(tmp_path, in_postgres):
    return {"sqlite": tmp_path / "accounts", "postgres": in_postgres}


def played(place):
    """Accounts with orders in every state, amendments, keys and snapshots."""
    with books(place, offences=3) as own:
        for t in range(1, 8):
            bought = own.begin(2.0 + t % 3, expires=4, when=f"2026-11-{t:02}")
            asked = [each.samples for each in bought]
            keys = [f"{t}-{n}" for n in range(asked[0])]
            reports = {0: Delivery(len(keys), keys), 2: asked[2] // 2}
            if asked[1]:
                reports[1] = Delivery(asked[1] - 1, cancelled=1)
            own.settle(reports, {2: "unreadable"} if t in (2, 5) else {})
        own.settle({0: Delivery(round=1, rejected={"1-1": "blurred"})}, key="a mail")
        own.amend("anna", "more, after “all”", money=100.25, key="board 7")
        own.adjust(1, 0, -1.25, "anna", "returned", key="credit note")
        own.begin(3.0, when="2026-11-08")
        return own.audit()


def ordered(tables):
    return {name: sorted(found, key=repr) for name, found in tables.items()}


def shown(place):
    with opened(place) as accounts:
        return statement(accounts)


WAYS = [
    ("sqlite", "postgres"),
    ("postgres", "sqlite"),
    ("sqlite", "sqlite"),
    ("postgres", "postgres"),
]


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_a_copy_is_the_same_account_and_goes_on(
    places, headgate, monkeypatch, source, target
):
    monkeypatch.setattr(journal, "EVERY", 2)
    source, target = places[source], places[target] / "copy"
    found = played(source)
    before = ordered(rows(source))
    out, _ = headgate("ledger", "copy", source, target)
    assert f"{target}: round 7, {len(found.lines)} orders, spent" in out
    assert ordered(rows(target)) == before == ordered(rows(source))
    after = shown(target)
    assert exported(after, "csv") == exported(found, "csv")
    assert exported(after, "json") == exported(found, "json")
    assert str(after) == str(found) == str(shown(source))
    with books(target, offences=3) as own:
        assert str(own.audit()) == str(found)
        assert [each.samples for each in own.begin(9.0)] == [
            line.asked for line in found.lines if line.round == 8
        ]
        own.settle()
        own.audit()


def test_accounts_that_are_there_are_never_written_over(places, headgate):
    played(places["sqlite"])
    for kind in ("sqlite", "postgres"):
        target = places[kind] / "copy"
        headgate("ledger", "copy", places["sqlite"], target)
        before = rows(target)
        _, err = headgate("ledger", "copy", places["sqlite"], target, code=4)
        assert f"{target}: holds accounts already; choose another place" in err
        assert rows(target) == before


def test_what_does_not_replay_is_not_copied(places):
    played(places["sqlite"])
    change(places["sqlite"], "UPDATE orders SET asked = asked + 1 WHERE round = 3")
    for kind in ("sqlite", "postgres"):
        target = places[kind] / "copy"
        with pytest.raises(LedgerError, match="order of round 3, client 0: asked is"):
            copy(places["sqlite"], target)
        if kind == "sqlite":
            assert list(target.iterdir()) == []
        else:
            assert rows(target)["entries"] == []
        books(target).close()  # nothing is there, so others may begin


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_is_not_there_is_not_copied(places, kind):
    with pytest.raises(HeadgateError, match="holds no "):
        copy(places[kind] / "nothing", places["sqlite"] / "copy")
    assert not (places["sqlite"] / "copy" / "ledger.sqlite").exists()


def test_a_copy_is_read_a_page_at_a_time(places, monkeypatch):
    """Never all rows of a table at once, however many there are."""
    monkeypatch.setattr("headgate.books.session.PAGE", 5)
    monkeypatch.setattr("headgate.books.durable.PAGE", 5)
    monkeypatch.setattr("headgate.books.in_postgres.PAGE", 5)
    found = played(places["sqlite"])
    copy(places["sqlite"], places["postgres"])
    with opened(places["postgres"]) as accounts, accounts.tables.snapshot():
        query = "SELECT round, client FROM orders WHERE account = ?"
        pages = list(accounts.tables._pages(query, (accounts.tables.account,)))
    assert {len(page) for page in pages[:-1]} == {5}
    assert sum(map(len, pages)) == len(found.lines) > 10


def test_a_backup_of_accounts_in_postgres_is_a_file_of_sqlite(
    places, tmp_path, headgate
):
    found = played(places["postgres"])
    file = tmp_path / "backup.sqlite"
    out, _ = headgate("ledger", "backup", places["postgres"], file)
    assert f"{file}: round 7" in out
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert str(shown(file)) == str(found)
    (tmp_path / "restored").mkdir()
    file.rename(tmp_path / "restored" / "ledger.sqlite")
    with books(tmp_path / "restored", offences=3) as own:
        assert str(own.audit()) == str(found)
    copy(tmp_path / "restored", places["postgres"] / "back")
    assert str(shown(places["postgres"] / "back")) == str(found)


def test_every_command_of_the_ledger_takes_an_address(places, tmp_path, headgate):
    place, file = places["postgres"], tmp_path / "orders.csv"
    played(place)
    out, _ = headgate("ledger", "show", place)
    assert "round 7 of 100, 3 clients" in out
    headgate("ledger", "amend", place, "--money", 5, "--by", "anna")
    headgate("ledger", "adjust", place, "--round", 1, "--client", 1, "--amount", 0.5)
    out, _ = headgate("ledger", "export", place, "--out", file)
    assert file.read_text().startswith("round,client,")
    out, _ = headgate("ledger", "upgrade", place)
    assert out == f"{place}: is in today's format already\n"
    with books(place, offences=3) as own, queries(own) as found:
        assert own.audit().amendments[-1].change.adjust == 0.5
    assert found


def test_a_command_on_an_address_without_accounts_makes_none(in_postgres, headgate):
    for words in (("show",), ("amend", "--money", 5), ("export",), ("upgrade",)):
        _, err = headgate("ledger", words[0], in_postgres, *words[1:], code=4)
        assert f"{in_postgres}: holds no accounts" in err
    assert rows(in_postgres) == {}


def test_an_old_copy_is_noticed_by_the_process_that_goes_on(places):
    """In PostgreSQL it can be put back while the accounts are open."""
    place = places["postgres"]
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        old = rows(place)
        own.begin(2.0)
        own.settle()
        change(
            place,
            *(f"DELETE FROM {name} WHERE account <> ''" for name in ("entries",)),
        )
        put_back(place, old["entries"])
        with pytest.raises(
            LedgerError, match=r"is an old copy, or another ledger: entry 5 \(settled"
        ):
            own.begin(2.0)
    assert len(rows(place)["entries"]) == 3
    with pytest.raises(DataError, match="cannot be used here"):
        own.balance()


def put_back(place, entries):
    values = ", ".join("?" for _ in entries[0])
    from headgate.books.addresses import place_of
    from headgate.books.opening import tables_at

    with closing(tables_at(place_of("place", place))) as tables:
        tables._run_each(f"INSERT INTO entries VALUES ({values})", entries)
