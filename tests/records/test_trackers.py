"""The loggers: what they were told is read back with the readers of the same
libraries.
"""

import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from headgate.errors import SettingError
from headgate.records.trackers import make_trackers

CONFIG = {
    "system": {"budget": 2.5, "clients": 3},
    "seeds": [1, 2],
    "policies": {"ac-dpp": {"K": 2}},
    "data": None,
    **{
        f"key{number}": number for number in range(120)
    },  # more than MLflow takes at once
}


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "true")  # set here, it is put back after the test


def tracker(name):
    pytest.importorskip(name)
    return make_trackers([name])[0]


def run(tracker, folder, policies=("dpp", "ac-dpp")):
    """Three rounds of the policies in turn; the accuracy is known after every second
    round only.
    """
    tracker.start("trial", CONFIG, folder)
    for t in (1, 2, 3):
        for number, policy in enumerate(policies):
            unknown = math.nan if number else None
            values = {
                "loss": number + 1 / t,
                "test accuracy": 0.1 * t if t % 2 else unknown,
            }
            tracker.log(policy, t, values)
    tracker.log("silent", 1, {"loss": math.nan})
    tracker.close()
    tracker.close()


LOSSES = {
    "dpp": [(1, 1.0), (2, 0.5), (3, 1 / 3)],
    "ac-dpp": [(1, 2.0), (2, 1.5), (3, 4 / 3)],
}
ACCURACIES = [(1, pytest.approx(0.1)), (3, pytest.approx(0.3))]


def test_trackers_are_made_by_name_each_once(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    names = [
        tracker.kind
        for tracker in make_trackers(["wandb", "tensorboard", "wandb", "mlflow"])
    ]
    assert names == ["wandb", "tensorboard", "mlflow"]
    assert make_trackers([]) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tensorboard", "is not installed; pip install 'headgate[track]'"),
        ("wandb", "is not installed; pip install wandb"),
        ("ml-flow", "must be one of tensorboard, mlflow, wandb; did you mean mlflow?"),
    ],
)
def test_a_missing_library_is_said_to_be_missing(name, message, monkeypatch):
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingError) as error:
        make_trackers([name])
    assert str(error.value) == f"--track {name}: {message}"


# TensorBoard


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_holds_what_was_logged(tmp_path):
    run(tracker("tensorboard"), tmp_path)
    assert sorted(path.name for path in (tmp_path / "tensorboard").iterdir()) == [
        "ac-dpp",
        "dpp",
    ]
    for policy, losses in LOSSES.items():
        told = {
            "loss": [(t, pytest.approx(loss)) for t, loss in losses],
            "test accuracy": ACCURACIES,
        }
        assert scalars(tmp_path / "tensorboard" / policy) == told


def test_tensorboard_keeps_policies_apart_whatever_they_are_called(tmp_path):
    run(tracker("tensorboard"), tmp_path, policies=("a/b", "A:b", "../a"))
    folders = sorted(path.name for path in (tmp_path / "tensorboard").iterdir())
    assert folders == ["..%2Fa", "A%3Ab", "a%2Fb"]
    assert [
        scalars(tmp_path / "tensorboard" / folder)["loss"][0] for folder in folders
    ] == [(1, 3.0), (1, 2.0), (1, 1.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]


# MLflow


def mlflow_client(folder):
    return pytest.importorskip("mlflow").MlflowClient(tracking_uri=folder.as_uri())


def check_mlflow(client):
    experiment = client.get_experiment_by_name("trial")
    runs = {
        run.info.run_name: run for run in client.search_runs([experiment.experiment_id])
    }
    assert sorted(runs) == ["ac-dpp", "dpp", "trial"]
    parent = runs.pop("trial").info.run_id
    for policy, found in runs.items():
        assert found.info.status == "FINISHED"
        assert found.data.tags["mlflow.parentRunId"] == parent
        assert found.data.tags["policy"] == policy
        assert len(found.data.params) == 126
        settings = {
            "system.budget": "2.5",
            "seeds": "[1, 2]",
            "policies.ac-dpp.K": "2",
            "data": "None",
        }
        assert settings.items() <= found.data.params.items()
        history = {
            key: client.get_metric_history(found.info.run_id, key)
            for key in ("loss", "test_accuracy")
        }
        assert [(metric.step, metric.value) for metric in history["loss"]] == LOSSES[
            policy
        ]
        assert [
            (metric.step, metric.value) for metric in history["test_accuracy"]
        ] == ACCURACIES


def test_mlflow_holds_what_was_logged(tmp_path):
    run(tracker("mlflow"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow"]
    check_mlflow(mlflow_client(tmp_path / "mlflow"))


def test_mlflow_goes_where_the_user_says_and_adds_to_what_is_there(
    tmp_path, monkeypatch
):
    client = mlflow_client(tmp_path / "server")
    experiment = client.create_experiment("trial")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "server").as_uri())
    run(tracker("mlflow"), tmp_path / "run")
    assert client.get_experiment_by_name("trial").experiment_id == experiment
    check_mlflow(client)
    assert not (tmp_path / "run").exists()


def test_what_mlflow_refuses_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "gopher://here")
    mlflow = tracker("mlflow")
    with pytest.raises(SettingError) as error:
        mlflow.start("trial", CONFIG, tmp_path)
    assert str(error.value).startswith("--track mlflow: ")
    assert "\n" not in str(error.value)
    mlflow.close()


def test_mlflow_calls_nobody(tmp_path, python):
    """In a Python of its own, which nothing tells that it is part of a test: MLflow
    would be silent there anyway.
    """
    pytest.importorskip("mlflow")
    code = """if True:
        import socket, sys, threading, time
        from pathlib import Path
        from headgate.records.trackers import make_trackers
        called = []
        def refuse(*arguments, **_):
            called.append(arguments)
            raise OSError("no network")
        socket.getaddrinfo = socket.socket.connect = refuse
        (tracker,) = make_trackers(["mlflow"])
        tracker.start("trial", {}, Path(sys.argv[1]))
        tracker.log("dpp", 1, {"loss": 1.0})
        tracker.close()
        time.sleep(1)
        names = [thread.name for thread in threading.enumerate()]
        names.remove("MainThread")
        print(called, names)
    """
    own = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(sys.path)}
    assert python("-c", code, tmp_path, env=own)[0] == "[] []\n"


# Weights & Biases


@pytest.mark.parametrize("project", ["", "mine"])
def test_wandb_is_told_what_was_logged(tmp_path, monkeypatch, project):
    runs = []

    def init(**how):
        runs.append(Mock(["log", "finish"], how=how))
        return runs[-1]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    monkeypatch.setenv("WANDB_PROJECT", project)
    run(*make_trackers(["wandb"]), tmp_path / "run")
    assert [made.how["name"] for made in runs] == ["dpp", "ac-dpp"]
    for made in runs:
        assert (made.how["group"], made.how["project"], made.how["reinit"]) == (
            "trial",
            project or "headgate",
            "create_new",
        )
        assert "mode" not in made.how
        assert Path(made.how["dir"]).is_dir()
        assert made.how["config"]["system.budget"] == 2.5
        assert made.how["config"]["policy"] == made.how["name"]
        logged = [(call.kwargs["step"], *call.args) for call in made.log.call_args_list]
        assert [(step, values["loss"]) for step, values in logged] == LOSSES[
            made.how["name"]
        ]
        assert [
            (step, values["test accuracy"])
            for step, values in logged
            if len(values) == 2
        ] == ACCURACIES
        made.finish.assert_called_once_with()
