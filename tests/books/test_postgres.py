"""What PostgreSQL adds: one who leads and one who waits, connections that are lost,
users with rights, and passwords.
"""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from headgate import Books
from headgate.books.addresses import Address, place_of
from headgate.books.in_postgres import ServedTables
from headgate.books.opening import tables_at
from headgate.books.statement import opened, statement
from headgate.control.policies import Headgate
from headgate.errors import DataError, HeadgateError, SettingError
from tests.cluster import GUARDED, PASSWORD
from tests.wire import Wire

from . import gate
from .kept import SYSTEM, InPostgres, begun, books, change, in_schema, rows

GATE = Path(__file__).with_name("gate.py")


def gated(place):
    return Books(place, gate.SYSTEM, Headgate(fill=8.0))


@contextmanager
def started(*words):
    command = [sys.executable, GATE, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process):
    return [json.loads(line) for line in process.stdout]


# one who leads


def test_of_two_gates_one_takes_up_the_round_of_the_other_at_its_price(place):
    """Sixty rounds, each begun by one gate alone, though each sees other prices."""
    with started(place, gate.ROUNDS, 1, 30) as first:
        assert json.loads(first.stdout.readline()) == {"leads": 1}
        with started(place, gate.ROUNDS, 2) as second:
            of_first = told(first)
            assert first.wait() == -signal.SIGKILL
            killed = time.monotonic()
            assert json.loads(second.stdout.readline()) == {"leads": 30}
            assert time.monotonic() - killed < 20
            *of_second, sums = told(second)
    assert [each["round"] for each in of_first] == list(range(1, 31))
    assert [each["round"] for each in of_second] == list(range(30, 61))
    assert of_second[0] == of_first[-1]
    with gated(place) as again:
        found = again.audit()
    assert sums == {"spent": str(found.spent), "rounds": 60}
    prices = {each["round"]: each["price"] for each in of_first + of_second}
    assert {line.round: float(line.price) for line in found.lines if line.asked} == {
        t: price
        for t, price in prices.items()
        if any(line.round == t for line in found.lines)
    }
    kinds = [row[3] for row in rows(place)["entries"]]
    assert (kinds.count("begun"), kinds.count("settled")) == (60, 60)


def test_who_waits_is_refused_after_that_time(place):
    with books(place):
        before = time.monotonic()
        with pytest.raises(DataError, match=r"is in use by another process"):
            Books(place, SYSTEM, Headgate(fill=8.0), wait=0.5)
        assert time.monotonic() - before >= 0.5
    books(place).close()


@pytest.mark.parametrize("wait", [-1.0, "long", float("nan"), None])
def test_a_time_that_is_none_is_refused(place, wait):
    with pytest.raises(SettingError, match="Books: wait = "):
        Books(place / "accounts", SYSTEM, Headgate(), wait=wait)
    assert not begun(place / "accounts")


def test_accounts_of_one_database_do_not_know_each_other(in_postgres):
    one, other = in_postgres / "one", in_postgres / "other"
    with books(one) as first, books(other) as second:
        first.begin(3.0)
        second.begin(2.0)
        first.settle()
        assert second.balance().spent == 0
        second.settle({0: 1})
        assert (first.audit().spent, second.audit().spent) == (81, 2)
        assert first.name != second.name


# connections


def end_sessions(place):
    """End all other sessions, as an administrator does."""
    with in_schema(place) as db:
        return db.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
            " application_name = 'headgate' AND pid <> pg_backend_pid() AND pid = ANY("
            " SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid ="
            " %s::bigint & 4294967295)",
            (key_of(place),),
        ).fetchone()[0]


def key_of(place):
    with closing(tables_at(place_of("place", place), writes=False)) as tables:
        return tables._key("lead") % 2**32


def test_a_session_that_was_ended_between_two_calls_is_opened_again(in_postgres):
    with books(in_postgres) as own:
        bought = own.begin(3.0)
        assert end_sessions(in_postgres) == 1
        assert own.balance().reserved == 81
        assert end_sessions(in_postgres) == 1
        assert own.begin(5.0) == bought
        assert end_sessions(in_postgres) == 1
        own.settle()
        assert own.audit().spent == 81
        with pytest.raises(DataError, match="is in use by another process"):
            books(in_postgres)


def test_a_session_that_is_ended_within_a_call_writes_nothing(in_postgres, monkeypatch):
    usual = ServedTables.put_orders

    def ended(tables, orders):
        monkeypatch.undo()
        end_sessions(in_postgres)
        usual(tables, orders)

    with books(in_postgres) as own:
        before = rows(in_postgres)
        monkeypatch.setattr(ServedTables, "put_orders", ended)
        with pytest.raises(DataError, match=r"cannot be written .* the run goes on"):
            own.begin(3.0)
        assert rows(in_postgres) == before
        assert own.begin(2.0)[0].price == 2.0
        own.settle()
        assert own.audit().spent == 54


