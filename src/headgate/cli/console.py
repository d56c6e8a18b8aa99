"""The parts that commands share: options, lines of text, progress, JSON."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
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
Folder = Annotated[Path, typer.Argument(metavar="DIR")]
Rounds = Annotated[int | None, typer.Option(help="Rounds; default: the recipe's.")]
Seeds = Annotated[int | None, typer.Option(help="Seeds; default: the recipe's.")]
Policies = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Policies: sections of the recipe, kinds, or module:Class.",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
On = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help=(
            "Learn on the workers of Dask: tcp://host:8786, or a scheduler file (see"
            " docs/do/scale.md)."
        ),
        show_default=False,
    ),
]
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
    """Print a line with control characters escaped, as names in it may contain them."""
    print(
        printable(str(text)),
        file=sys.stderr if error else sys.stdout,
        flush=True,
    )


def recipe_overrides(
    set_: Sequence[str] | None = None,
    rounds: int | None = None,
    seeds: int | None = None,
    policies: str | None = None,
) -> list[str]:
    """Return the overrides of `--set`, then those of options that stand for a `--set`.

    >>> recipe_overrides(rounds=20, policies="even,mine:Own")
    ['run.rounds=20', 'run.policies=["even", "mine:Own"]']
    """
    overrides = list(set_ or ())
    if rounds is not None:
        overrides.append(f"run.rounds={rounds}")
    if seeds is not None:
        overrides.append(f"run.seeds={seeds}")
    if policies is not None:
        names = [*filter(None, map(str.strip, policies.split(",")))]
        overrides.append(f"run.policies={json.dumps(names)}")
    return overrides


def status(format_: Format, text: str) -> Status:
    return Console(
        stderr=True,
        quiet=format_ is Format.json,
    ).status(text)


def print_json(value: Any) -> None:
    from headgate.analysis.formatting import jsonable

    print(
        json_text(
            json.dumps(
                jsonable(value),
                indent=2,
                ensure_ascii=False,
            )
        )
    )


def print_json_rows(
    head: dict[str, Any],
    name: str,
    rows: Iterable[Any],
) -> None:
    """Print a JSON object that ends with a list of rows, a row at a time."""
    from headgate.analysis.formatting import jsonable
    from headgate.books.statement import json_parts

    for part in json_parts(jsonable(head), name, rows, {}, 2, ascii_only=False):
        print(json_text(part), end="")
    print()


CLICK = sys.modules[TyperGroup.__mro__[1].__module__]
"""the click module that typer uses; newer versions of typer include their own"""


class CommandGroup(TyperGroup):
    """A group of commands that reports every error in one line."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # newer versions of click suggest the nearest command themselves
        self.suggest_commands = not hasattr(CLICK, "NoSuchCommand")

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _one_line():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _one_line():
            return super().invoke(ctx)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn an error about the words of a command into a SettingError."""
    try:
        yield
    except CLICK.UsageError as error:
        if isinstance(error, getattr(CLICK, "NoArgsIsHelpError", ())):
            raise  # it prints the help
        command = "headgate" if error.ctx is None else error.ctx.command_path
        raise SettingError(
            f"{error.format_message()} See `{command} --help`."
        ) from None
