"""An ordinary Flower app becomes a headgate app in a few lines."""

import difflib
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from grids import FakeGrid, Node

from headgate.records.reader import RunFolder

APP = Path(__file__).parent / "stock_app"
CONFIG = {"num-server-rounds": 3, "lr": 0.1, "local-epochs": 1, "batch-size": 8}


def changed_lines():
    """Lines of the new app that are not in the old one, file by file; what is empty or only says what a file is, aside."""
    for new in sorted((APP / "after").iterdir()):
        if new.suffix in (".py", ".toml") and new.name != "__init__.py":
            old = APP / "before" / new.name
            before = old.read_text("utf-8").splitlines() if old.exists() else []
            for line in difflib.unified_diff(before, new.read_text("utf-8").splitlines(), lineterm="", n=0):
                if line.startswith("+") and not line.startswith("+++") and line[1:].strip():
                    yield f"{new.name}: {line}"


def test_under_fifteen_lines():
    lines = list(changed_lines())
    assert 5 < len(lines) < 15, "\n".join(lines)


def test_the_changed_app_runs(tmp_path, monkeypatch, no_fsync):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    from stock_app.after import client_app, server_app

    monkeypatch.setenv("HEADGATE_STORE", str(tmp_path / "stores"))
    config = {**CONFIG, "recipe": str(APP / "after" / "admission.toml"), "out": str(tmp_path / "run")}
    nodes = {100 + m: Node(client_app.app, m, {"num-partitions": 4}) for m in range(4)}
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    server_app.app(FakeGrid(nodes, config), context)
    metrics = RunFolder.open(tmp_path / "run").metrics()
    assert metrics["t"].to_list() == [1, 2, 3]
    assert metrics["admitted"].sum() > 0
    assert metrics["spend"].sum() <= 3 * 200.0
    assert metrics["test_accuracy"].is_not_null().all()
    assert len(list((tmp_path / "stores").glob("client-*.sqlite"))) == 4


def test_the_app_before_runs_too():
    """So that what is counted is a change of something that works."""
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    from stock_app.before import client_app
    from stock_app.before.task import Net

    grid = FakeGrid({5: Node(client_app.app, 0, {"num-partitions": 4})}, CONFIG)
    content = RecordDict({"arrays": ArrayRecord(Net().state_dict()), "config": ConfigRecord({"lr": 0.1})})
    reply = grid.deliver(Message(content, 5, "train", group_id="1"))
    assert reply.content["metrics"]["num-examples"] == 375
    assert 0 < reply.content["metrics"]["train_loss"] < 3
