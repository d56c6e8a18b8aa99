"""The commands of a gate, as people, cron and systemd call them."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from headgate.cli import main
from headgate.labels.status import read_status
from headgate.labels.write import write_new, write_units


@pytest.fixture
def headgate(capsys, monkeypatch):
    """Call a command in this process; return its code and what it printed."""
    before = signal.getsignal(signal.SIGTERM)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["headgate", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out, error = capsys.readouterr()
        return code, out, error

    yield call
    signal.signal(signal.SIGTERM, before)


def label_all(folder):
    """Fill in the files of tasks, as a spreadsheet would."""
    for path in folder.glob("tasks/*/round-*.csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            row["label"] = "urgent" if "angry" in row["text"] else "normal"
        to = folder / "labels" / path.parent.name / path.name
        with to.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def test_a_new_gate_runs_at_once_and_ends_with_labels(headgate, tmp_path):
    folder = tmp_path / "bill"
    code, out, _ = headgate("labels", "new", folder)
    assert code == 0
    gate = folder / "gate.toml"
    assert str(gate) in out
    text = gate.read_text().replace("settled = 2 ", "settled = 0 ")
    gate.write_text(text)
    said = ""
    for _ in range(3):
        code, out, _ = headgate("labels", "run", gate, "--once", "--now")
        assert code == 0
        assert out.startswith("round ")
        said += out
        label_all(folder)
    headgate("labels", "run", gate, "--once")
    assert "labelled 27" in said
    code, out, error = headgate("labels", "status", gate)
    assert code == 0, error
    assert out.startswith("round 3 of 30, as of 2")
    assert "left $" in out
    assert "next round: 2" in out
    code, out, _ = headgate("labels", "status", gate, "--format", "json")
    found = json.loads(out)
    assert found == read_status(folder / "accounts")
    lines = (folder / "labelled" / "team.jsonl").read_text().splitlines()
    assert len(lines) == found["clients"]["team"]["delivered"] > 0
    assert {json.loads(line)["label"] for line in lines} == {"urgent", "normal"}
    code, out, _ = headgate("ledger", "show", folder / "accounts")
    assert code == 0
    assert f"{len(lines)} labels for $" in out
    metrics = (folder / "accounts" / "metrics.prom").read_text()
    assert f'headgate_labels_delivered{{client="team"}} {len(lines)}\n' in metrics


def test_a_folder_that_is_not_empty_is_left_alone(headgate, tmp_path):
    (tmp_path / "mine").write_text("")
    code, _, error = headgate("labels", "new", tmp_path)
    assert code == 4
    assert "exists already" in error
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_is_missing_is_said_in_one_line(headgate, tmp_path):
    gate = write_new(tmp_path / "new")
    code, _, error = headgate("labels", "status", gate)
    assert code == 4
    assert "headgate labels run" in error
    code, _, error = headgate("labels", "run", tmp_path / "new")
    assert code == 4
    assert "is a folder; name the gate's file" in error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gate_that_keeps_going_ends_in_one_line(number, tmp_path):
    gate = write_new(tmp_path / "new")
    command = [sys.executable, "-m", "headgate", "labels", "run", str(gate)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout.readline().startswith("round 1: price")
    while not (tmp_path / "new" / "accounts" / "metrics.prom").exists():
        time.sleep(0.01)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert error == f"stopped; the same command goes on with {gate}\n"


def test_units_run_this_gate_by_this_python(headgate, tmp_path):
    gate = write_new(tmp_path / "new")
    out = tmp_path / "units"
    code, printed, _ = headgate("labels", "units", gate, "--out", out)
    assert code == 0
    assert len(printed.splitlines()) == 4
    service = (out / "headgate-labels.service").read_text()
    assert f'ExecStart="{sys.executable}" -m headgate labels run "{gate}"' in service
    assert "--once" in (out / "headgate-labels-once.service").read_text()
    assert "OnUnitActiveSec=300s" in (out / "headgate-labels-once.timer").read_text()
    cron = (out / "headgate-labels.cron").read_text()
    assert cron.startswith("*/5 * * * * ")
    command = cron.split(" ", 5)[5]
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("round 1: price")
    verify = shutil.which("systemd-analyze")
    if verify:
        units = sorted(map(str, out.glob("*.*r*")))[1:]
        done = subprocess.run([verify, "verify", *units], capture_output=True)
        assert b"Unknown" not in done.stderr, done.stderr


def test_a_path_that_systemd_would_interpret_is_refused(headgate, tmp_path):
    gate = write_new(tmp_path / "50% off")
    code, _, error = headgate("labels", "units", gate, "--out", tmp_path / "units")
    assert code == 2
    assert "systemd or cron interprets" in error


def test_the_files_of_units_are_those_that_are_listed(tmp_path):
    paths = write_units(write_new(tmp_path / "new"), tmp_path / "units")
    assert sorted(paths) == sorted((tmp_path / "units").iterdir())
