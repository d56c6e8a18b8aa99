"""What the commands share: options, lines of text, progress, JSON."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from typer.core import TyperGroup

from headgate.escaping import json_text, printable


class Format(StrEnum):
    table = "table"
    json = "json"


Recipe = Annotated[str, typer.Argument()]
"""Arguments are described in the text of their command: typer 0.20 loses their help with click 8.5."""
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="Override one key of the recipe; may be given again.", show_default=False
    ),
]
AsFormat = Annotated[Format, typer.Option("--format", help="A table for people or JSON for machines.")]
Wide = Annotated[bool, typer.Option("--wide", help="All columns, not only those that fit 80 characters.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


def say(text: object, error: bool = False) -> None:
    """Print a line. Paths and names are the user's or a stranger's: no terminal obeys what is in them."""
    print(printable(str(text)), file=sys.stderr if error else sys.stdout, flush=True)


def recipe_overrides(
    set_: Sequence[str] | None = None, rounds: int | None = None, seeds: int | None = None, policies: str | None = None
) -> list[str]:
    """Return the options that are short for a `--set`, after those that are one.

    Policies are names of sections, kinds, or module:Class, which gets a section with its name.

    >>> recipe_overrides(policies="headgate,mine:BelowFour")
    ['policies.BelowFour.kind="mine:BelowFour"', 'run.policies=["headgate", "BelowFour"]']
    """
    overrides = list(set_ or ())
    overrides += [f"run.{key}={value}" for key, value in (("rounds", rounds), ("seeds", seeds)) if value is not None]
    if policies is not None:
        stated = [name.strip() for name in policies.split(",") if name.strip()]
        names = [name.rpartition(":")[2] for name in stated]
        overrides += [f"policies.{own}.kind={json.dumps(each)}" for own, each in zip(names, stated, strict=True) if ":" in each]
        overrides.append(f"run.policies={json.dumps(names)}")
    return overrides


def status(format_: Format, text: str) -> Status:
    return Console(stderr=True, quiet=format_ is Format.json).status(text)


def print_json(value: Any) -> None:
    from headgate.analysis.formatting import jsonable

    print(json_text(json.dumps(jsonable(value), indent=2, ensure_ascii=False)))


CLICK = sys.modules[TyperGroup.__mro__[1].__module__]
"""what typer is built on: newer ones bring their own"""


class CommandGroup(TyperGroup):
    """Suggest once what a wrong command may have meant: where click does, typer does not."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.suggest_commands = not hasattr(CLICK, "NoSuchCommand")
