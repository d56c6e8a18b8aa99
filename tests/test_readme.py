"""Every command block of the README runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [block for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) if "make " not in block]
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


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


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run(program, folder):
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


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


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_docs_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        assert (page.parent / link.split("#")[0]).exists(), link


def test_the_example_policy_runs():
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "my_policy.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "a round of 55" in done.stdout


def test_exit_codes_in_docs_and_help_are_those_of_the_code():
    from headgate import errors

    codes = {e.exit_code for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.HeadgateError)}
    table = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert codes == {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} - {0}
