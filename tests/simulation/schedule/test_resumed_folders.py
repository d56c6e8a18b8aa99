"""Which folders can be begun or resumed, by whom, and where."""

import json
import shutil

import pytest

from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import load, sweep_points
from headgate.records.owner import OwnedRun
from headgate.records.reader import RunFolder
from headgate.records.tables import points_of, read_sealed, sealed
from headgate.simulation.schedule import perform
from headgate.writing import FolderLock

from .played import SETTINGS, Stopping, tables


def say_made_on_a_gpu(folder):
    for path in folder.rglob("environment.json"):
        path.write_text(
            json.dumps(sealed(read_sealed(path) | {"device": "NVIDIA H200"}))
        )


def test_a_run_whose_rounds_are_done_is_finished_on_any_device(tmp_path, monkeypatch):
    """As GPU runs are that were made on another machine and brought here."""
    whole = perform(load("digits", SETTINGS), tmp_path / "whole", processes=1)[0].path
    monkeypatch.setattr(OwnedRun, "finish", lambda self: self.run)
    folder = perform(load("digits", SETTINGS), tmp_path / "run", processes=1)[0].path
    monkeypatch.undo()
    say_made_on_a_gpu(folder)
    assert RunFolder.open(folder).metrics().height == 48
    perform(None, folder, device="cpu")
    assert tables(folder) == tables(whole)
    assert RunFolder.open(folder).status == "finished"


def test_rounds_that_are_left_are_not_played_on_another_device(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "headgate.simulation.workers.InProcess.execute", lambda *_: None
    )
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1)
    monkeypatch.undo()
    say_made_on_a_gpu(folder)
    with pytest.raises(
        SettingError, match="began on NVIDIA H200, the device is now cpu"
    ):
        perform(None, folder, device="cpu", processes=1)


def test_folders_that_do_not_fit_are_refused(tmp_path):
    folder = perform(load("digits", SETTINGS), tmp_path / "run", processes=1)[0].path
    with pytest.raises(
        DataError, match="holds a run, not a sweep; choose another folder"
    ):
        perform(
            [("a", load("digits", SETTINGS)), ("b", load("digits", SETTINGS))], folder
        )
    (tmp_path / "swept").mkdir()
    (tmp_path / "swept" / "sweep.json").write_text('{"points": []}')
    with pytest.raises(DataError, match="holds a sweep; choose another folder"):
        perform(load("digits", SETTINGS), tmp_path / "swept")
    with pytest.raises(
        DataError, match=r"was begun with other settings \(run.rounds, "
    ):
        perform(load("digits", [*SETTINGS, "run.rounds=7"]), folder)
    with pytest.raises(DataError, match="there is no such run folder"):
        perform(None, tmp_path / "nowhere")
    with pytest.raises(SettingError, match="--processes 0"):
        perform(load("digits", SETTINGS), tmp_path / "zero", processes=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.toml").write_text("")
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(DataError):
        perform(load("digits", SETTINGS), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"


@pytest.mark.parametrize(
    "forge",
    [
        lambda chunks: chunks.pop(2),
        lambda chunks: chunks.append(chunks[0]),
        lambda chunks: chunks[1].update(policies=["constant"]),
        lambda chunks: chunks[0].update(seeds=10**12),
        lambda chunks: chunks.insert(0, 7),
        lambda chunks: chunks[3].pop("first_seed"),
    ],
)
def test_chunks_that_do_not_make_the_run_are_refused(tmp_path, forge):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    path = folder / "environment.json"
    facts = read_sealed(path)
    forge(facts["chunks"])
    path.write_text(json.dumps(sealed(facts)))
    with pytest.raises(
        DataError, match="its chunks do not hold each of its 8 runs once"
    ) as refusal:
        perform(None, folder, processes=1)
    assert "continue with" not in str(refusal.value)


def test_a_run_is_played_by_one_process_at_a_time(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    with pytest.raises(SettingError, match=r"--executor flat: .*run was begun by gram"):
        perform(load("digits", SETTINGS), folder, executor="flat")
    for path, shared in (
        (folder, False),
        (folder / "config.toml", True),
    ):  # a command, or a child that was left behind
        later = folder / "metrics" / "c001-part-00009.parquet"
        later.parent.mkdir(exist_ok=True)
        later.write_bytes(b"of nobody who is playing")
        with FolderLock() as other:
            other.take(path, folder, shared)
            with pytest.raises(
                DataError, match="run: is in use by another process; wait for it to end"
            ):
                perform(None, folder, processes=1)
            with pytest.raises(DataError, match="is in use by another process"):
                perform(load("digits", SETTINGS), folder, processes=1)
        assert later.exists()
    perform(None, folder, processes=1)
    assert RunFolder.open(folder).metrics().height == 48


def test_a_start_that_was_killed_is_made_again_from_what_its_folder_says(tmp_path):
    whole = perform(
        load("digits", SETTINGS), tmp_path / "whole", processes=1, executor="flat"
    )[0].path
    half = tmp_path / "half"
    with pytest.raises(Interrupted):
        perform(
            load("digits", SETTINGS),
            half,
            processes=1,
            executor="flat",
            watch=Stopping(),
        )
    (half / "state.json").unlink()
    for name in ("checkpoints", "metrics", "clients"):
        shutil.rmtree(half / name)
    perform(None, half, processes=1)
    assert tables(half) == tables(whole)
    assert RunFolder.open(half).environment["executor"] == "flat"
    for name in ("environment.json", "config.toml"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f".{name}.1234abcd.partial").write_text("{")
        if name != "config.toml":
            shutil.copy(whole / "config.toml", tmp_path / name)
        with pytest.raises(DataError, match="was stopped before its first round"):
            perform(None, tmp_path / name)


def test_a_sweep_says_what_it_has_before_it_has_it(tmp_path, monkeypatch):
    points = sweep_points("digits", [*SETTINGS, "sweep.training.lr=[0.1, 0.5, 0.7]"])
    folder, made = tmp_path / "sweep", []

    def fail(*given):
        made.append(given)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headgate.records.owner.create", fail)
    with pytest.raises(DataError, match="make room"):
        perform(points, folder, processes=1)
    monkeypatch.undo()
    assert [point.name for point in points_of(folder)] == [
        "training.lr=0.1",
        "training.lr=0.5",
        "training.lr=0.7",
    ]
    with pytest.raises(
        DataError, match=r"training.lr=0.1: was stopped before its first round"
    ):
        perform(None, folder)
    perform(points[1:], folder, processes=1)
    assert len(points_of(folder)) == 3  # some points at a time
