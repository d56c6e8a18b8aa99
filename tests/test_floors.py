"""Imports go downward only, in no circle, and the control core needs numpy alone."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import headgate

SOURCE = Path(headgate.__file__).parents[1]
FACE = "headgate"
"""the package's face, `headgate/__init__.py`"""
KERNELS = "headgate_kernels"
"""the package of executors that are loaded by name"""
FLOORS = (
    ("escaping", "version"),
    ("errors", "progress"),
    ("limits", "writing"),
    ("reading", "theory"),
    ("control",),
    ("registry",),
    ("books", "learning"),
    ("experiment",),
    ("records",),
    ("analysis",),
    ("simulation", "flower", "nvflare"),
    ("api", "web"),
    ("labels",),
    ("testing",),
    ("cli",),
    ("__main__", KERNELS, FACE),
)
"""the rooms from the ground up: a room imports rooms of lower floors alone, so rooms of
one floor never import each other, and nobody imports those of the last
"""
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def module_name(path):
    """Return the name with which a file is imported."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


# Templates become apps of users, which may import everything.
MODULES = {
    module_name(path): path
    for path in sorted(SOURCE.rglob("*.py"))
    if "template" not in path.parts
}


def imported(path):
    """Yield all names that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: line {node.lineno} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_of(names):
    """Yield our modules that hold the names."""
    for name in names:
        if name in MODULES:
            yield name
        elif (holder := name.rpartition(".")[0]) in MODULES:
            yield holder


def room(module):
    """Return the folder or file of headgate that a module belongs to, or the package
    beside it.
    """
    package, *inside = module.split(".")
    return inside[0] if package == FACE and inside else package


IMPORTS = {name: set(modules_of(imported(path))) for name, path in MODULES.items()}


def test_every_room_has_its_floor():
    assert {room(module) for module in MODULES} - FLOOR.keys() == set()


def test_imports_go_downward_only():
    upward = [
        f"{own} imports {other}"
        for own, others in IMPORTS.items()
        for other in sorted(others)
        if room(own) != room(other) and FLOOR[room(own)] <= FLOOR[room(other)]
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle():
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def test_nothing_imports_a_study():
    named = {name for path in MODULES.values() for name in imported(path)}
    assert [name for name in named if name.split(".")[0] == "studies"] == []


def test_control_needs_numpy_alone(python):
    code = """
import sys

others = "pydantic typer rich polars torch sklearn flwr starlette plotly scipy"
sys.modules.update(dict.fromkeys(others.split()))
import headgate.control.files
import headgate.control.policies
import headgate.control.prices.processes
import headgate.control.rehearse
import headgate.testing
"""
    python("-c", code)