def test_who_was_cut_off_does_not_lead_beside_another(in_postgres, monkeypatch):
    monkeypatch.setattr("headgate.books.in_postgres.PATIENCE", 0.5)
    with books(in_postgres) as own:
        bought = own.begin(3.0)
        end_sessions(in_postgres)
        with books(in_postgres) as other:
            with pytest.raises(DataError, match="is in use by another process"):
                own.settle()
            assert other.begin(9.0) == bought
            other.settle({0: 1, 1: 1, 2: 1})
        own.begin(2.0)
        own.settle()
        assert own.audit().spent == 47


@contextmanager
def wired(place, **hooks):
    """A place behind a wire."""
    start, _, rest = place.partition("@")
    host, _, path = rest.partition("/")
    with closing(Wire(int(host.rpartition(":")[2]), **hooks)) as wire:
        yield wire, InPostgres(f"{start}@127.0.0.1:{wire.port}/{path}")


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("call", ["begin", "settle", "amend"])
def test_a_connection_that_is_lost_during_a_commit_is_looked_into(
    in_postgres, call, done
):
    """The commit is lost on its way, or the answer to it is: a call that was done
    returns, one that was not says so, and both ways the next call goes on.
    """
    with wired(in_postgres) as (wire, place), books(place) as own:
        own.begin(3.0)
        own.settle()
        if call == "settle":
            own.begin(2.0)
        before = len(rows(in_postgres)["entries"])
        cuts_at(wire, b"COMMIT", done)
        calls = {
            "begin": lambda: own.begin(2.0),
            "settle": lambda: own.settle(round=2),
            "amend": lambda: own.amend(money=5.0),
        }
        if done:
            calls[call]()
        else:
            with pytest.raises(DataError, match=r"cannot be written .*; once it can"):
                calls[call]()
        after = len(rows(in_postgres)["entries"])
        assert after - before == done
        if not done:
            calls[call]()
        if call != "settle":
            own.begin(2.0)
            own.settle()
        assert own.audit().spent == 119
        assert own.audit().approved == (2005 if call == "amend" else 2000)


def cuts_at(wire, word, done):
    """Cut a wire once, at a statement of the client or at the answer to it."""
    seen = []

    def before(piece):
        if word in piece and not seen:
            seen.append(piece)
            return not done
        return False

    def after(piece):
        if done and len(seen) == 1:
            seen.append(piece)
            return True
        return False

    wire.before, wire.after = before, after


def test_while_the_outcome_cannot_be_looked_into_it_is_not_known(
    in_postgres, monkeypatch
):
    monkeypatch.setattr("headgate.books.in_postgres.PATIENCE", 0.5)
    with wired(in_postgres) as (wire, place), books(place) as own:
        own.begin(3.0)
        cuts_at(wire, b"COMMIT", True)
        after = wire.after

        def shuts(piece):
            wire.is_open = wire.is_open and not after(piece)
            return not wire.is_open

        wire.after = shuts
        with pytest.raises(
            DataError, match="whether entry 3 was written is not known; repeat"
        ):
            own.settle(round=1)
        wire.is_open = True
        own.settle(round=1)
        assert own.audit().spent == 81


def test_a_wire_that_is_cut_at_any_moment_loses_and_doubles_nothing(in_postgres):
    """Rounds, while the connection is cut again and again."""
    with wired(in_postgres) as (wire, place), books(place) as own:
        going, cuts, moments = [True], 0, random.Random(3)

        def cut():
            nonlocal cuts
            while going:
                time.sleep(moments.uniform(0.05, 0.4))
                wire.cut()
                cuts += 1

        thread = Thread(target=cut)
        thread.start()
        try:
            t = 0
            while cuts < 6 or t < 20:
                t += 1
                there = [0, 2] if t <= 50 else []  # the horizon is 100
                until_done(lambda there=there: own.begin(3.0, there))
                until_done(lambda t=t: own.settle(round=t))
        finally:
            going.clear()
            thread.join()
        found = until_done(own.audit)
    assert found.rounds == t >= 20
    kinds = [row[3] for row in rows(in_postgres)["entries"]]
    assert (kinds.count("begun"), kinds.count("settled")) == (t, t)


def until_done(call):
    for _ in range(200):
        try:
            return call()
        except DataError as error:
            last = error
    raise last


# the server


def test_a_server_that_is_killed_and_started_again_loses_nothing(own_server):
    place = InPostgres(f"{own_server.address}/killed")
    with books(place) as own:
        bought = own.begin(3.0)
        own_server.kill()
        own_server.start()
        assert until_done(lambda: own.begin(9.0)) == bought
        own.settle(round=1)
        own_server.kill()
        own_server.start()
        until_done(lambda: own.settle(round=1))
        assert own.audit().spent == 81
    with books(place) as again:
        assert again.audit().rounds == 1


