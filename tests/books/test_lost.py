"""A ledger that is gone, emptied, old or damaged is noticed; copies are whole, and
reading needs no right to write.
"""

import csv
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from headgate import Books, Delivery
from headgate.books import durable
from headgate.books.anchor import ANCHOR, Anchor
from headgate.books.database import LEDGER
from headgate.books.statement import backup, export, opened, statement
from headgate.control import Amendment
from headgate.control.policies import Headgate
from headgate.errors import DataError, HeadgateError

from .kept import SYSTEM, books, rows


def played(folder, rounds=12):
    """Accounts of some rounds with absences, keys and amendments."""
    draw = np.random.default_rng(0)
    with books(folder) as own:
        while own.ledger.t < rounds:
            orders = own.begin(float(draw.uniform(1, 10)))
            there = [each for each in orders if draw.random() < 0.8]
            keys = {
                each.client: [
                    f"{each.client}-{each.round}-{n}" for n in range(each.samples)
                ]
                for each in there
            }
            own.settle(
                {client: Delivery(len(each), each) for client, each in keys.items()}
            )
            if own.ledger.t % 5 == 0:
                own.amend(money=5.0, by="anna")
        return own.statement()


def refused(folder, said):
    """Books and the commands refuse the accounts in one line, and nothing is bought."""
    before = sorted(path.name for path in folder.iterdir())
    for use in (lambda: books(folder).close(), lambda: shown(folder)):
        with pytest.raises(DataError) as caught:
            use()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    assert sorted(path.name for path in folder.iterdir()) == before


def shown(folder):
    with opened(folder) as store:
        return statement(store)


# gone, emptied, old


def test_a_ledger_that_was_deleted_is_missing(tmp_path):
    played(tmp_path)
    for path in tmp_path.glob(f"{LEDGER}*"):
        path.unlink()
    refused(
        tmp_path,
        f"{LEDGER}: is missing, though its accounts have begun: {ANCHOR} tells of"
        " round 12",
    )


def test_a_ledger_that_was_emptied_is_not_begun_again(tmp_path):
    played(tmp_path)
    (tmp_path / LEDGER).write_bytes(b"")
    for use in (lambda: books(tmp_path), lambda: shown(tmp_path)):
        with pytest.raises(
            DataError,
            match=f"{LEDGER}: (is empty, though its accounts have begun|holds nothing)",
        ):
            use()
    assert not [path for path in tmp_path.glob(LEDGER) if path.stat().st_size]


def test_an_older_copy_is_refused_until_somebody_means_it(tmp_path):
    played(tmp_path, 5)
    shutil.copy(tmp_path / LEDGER, tmp_path / "old")
    played(tmp_path, 12)
    for path in tmp_path.glob(f"{LEDGER}*"):
        path.unlink()
    (tmp_path / "old").rename(tmp_path / LEDGER)
    refused(
        tmp_path,
        f"is an old copy: it knows 5 rounds begun, {ANCHOR} tells of 12; put the newest"
        " copy in its place",
    )
    (tmp_path / ANCHOR).unlink()
    with books(tmp_path) as own:
        assert own.ledger.t == 5


def test_a_copy_without_the_last_amendment_is_old_too(tmp_path):
    played(tmp_path)
    shutil.copy(tmp_path / LEDGER, tmp_path / "old")
    with books(tmp_path) as own:
        own.amend(money=-100.0)
    (tmp_path / "old").replace(tmp_path / LEDGER)
    refused(tmp_path, f"is an old copy: it knows 2 amendments, {ANCHOR} tells of 3")


def test_a_log_that_is_missing_after_a_kill_is_noticed(tmp_path):
    program = (
        "import os, sys; from headgate import Books, System; from"
        " headgate.control.policies import Headgate\n"
        "own = Books(sys.argv[1], System([8, 9, 10], budget=20.0, horizon=100),"
        " Headgate())\n"
        "for _ in range(3): own.begin(3.0); own.settle()\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    (tmp_path / f"{LEDGER}-wal").unlink()
    with pytest.raises(
        DataError, match=f"{LEDGER}: (is empty|is an old copy|holds nothing)"
    ):
        books(tmp_path)


def test_other_accounts_in_its_place_are_refused(tmp_path):
    played(tmp_path / "one")
    played(tmp_path / "two")
    shutil.copy(tmp_path / "two" / LEDGER, tmp_path / "one" / LEDGER)
    refused(tmp_path / "one", f"holds other accounts than {ANCHOR} tells of")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 512, b"{}\n00000000", b"[1]\n", b"x" * 10_000, None]
)
def test_a_damaged_anchor_says_nothing_and_is_written_anew(tmp_path, content):
    played(tmp_path, 3)
    (tmp_path / ANCHOR).unlink()
    if content is not None:
        (tmp_path / ANCHOR).write_bytes(content)
    assert Anchor.of(tmp_path) is None
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
        assert Anchor.of(tmp_path) == (own.name, 4, 4, 0)


