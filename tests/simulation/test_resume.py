"""Killed at any moment and resumed, a run ends in the same bytes; what is damaged is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.learning.partition import Dirichlet
from headgate.records.reader import RunFolder
from headgate.records.writer import Checkpoint, commit, create
from headgate.simulation.run import examine, play_folder, play_rounds, resume
from headgate.simulation.schedule import perform

SETTINGS = ["run.seeds=2", "run.rounds=6", 'run.policies=["acdpp", "constant"]', "training.steps=2"]
DATA = load_dataset("digits")


def test_killed_anywhere_and_resumed_the_bytes_are_the_same(tmp_path):
    script = Path(__file__).parent / "killed.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "--random", "6"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills, simulator: same bytes" in done.stdout
    assert "kills, simulator, taken up: same bytes" in done.stdout


def test_what_a_killed_one_left_goes_when_the_run_is_taken_up(tmp_path):
    folder, experiment = tmp_path / "run", load("digits", SETTINGS)
    parts = [experiment.only([name]).tables() for name in experiment.policies]
    create(folder, experiment.tables(), examine(experiment, DATA, "cpu", "auto")[0]["environment"], parts)
    for part in ("000", "001"):  # all rounds are played; what is left is the tables
        play_folder(folder / "shards" / part, None, DATA, "cpu", lambda done: None, lambda: False)
    half_removed = folder / "shards" / "001" / "checkpoints" / "00000005"
    half_removed.mkdir()
    left = [
        half_removed / "ledger-0.npz",
        folder / ".state.json.1234abcd.partial",
        folder / ".metrics.parquet.1234abcd.partial",
    ]
    for path in left:
        path.write_bytes(b"half")
    perform(None, folder, processes=1)
    assert RunFolder.open(folder).status == "finished"
    assert not [path for path in [*left, half_removed] if path.exists()]


def made(folder, *more):
    """A run in one piece in which nothing has been played."""
    experiment = load("digits", [*SETTINGS, *more])
    create(folder, experiment.tables(), examine(experiment, DATA, "cpu", "auto")[0]["environment"], [])
    return experiment


def begun(folder, rounds=3):
    """A run told to stop after some rounds."""
    made(folder)
    done = []
    with pytest.raises(Interrupted) as stop:
        play_folder(folder, None, DATA, "cpu", done.append, lambda: len(done) == rounds)
    return str(stop.value)


def test_a_run_that_is_stopped_finishes_its_round_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "run"
    assert begun(folder) == f"interrupted after round 3 of 6; continue with: headgate run --resume {folder}"
    assert RunFolder.open(folder).status == "interrupted"
    assert RunFolder.open(folder).metrics()["t"].max() == 3
    assert Checkpoint(folder).t == 3
    perform(None, folder, processes=1)
    assert RunFolder.open(folder).status == "finished"


def test_what_was_last_evaluated_is_known_after_a_resume(tmp_path):
    """Else a run that is no better than guessing is not told until the next evaluation."""
    folder, done = tmp_path / "run", []
    experiment = made(folder, "training.evaluate_every=3")
    with pytest.raises(Interrupted):
        play_folder(folder, None, DATA, "cpu", done.append, lambda: len(done) == 4)
    simulation, _ = resume(experiment, DATA, Checkpoint(folder), "cpu")
    assert simulation.accuracy.tolist() == [row["test_accuracy"] for row in done[2].metrics]


NEWEST, PART = "checkpoints/00000003", "clients/part-00003.parquet"
DAMAGE = {
    "tensors": (f"{NEWEST}/tensors.safetensors", lambda old: old[:-7] + b"1234567", f"{NEWEST}/tensors.safetensors is damaged"),
    "ledger": (f"{NEWEST}/ledger-1.npz", None, "ledger-1.npz is damaged"),
    "head": (f"{NEWEST}/checkpoint.json", lambda old: b"{", "checkpoint.json: not valid JSON"),
    "config": ("config.toml", lambda old: old + b"\n", "config.toml was changed"),
    "environment": ("environment.json", None, "environment.json: cannot be read"),
    "rows": (PART, lambda old: old[:-1] + b"x", f"{PART}: is not what was written"),
    "missing": (PART, None, f"{PART}: cannot be read"),
}
"""a file of the folder, what becomes of its bytes, None: it is gone, and what is said"""


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_folder_is_refused_with_what_is_wrong(tmp_path, what):
    folder, (name, change, message) = tmp_path / "run", DAMAGE[what]
    begun(folder)
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change((folder / name).read_bytes()))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DataError) as refusal:
        resume(load("digits", SETTINGS), DATA, Checkpoint(folder), "cpu")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    made(folder)
    simulation, writer = resume(load("digits", SETTINGS), DATA, Checkpoint(folder), "cpu")
    whole = writer.append

    def append(name, rows):
        if rows[0]["t"] == 5:
            raise OSError(28, "No space left on device")
        whole(name, rows)

    monkeypatch.setattr(writer, "append", append)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\); make room and continue with"):
        play_rounds(simulation, writer, lambda done: None, seconds=0.0)
    assert Checkpoint(folder).t == 4
    perform(None, folder, processes=1)
    assert RunFolder.open(folder).metrics()["t"].max() == 6


def test_a_folder_that_exists_is_refused(tmp_path):
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        made(tmp_path)
    assert (tmp_path / "keep.txt").read_text() == "mine"


def test_the_folder_says_what_made_it(tmp_path):
    folder = tmp_path / "run"
    perform(load("digits", SETTINGS), folder, processes=1)
    run = RunFolder.open(folder)
    assert run.environment["executor"] == "gram"
    assert run.environment.get("commit") == commit()
    assert {"headgate", "python", "numpy", "platform", "config_sha256", "device", "dtype"} <= set(run.environment)
    assert "torch" not in run.environment
    learnt = examine(load("digits", SETTINGS), load_dataset("digits"), "cpu", "flat")[0]
    assert learnt["environment"]["torch"] == torch.__version__
    assert load(str(folder / "config.toml")).tables() == load("digits", SETTINGS).tables()
    assert not (folder / "metrics").exists()
    assert json.loads((folder / "state.json").read_text())["state"] == "finished"


def test_data_that_cannot_be_dealt_for_a_later_seed_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    split = Dirichlet.split

    def unlucky(self, labels, clients, seed, columns):
        if seed == 1:
            raise SettingError(f"data.alpha = {self.alpha}: no")
        return split(self, labels, clients, seed, columns)

    monkeypatch.setattr(Dirichlet, "split", unlucky)
    with pytest.raises(SettingError, match=r"data\.alpha = 0\.5: no"):
        perform(
            load("digits", [*SETTINGS, "data.partition=dirichlet", "data.partition.alpha=0.5"]), tmp_path / "run", processes=1
        )
    assert not list(tmp_path.iterdir())
