"""Every command block of the README runs as it stands, and so do the Python blocks of README and docs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "make " not in block]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGES = sorted((ROOT / "docs").glob("*.md"))
WITH_PYTHON = [page for page in (ROOT / "README.md", *PAGES) if PYTHON.search(page.read_text("utf-8"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


def test_command_blocks_run_in_the_order_of_the_page(folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    assert len(COMMANDS) == 2
    for block in COMMANDS:
        for line in block.splitlines():
            done = subprocess.run(
                line, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert {file.name for file in folder.iterdir()} == {"rows.parquet", "rates.svg", "mine.toml", "first", "drawn", "compared"}


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_one_after_the_other(page, tmp_path):
    """In a folder where a recipe lies that a Flower app could have: one policy, one seed."""
    (tmp_path / "recipe.toml").write_text('base = "digits"\n[run]\npolicies = ["headgate"]\nseeds = 1\n')
    program = "\n".join(PYTHON.findall(page.read_text("utf-8")))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_parts_in_the_docs_are_those_of_the_examples():
    blocks = PYTHON.findall((ROOT / "docs" / "parts.md").read_text("utf-8"))
    files = ["policy", "buyer", "rule", "prices", "data", "model", "server"]
    assert len(blocks) == len(files) + 1
    for name, block in zip(files, blocks, strict=False):
        assert (ROOT / "examples" / f"my_{name}.py").read_text("utf-8").endswith(f'"""\n\n{block}')


def test_make_run_is_the_main_job():
    """`make test` is what runs this test; `make run` is run for real, in the environment that is set up already."""
    assert "```sh\nmake run\n```" in TEXT
    assert "```sh\nmake test\n```" in TEXT
    if not (ROOT / ".venv" / ".ready").exists():
        pytest.skip("no .venv made by make: set up by hand")
    done = subprocess.run(["make", "run"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report: " in done.stdout


def test_links_lead_somewhere():
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", TEXT)]
    assert len(links) > 5
    for link in links:
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_docs_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        assert (page.parent / link.split("#")[0]).exists(), link


def test_exit_codes_in_docs_and_help_are_those_of_the_code():
    from headgate import errors

    codes = {e.exit_code for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.HeadgateError)}
    table = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert codes == {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} - {0}
