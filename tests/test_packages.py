"""What is shipped: small, whole, quick to import."""

import email
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
PLACE = runpy.run_path(str(ROOT / "hatch_build.py"))
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


def test_the_metadata_are_complete_and_have_no_link_that_leads_nowhere(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith("/METADATA"))
        said = email.message_from_bytes(file.read(name))
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Author"]
    versions = {
        f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)
    }
    assert versions <= set(said.get_all("Classifier"))
    text = said.get_payload()
    assert text.startswith("# headgate")
    assert re.findall(r"\]\((?!https?:|#)", text) == []


@pytest.mark.parametrize(
    ("home", "made"),
    [
        ("", "a and "),
        (
            "https://x.org/o/h",
            "[a](https://x.org/o/h/blob/main/docs/a.md#b) and"
            " ![c](https://x.org/o/h/raw/main/c.svg)",
        ),
    ],
)
def test_links_of_the_description_are_absolute_or_left_out(home, made):
    assert PLACE["described"]("[a](docs/a.md#b) and ![c](c.svg)", home) == made
    badge = "[![p](https://x.org/p)](LICENSE)"
    assert PLACE["described"](badge, "") == "![p](https://x.org/p)"
    whole = "[a](https://x.org) and [b](#b)"
    assert PLACE["described"](whole, home) == whole


@pytest.mark.parametrize(
    ("remote", "home"),
    [
        ("https://x.org/o/h.git", "https://x.org/o/h"),
        ("git@x.org:o/h.git", "https://x.org/o/h"),
        ("https://name:secret@x.org/o/h.git", ""),
        ("/somewhere/else", ""),
    ],
)
def test_the_place_of_the_repository_is_an_address_without_a_password(
    remote, home, tmp_path, monkeypatch
):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert PLACE["repository"](tmp_path) == ""
    git = ["git", "-C", str(tmp_path), "remote", "add", "origin", remote]
    subprocess.run(git, check=True)
    assert PLACE["repository"](tmp_path) == home


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
