"""Writes what docs/reference lists of the code, for those who read it unbuilt: every
command, and the keys and kinds of each section of a recipe.

python -m tools.reference
"""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

import typer.main

from headgate.cli.commands import app

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
MADE = runpy.run_path(str(ROOT / "docs" / "_extensions" / "from_the_code.py"))
SECTION = re.compile(r"```\{(keys|kinds)\} (\S+)\n[^`]*```")
ROWS = re.compile(r"(?<=\|---\|---\|\n)(\| `headgate [^\n]*\n)+")


def listed(found: re.Match[str]) -> str:
    """Return a directive with the names that it explains."""
    directive, argument = found.groups()
    names = fill(", ".join(MADE["names"](directive, argument)), 100)
    return f"```{{{directive}}} {argument}\n{names}\n```"


def commands(command: Any, path: str = "headgate") -> Iterator[str]:
    """Yield a row of a table for each command."""
    own = getattr(command, "commands", {})
    for name, each in own.items():
        yield from commands(each, f"{path} {name}")
    if not own:
        said = MADE["prose"](command.callback).split("\n\n")[0]
        first = re.split(r"(?<=\.) ", said)[0]
        yield f"| `{path}` | {first} |\n"


def main() -> None:
    recipes = REFERENCE / "recipes.md"
    recipes.write_text(SECTION.sub(listed, recipes.read_text("utf-8")), "utf-8")
    page = REFERENCE / "commands.md"
    rows = "".join(commands(typer.main.get_command(app)))
    page.write_text(ROWS.sub(lambda _: rows, page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
