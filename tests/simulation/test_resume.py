"""Killed at any moment and resumed, a run ends in the same bytes; what is damaged is
refused.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import load
from headgate.learning.partition import Dirichlet
from headgate.records.owner import OwnedRun
from headgate.records.reader import RunFolder
from headgate.records.writer import commit, create
from headgate.simulation.run import examine, play_chunk, resume
from headgate.simulation.schedule import perform

from .digits import DATA

SETTINGS = [
    "run.seeds=2",
    "run.rounds=6",
    'run.policies=["acdpp", "constant"]',
    "training.steps=2",
    "training.evaluate_every=3",
]


@pytest.mark.parametrize(
    "by", [(), pytest.param(("--pool",), marks=pytest.mark.long)], ids=["here", "pool"]
)
def test_killed_anywhere_and_resumed_the_bytes_are_the_same(tmp_path, by):
    script = Path(__file__).parent / "killed.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "--random", "6", *by],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills, simulator: same bytes" in done.stdout
    assert "kills, simulator, taken up: same bytes" in done.stdout


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run in one piece that was told to stop after round 4, and its rounds."""
    folder, experiment, done = (
        tmp_path_factory.mktemp("stopped") / "run",
        load("digits", SETTINGS),
        [],
    )
    facts = examine(experiment, DATA, "cpu", "auto")[0]
    (chunk,) = OwnedRun.begin(folder, experiment, facts["environment"], []).chunks
    with pytest.raises(Interrupted):
        play_chunk(chunk, DATA, "cpu", done.append, lambda: len(done) == 4)
    return folder, done


def resumed(folder):
    (chunk,) = OwnedRun.take_up(folder, load("digits", SETTINGS), "auto", ()).chunks
    return resume(chunk, DATA, "cpu")[0]


def test_what_was_last_evaluated_is_known_after_a_resume(stopped):
    """Else a run that is no better than guessing is not reported until the next
    evaluation.
    """
    folder, done = stopped
    assert resumed(folder).accuracy.tolist() == [
        row["test_accuracy"] for row in done[2].metrics
    ]


NEWEST, PART = "checkpoints/00000004", "clients/part-00004.parquet"
DAMAGE = {
    "tensors": (
        f"{NEWEST}/tensors.safetensors",
        lambda old: old[:-7] + b"1234567",
        f"{NEWEST}/tensors.safetensors is damaged",
    ),
    "ledger": (f"{NEWEST}/ledger-1.npz", None, "ledger-1.npz is damaged"),
    "head": (
        f"{NEWEST}/checkpoint.json",
        lambda old: b"{",
        "checkpoint.json: not valid JSON",
    ),
    "config": ("config.toml", lambda old: old + b"\n", "config.toml was changed"),
    "environment": ("environment.json", None, "environment.json: cannot be read"),
    "rows": (PART, lambda old: old[:-1] + b"x", f"{PART}: is not what was written"),
    "missing": (PART, None, f"{PART}: cannot be read"),
}
"""a file of the folder, what becomes of its bytes, None: it is gone, and the message"""


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_folder_is_refused_with_what_is_wrong(tmp_path, stopped, what):
    folder, (name, change, message) = (
        shutil.copytree(stopped[0], tmp_path / "run"),
        DAMAGE[what],
    )
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change((folder / name).read_bytes()))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DataError) as refusal:
        resumed(folder)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert before == {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_folder_that_exists_is_refused(tmp_path):
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        create(tmp_path, {}, {}, [])
    assert (tmp_path / "keep.txt").read_text() == "mine"


def test_the_folder_says_what_made_it(tmp_path):
    folder = tmp_path / "run"
    perform(load("digits", SETTINGS), folder, processes=1)
    run = RunFolder.open(folder)
    assert run.environment["executor"] == "gram"
    assert run.environment.get("commit") == commit()
    assert {
        "headgate",
        "python",
        "numpy",
        "platform",
        "config_sha256",
        "device",
        "dtype",
    } <= set(run.environment)
    assert "torch" not in run.environment
    learnt = examine(load("digits", SETTINGS), DATA, "cpu", "flat")[0]
    assert learnt["environment"]["torch"] == torch.__version__
    assert (
        load(str(folder / "config.toml")).tables() == load("digits", SETTINGS).tables()
    )
    assert not (folder / "metrics").exists()
    assert json.loads((folder / "state.json").read_text())["state"] == "finished"


def test_data_that_cannot_be_dealt_for_a_later_seed_are_refused(tmp_path, monkeypatch):
    split = Dirichlet.split

    def unlucky(self, labels, clients, seed, columns):
        if seed == 1:
            raise SettingError(f"data.alpha = {self.alpha}: no")
        return split(self, labels, clients, seed, columns)

    monkeypatch.setattr(Dirichlet, "split", unlucky)
    with pytest.raises(SettingError, match=r"data\.alpha = 0\.5: no"):
        perform(
            load(
                "digits",
                [*SETTINGS, "data.partition=dirichlet", "data.partition.alpha=0.5"],
            ),
            tmp_path / "run",
            processes=1,
        )
    assert not list(tmp_path.iterdir())
