"""Which commit a run was made by."""

import os
import subprocess
from functools import cache
from pathlib import Path

import headgate

SECONDS = 10
"""a repository that takes longer to answer is not waited for"""


@cache
def commit() -> str | None:
    """The commit of the checkout that the package lies in, "+changes" where files under src differ from it.

    None where it lies in none (an installed package may lie in somebody's checkout, which does not track it).
    """
    return commit_of(Path(headgate.__file__).parent)


def commit_of(package: Path) -> str | None:
    try:
        if _git(package, "ls-files", "--error-unmatch", "__init__.py").returncode:
            return None
        found = _git(package, "rev-parse", "--short", "HEAD")
        changed = _git(package.parent, "diff", "--quiet", "HEAD", "--", ".").returncode
    except (OSError, subprocess.SubprocessError):  # no git, or one that does not answer
        return None
    return None if found.returncode else found.stdout.strip() + ("+changes" if changed else "")


def _git(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # only looks, never writes
    return subprocess.run(
        ["git", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