def test_an_anchor_that_cannot_be_written_stops_nothing(tmp_path):
    played(tmp_path, 3)
    (tmp_path / ANCHOR).unlink()
    (tmp_path / ANCHOR).symlink_to(tmp_path / "elsewhere")
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()
    assert not (tmp_path / "elsewhere").exists()


# copies


def test_a_backup_is_whole_where_a_plain_copy_is_empty(tmp_path, headgate):
    with books(tmp_path / "accounts") as own:
        for _ in range(3):
            own.begin(3.0)
            own.settle()
        own.begin(2.0)
        (tmp_path / "plain").mkdir()
        shutil.copy(tmp_path / "accounts" / LEDGER, tmp_path / "plain" / LEDGER)
        out, _ = headgate(
            "ledger", "backup", tmp_path / "accounts", tmp_path / "copy.sqlite"
        )
        found = own.backup(str(tmp_path / "again.sqlite"))
        assert found.rounds == own.ledger.t == 3
        before = own.statement()
    assert out.startswith(
        f"{tmp_path / 'copy.sqlite'}: round 3, 12 orders, spent {before.spent:.2f}"
    )
    with pytest.raises(DataError, match="holds nothing"):
        shown(tmp_path / "plain")
    for name in ("copy", "again"):
        folder = tmp_path / name
        folder.mkdir()
        (tmp_path / f"{name}.sqlite").rename(folder / LEDGER)
        assert (folder / LEDGER).stat().st_mode & 0o777 == 0o600
        with books(folder) as own:
            assert own.audit()[:2] + own.audit()[3:] == before[:2] + before[3:]
            assert own.begin(9.0)[0].price == 2.0, "the open round, at its own price"
            own.settle()
    assert not list(tmp_path.glob("*-wal"))


def test_a_backup_is_written_whole_or_not_at_all(tmp_path):
    played(tmp_path / "accounts", 3)
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with books(tmp_path / "accounts") as own:
        for file, said in (
            (tmp_path / "link", "is a link; nothing is written through it"),
            (tmp_path, "is no plain file; nothing is written there"),
            (tmp_path / "accounts" / LEDGER, "is the ledger itself; name another file"),
            (tmp_path / "no" / "folder", "cannot be"),
        ):
            with pytest.raises(DataError, match=said):
                own.backup(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accounts", "link"]


# reading without a right to write


READ_ONLY = """
mount -t tmpfs tmpfs {folder} && cp -a {source} {folder}/accounts || exit 77
mount -o remount,ro {folder} || exit 77
{python} -m headgate.cli ledger show {folder}/accounts || exit 1
{python} -m headgate.cli ledger export {folder}/accounts --out {out}
"""


@pytest.mark.parametrize(
    "killed", ["", "killed", "killed, and copied without SQLite's index"]
)
def test_accounts_on_a_disk_that_cannot_be_written_are_shown_and_exported(
    tmp_path, killed
):
    source, folder, out = (
        tmp_path / "accounts",
        tmp_path / "mounted",
        tmp_path / "orders.csv",
    )
    folder.mkdir()
    with books(source) as own:
        own.begin(3.0)
        own.settle()
        spent = own.statement().spent
        if killed:  # what is in the log alone
            shutil.copytree(source, tmp_path / "killed")
    if "without" in killed:
        (tmp_path / "killed" / f"{LEDGER}-shm").unlink()
    given = {
        "folder": folder,
        "source": tmp_path / "killed" if killed else source,
        "python": sys.executable,
        "out": out,
    }
    try:
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                "--map-root-user",
                "sh",
                "-c",
                READ_ONLY.format(**given),
            ],
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 0, done.stderr
    assert "round 1 of 100" in done.stdout
    with out.open() as file:
        assert sum(Decimal(row["paid"]) for row in csv.DictReader(file)) == spent


