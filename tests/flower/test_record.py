"""A Flower run's folder is a run folder: `headgate runs` and `headgate report` cannot tell who wrote it."""

import json
import subprocess
import sys

import pytest
from flwr.app import MetricRecord
from worlds import World, an_experiment

from headgate.records.reader import RunFolder, list_runs

pytestmark = pytest.mark.usefixtures("no_fsync")


def judged(t, arrays):
    return MetricRecord({"accuracy": t / 10, "loss": 1.0 / t})


def test_runs_and_report_show_it(tmp_path):
    world = World(tmp_path / "runs", an_experiment("fifo", 3))
    world.play(evaluate_fn=judged)

    def headgate(*words):
        done = subprocess.run(
            [sys.executable, "-m", "headgate.cli", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "finished" in headgate("runs", "runs")
    told = headgate("report", "runs/run", "--out", "page.html")
    assert "fifo" in told + (tmp_path / "page.html").read_text("utf-8")


def test_its_tables_are_the_simulators(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3))
    world.grid.faults = {(2, 1): "message lost"}
    world.play(2, evaluate_fn=judged)
    run = RunFolder.open(tmp_path / "run")
    assert (run.status, run.state["round"], run.rounds) == ("interrupted", 2, 3)
    world.play(evaluate_fn=judged)
    (run,) = (each for each in list_runs(tmp_path) if each.name == "run")
    assert (run.status, run.environment["executor"]) == ("finished", "flower")
    metrics, ledger = run.metrics(), world.audit()
    assert metrics["t"].to_list() == [1, 2, 3]
    assert metrics["test_accuracy"].to_list() == [0.1, 0.2, 0.3]
    assert metrics["spend"].sum() == pytest.approx(ledger.spent[0])
    assert metrics["admitted"].sum() == ledger.admitted.sum()
    assert run.clients()["held"].to_list()[-1] == ledger.occupancy[0].tolist()


def test_rows_lost_after_the_ledger_was_written_come_back(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3))
    world.play(2)
    path = tmp_path / "run" / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    world.play()
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [row["t"] for row in rows] == [1, 2, 3]
    assert path.read_bytes().startswith(whole)


def test_settings_of_a_run_make_the_same_run_again(tmp_path):
    from headgate.experiment import load

    world = World(tmp_path, an_experiment("kstep", 3))
    world.play()
    again = World(tmp_path / "again", load(str(tmp_path / "run" / "config.toml")))
    again.play()
    assert again.audit().spent[0] == world.audit().spent[0]
