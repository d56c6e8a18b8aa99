"""A Flower run's folder is a run folder: `headgate runs` and `headgate report` cannot
tell who wrote it.
"""

from contextlib import closing

import numpy as np
import pytest
from flwr.app import MetricRecord
from worlds import World, an_experiment, start

from headgate.flower.strategy import AdmissionStrategy
from headgate.records.reader import RunFolder, scan_runs


def judged(t, arrays):
    return MetricRecord({"accuracy": t / 10, "loss": 1.0 / (t or 1)})


def test_the_result_has_the_names_of_the_user_and_the_first_model(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 2))
    for begun in (False, True):
        with closing(world.strategy()) as strategy:
            result = strategy.start(world.grid, start(), evaluate_fn=judged)
        found = result.evaluate_metrics_serverapp
        assert sorted(found) == ([1, 2] if begun else [0, 1, 2])
        assert found[2]["accuracy"] == found[2]["test_accuracy"] == 0.2
        assert found[2]["loss"] == 0.5


def test_its_tables_are_the_simulators_and_each_round_is_a_line(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3))
    world.grid.faults = {(2, 1): "message lost"}
    lines = []
    for t in (1, 2, 3):
        world.play(t, evaluate_fn=judged)
        (run,) = (each for each in scan_runs(tmp_path)[0] if each.name == "run")
        lines.append(run.state["line"])
        assert (run.status, run.state["round"], run.rounds) == (
            "interrupted" if t < 3 else "finished",
            t,
            3,
        )
    assert lines[0].startswith("round 1 of 3: 3 of 3 asked answered; price ")
    assert lines[0].endswith("accuracy 0.100")
    assert lines[1].startswith("round 2 of 3: 2 of 3 asked answered; price ")
    assert lines[1].endswith("; no valid answer from clients 1")
    assert f"spent {world.audit().spent[0]:.2f} of 27.00, " in lines[2]
    assert run.environment["executor"] == "flower"
    metrics, ledger = run.metrics(), world.audit()
    assert metrics["t"].to_list() == [1, 2, 3]
    assert metrics["test_accuracy"].to_list() == [0.1, 0.2, 0.3]
    assert metrics["spend"].sum() == pytest.approx(ledger.spent[0])
    assert metrics["admitted"].sum() == ledger.admitted.sum()
    assert run.clients()["held"].to_list()[-1] == ledger.occupancy[0].tolist()
    admitted = np.array(run.clients()["admitted"].to_list())
    assert admitted.sum(axis=0).tolist() == ledger.admitted[0].tolist()
    assert admitted.sum(axis=1).tolist() == metrics["admitted"].to_list()
    before = (run.path / "metrics.parquet").read_bytes()
    world.play(evaluate_fn=judged)  # a run that is over stays as it is
    assert (run.path / "metrics.parquet").read_bytes() == before
    assert not list(run.path.rglob("part-*.parquet"))


class Notes(list):
    def start(self, name, config, folder):
        self.append((name, folder.name))

    def log(self, policy, t, values):
        self.append((policy, t, values))

    def close(self):
        self.append("closed")


def test_rounds_are_tracked_as_those_of_the_simulator(tmp_path, monkeypatch):
    notes, warned = Notes(), []
    monkeypatch.setattr(
        "headgate.records.trackers.make_trackers", lambda names: [notes]
    )
    monkeypatch.setattr(
        "headgate.flower.run_folder.log",
        lambda level, text, *values: warned.append(text % values),
    )
    world = World(tmp_path, an_experiment("fifo", 6))
    world.grid.faults = {(2, 1): "message lost"}
    for until in (3, None):  # a second server goes on with it
        made = AdmissionStrategy(
            world.experiment,
            tmp_path / "run",
            discipline=world.discipline,
            track=["mlflow"],
        )
        with closing(made) as played:
            played.start(world.grid, start(), num_rounds=until, evaluate_fn=judged)
    rows = RunFolder.open(tmp_path / "run").metrics()
    assert notes[0] == ("run", "run")
    assert notes.count("closed") == 2
    logged = [each for each in notes if len(each) == 3]
    assert [(policy, t) for policy, t, _ in logged] == [
        ("fifo", t) for t in range(1, 7)
    ]
    assert [values["spend"] for _, _, values in logged] == rows["spend"].to_list()
    money = world.experiment.system.budget * 6
    over = [spent for spent in rows["spend"].cum_sum() if spent >= 0.8 * money]
    assert len(warned) == bool(over) == 1
    assert f"{over[0]:.6g} of {money:.6g}" in warned[0]
