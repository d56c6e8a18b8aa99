"""Command blocks of README and docs run as they stand, and so do their Python
blocks.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

import headgate
from headgate.control.policies import Headgate

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")
SH = re.compile(r"```sh\n(.*?)```", re.DOTALL)
COMMANDS = [block for block in SH.findall(TEXT) if "make " not in block]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
ELSEWHERE = {"flower", "page", "million"}
"""pages whose commands want other machines, wait, or take long; tests of their own try
them
"""
SLOW = {"scale", "run", "ten-minutes"}
"""pages whose commands take longer than those of README: `make test-all`"""
RUN = [
    pytest.param(
        page, marks=[pytest.mark.long] if page.stem in SLOW else [], id=page.stem
    )
    for page in PAGES
    if SH.search(page.read_text("utf-8")) and page.stem not in ELSEWHERE
]
WITH_PYTHON = [
    page
    for page in (ROOT / "README.md", *PAGES)
    if PYTHON.search(page.read_text("utf-8"))
]


def put_files(page, folder):
    """A block that is to be put `into NAME` is put there, and tables of the examples
    beside it, as a reader would.
    """
    text = page.read_text("utf-8")
    for name, block in re.findall(
        r"into `(\w+\.\w+)`[^`]*:\n\n```\w+\n(.*?)```", text, re.DOTALL
    ):
        (folder / name).write_text(block, "utf-8")
    for name in re.findall(r"examples/(\w+\.csv)\)", text):
        shutil.copy(ROOT / "examples" / name, folder)


def make_accounts(folder):
    """Books of a few rounds, such as the page on accounts speaks of."""
    with headgate.Books(
        folder, headgate.System([9] * 5, budget=100.0, horizon=100), Headgate()
    ) as books:
        for _ in range(8):
            books.begin(4.0)
            books.settle()


def test_command_blocks_run_in_the_order_of_the_page(tmp_path):
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # as in a clone
    (block,) = COMMANDS
    first, *lines = block.splitlines()
    assert first == ". .venv/bin/activate"  # here it is on the path already
    for line in lines:
        done = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert {file.name for file in tmp_path.iterdir()} == {"examples", "compared"}


@pytest.mark.parametrize("page", RUN)
def test_command_blocks_of_a_page_run_one_after_the_other(
    page, tmp_path, monkeypatch, typed, forgets_modules
):
    monkeypatch.chdir(tmp_path)
    put_files(page, tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # as in a clone
    if page.stem == "books":
        make_accounts(tmp_path / "accounts")
    lines = [
        line
        for block in SH.findall(page.read_text("utf-8"))
        for line in block.splitlines()
    ]
    assert lines
    for line in lines:
        typed(*shlex.split(line))


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_one_after_the_other(
    page, tmp_path, monkeypatch, forgets_modules
):
    """In a folder where a recipe lies that a Flower app could have: one policy, one
    seed.
    """
    (tmp_path / "recipe.toml").write_text(
        'base = "digits"\n[run]\npolicies = ["headgate"]\nseeds = 1\n'
    )
    put_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    exec("\n".join(PYTHON.findall(page.read_text("utf-8"))), {"__name__": "page"})


def test_the_parts_in_the_docs_are_those_of_the_examples():
    blocks = PYTHON.findall((ROOT / "docs" / "do" / "parts.md").read_text("utf-8"))
    files = [
        "policy",
        "buyer",
        "rule",
        "prices",
        "data",
        "model",
        "server",
        "executor",
    ]
    assert len(blocks) == len(files) + 1
    for name, block in zip(files, blocks, strict=False):
        assert (
            (ROOT / "examples" / f"my_{name}.py")
            .read_text("utf-8")
            .endswith(f'"""\n\n{block}')
        )


@pytest.mark.parametrize(
    "more",
    ["--rounds 10 --seeds 2", pytest.param("", marks=pytest.mark.long)],
    ids=["short", "whole"],
)
def test_make_run_is_the_main_job(tmp_path, more):
    """`make test` is what runs this test; `make run` is run for real, in the
    environment that is set up already.
    """
    if not (ROOT / ".venv" / ".ready").exists():
        pytest.skip("no .venv made by make: set up by hand")
    words = ["make", "run", f"MORE={more} --out {tmp_path / 'run'}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report: " in done.stdout
    if not more:
        (block,) = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
        assert words_by_line(block) in words_by_line(done.stdout)


def words_by_line(text):
    """Return a text without empty lines, with single spaces."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(filter(None, lines))


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!https:|#)([^)#]+)", TEXT)
    assert len(links) > 5
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_front_page_is_short_and_its_badges_are_true():
    assert len(TEXT.splitlines()) <= 90
    assert len(TEXT.split()) <= 750
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    badges = [unquote(address) for address in re.findall(r"/badge/(\S+)-blue", TEXT)]
    assert badges == [
        f"python-{'_|_'.join(versions)}",
        f"licence-{project['license'].replace('-', '--')}",
    ]


def test_the_drafts_references_are_there():
    draft, entries = (
        (ROOT / "paper" / name).read_text("utf-8") for name in ("paper.md", "paper.bib")
    )
    assert set(re.findall(r"@(\w+\d{4}\w+)", draft)) == set(
        re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE)
    )


def test_exit_codes_in_docs_and_help_are_those_of_the_code():
    from headgate import errors

    codes = {
        e.exit_code
        for e in vars(errors).values()
        if isinstance(e, type) and issubclass(e, errors.HeadgateError)
    }
    table = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    assert codes == {
        int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    } - {0}