def test_a_dump_that_is_restored_is_the_same_account(own_server):
    """With the programs of PostgreSQL, while the accounts are in use."""
    place, file = InPostgres(f"{own_server.address}/clinic"), own_server.folder / "dump"
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        own_server.call(
            "pg_dump", "--schema=clinic", "--format=custom", f"--file={file}"
        )
        own.begin(2.0)
        own.settle()
    own_server.psql("CREATE DATABASE restored")
    own_server.call("pg_restore", "--no-owner", "--dbname=restored", file)
    restored = place.replace("/accounts/", "/restored/")
    with books(restored) as own:
        assert own.audit().spent == 81
        own.begin(2.0)
        own.settle()
        found = own.audit()
    with opened(place) as accounts:
        assert statement(accounts).spent == found.spent


def test_a_full_disk_of_the_server_ends_one_call(in_postgres):
    """A trigger says what the server says then."""
    with books(in_postgres) as own:
        own.begin(3.0)
        before = rows(in_postgres)
        change(
            in_postgres,
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE ="
            " '53100'; END$$",
            "CREATE TRIGGER full_disk BEFORE UPDATE ON orders EXECUTE FUNCTION"
            " full_disk()",
        )
        with pytest.raises(
            DataError,
            match=r"cannot be written \(No space left on device.*\); once it can, the"
            " run goes on",
        ):
            own.settle()
        assert rows(in_postgres) == before
        change(in_postgres, "DROP TRIGGER full_disk ON orders")
        own.settle()
        assert own.audit().spent == 81


# addresses and passwords


WRONG = {
    "postgresql://host/accounts": "must be postgresql://",
    "postgresql://host": "must be postgresql://",
    "postgresql://host:port/accounts/clinic": "must be postgresql://",
    "postgresql://host/accounts/a/b": "the account is a/b; it must be",
    "postgresql://host/accounts/pg_toast": "the account is pg_toast",
    "postgresql://host/accounts/public": "the account is public",
    'postgresql://host/accounts/a"b': "the account is a",
    "postgresql://host/accounts/" + "a" * 64: "it must be at most 63",
}


@pytest.mark.parametrize("address", WRONG)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(SettingError) as error:
        books(address)
    assert "Books: folder = postgresql://host" in str(error.value)
    assert WRONG[address] in str(error.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://anna:s3cr3t@host",
        "postgresql://anna:s3cr3t/1@host/accounts/clinic",
        "postgresql://anna:p@s3cr3t@host/accounts/pg_x",
        "postgresql://anna:s3cr3t:1@host:port/accounts/clinic",
        "postgresql://host/accounts?password=s3cr3t",
    ],
)
def test_no_error_about_an_address_has_its_password(address):
    with pytest.raises(SettingError) as error:
        books(address)
    assert "s3cr3t" not in str(error.value)
    assert "***" in str(error.value)


def test_an_address_is_shown_without_its_password_and_settings():
    found = Address.of(
        "name", "postgres://anna:s3cr3t@h:5433/db/clinic?sslmode=require"
    )
    assert str(found) == "postgresql://anna@h:5433/db/clinic"
    assert "s3cr3t" not in repr(found)
    assert found.settings == {
        "user": "anna", "password": "s3cr3t", "host": "h", "port": "5433",
        "dbname": "db", "sslmode": "require",
    }  # fmt: skip


