"""What `headgate flower new` writes is an app that Flower takes, with the recipe's settings in it."""

import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from grids import FakeGrid, Node
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli import main
from headgate.errors import DataError, SettingError
from headgate.experiment import load
from headgate.flower.app.write import AROUND, FILES, OURS, OWN, TEMPLATE, app_settings, package_name, single, write_app
from headgate.flower.quiet import ENVIRONMENT
from headgate.learning.partition import Dirichlet, Iid
from headgate.records.reader import RunFolder

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("training", [OURS, OWN])
def test_an_app_is_python_that_says_what_the_recipe_says(tmp_path, training):
    experiment = write_app(tmp_path / "my app", "digits", ["run.rounds=7"], "acdpp", 4, training)
    home = tmp_path / "my app" / "my_app"
    for path in home.glob("*.py"):
        compile(path.read_text("utf-8"), path.name, "exec")
    again = load(str(home / "recipe.toml"))
    assert again.tables() == experiment.tables()
    assert list(again.policies) == ["acdpp"]
    assert again.seeds.size == 1
    assert again.rounds == 7
    assert again.system.clients == 4
    settings = tomllib.loads((tmp_path / "my app" / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["flwr"]["app"]["fab-format-version"] == 1
    assert settings["project"]["license"] == {"file": "LICENSE"}
    assert settings["project"]["name"] == "my-app"
    assert app_settings(tmp_path / "my app") == (4, tmp_path / "my app" / "runs" / "digits")
    assert not [
        path
        for path in (tmp_path / "my app").rglob("*")
        if path.is_file() and re.search(r"\$\w", path.read_text()) and path.name != "env.sh"
    ]


def test_what_is_sourced_before_flwr_is_what_headgate_starts_it_with(tmp_path):
    write_app(tmp_path / "app", "digits")
    told = subprocess.run(
        ["sh", "-c", ". ./env.sh && env"], cwd=tmp_path / "app", capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {f"{name}={value}" for name, value in ENVIRONMENT.items()} <= set(told)
    assert f"FLWR_HOME={tmp_path / 'app' / 'home'}" in told


def test_every_file_of_the_template_goes_into_some_app():
    listed = {*AROUND, "__init__.py", *(f"package/{name}" for names in FILES.values() for name in names), "package/__init__.py"}
    there = {path.relative_to(TEMPLATE).as_posix() for path in Path(str(TEMPLATE)).rglob("*") if path.is_file()}
    assert {name for name in there if "__pycache__" not in name} == listed


def test_fewer_clients_have_as_much_money_each_and_all_classes():
    whole, part = load("digits"), load("digits", single("digits", [], None, 4))
    assert part.system.budget / 4 == pytest.approx(whole.system.budget / 10)
    assert part.data.partition == Iid()
    kept = load("digits", single("digits", ["system.budget=9", "data.partition=dirichlet"], None, 4))
    assert kept.system.budget == 9
    assert isinstance(kept.data.partition, Dirichlet)


def test_the_recipe_s_only_policy_is_the_app_s():
    assert list(load("digits", single("digits", ['run.policies=["constant"]'], None, None)).policies) == ["constant"]
    assert list(load("digits", single("digits", [], None, None)).policies) == ["headgate"]


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_app(tmp_path, "digits")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_unknown_training_is_refused(tmp_path):
    with pytest.raises(SettingError, match="--training theirs"):
        write_app(tmp_path / "app", "digits", training="theirs")


def test_a_folder_without_an_app_is_refused(tmp_path):
    with pytest.raises(DataError, match="no app made by headgate"):
        app_settings(tmp_path)


@given(st.text(max_size=30))
def test_every_folder_s_name_gives_a_package_s(name):
    made = package_name(name)
    assert made.isidentifier()
    assert made.isascii()
    assert package_name(made) == made


def test_flower_takes_the_app_and_leaves_out_what_is_not_code(tmp_path):
    app = tmp_path / "bundled"
    write_app(app, "digits", training=OWN)
    for folder in ("runs/digits", "deployment/node-0"):
        (app / folder).mkdir(parents=True)
        (app / folder / "state.json").write_text("{}")
    env = {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(tmp_path / "home")}
    flwr = shutil.which("flwr", path=str(Path(sys.executable).parent))
    done = subprocess.run(
        [flwr, "build", "--app", str(app)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = tmp_path.glob("*.fab")
    names = zipfile.ZipFile(io.BytesIO(bundle.read_bytes())).namelist()
    assert {"bundled/server_app.py", "bundled/client_app.py", "bundled/task.py", "bundled/recipe.toml", "LICENSE"} <= set(names)
    assert not [name for name in names if name.startswith(("runs", "deployment", "home"))]


@pytest.mark.parametrize("training", [OURS, OWN])
def test_the_app_plays_on_a_grid(tmp_path, monkeypatch, no_fsync, training):
    name = f"played_{training}"
    write_app(tmp_path / name, "digits", ["run.rounds=4"], "constant", 3, training)
    monkeypatch.syspath_prepend(tmp_path / name)
    server, client = (importlib.import_module(f"{name}.{side}_app") for side in ("server", "client"))
    config = tomllib.loads((tmp_path / name / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]["config"]
    nodes = {100 + m: Node(client.app, m, {"headgate-store": str(tmp_path / "store")}) for m in range(3)}
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    server.app(FakeGrid(nodes, config), context)
    run = RunFolder.open(app_settings(tmp_path / name).out)
    metrics = run.metrics()
    assert run.state["state"] == "finished"
    assert metrics["t"].to_list() == [1, 2, 3, 4]
    assert metrics["admitted"].sum() > 0
    assert metrics["test_accuracy"].null_count() == 0


def test_the_task_of_one_s_own_learns():
    from types import SimpleNamespace

    import numpy as np

    from headgate.flower.app.template.package import task
    from headgate.flower.sources import unpack

    source = task.source(SimpleNamespace(node_config={"partition-id": 3}))
    samples = source.read(0, 200, lambda key: False).samples
    assert samples[150:] == source.read(150, 50, lambda key: False).samples
    x, y = np.stack([unpack(sample.payload) for sample in samples]), np.array([sample.label for sample in samples])
    model = task.start()
    before = task.evaluate(model)
    for _ in range(20):
        model = task.train(model, x, y)
    after = task.evaluate(model)
    assert after["test_loss"] < before["test_loss"]
    assert after["test_accuracy"] > 0.7


# the commands


@pytest.fixture
def headgate(monkeypatch, capsys, tmp_path):
    def call(*words, code=0):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["headgate", "flower", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out, err

    return call


def test_new_certificates_and_keys_by_command(headgate, tmp_path):
    out, _ = headgate("new", "app", "--clients", 4, "--rounds", 3, "--set", "training.lr=0.25")
    assert "4 clients" in out
    assert load(str(tmp_path / "app" / "app" / "recipe.toml")).training.lr == 0.25
    _, err = headgate("new", "app", code=4)
    assert "exists already" in err
    made, _ = headgate("certificates", "own", "--host", "fl.example.org")
    assert all((tmp_path / line).is_file() for line in made.splitlines())
    assert headgate("key", "node.key")[0].strip() == "node.key.pub"


def test_what_cannot_be_is_refused_before_anything_starts(headgate, tmp_path):
    assert "--nodes 0" in headgate("deploy-example", "x", "--nodes", 0, code=2)[1]
    write_app(tmp_path / "app", "digits", clients=3)
    assert "has 3 clients" in headgate("deploy-example", "app", "--nodes", 4, code=2)[1]
    assert not (tmp_path / "app" / "deployment").exists()


def test_without_flower_the_commands_say_so(headgate, monkeypatch):
    monkeypatch.setattr("headgate.cli.flower.find_spec", lambda name: None)
    assert "pip install 'headgate[flower]'" in headgate("new", "x", code=2)[1]


def test_help_names_every_command(headgate):
    out, _ = headgate("--help")
    for name in ("new", "deploy-example", "certificates", "key", "superlink", "supernode"):
        assert name in out


# the page of faults


def test_the_page_of_faults_is_what_was_written_down():
    import runpy

    tool = runpy.run_path(str(ROOT / "tools" / "faults.py"))
    rows = json.loads(tool["ROWS"].read_text("utf-8"))
    assert tool["PAGE"].read_text("utf-8") == tool["page"](rows), "run python tools/faults.py --page"
    assert {"SuperNode", "ServerApp", "SuperLink"} <= {row["component"] for row in rows["processes"]}
