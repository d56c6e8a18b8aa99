"""The parts that commands share: options, lines of text, progress, JSON."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from typer.core import TyperGroup

from headgate.errors import SettingError
from headgate.escaping import json_text, printable


class Format(StrEnum):
    table = "table"
    json = "json"


Recipe = Annotated[str, typer.Argument()]
"""the argument for a recipe; the help text of a command describes its arguments, as
typer 0.20 loses theirs with click 8.5
"""
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override one key of the recipe; may be repeated.",
        show_default=False,
    ),
]
AsFormat = Annotated[
    Format, typer.Option("--format", help="A table for people or JSON for machines.")
]
Wide = Annotated[
    bool,
    typer.Option("--wide", help="All columns, not only those that fit 80 characters."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


def say(text: object, error: bool = False) -> None:
    """Print a line with control characters escaped, since paths and names in it may
    contain them.
    """
    print(printable(str(text)), file=sys.stderr if error else sys.stdout, flush=True)


def recipe_overrides(
    set_: Sequence[str] | None = None,
    rounds: int | None = None,
    seeds: int | None = None,
    policies: str | None = None,
) -> list[str]:
    """Return all overrides of a recipe: those of `--set`, then those of the options
    that stand for a `--set`.

    Policies are names of sections, kinds, or module:Class, for which a section with the
    name of the class is added.

    >>> recipe_overrides(policies="headgate,mine:BelowFour")
    ['policies.BelowFour.kind="mine:BelowFour"', 'run.policies=["headgate", "BelowFour"]']
    """
    overrides = list(set_ or ())
    overrides += [
        f"run.{key}={value}"
        for key, value in (("rounds", rounds), ("seeds", seeds))
        if value is not None
    ]
    if policies is not None:
        stated = [name.strip() for name in policies.split(",") if name.strip()]
        names = [name.rpartition(":")[2] for name in stated]
        overrides += [
            f"policies.{own}.kind={json.dumps(each)}"
            for own, each in zip(names, stated, strict=True)
            if ":" in each
        ]
        overrides.append(f"run.policies={json.dumps(names)}")
    return overrides


def status(format_: Format, text: str) -> Status:
    return Console(stderr=True, quiet=format_ is Format.json).status(text)


def print_json(value: Any) -> None:
    from headgate.analysis.formatting import jsonable

    print(json_text(json.dumps(jsonable(value), indent=2, ensure_ascii=False)))


CLICK = sys.modules[TyperGroup.__mro__[1].__module__]
"""the click module that typer uses; newer versions of typer include their own"""


class CommandGroup(TyperGroup):
    """A group of commands. What cannot be understood of a command is one line, as every
    other error.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.suggest_commands = not hasattr(
            CLICK, "NoSuchCommand"
        )  # the nearest one is suggested once

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _one_line():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _one_line():
            return super().invoke(ctx)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn an error about the words of a command into a SettingError, but not a call
    for help.
    """
    try:
        yield
    except CLICK.UsageError as error:
        if isinstance(error, getattr(CLICK, "NoArgsIsHelpError", ())):
            raise
        command = "headgate" if error.ctx is None else error.ctx.command_path
        raise SettingError(
            f"{error.format_message()} See `{command} --help`."
        ) from None
