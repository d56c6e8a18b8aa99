"""An app of the shape of Flower's quickstart gains headgate in eleven lines, and plays
in simulation and deployment alike.

A recipe plays on Flower's simulation engine as in the simulator.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from deployed import audit
from simulated import OWN
from test_parity import MINE, SMALL, assert_same

from headgate.books.exact import NOTHING
from headgate.flower.deploy.deployment import Loopback
from headgate.flower.recipe import task_of
from headgate.records.reader import RunFolder

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "quickstart"
PATCH = (APP / "headgate.patch").read_text("utf-8")
FEW = [*SMALL, "system.clients=4", "system.budget=24.0", "run.rounds=3"]
"""for Flower's engine, which takes its time for every message: each of its two workers
has two clients
"""


def added():
    return [
        line[1:]
        for line in PATCH.splitlines()
        if line.startswith("+") and not line.startswith("+++") and line[1:].strip()
    ]


def test_eleven_lines_change_and_the_page_shows_them():
    assert len(added()) == 11
    page = (ROOT / "docs" / "do" / "flower.md").read_text("utf-8")
    assert [line for line in added() if line.strip() not in page] == []


def changed(folder):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    shutil.copytree(
        APP, folder / "source", ignore=shutil.ignore_patterns("__pycache__")
    )
    subprocess.run(
        ["git", "apply", "headgate.patch"], cwd=folder / "source", check=True
    )
    return folder / "source", folder / "run"


def orders_of(out, stores, said):
    """All orders of a run that has come to its end, with accounts that agree with what
    the clients hold.
    """
    found, metrics = audit(out, stores), RunFolder.open(out).metrics()
    assert metrics["t"].to_list() == [1, 2, 3]
    assert metrics["n"][-1] == sum(row.delivered for row in found.orders()), (
        "there is room for all"
    )
    assert 0 < metrics["spend"].sum() <= 3 * 150.0
    assert metrics["test_accuracy"].is_not_null().all()
    assert "eval_acc" in said, "clients evaluate"
    assert found.events() == []
    paid = sum(order.paid(NOTHING) for order in found.orders())
    assert float(paid) == pytest.approx(metrics["spend"].sum())
    return found.orders()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A folder with a run of a recipe and one of the changed app, and what was
    printed.
    """
    folder = tmp_path_factory.mktemp("simulated")
    script = [
        sys.executable,
        str(Path(__file__).with_name("simulated.py")),
        folder,
        changed(folder)[0],
        MINE,
        *FEW,
    ]
    done = subprocess.run(
        script,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "FLWR_HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


@pytest.fixture(scope="module")
def simulated(engine):
    folder, said = engine
    return orders_of(folder / "app", [folder / "app-stores"], said)


def test_the_simulator_and_flowers_simulation_engine_do_the_same(engine):
    """With data, a model, a server update, a policy, a rule and prices of one's own."""
    folder, _ = engine
    assert_same(task_of(MINE, (*FEW, OWN)), folder / "recipe", folder / "stores")


def test_the_changed_app_plays_on_flower_s_simulation_engine(simulated):
    assert {order.client for order in simulated} == {0, 1, 2, 3}


@pytest.mark.long
@pytest.mark.deploy
@pytest.mark.skipif(
    not shutil.which("nginx"), reason="no nginx on this machine: apt-get install nginx"
)
def test_the_changed_app_plays_in_a_deployment_as_on_the_simulation_engine(
    simulated, tmp_path
):
    app, out = changed(tmp_path)
    with Loopback(
        tmp_path / "deployment", 4, print, {"HEADGATE_KEEP": "true"}
    ) as deployment:
        deployment.bring_up()
        deployment.run(app, out)
    with closing(
        sqlite3.connect(deployment.link / "state.db")
    ) as flower:  # what apps print is nowhere else
        said = str(flower.execute("SELECT log FROM task_logs").fetchall())
    assert orders_of(out, deployment.folder.glob("node-*/store"), said) == simulated
