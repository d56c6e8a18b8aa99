"""The commit a run was made by is known in a checkout, and nowhere else."""

import subprocess

import pytest

from headgate.records.writer import commit

commit_of = commit.__wrapped__  # not remembered


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "README").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return package


def test_a_checkout_and_what_was_changed_in_it(checkout):
    head = git(checkout, "rev-parse", "--short", "HEAD")
    assert commit_of(checkout) == head
    (checkout.parents[1] / "README").write_text("other")
    (checkout / "new.py").write_text("")
    assert commit_of(checkout) == head  # neither is tracked and under src
    (checkout / "__init__.py").write_text("x = 1\n")
    assert commit_of(checkout) == f"{head}+changes"


def test_elsewhere_there_is_none(checkout, tmp_path_factory, monkeypatch):
    installed = checkout.parents[1] / ".venv" / "package"  # in somebody else's checkout
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert commit_of(installed) is None
    assert commit_of(tmp_path_factory.mktemp("nowhere")) is None
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout) is None