def test_showing_writes_nothing(tmp_path, headgate):
    played(tmp_path, 3)
    before = {
        path.name: (path.stat().st_mtime_ns, path.stat().st_mode)
        for path in tmp_path.iterdir()
    }
    headgate("ledger", "show", tmp_path)
    headgate("ledger", "export", tmp_path, "--out", "-")
    assert {
        path.name: (path.stat().st_mtime_ns, path.stat().st_mode)
        for path in tmp_path.iterdir()
    } == before


# damage


def damaged(content, draw):
    """The bytes of a ledger after one accident."""
    own, size = bytearray(content), len(content)
    place, page = draw.randrange(size), draw.randrange(size // 4096) * 4096
    kind = draw.choice(["cut", "bits", "bytes", "page", "zeros", "text"])
    if kind == "cut":
        del own[place:]
    elif kind == "bits":
        for _ in range(draw.choice([1, 3, 20])):
            own[draw.randrange(size)] ^= 1 << draw.randrange(8)
    elif kind == "bytes":
        own[place : place + 100] = draw.randbytes(len(own[place : place + 100]))
    elif kind == "page":
        own[page : page + 4096] = own[:4096]
    elif kind == "zeros":
        own[page : page + 4096] = bytes(4096)
    else:
        found = own.find(
            draw.choice(
                [b"amendments", b"headgate", b"{", b"202", b"CREATE", b"money"]
            ),
            place,
        )
        own[max(found, 0)] ^= 0x55
    return bytes(own)


def test_a_damaged_ledger_is_one_line_and_never_another_sum(tmp_path):
    spent = played(tmp_path / "whole", 40).spent
    content, draw, told = (
        (tmp_path / "whole" / LEDGER).read_bytes(),
        random.Random(45),
        [],
    )
    for case in range(100):
        folder = tmp_path / str(case)
        folder.mkdir()
        (folder / LEDGER).write_bytes(damaged(content, draw))
        shutil.copy(tmp_path / "whole" / ANCHOR, folder)
        try:
            assert shown(folder).spent == spent
        except HeadgateError as error:
            told.append(str(error))
        try:
            with books(folder) as own:
                assert own.audit().spent == spent
        except HeadgateError as error:
            told.append(str(error))
        shutil.rmtree(folder)
    assert not [line for line in told if "\n" in line or not line]
    assert 70 < len(told) < 190, (
        "some accidents are refused, some hit what is never read"
    )


def test_a_damaged_ledger_is_one_line_on_the_command_line(tmp_path, headgate):
    played(tmp_path, 20)
    content = bytearray((tmp_path / LEDGER).read_bytes())
    content[4096 * 2 :] = os.urandom(len(content) - 4096 * 2)
    (tmp_path / LEDGER).write_bytes(content)
    for command in ("show", "export"):
        _, err = headgate("ledger", command, tmp_path, code=4)
        assert err.count("\n") == 1
        assert "is damaged" in err


# the export


KEYS = ["=cmd|' /C calc'!A0", "a b", "a", "b", '"quoted"', "comma,", "+1", "@x"]


def test_no_key_is_a_formula_and_two_keys_are_not_one(place, tmp_path):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: Delivery(8, KEYS), 1: Delivery(2, ["a", "b"]), 2: 3})
        found = own.statement()
    for kind in ("csv", "json", "parquet"):
        export(found, tmp_path / f"orders.{kind}", kind)
    with (tmp_path / "orders.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [sorted(json.loads(line["keys"] or "[]")) for line in lines] == [
        sorted(KEYS),
        ["a", "b"],
        [],
    ]
    assert not [
        cell for line in lines for cell in line.values() if cell[:1] in ("=", "+", "@")
    ]
    assert [
        line["keys"]
        for line in json.loads((tmp_path / "orders.json").read_text())["lines"]
    ] == [
        sorted(KEYS),
        ["a", "b"],
        [],
    ]
    assert pl.read_parquet(tmp_path / "orders.parquet")["keys"].to_list() == [
        sorted(KEYS),
        ["a", "b"],
        [],
    ]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_an_export_is_written_whole_or_not_at_all(tmp_path, headgate, kind):
    played(tmp_path / "accounts", 3)
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    for out, said in (
        ("/dev/full", "is no plain file"),
        (tmp_path / "link", "is a link"),
        (tmp_path / "no" / "where", "cannot be"),
    ):
        _, err = headgate(
            "ledger",
            "export",
            tmp_path / "accounts",
            "--format",
            kind,
            "--out",
            out,
            code=4,
        )
        assert said in err
        assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accounts", "link"]
    headgate(
        "ledger",
        "export",
        tmp_path / "accounts",
        "--format",
        kind,
        "--out",
        tmp_path / "orders",
    )
    assert (tmp_path / "orders").stat().st_size > 0


