"""What `headgate flower new` writes is an app that Flower takes, with the recipe's
settings in it.
"""

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
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
import tomli_w
import yaml
from flwr.app import Context, RecordDict
from grids import FakeGrid, Node
from hypothesis import given
from hypothesis import strategies as st

from headgate.books.database import LEDGER
from headgate.books.in_file import FileTables
from headgate.errors import DataError
from headgate.experiment import load
from headgate.flower import ENVIRONMENT
from headgate.flower.app.write import (
    AROUND,
    FILES,
    TEMPLATE,
    app_settings,
    package_name,
    single,
    write_app,
)
from headgate.flower.buffer_store import BufferStore
from headgate.learning.partition import Dirichlet, Iid
from headgate.records.reader import RunFolder
from headgate.simulation.schedule import perform

ROOT = Path(__file__).parent.parent.parent


def test_an_app_is_python_that_says_what_the_recipe_says(tmp_path):
    experiment = write_app(tmp_path / "my app", "digits", ["run.rounds=7"], "acdpp", 4)
    home = tmp_path / "my app" / "my_app"
    for path in home.glob("*.py"):
        compile(path.read_text("utf-8"), path.name, "exec")
    again = load(str(home / "recipe.toml"))
    assert again.tables() == experiment.tables()
    assert (
        list(again.policies),
        again.seeds.size,
        again.rounds,
        again.system.clients,
    ) == (["acdpp"], 1, 7, 4)
    settings = tomllib.loads(
        (tmp_path / "my app" / "pyproject.toml").read_text("utf-8")
    )
    assert (settings["project"]["license"], settings["project"]["name"]) == (
        {"file": "LICENSE"},
        "my-app",
    )
    assert app_settings(tmp_path / "my app") == (
        4,
        tmp_path / "my app" / "runs" / "digits",
    )
    texts = [
        path.read_text()
        for path in (tmp_path / "my app").rglob("*")
        if path.is_file() and path.name != "env.sh"
    ]
    assert not [text for text in texts if re.search(r"\$\w", text)], (
        "every name in the templates is filled in"
    )


