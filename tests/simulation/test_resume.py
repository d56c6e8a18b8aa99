"""Killed at any moment and resumed, a run ends in the same bytes; what is damaged is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.config import load
from headgate.errors import DataError, Interrupted, SettingError
from headgate.learning.datasets import load_dataset
from headgate.records.reader import RunFolder
from headgate.records.writer import Checkpoint
from headgate.simulation.run import choose_device, play, resume, start

SETTINGS = ["run.seeds=2", "run.rounds=6", 'run.policies=["acdpp", "constant"]', "training.steps=2"]
DATA = load_dataset("digits")


def test_killed_anywhere_and_resumed_the_bytes_are_the_same(tmp_path):
    script = Path(__file__).parent / "killed.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all the same" in done.stdout


def begun(folder, rounds=3):
    """A run interrupted after some rounds, as by Ctrl-C."""
    import os
    import signal

    simulation, writer = start(load("digits", SETTINGS), DATA, folder, "cpu")

    def tick(done):
        if done.t == rounds:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as stop:
        play(simulation, writer, tick)
    return str(stop.value)


def test_ctrl_c_finishes_the_round_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "run"
    assert begun(folder) == f"interrupted after round 3 of 6; go on with: headgate run --resume {folder}"
    assert RunFolder.open(folder).status == "interrupted"
    assert RunFolder.open(folder).metrics()["t"].max() == 3
    simulation, writer = resume(load(str(folder / "config.toml")), DATA, Checkpoint(folder), "cpu")
    assert simulation.t == 3
    play(simulation, writer, lambda done: None)
    assert RunFolder.open(folder).status == "finished"
    whole, _ = start(load("digits", SETTINGS), DATA, tmp_path / "whole", "cpu")
    play(whole, _, lambda done: None)
    for name in ("metrics.parquet", "occupancy.parquet"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def damage(folder, what):
    newest = folder / "checkpoints" / "00000003"
    if what == "tensors":
        file = newest / "tensors.safetensors"
        file.write_bytes(file.read_bytes()[:-7] + b"1234567")
        return "checkpoints/00000003/tensors.safetensors is damaged"
    if what == "ledger":
        (newest / "ledger-1.npz").unlink()
        return "ledger-1.npz is damaged"
    if what == "head":
        (newest / "checkpoint.json").write_text("{")
        return "checkpoint.json: is damaged"
    if what == "config":
        with (folder / "config.toml").open("a") as file:
            file.write("\n")
        return "config.toml was changed"
    if what == "environment":
        (folder / "environment.json").unlink()
        return "environment.json: cannot be read"
    if what == "short":
        (folder / "metrics.jsonl").write_text("")
        return "metrics.jsonl is shorter"
    (folder / "occupancy.jsonl").unlink()
    return "occupancy.jsonl is missing"


@pytest.mark.parametrize("what", ["tensors", "ledger", "head", "config", "environment", "short", "missing"])
def test_a_damaged_folder_is_refused_with_what_is_wrong(tmp_path, what):
    folder = tmp_path / "run"
    begun(folder)
    message = damage(folder, what)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DataError) as refusal:
        resume(load("digits", SETTINGS), DATA, Checkpoint(folder), "cpu")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    if what not in ("short", "missing"):
        assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    simulation, writer = start(load("digits", SETTINGS), DATA, folder, "cpu")
    whole = writer.append

    def append(name, rows):
        if rows[0]["t"] == 5:
            raise OSError(28, "No space left on device")
        whole(name, rows)

    monkeypatch.setattr(writer, "append", append)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\); make room and go on with"):
        play(simulation, writer, lambda done: None, seconds=0.0)
    simulation, writer = resume(load(str(folder / "config.toml")), DATA, Checkpoint(folder), "cpu")
    assert simulation.t == 4
    play(simulation, writer, lambda done: None)
    assert RunFolder.open(folder).metrics()["t"].max() == 6


def test_a_folder_that_exists_is_refused(tmp_path):
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        start(load("digits", SETTINGS), DATA, tmp_path, "cpu")
    assert (tmp_path / "keep.txt").read_text() == "mine"


def test_the_folder_says_what_made_it(tmp_path):
    folder = tmp_path / "run"
    simulation, writer = start(load("digits", SETTINGS), DATA, folder, "cpu")
    play(simulation, writer, lambda done: None)
    run = RunFolder.open(folder)
    assert run.environment["executor"] == "gram"
    assert {"headgate", "python", "torch", "numpy", "platform", "config_sha256", "device", "dtype"} <= set(run.environment)
    assert load(str(folder / "config.toml")).resolved == load("digits", SETTINGS).resolved
    assert not (folder / "metrics.jsonl").exists()
    assert json.loads((folder / "state.json").read_text())["state"] == "finished"
    shutil.rmtree(folder)


def test_devices():
    with pytest.raises(SettingError, match="--device tpu"):
        choose_device("tpu")
    assert choose_device("cpu").type == "cpu"
