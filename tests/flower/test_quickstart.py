"""An app of the shape of Flower's quickstart gains headgate in twelve lines, and plays on Flower's simulation engine."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from grids import FakeGrid, Node

from headgate.books.ledger_store import LEDGER, LedgerStore
from headgate.flower.buffer_store import BufferStore, stores_in
from headgate.records.reader import RunFolder

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "quickstart"
PATCH = (APP / "headgate.patch").read_text("utf-8")


def added():
    return [line[1:] for line in PATCH.splitlines() if line.startswith("+") and not line.startswith("+++") and line[1:].strip()]


def test_twelve_lines_change_and_the_page_shows_them():
    assert len(added()) == 12
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


def test_the_changed_app_plays_on_flower_s_simulation_engine(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    app, out = tmp_path / "app", tmp_path / "run"
    shutil.copytree(APP, app, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", "headgate.patch"], cwd=app, check=True)
    script = [sys.executable, str(Path(__file__).with_name("played_app.py")), str(app), str(out)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "eval_acc" in done.stdout
    metrics = RunFolder.open(out).metrics()
    assert metrics["t"].to_list() == [1, 2, 3]
    assert 0 < metrics["spend"].sum() <= 3 * 150.0
    assert metrics["test_accuracy"].is_not_null().all()
    with closing(LedgerStore(out / LEDGER)) as ledger:
        charged = sum(order.charge for order in ledger.orders())
        assert charged == pytest.approx(metrics["spend"].sum())
        held = 0
        for client, path in stores_in(Path(f"{out}-stores")):
            with closing(BufferStore(path, client)) as store:
                held += len(store.positions(ledger.experiment))
                assert store.state(ledger.experiment).position == sum(
                    order.admitted or 0 for order in ledger.orders() if order.client == client
                )
    assert held == metrics["n"][-1]