def test_what_is_sourced_before_flwr_is_what_headgate_starts_it_with(tmp_path):
    write_app(tmp_path / "app", "digits")
    told = subprocess.run(
        ["sh", "-c", ". ./env.sh && env"],
        cwd=tmp_path / "app",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {f"{name}={value}" for name, value in ENVIRONMENT.items()} <= set(told)
    assert f"FLWR_HOME={tmp_path / 'app' / 'home'}" in told


def test_every_file_of_the_template_goes_into_some_app():
    listed = {*AROUND, "__init__.py", *(f"package/{name}" for name in FILES)}
    there = {
        path.relative_to(TEMPLATE).as_posix()
        for path in Path(str(TEMPLATE)).rglob("*")
        if path.is_file()
    }
    assert {name for name in there if "__pycache__" not in name} == listed


def test_fewer_clients_have_as_much_money_each_and_all_classes():
    whole, part = load("digits"), load("digits", single("digits", [], None, 4))
    assert part.system.budget / 4 == pytest.approx(whole.system.budget / 10)
    assert part.data.partition == Iid()
    kept = load(
        "digits",
        single("digits", ["system.budget=9", "data.partition=dirichlet"], None, 4),
    )
    assert kept.system.budget == 9
    assert isinstance(kept.data.partition, Dirichlet)
    for overrides in (
        [],
        ['run.policies=["constant"]'],
    ):  # headgate is the policy of an app unless another is named
        assert list(
            load("digits", single("digits", overrides, None, None)).policies
        ) == ["headgate"]


def test_what_cannot_be_written_or_read_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_app(tmp_path, "digits")
    with pytest.raises(DataError, match="no app made by headgate"):
        app_settings(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@given(st.text(max_size=30))
def test_every_folder_s_name_gives_a_package_s(name):
    made = package_name(name)
    assert made.isidentifier()
    assert made.isascii()
    assert package_name(made) == made


def test_flower_takes_the_app_and_leaves_out_what_is_not_code(tmp_path):
    app = tmp_path / "bundled"
    write_app(app, "digits")
    for folder in ("runs/digits", "deployment/node-0"):
        (app / folder).mkdir(parents=True)
        (app / folder / "state.json").write_text("{}")
    env = {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(tmp_path / "home")}
    flwr = shutil.which("flwr", path=str(Path(sys.executable).parent))
    done = subprocess.run(
        [flwr, "build", "--app", str(app)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = tmp_path.glob("*.fab")
    names = zipfile.ZipFile(io.BytesIO(bundle.read_bytes())).namelist()
    assert {
        "bundled/server_app.py",
        "bundled/client_app.py",
        "bundled/recipe.toml",
        "LICENSE",
    } <= set(names)
    assert not [
        name for name in names if name.startswith(("runs", "deployment", "home"))
    ]


def play(app, monkeypatch, store, clients):
    """The run folder of an app after all its rounds, on a grid in this process."""
    monkeypatch.syspath_prepend(app)
    server, client = (
        importlib.import_module(f"{app.name}.{side}_app")
        for side in ("server", "client")
    )
    config = tomllib.loads((app / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"][
        "app"
    ]["config"]
    nodes = {
        100 + m: Node(client.app, m, {"headgate-store": str(store)})
        for m in range(clients)
    }
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config
    )
    server.app(FakeGrid(nodes, config), context)
    return RunFolder.open(app_settings(app)[1])


def test_modules_that_a_recipe_names_go_with_the_app(
    tmp_path, monkeypatch, forgets_modules
):
    """Also what they import; the app needs nothing of the folder that it was made
    from.
    """
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    home = tmp_path / "recipes"
    home.mkdir()
    for path in (ROOT / "examples").glob("m[iy]*"):
        shutil.copy(path, home)
    (home / "in_an_app.py").write_text(
        "from my_policy import BelowAverage\n\n\nclass Mine(BelowAverage):\n    pass\n"
    )
    text = (
        (home / "mine.toml")
        .read_text("utf-8")
        .replace("my_policy:BelowAverage", "in_an_app:Mine")
    )
    (home / "mine.toml").write_text(text)
    write_app(
        tmp_path / "carried",
        str(home / "mine.toml"),
        ["run.rounds=3", "system.buffers=[3]"],
        "below",
        3,
    )
    shutil.move(home, home := tmp_path / "elsewhere")
    for name in ("in_an_app", "my_policy"):
        monkeypatch.delitem(sys.modules, name)
    run = play(tmp_path / "carried", monkeypatch, tmp_path / "store", 3)
    assert sys.modules["my_policy"].__file__ == str(
        tmp_path / "carried" / "carried" / "my_policy.py"
    )
    assert run.state["state"] == "finished"
    assert run.config["policies"]["below"]["kind"] == "in_an_app:Mine"
    assert run.metrics()["price"].is_between(3.0, 9.0).all()
    shutil.copy(home / "my_prices.py", home / "server_app.py")
    (home / "mine.toml").write_text(
        text.replace("my_prices:Weekends", "server_app:Weekends")
    )
    with pytest.raises(
        DataError, match=r"server_app.py: the app has a server_app.py of its own"
    ):
        write_app(
            tmp_path / "refused", str(home / "mine.toml"), policy="below", clients=3
        )
    assert not (tmp_path / "refused").exists()


def test_the_readme_s_parts_of_one_s_own_work(tmp_path, monkeypatch, forgets_modules):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    write_app(tmp_path / "readme", "digits", ["run.rounds=8"], clients=3)
    text = (tmp_path / "readme" / "README.md").read_text("utf-8")
    module, tables = (
        re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL).group(1)
        for kind in ("python", "toml")
    )
    (tmp_path / "readme" / "readme" / "mine.py").write_text(module)
    path = tmp_path / "readme" / "readme" / "recipe.toml"
    recipe = tomllib.loads(path.read_text("utf-8"))
    for name, table in tomllib.loads(tables).items():
        recipe[name] = recipe[name] | table if name == "policies" else table
    path.write_text(tomli_w.dumps(recipe))
    run = play(tmp_path / "readme", monkeypatch, tmp_path / "store", 3)
    metrics = run.metrics()
    assert (run.state["state"], metrics["t"].to_list()) == (
        "finished",
        list(range(1, 9)),
    )
    assert metrics["price"].to_list() == [4.0] * 6 + [1.0, 4.0]
    assert metrics["test_accuracy"].null_count() == 0
    assert (run.path / "report.html").is_file()
    assert (
        json.loads((run.path / "summary.json").read_text("utf-8"))[0]["policy"]
        == "headgate"
    )
    store = BufferStore(tmp_path / "store" / "client-00000.sqlite", 0)
    with closing(FileTables(run.path / LEDGER)) as ledger, closing(store):
        held = store.positions(ledger.account)
    assert held == list(range(len(held))) != []


# the commands


@pytest.fixture
def flower(monkeypatch, headgate, tmp_path):
    """The commands of headgate flower, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    return partial(headgate, "flower")


def test_new_certificates_and_keys_by_command(flower, tmp_path):
    out, _ = flower(
        "new", "app", "--clients", 4, "--rounds", 3, "--set", "training.lr=0.25"
    )
    assert "4 clients" in out
    assert load(str(tmp_path / "app" / "app" / "recipe.toml")).training.lr == 0.25
    assert "exists already" in flower("new", "app", code=4)[1]
    made, _ = flower("certificates", "own", "--host", "fl.example.org")
    assert all((tmp_path / line).is_file() for line in made.splitlines())
    assert flower("key", "node.key")[0].strip() == "node.key.pub"


def test_what_cannot_be_is_refused_before_anything_starts(
    flower, tmp_path, monkeypatch
):
    assert "--nodes 0" in flower("deploy-example", "x", "--nodes", 0, code=2)[1]
    write_app(tmp_path / "app", "digits", clients=3)
    assert "has 3 clients" in flower("deploy-example", "app", "--nodes", 4, code=2)[1]
    assert not (tmp_path / "app" / "deployment").exists()
    monkeypatch.setattr("headgate.cli.flower.find_spec", lambda name: None)
    assert "pip install 'headgate[flower]'" in flower("new", "x", code=2)[1]


def test_deploy_example_writes_the_app_that_it_plays(flower, tmp_path, monkeypatch):
    """With a deployment of paper, on which the simulator plays: a real one is brought
    up in test_deploy.py.
    """

    class Paper(ExitStack):
        def __init__(self, folder, nodes, say):
            super().__init__()
            assert (folder, nodes) == (Path("app") / "deployment", 1)

        def bring_up(self):
            pass

        def run(self, app, out):
            assert (app / "app" / "client_app.py").is_file()
            perform(load(str(app / "app" / "recipe.toml")), out, processes=1)

    monkeypatch.setattr("headgate.flower.deploy.deployment.Loopback", Paper)
    out, _ = flower("deploy-example", "app", "--nodes", 1, "--rounds", 3)
    assert f"run folder: {tmp_path / 'app' / 'runs' / 'digits'}" in out


def test_scripts_units_and_compose_run_flowers_own_programs_behind_nginx(
    flower, tmp_path
):
    made, _ = flower(
        "superlink",
        "link",
        "--certificates",
        "own",
        "--listen",
        "0.0.0.0:7000",
        "--inside",
        7001,
    )
    node = (
        "--authority",
        "ca.crt",
        "--key",
        "node.key",
        "--client",
        3,
        "--clients",
        10,
        "--keep",
    )
    more, _ = flower("supernode", "a node", "--superlink", "fl.example.org:7000", *node)
    texts = {
        Path(line).name: Path(line).read_text() for line in (made + more).splitlines()
    }
    services = ["superlink", "superlink-superexec", "nginx", "supernode-3"]
    for name in services:
        assert all(
            f"{key}={value}" in texts[f"{name}.sh"]
            for key, value in ENVIRONMENT.items()
        )
        assert "Restart=always" in texts[f"headgate-{name}.service"]
    assert (
        "flower-superlink --host 127.0.0.1 --port 7001 --isolation process"
        " --enable-supernode-auth" in texts["superlink.sh"]
    )
    settings = 'headgate-store="{0}/a node/store" headgate-keep=true'
    assert settings.format(tmp_path) in texts["supernode-3.sh"]
    assert "listen 0.0.0.0:7000 ssl;" in texts["nginx.conf"]
    assert "OnCalendar=daily" in texts["headgate-certificates.timer"]
    for folder, expected in (
        (tmp_path / "link", services[:3]),
        (tmp_path / "a node", services[3:]),
    ):
        compose = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
        network = compose.pop("network")
        assert network["ports"] == (["7000:7000"] if "nginx" in compose else [])
        assert {name: each["command"] for name, each in compose.items()} == {
            name: ["/bin/bash", f"{folder}/{name}.sh"] for name in expected
        }
        assert {each["network_mode"] for each in compose.values()} == {
            "service:network"
        }
        assert all(
            each["restart"] == "always" and f"{folder}:{folder}" in each["volumes"]
            for each in compose.values()
        )
        for script in folder.glob("*.sh"):
            assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    if shutil.which("systemd-analyze"):
        units = [
            line
            for line in (made + more).splitlines()
            if line.endswith((".service", ".timer"))
        ]
        done = subprocess.run(
            ["systemd-analyze", "verify", *units], capture_output=True, text=True
        )
        assert "headgate" not in done.stderr, done.stderr
    assert (
        "is no folder of headgate flower superlink"
        in flower("register", "other", 0, "node.key.pub", code=2)[1]
    )


@pytest.mark.parametrize("folder", ['a"b', "a$b", "a%b", "a'b"])
def test_a_folder_that_would_be_read_as_code_is_refused(flower, folder):
    assert (
        "must not contain"
        in flower("superlink", folder, "--certificates", "own", code=2)[1]
    )