def test_an_export_to_a_full_disk_leaves_the_last_one(tmp_path, monkeypatch):
    played(tmp_path / "accounts", 3)
    found, path = shown(tmp_path / "accounts"), tmp_path / "orders.csv"
    path.write_text("the last one")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        DataError, match=r"cannot be written \(No space left on device\)"
    ):
        export(found, path, "csv")
    monkeypatch.undo()
    assert path.read_text() == "the last one"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "accounts",
        "orders.csv",
    ]


def test_a_folder_that_holds_no_accounts_is_told_so(tmp_path, headgate):
    for command in (
        ("show",),
        ("export",),
        ("amend", "--money", 5),
        ("backup", tmp_path / "x"),
    ):
        name, *more = command
        _, err = headgate("ledger", name, tmp_path, *more, code=4)
        assert "holds no ledger.sqlite" in err
    assert list(tmp_path.iterdir()) == []


def test_the_ledger_is_never_reached_through_a_link(tmp_path):
    played(tmp_path / "accounts", 3)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / LEDGER).symlink_to(tmp_path / "accounts" / LEDGER)
    before = rows(tmp_path / "accounts")
    for use in (lambda: books(tmp_path / "other"), lambda: shown(tmp_path / "other")):
        with pytest.raises(DataError, match=r"cannot be opened|is a link"):
            use()
    assert rows(tmp_path / "accounts") == before


