"""A disk that is full or cannot be written is said so in one line, and the run goes on once there is room."""

import resource
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from worlds import World, an_experiment

from headgate.books.ledger_store import Event, LedgerStore
from headgate.errors import DataError
from headgate.flower.buffer_store import BufferStore

ROUNDS = 4


@contextmanager
def no_file_longer_than(size):
    """As on a disk with a quota: what would make a file longer fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_run_whose_disk_fills_up_says_so_and_goes_on(tmp_path):
    said = []
    for size in (0, 100, 700, 3_000, 9_000, 33_000, 40_000, 60_000, 90_000):
        world = World(tmp_path / str(size), an_experiment("fifo", ROUNDS))
        try:
            with no_file_longer_than(size):
                world.play()
        except DataError as error:
            said.append(str(error))
        world.play()
        assert world.audit().t == ROUNDS
        assert world.events("rejected", "quarantined") == []
    assert len(said) >= 5
    for line in said:
        assert "\n" not in line
        assert "cannot be written (" in line
        assert "is not a file of" not in line


def test_a_ledger_without_room_keeps_what_it_has(tmp_path):
    with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store:
        store.note([Event(1, 0, "late", "before")])
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DataError, match=r"ledger\.sqlite: cannot be written \(database or disk is full\); once it can"):
            store.note([Event(1, 0, "late", "x" * 200) for _ in range(500)])
        store._db.execute("PRAGMA max_page_count = 10000")
        store.note([Event(1, 0, "late", "after")])
        assert [event.reason for event in store.events()] == ["before", "after"]


@pytest.mark.parametrize("name", ["FULL", "IOERR_WRITE", "READONLY", "BUSY", "CANTOPEN", "NOTADB", "CORRUPT"])
def test_what_sqlite_says_is_told_apart(name, tmp_path):
    error = sqlite3.OperationalError("as SQLite says")
    error.sqlite_errorname = f"SQLITE_{name}"
    reason = "is not a file of headgate ledger store 3" if name in ("NOTADB", "CORRUPT") else "cannot be written"
    with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store, pytest.raises(DataError, match=reason), store.transaction():
        raise error


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of open files here")
def test_a_store_that_cannot_be_opened_leaves_no_file_open(tmp_path, monkeypatch):
    def fails(store, key, value):
        raise DataError("there is no room")

    monkeypatch.setattr("headgate.books.durable.Durable._fixed", fails)
    kept = []
    for make in (LedgerStore, lambda path: BufferStore(path, 0)):
        try:
            make(tmp_path / "store.sqlite")
        except DataError as error:
            kept.append(error)  # as a log would, with all that its frames hold
    assert len(kept) == 2
    assert not [path for path in open_files() if path.startswith(str(tmp_path))]


def open_files():
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            yield str(each.readlink())
