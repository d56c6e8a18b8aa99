"""What a run on Flower keeps is for its owner's eyes; a disk that is full is said so in
one line, and the run goes on.
"""

import os
import re
import resource
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from worlds import World, an_experiment

from headgate.books.database import LEDGER
from headgate.books.in_file import FileTables
from headgate.errors import DataError
from headgate.flower import run_folder
from headgate.flower.buffer_store import BufferStore
from headgate.flower.strategy import AdmissionStrategy

ROUNDS = 4


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return os.stat(path).st_mode & 0o777


def test_buffers_and_ledger_are_their_owners_alone(tmp_path, usual_umask):
    world = World(tmp_path, an_experiment("fifo", 1))
    with closing(world.strategy()) as strategy:
        strategy.accounts.note([])
        assert mode(tmp_path / "run") == 0o700
        assert {mode(path) for path in (tmp_path / "run").glob(f"{LEDGER}*")} == {0o600}
    assert world.play()
    with world.buffer(0) as buffer:
        buffer.forget("nothing")
        stores = list((tmp_path / "stores").iterdir())
        assert len(stores) > 3, "with the files that SQLite keeps beside an open one"
        assert {mode(path) for path in stores} == {0o600}
    assert mode(tmp_path / "stores") == 0o700


def test_a_file_that_others_may_read_is_closed_and_none_is_opened_through_a_link(
    tmp_path, usual_umask
):
    path = tmp_path / "client.sqlite"
    BufferStore(path, 0).close()
    path.chmod(0o644)
    BufferStore(path, 0).close()
    assert mode(path) == 0o600
    (tmp_path / "victim").write_bytes(b"")
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "victim")
    with pytest.raises(DataError, match="is a link"):
        BufferStore(tmp_path / "link.sqlite", 0)
    assert (tmp_path / "victim").read_bytes() == b""


def test_a_folder_is_held_before_anything_in_it_is_looked_at(tmp_path, monkeypatch):
    """A second start while the first is at work on the config must change nothing."""
    world, seen = World(tmp_path, an_experiment("fifo", 1)), []

    def create(folder, *words, plain=run_folder.create, **more):
        (folder / "config.toml").write_text("as far as a first start has come")
        monkeypatch.setattr(run_folder, "create", plain)
        with pytest.raises(DataError, match="is in use by another process"):
            AdmissionStrategy(world.experiment, folder)
        seen.append((folder / "config.toml").read_text())
        (folder / "config.toml").unlink()
        return plain(folder, *words, **more)

    monkeypatch.setattr(run_folder, "create", create)
    assert world.play()
    assert seen == ["as far as a first start has come"]


# a full disk


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
        assert re.search(r"cannot be (read|written) \(", line)
        assert "is not a file of" not in line


@pytest.mark.parametrize(
    "name", ["FULL", "IOERR_WRITE", "READONLY", "BUSY", "CANTOPEN", "NOTADB", "CORRUPT"]
)
def test_what_sqlite_says_is_told_apart(name, tmp_path):
    error = sqlite3.OperationalError("as SQLite says")
    error.sqlite_errorname = f"SQLITE_{name}"
    foreign, damaged = "is not a file of headgate ledger 4", "is damaged"
    reason = {"NOTADB": foreign, "CORRUPT": damaged}.get(name, "cannot be written")
    with (
        closing(FileTables(tmp_path / "ledger.sqlite")) as store,
        pytest.raises(DataError, match=reason),
        store.transaction(),
    ):
        raise error


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="no list of open files here"
)
def test_a_store_that_cannot_be_opened_leaves_no_file_open(tmp_path, monkeypatch):
    def fails(store, key):
        raise DataError("there is no room")

    monkeypatch.setattr("headgate.books.durable.Durable.meta", fails)
    kept = []
    for make in (FileTables, lambda path: BufferStore(path, 0)):
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
