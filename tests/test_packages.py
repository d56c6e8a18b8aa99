"""What is shipped: small, whole, quick to import."""

import re
import runpy
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytest.importorskip("build", reason="the extra dev is not installed")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
TOOL = runpy.run_path(str(ROOT / "tools" / "packages.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Of the sdist, as `python -m build` makes it: what the sdist lacks the wheel
    lacks.
    """
    return TOOL["build"](tmp_path_factory.mktemp("dist"))[0]


def test_the_wheel_is_small_and_holds_what_git_has_of_the_package(wheel):
    assert wheel.stat().st_size < TOOL["MOST"]
    with zipfile.ZipFile(wheel) as file:
        inside = set(file.namelist())
    listed = subprocess.run(
        ["git", "ls-files", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a checkout: nobody knows which files belong to it")
    assert {name.removeprefix("src/") for name in listed.stdout.splitlines()} <= inside
    assert not [name for name in inside if name.endswith(".pyc")]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_workflows_call_targets_that_the_makefile_has(path):
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    assert set(re.findall(r"run: make ([a-z-]+)", path.read_text("utf-8"))) <= targets


def test_all_that_the_extras_of_users_need_has_a_lower_bound_that_can_be_tried():
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(TOOL["EXTRAS"]) == set(extras) - {"gpu", "docs", "dev"}
    for extra in TOOL["EXTRAS"]:
        said = dict(each.split("==") for each in TOOL["oldest"](extra))
        assert {re.match(r"[\w-]+", each)[0] for each in extras[extra]} <= said.keys()
    assert said["rich"] == "13.7"
    assert (
        dict(each.split("==") for each in TOOL["oldest"]("flower"))["rich"] == "14"
    )  # the higher of two bounds
