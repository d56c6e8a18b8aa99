"""The application with all its commands, and the handling of errors."""

from typing import Annotated

import typer
from rich.console import Console

from headgate.cli import control, flower, labels, learning, ledger, tokens
from headgate.cli.console import CommandGroup, say
from headgate.errors import DataError, HeadgateError, Interrupted
from headgate.escaping import markup, one_line
from headgate.version import __version__

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
data = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Data sets: which are available, and how to get the others.",
)


WHOLE = 2000
"""the most characters of an error message, enough for long paths"""


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """Adaptive data admission and retention for streaming federated learning.

    Start with `headgate run` (learning, on embedded data) or `headgate plan mnist` (no
    learning).

    Exit codes: 0 done, 1 a worker process was lost, 2 a bad setting or option, 3
    settings that cannot be met together, 4 an unreadable or missing file, 5 a ledger
    that does not fit, 130 interrupted.
    """
    if version:
        say(f"headgate {__version__}")
        raise typer.Exit


app.command()(learning.run)
app.command()(learning.runs)
app.command()(learning.report)
app.command()(control.plan)
app.command()(control.rehearse)
app.command()(control.recipes)
app.command()(control.compare)
app.command()(control.replay)
app.command()(learning.serve)
app.command()(tokens.service)
app.add_typer(data, name="data")
app.add_typer(ledger.commands, name="ledger")
app.add_typer(tokens.commands, name="tokens")
app.add_typer(labels.commands, name="labels")
app.add_typer(flower.commands, name="flower")
data.command("list")(learning.data_list)
data.command("get")(learning.data_get)


def play(commands: typer.Typer = app) -> None:
    """Run the command that the user typed; report every error in one line on stderr and
    by a documented exit code.
    """
    try:
        commands()
    except (
        Interrupted,
        KeyboardInterrupt,
        SystemExit,
    ) as end:  # typer turns an unhandled Ctrl-C into an exit
        if isinstance(end, SystemExit) and end.code != Interrupted.exit_code:
            raise
        cause: BaseException | None = end
        while cause is not None and not isinstance(cause, Interrupted):
            cause = cause.__context__  # an earlier Ctrl-C may be the cause
        say(one_line(cause or "interrupted", WHOLE), error=True)
        raise SystemExit(Interrupted.exit_code) from None
    except (HeadgateError, OSError) as error:
        if isinstance(error, OSError):
            if error.filename is None:
                raise
            error = DataError(f"{error.filename}: {error.strerror}")
        Console(
            stderr=True,
            soft_wrap=True,
        ).print(
            f"[bold red]error:[/] {markup(one_line(error, WHOLE))}",
            highlight=False,
            emoji=False,
        )
        raise SystemExit(error.exit_code) from None
