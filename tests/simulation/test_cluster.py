"""On a Ray cluster of several processes the bytes are the same, and what goes wrong there is told here."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from headgate.errors import Interrupted, SettingError
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.records.tables import shard_folders
from headgate.simulation import cut
from headgate.simulation.cluster import STOP, Cluster, _play
from headgate.simulation.schedule import perform
from headgate.simulation.workers import ChunkError

SETTINGS = ["run.seeds=2", "run.rounds=5", 'run.policies=["hybrid", "constant"]', "training.steps=2"]
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'headgate[ray]'")
# A process of its own: Ray starts threads and other processes, and warns of what is not ours.
SCRIPT = """
import sys
from headgate.simulation import cut, workers
cut.LIGHT = 0.0
cut.TOGETHER["gram"] = 1
workers.cores = lambda: 2
from headgate.cli import main
main()
"""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(cut, "LIGHT", 0.0)
    monkeypatch.setitem(cut.TOGETHER, "gram", 1)


def command(*words):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "run", *words, "--progress", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def content(folder):
    names = ["metrics.parquet", "clients.parquet"]
    tensors = [path for part in shard_folders(folder) for path in sorted(part.rglob("*.safetensors"))]
    return [(folder / name).read_bytes() for name in names] + [path.read_bytes() for path in tensors]


def settings(*more):
    return [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]


@needs_ray
def test_a_ray_cluster_plays_the_same_bytes(tmp_path):
    here = perform(load("digits", SETTINGS), tmp_path / "here", processes=1)[0].path
    process = command("digits", *settings(), "--ray", "local", "--out", str(tmp_path / "there"))
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "report:" in out
    assert content(tmp_path / "there") == content(here)
    states = [json.loads(path.read_text()) for path in (tmp_path / "there").glob("shards/*/state.json")]
    assert os.getpid() not in {state["pid"] for state in states} != set()


@needs_ray
@pytest.mark.long
def test_a_ray_cluster_stops_when_told_and_goes_on(tmp_path):
    here = perform(load("digits", [*SETTINGS, "run.rounds=150"]), tmp_path / "here", processes=1)[0].path
    there = tmp_path / "there"
    process = command("digits", *settings("run.rounds=150"), "--ray", "local", "--out", str(there))
    end = time.monotonic() + 240
    while not list(there.glob("shards/*/state.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130, err
    assert f"go on with: headgate run --resume {there}" in err
    assert RunFolder.open(there).status == "interrupted"
    assert not list(there.rglob(".stop"))
    _, err = (process := command("--resume", str(there), "--ray", "local")).communicate(timeout=240)
    assert process.returncode == 0, err
    assert content(there) == content(here)


@needs_ray
@pytest.mark.long  # processes of this machine are refused the same in schedule/test_failures.py
def test_what_a_worker_refuses_reaches_the_user(tmp_path):
    process = command("digits", "--ray", "local", "--executor", "fast", "--out", str(tmp_path / "run"))
    _, err = process.communicate(timeout=240)
    assert process.returncode == 2
    assert "--executor fast" in err
    assert not list(tmp_path.iterdir())


def test_a_task_that_waited_in_the_queue_plays_nothing_after_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.simulation.workers.InProcess.execute", lambda *_: None)
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), tmp_path / "run", processes=1)
    part = shard_folders(tmp_path / "run")[0]
    (part / STOP).touch()
    assert _play(str(part), "cpu") == (None, ["Interrupted", "interrupted"])
    assert not (part / "checkpoints").exists()
    assert not (part / "metrics").exists()


class LostTasks:
    """As much of Ray as a cluster needs that loses every task."""

    class exceptions:
        RayError = RuntimeError

    def remote(self, **options):
        return lambda function: SimpleNamespace(remote=lambda *given: given[0])

    def wait(self, tasks, num_returns, timeout):
        return tasks[:1], tasks[1:]

    def get(self, task):
        raise RuntimeError("the worker died")


def test_a_lost_task_is_told_and_nothing_is_repeated(tmp_path):
    cluster = Cluster.__new__(Cluster)
    cluster._ray = LostTasks()
    folders = [tmp_path / "000", tmp_path / "001"]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(ChunkError, match=r"its task was lost \(the worker died\)") as lost:
        cluster.execute(dict.fromkeys(folders), "cpu", SimpleNamespace(look=lambda: None), lambda: False)
    assert lost.value.folder == folders[0]
    assert not list(tmp_path.rglob(STOP))


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingError, match=r"--ray local: Ray is not installed; pip install 'headgate\[ray\]'"):
        perform(load("digits", SETTINGS), tmp_path / "run", ray="local")
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_is_too_slow_to_start_is_told_in_one_line(monkeypatch):
    def slow(*given, **more):
        raise Exception("The current node timed out\nduring startup.")  # Ray says no more than that

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=slow))
    with pytest.raises(
        SettingError, match=r"^--ray local: no cluster answers \(The current node timed out during startup\.\)$"
    ):
        Cluster("local")
