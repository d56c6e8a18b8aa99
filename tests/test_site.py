"""`make docs` as a test: no warning, no broken link, no undocumented name, and a site
that needs no network.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from headgate.cli.commands import app
from headgate.control import policies

pytest.importorskip("sphinx_gallery", reason="the extra docs is not installed")
ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DATA = "headgate.learning.data:Data"
TUTORIALS = sorted(path.stem for path in (DOCS / "tutorials").glob("[0-9]_*.py"))
LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["'](?:https?:)?//"""
)


def build(source, site, *more):
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        "-E",
        *more,
        str(source),
        str(site),
    ]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built from a copy, as the gallery writes beside the sources. Only the first
    tutorial is run for it.
    """
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(
        DOCS, folder / "docs", ignore=shutil.ignore_patterns("gallery", "__pycache__")
    )
    for name in ("src", "examples", "studies", "contributing", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "SECURITY.md", folder)
    done = build(
        folder / "docs",
        folder / "site",
        "-D",
        "sphinx_gallery_conf.filename_pattern=/1_",
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_every_page_is_there_and_loads_nothing_from_elsewhere(
    site,
):
    pages = list(site.rglob("*.html"))
    assert pages
    assert {
        path: found
        for path in pages
        if (found := LOADED.findall(path.read_text("utf-8")))
    } == {}
    formulas, tutorial = (
        site / name
        for name in ("understand/how-it-decides.html", f"gallery/{TUTORIALS[0]}.html")
    )
    assert "<math" in formulas.read_text("utf-8")  # drawn by the browser
    assert not re.search(r'src="[^"]*math', formulas.read_text("utf-8"), re.IGNORECASE)
    assert f"sphx_glr_{TUTORIALS[0]}_001.png" in tutorial.read_text("utf-8")
    assert "Traceback" not in tutorial.read_text("utf-8")
    assert [int(name[0]) for name in TUTORIALS] == [1, 2, 3, 4, 5, 6]


def test_the_navigation_leads_to_every_page_and_to_no_heading(site):
    here = site / "understand" / "how-it-decides.html"
    tree = re.search(
        r'<div class="sidebar-tree">(.*?)</div>', here.read_text("utf-8"), re.DOTALL
    )[1]
    links = re.findall(r'<a class="[^"]*reference[^"]*" href="([^"]+)"', tree)
    assert [link for link in links if "#" in link] == ["#"]  # the page itself
    led_to = {(here.parent / link).resolve() for link in links if link != "#"} | {
        here.resolve()
    }
    alone = {
        (site / f"{name}.html").resolve()
        for name in ("index", "search", "genindex", "py-modindex")
    }
    assert led_to == {path.resolve() for path in site.rglob("*.html")} - alone


@pytest.mark.long
@pytest.mark.parametrize("name", TUTORIALS[1:])
def test_a_tutorial_runs(name, python, tmp_path):
    python(
        DOCS / "tutorials" / f"{name}.py",
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
    )


def test_every_command_and_every_kind_stands_in_the_reference(site):
    commands = (site / "reference" / "commands.html").read_text("utf-8")
    for name in typer.main.get_command(app).commands:
        assert f"headgate {name}" in commands
    recipes = re.sub(
        r"<[^>]+>", "", (site / "reference" / "recipes.html").read_text("utf-8")
    )
    for kind in policies.KINDS:
        assert f"\n{kind}¶" in recipes


def test_a_broken_link_or_an_undocumented_name_fails(tmp_path):
    (tmp_path / "silent.py").write_text(
        'def spoken():\n    """Says something."""\n\n\ndef silent():\n    pass\n'
    )
    links = "[nowhere](nowhere.md) [nothing](#no-such-place)"
    members = (
        "```{eval-rst}\n.. automodule:: silent\n   :members:\n   :undoc-members:\n```"
    )
    (tmp_path / "index.md").write_text(f"# One page\n\n{links}\n\n{members}\n")
    paths, extensions = (
        [str(DOCS / "_extensions"), str(tmp_path)],
        ["myst_parser", "sphinx.ext.autodoc", "undocumented"],
    )
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path[:0] = {paths}\nextensions = {extensions}\n"
    )
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    warned = [
        line for line in done.stderr.splitlines() if "WARNING" in line
    ]  # each of which fails a build
    for said in ("nowhere.md", "no-such-place", "silent.silent: a public function"):
        assert [line for line in warned if said in line], said


def test_a_setting_is_described_in_its_class_or_in_one_above_it():
    """A section of the docstring says what a setting is, or a string below it."""
    pages = runpy.run_path(str(DOCS / "_extensions" / "from_the_code.py"))

    class Described:
        """Take some settings.

        Parameters
        ----------
        first, second : float
            Shares, from 0
            to 1.
        third : int, optional
            A number.

            More about it.

        Examples
        --------
        >>> Described()
        """

    assert pages["described"](Described) == {
        "first": "Shares, from 0 to 1.",
        "second": "Shares, from 0 to 1.",
        "third": "A number. More about it.",
    }
    assert pages["prose"](Described) == "Take some settings."
    for slot in pages["SLOTS"].values():
        for kind in pages["named"](slot).kinds.values():
            assert "Parameters" not in pages["prose"](kind)
            assert pages["prose"](kind)
    assert "rounds" in pages["meaning"](pages["named"](DATA), "late")
