"""Writes a Flower app that runs a recipe, for `headgate flower new`."""

import keyword
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from modulefinder import ModuleFinder
from pathlib import Path
from string import Template
from typing import Any

import tomli_w

from headgate.errors import DataError
from headgate.experiment import Experiment, load, named_outside
from headgate.flower.playable import without_folder
from headgate.learning.partition import Pairs

TEMPLATE = files("headgate.flower.app") / "template"
AROUND = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "LICENSE": "LICENSE",
    "gitignore": ".gitignore",  # Flower leaves ignored files out of the app's bundle
    "env.sh": "env.sh",
    "config.toml": "home/config.toml",
}
TAKEN = ("flwr", "headgate", "headgate_kernels", "torch", "numpy")
"""packages that an app imports"""
FILES = ("__init__.py", "server_app.py", "client_app.py")


def write_app(
    folder: Path,
    recipe: str,
    overrides: Sequence[str] = (),
    policy: str | None = None,
    clients: int | None = None,
) -> Experiment:
    """Write an app into `folder`, which must be new or empty; return the experiment
    that it runs.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already; choose another folder")
    package = package_name(folder.resolve().name)
    experiment = load(recipe, single(recipe, overrides, policy, clients))
    tables = without_folder(experiment.tables())
    places = [Path.cwd()]
    if experiment.folder is not None:
        places.insert(0, experiment.folder)
    own = own_modules(tables, places)
    for module, path in own.items():
        if module.as_posix() in FILES:
            raise DataError(
                f"{path}: the app has a {module} of its own; give the module another"
                " name"
            )
    values = {
        "package": package,
        "name": package.replace("_", "-"),
        "recipe": experiment.name,
        "policy": next(iter(experiment.policies)),
        "clients": experiment.system.clients,
        "rounds": experiment.rounds,
        "out": (folder.resolve() / "runs" / experiment.name).as_posix(),
    }
    home = folder / package
    home.mkdir(parents=True)
    (folder / "home").mkdir()
    for source, name in AROUND.items():
        text = (TEMPLATE / source).read_text("utf-8")
        if source != "env.sh":
            text = Template(text).substitute(values)
        (folder / name).write_text(text, "utf-8")
    for name in FILES:
        (home / name).write_bytes((TEMPLATE / "package" / name).read_bytes())
    for module, path in own.items():
        (home / module).parent.mkdir(
            parents=True,
            exist_ok=True,
        )
        (home / module).write_bytes(path.read_bytes())
    (home / "recipe.toml").write_text(tomli_w.dumps(tables), "utf-8")
    return experiment


def own_modules(tables: Mapping[str, Any], folders: Sequence[Path]) -> dict[Path, Path]:
    """Return the files in these folders of all modules that a recipe names as
    `module:Class`, and of those they import.

    The keys are paths relative to the folders. Installed packages are left out: they
    must be installed on every machine.
    """
    roots = [folder.resolve() for folder in folders]
    finder = ModuleFinder(path=[str(root) for root in roots])
    for name in named_outside(tables).values():
        try:
            finder.import_hook(name.partition(":")[0])
        except ImportError:  # not in these folders
            continue
    files_ = [getattr(module, "__file__", None) for module in finder.modules.values()]
    paths = [Path(file) for file in files_ if file]
    return {
        path.relative_to(root): path
        for path in paths
        for root in roots
        if path.is_relative_to(root)
    }


def app_settings(folder: Path) -> tuple[int, Path]:
    """Return the number of clients and the run folder of an app, whose files may have
    been edited.
    """
    try:
        settings = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        own = settings["tool"]["flwr"]["app"]
        package = str(own["components"]["serverapp"]).partition(".")[0]
        experiment = load(str(folder / package / "recipe.toml"))
        return experiment.system.clients, Path(own["config"]["out"])
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder}: is no app made by headgate flower new ({error})"
        ) from None


def single(
    recipe: str,
    overrides: Sequence[str],
    policy: str | None,
    clients: int | None,
) -> list[str]:
    """Return overrides for one policy, by default headgate, and one seed. With other
    clients, each has the same budget.
    """
    more = list(overrides)
    given = load(recipe, more)
    stated = {each.partition("=")[0] for each in overrides}
    if clients is not None and clients != given.system.clients:
        more.append(f"system.clients={clients}")
        if "system.budget" not in stated:
            budget = given.system.budget * clients / given.system.clients
            more.append(f"system.budget={budget:g}")
        if "data.partition" not in stated and isinstance(given.data.partition, Pairs):
            # with pairs, fewer clients would hold fewer classes
            more.append("data.partition=iid")
    return [*more, f'run.policies=["{policy or "headgate"}"]', "run.seeds=1"]


def package_name(name: str) -> str:
    """Return a name as that of a Python package.

    >>> package_name("My first app"), package_name("2nd")
    ('my_first_app', 'app_2nd')
    """
    made = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_") or "app"
    taken = keyword.iskeyword(made) or made in TAKEN
    return f"app_{made}" if taken or made[0].isdigit() else made
