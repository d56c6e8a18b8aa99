"""An app of the shape of Flower's quickstart gains headgate in eleven lines, and plays in simulation and deployment alike."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from deployed import audit
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from grids import FakeGrid, Node

from headgate.flower.deploy.deployment import Loopback
from headgate.records.reader import RunFolder

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "quickstart"
PATCH = (APP / "headgate.patch").read_text("utf-8")


def added():
    return [line[1:] for line in PATCH.splitlines() if line.startswith("+") and not line.startswith("+++") and line[1:].strip()]


def test_eleven_lines_change_and_the_page_shows_them():
    assert len(added()) == 11
    page = (ROOT / "docs" / "do" / "flower.md").read_text("utf-8")
    assert [line for line in added() if line.strip() not in page] == []


def test_the_app_before_runs_too(monkeypatch):
    """So that what is counted is a change of something that works."""
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    monkeypatch.syspath_prepend(APP)
    from quickstart.client_app import app
    from quickstart.task import Net

    grid = FakeGrid({5: Node(app, 0, {"num-partitions": 4})}, {"local-epochs": 1, "batch-size": 8})
    content = RecordDict({"arrays": ArrayRecord(Net().state_dict()), "config": ConfigRecord({"lr": 0.1})})
    reply = grid.deliver(Message(content, 5, "train", group_id="1"))
    assert reply.content["metrics"]["num-examples"] == 300
    assert 0 < reply.content["metrics"]["train_loss"] < 3


def changed(folder):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    shutil.copytree(APP, folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", "headgate.patch"], cwd=folder / "app", check=True)
    return folder / "app", folder / "run"


def orders_of(out, stores, said):
    """All orders of a run that has come to its end, with accounts that agree with what the clients hold."""
    found, metrics = audit(out, stores), RunFolder.open(out).metrics()
    assert metrics["t"].to_list() == [1, 2, 3]
    assert metrics["n"][-1] == sum(row.admitted for row in found.orders()), "there is room for all"
    assert 0 < metrics["spend"].sum() <= 3 * 150.0
    assert metrics["test_accuracy"].is_not_null().all()
    assert "eval_acc" in said, "clients evaluate"
    assert found.events() == []
    assert sum(order.charge for order in found.orders()) == pytest.approx(metrics["spend"].sum())
    return found.orders()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    app, out = changed(tmp_path_factory.mktemp("simulated"))
    script = [sys.executable, str(Path(__file__).with_name("simulated.py")), "app", str(app), str(out)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr[-3000:]
    return orders_of(out, [Path(f"{out}-stores")], done.stdout)


def test_the_changed_app_plays_on_flower_s_simulation_engine(simulated):
    assert {order.client for order in simulated} == {0, 1, 2, 3}


@pytest.mark.long
@pytest.mark.deploy
@pytest.mark.skipif(not shutil.which("nginx"), reason="no nginx on this machine: apt-get install nginx")
def test_the_changed_app_plays_in_a_deployment_as_on_the_simulation_engine(simulated, tmp_path):
    app, out = changed(tmp_path)
    with Loopback(tmp_path / "deployment", 4, print, {"HEADGATE_KEEP": "true"}) as deployment:
        deployment.bring_up()
        deployment.run(app, out)
    with closing(sqlite3.connect(deployment.link / "state.db")) as flower:  # what apps print is nowhere else
        said = str(flower.execute("SELECT log FROM task_logs").fetchall())
    assert orders_of(out, deployment.folder.glob("node-*/store"), said) == simulated
