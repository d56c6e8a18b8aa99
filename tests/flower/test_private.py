"""What a run on Flower keeps is for its owner's eyes; two first starts of one folder leave one whole run."""

import os
from contextlib import closing

import pytest
from worlds import World, an_experiment

from headgate.books.ledger_store import LEDGER
from headgate.errors import DataError
from headgate.flower.buffer_store import BufferStore
from headgate.flower.strategy import AdmissionStrategy


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
        strategy.store.note([])
        assert mode(tmp_path / "run") == 0o700
        assert {mode(path) for path in (tmp_path / "run").glob(f"{LEDGER}*")} == {0o600}
    assert world.play()
    with world.buffer(0) as buffer:
        buffer.forget("nothing")
        stores = list((tmp_path / "stores").iterdir())
        assert len(stores) > 3, "with the files that SQLite keeps beside an open one"
        assert {mode(path) for path in stores} == {0o600}
    assert mode(tmp_path / "stores") == 0o700


def test_a_file_that_others_may_read_is_closed_and_none_is_opened_through_a_link(tmp_path, usual_umask):
    path = tmp_path / "client.sqlite"
    BufferStore(path, 0).close()
    path.chmod(0o644)
    BufferStore(path, 0).close()
    assert mode(path) == 0o600
    (tmp_path / "victim").write_bytes(b"")
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "victim")
    with pytest.raises(DataError, match="cannot be opened"):
        BufferStore(tmp_path / "link.sqlite", 0)
    assert (tmp_path / "victim").read_bytes() == b""


def test_a_folder_is_held_before_anything_in_it_is_looked_at(tmp_path, monkeypatch):
    """A second start while the first is at work on the config must change nothing."""
    from headgate.flower import run_folder

    world, seen = World(tmp_path, an_experiment("fifo", 1)), []

    def create(folder, *words, plain=run_folder.create, **more):
        (folder / "config.toml").write_text("as far as a first start has come")
        monkeypatch.setattr(run_folder, "create", plain)
        with pytest.raises(DataError, match="is being played by another process"):
            AdmissionStrategy(world.experiment, folder)
        seen.append((folder / "config.toml").read_text())
        (folder / "config.toml").unlink()
        return plain(folder, *words, **more)

    monkeypatch.setattr(run_folder, "create", create)
    assert world.play()
    assert seen == ["as far as a first start has come"]