def test_a_password_is_in_no_error_statement_or_log(own_server, monkeypatch, headgate):
    monkeypatch.setenv("HOME", str(own_server.folder))  # no file with passwords
    own_server.psql("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()")
    plain = own_server.address.replace("headgate@", f"{GUARDED}@")
    secret = plain.replace("@", f":{quote(PASSWORD, safe='')}@")
    wrong = plain.replace("@", ":0ther5ecret@")
    said = []
    for address in (plain, wrong):
        with pytest.raises(HeadgateError) as error:
            books(f"{address}/careful")
        said.append(str(error.value))
        _, err = headgate("ledger", "show", f"{address}/careful", code=4)
        said.append(err)
    with books(f"{secret}/careful") as own:
        own.begin(3.0)
        own.settle()
        assert str(own._journal.path) == f"{plain}/careful"
        with pytest.raises(DataError) as error:
            books(f"{secret}/careful")
        said.append(str(error.value))
    out, _ = headgate("ledger", "show", f"{secret}/careful")
    said += [out, (own_server.folder / "log").read_text()]
    for each in said:
        assert PASSWORD not in each
        assert quote(PASSWORD, safe="") not in each
        assert "0ther5ecret" not in each
    assert all("careful: cannot be opened (" in each for each in said[:4])
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with books(f"{plain}/careful") as own:
        assert own.audit().spent == 81
    monkeypatch.delenv("PGPASSWORD")
    file = own_server.folder / "passwords"
    escaped = PASSWORD.replace(":", r"\:")
    file.write_text(f"*:*:*:*:{escaped}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    with opened(f"{plain}/careful") as accounts:
        assert statement(accounts).spent == 81


def test_who_may_only_read_shows_and_exports(own_server, headgate, tmp_path):
    place = f"{own_server.address}/shared"
    with books(place) as own:
        own.begin(3.0)
        own.settle()
    own_server.psql(
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA shared TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA shared TO reader",
        database="accounts",
    )
    reader = place.replace("headgate@", "reader@")
    out, _ = headgate("ledger", "show", reader)
    assert "spent 81.00" in out
    headgate("ledger", "export", reader, "--out", tmp_path / "orders.csv")
    headgate("ledger", "backup", reader, tmp_path / "copy.sqlite")
    _, err = headgate("ledger", "amend", reader, "--money", 5, code=4)
    assert "cannot be written (permission denied" in err
    with pytest.raises(DataError, match=r"cannot be written \(permission denied"):
        books(place.replace("headgate@", "reader@").replace("shared", "new"))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE theirs (a INT)", "holds tables, which are none of headgate"),
        ("UPDATE meta SET value = 'headgate ledger 9'", "holds headgate ledger 9, exp"),
        ("CREATE VIEW more AS SELECT 1", "holds triggers, views or rules"),
        ("CREATE RULE more AS ON INSERT TO orders DO NOTHING", "holds triggers, views"),
        ("ALTER TABLE orders ENABLE ROW LEVEL SECURITY", "holds triggers, views or"),
        ("ALTER TABLE samples DROP COLUMN why", "is damaged"),
        ("ALTER TABLE orders ALTER COLUMN asked TYPE TEXT", "is damaged"),
        ("DELETE FROM entries", "entry 1 is missing"),
    ],
)
def test_a_schema_that_is_none_of_accounts_is_refused(in_postgres, statement, said):
    if "theirs" in statement:
        with in_schema(in_postgres) as db:
            name = in_postgres.rpartition("/")[2]
            db.execute(f'CREATE SCHEMA "{name}"')
            db.execute(f'CREATE TABLE "{name}".theirs (a INT)')
    else:
        with books(in_postgres) as own:
            own.begin(3.0)
            own.settle()
        change(in_postgres, statement)
    for use in (books, lambda place: opened(place).__enter__()):
        with pytest.raises(HeadgateError) as error:
            use(in_postgres)
        assert said in str(error.value)


def test_tables_that_came_with_a_later_version_are_added(in_postgres, headgate):
    with books(in_postgres) as own:
        own.begin(3.0)
        own.settle()
    change(in_postgres, "DROP TABLE answers", "DROP TABLE snapshots")
    _, err = headgate("ledger", "show", in_postgres, code=4)
    assert f"`headgate ledger upgrade {in_postgres}` adds them" in err
    headgate("ledger", "upgrade", in_postgres)
    headgate("ledger", "show", in_postgres)
    with books(in_postgres) as own:
        assert own.audit().spent == 81
    assert {"answers", "snapshots"} < rows(in_postgres).keys()


def test_values_of_another_type_are_refused_by_both_databases(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
    before = rows(place)
    with closing(tables_at(place_of("place", place))) as tables:
        for value in (6.5, "six", None, -1):
            with pytest.raises(DataError, match="refuses a value"):
                tables._run("UPDATE orders SET delivered = ?", (value,))
    assert rows(place) == before


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "headgate.books.in_postgres")
    with pytest.raises(SettingError, match=r"pip install 'headgate\[postgres\]'"):
        books("postgresql://host/accounts/clinic")


def test_a_server_that_is_not_there_is_one_line(monkeypatch):
    with pytest.raises(
        DataError, match=r"clinic: cannot be opened \(.*refused"
    ) as error:
        books("postgresql://anna:s3cr3t@127.0.0.1:9/accounts/clinic")
    assert "refused" in str(error.value)
    assert "\n" not in str(error.value)
    assert "s3cr3t" not in str(error.value)


def test_an_old_postgresql_or_another_encoding_is_refused(own_server, monkeypatch):
    own_server.psql(
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    )
    latin = own_server.address.replace("/accounts", "/latin")
    with pytest.raises(DataError, match="the encoding of the database is not UTF8"):
        books(f"{latin}/clinic")
    monkeypatch.setattr("headgate.books.in_postgres.OLDEST", 10**7)
    with pytest.raises(DataError, match="is older than PostgreSQL 12"):
        books(f"{own_server.address}/clinic")