def test_a_commit_is_on_disk_when_it_returns(tmp_path):
    """In a process of its own: tests of Flower switch it off."""
    program = (
        "import sys; from headgate import Books, System; from"
        " headgate.control.policies import Headgate\n"
        "own = Books(sys.argv[1], System([8], budget=20.0, horizon=9), Headgate())\n"
        "run = own._journal.tables._db.execute\n"
        "print([run(f'PRAGMA {name}').fetchone()[0] for name in ('synchronous',"
        " 'journal_mode')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[2, 'wal']\n", "2 is FULL"


def test_a_file_of_another_kind_is_told_so(tmp_path):
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db, db:
        db.execute("CREATE TABLE meta (key TEXT, value TEXT)")
        db.execute("INSERT INTO meta VALUES ('format', 'something else')")
    with pytest.raises(
        DataError, match="holds something else, expected headgate ledger 4"
    ):
        Books(tmp_path, SYSTEM, Headgate())


def test_a_backup_is_judged_by_itself_wherever_it_is_written(tmp_path, headgate):
    """Into the accounts' own folder while a run goes on, and beside other accounts."""
    played(tmp_path / "other", 9)
    with books(tmp_path / "accounts") as own:
        own.begin(3.0)
        own.settle()
        with opened(tmp_path / "accounts") as store:
            own.begin(2.0)
            own.settle()
            assert backup(store, tmp_path / "accounts" / "copy.sqlite").rounds == 1
        headgate(
            "ledger",
            "backup",
            tmp_path / "accounts",
            tmp_path / "other" / "copy.sqlite",
        )
    assert not list(tmp_path.glob("*/*.partial"))


@pytest.mark.parametrize("name", ["with space", "a?b#c%20d", "ünïcode", "-dash"])
def test_a_folder_may_have_any_name(tmp_path, headgate, name):
    folder = tmp_path / name
    spent = played(folder, 2).spent
    assert shown(folder).spent == spent
    headgate("ledger", "backup", folder, tmp_path / "copy.sqlite")


def test_a_folder_whose_name_is_no_text_is_shown(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    spent = played(folder, 2).spent
    assert shown(folder).spent == spent


def test_an_anchor_that_is_a_pipe_stops_nothing(tmp_path):
    played(tmp_path, 2)
    (tmp_path / ANCHOR).unlink()
    os.mkfifo(tmp_path / ANCHOR)
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle()


@pytest.mark.parametrize("closed", [False, True], ids=["still open", "closed again"])
def test_what_is_written_while_a_file_is_read_without_locks_is_read_again(
    tmp_path, monkeypatch, closed
):
    played(tmp_path, 3)
    usual, writer = durable._connected, ExitStack()

    class Slow:
        """A connection during whose use somebody plays a round."""

        def __init__(self, path, mode):
            self.file, self.close = (file := usual(path, mode)), file.close

        def backup(self, memory):
            self.file.backup(memory)
            monkeypatch.undo()
            own = writer.enter_context(books(tmp_path))
            own.begin(3.0)
            own.settle()
            if closed:
                writer.close()

    monkeypatch.setattr(durable, "_connected", Slow)
    with writer:
        assert shown(tmp_path).rounds == 4


def test_accounts_that_go_on_while_they_are_read_are_no_old_copy(tmp_path, monkeypatch):
    played(tmp_path, 3)
    usual = durable._in_memory

    def slow(path):
        found = usual(path)
        with books(tmp_path) as own:
            own.begin(3.0)
            own.settle()
        return found

    monkeypatch.setattr(durable, "_in_memory", slow)
    assert shown(tmp_path).rounds == 3
    monkeypatch.undo()
    assert shown(tmp_path).rounds == 4


def test_what_was_opened_for_reading_is_not_written(tmp_path):
    played(tmp_path, 3)
    with opened(tmp_path) as store:
        for write in (
            lambda: store.write("lifted", {"client": 0, "after": 3}),
            lambda: store.amend(Amendment(money=5.0), "anna", ""),
            lambda: store.adjust(1, 0, Decimal(1), "anna", ""),
        ):
            with pytest.raises(
                DataError, match=r"was opened for reading; nothing can be written"
            ):
                write()


def test_a_file_with_a_trigger_is_refused(tmp_path):
    """It would change rows behind the accounts' back."""
    played(tmp_path, 3)
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db, db:
        db.execute(
            "CREATE TRIGGER cheaper AFTER INSERT ON orders BEGIN UPDATE orders SET"
            " price = 0; END"
        )
    refused(tmp_path, "holds triggers or views, which no file of headgate does")


def test_a_ledger_that_others_may_read_becomes_its_owners_alone(tmp_path):
    played(tmp_path, 3)
    (tmp_path / LEDGER).chmod(0o644)
    books(tmp_path).close()
    assert (tmp_path / LEDGER).stat().st_mode & 0o777 == 0o600


def test_a_copy_from_before_the_last_round_was_settled_is_old_too(tmp_path):
    with books(tmp_path / "accounts") as own:
        own.begin(3.0)
        own.backup(tmp_path / "old")
        own.settle()
    for path in (tmp_path / "accounts").glob(f"{LEDGER}*"):
        path.unlink()
    (tmp_path / "old").rename(tmp_path / "accounts" / LEDGER)
    refused(
        tmp_path / "accounts",
        f"is an old copy: it knows 0 rounds settled, {ANCHOR} tells of 1",
    )


def test_an_anchor_of_which_a_digit_changed_says_nothing(tmp_path):
    played(tmp_path, 3)
    content = (tmp_path / ANCHOR).read_text()
    (tmp_path / ANCHOR).write_text(content.replace('"begun": 3', '"begun": 7'))
    assert Anchor.of(tmp_path) is None
    books(tmp_path).close()


def test_a_backup_on_a_full_disk_leaves_the_last_one(tmp_path, monkeypatch):
    played(tmp_path / "accounts", 3)
    file = tmp_path / "copy.sqlite"
    file.write_text("the last one")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with books(tmp_path / "accounts") as own:
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(
            DataError, match=r"cannot be written \(No space left on device\)"
        ):
            own.backup(file)
        monkeypatch.undo()
        assert file.read_text() == "the last one"
        assert sorted(each.name for each in tmp_path.iterdir()) == [
            "accounts",
            "copy.sqlite",
        ]
        own.backup(file)
    assert file.read_bytes()[18:20] == b"\1\1", (
        "by SQLite's format: one that needs no log, also where nothing can be written"
    )


def test_no_text_of_an_export_is_a_formula(place, tmp_path):
    with books(place, currency="=1+1") as own:
        own.begin(3.0)
        own.settle()
        export(own.statement(), tmp_path / "orders.csv", "csv")
    with (tmp_path / "orders.csv").open(newline="") as file:
        assert {line["currency"] for line in csv.DictReader(file)} == {"'=1+1"}


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path):
    played(tmp_path, 3)
    before = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / ".orders.csv.12345678.partial").write_text("half")
    (tmp_path / ".copy.12345678.partial").mkdir()
    books(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
