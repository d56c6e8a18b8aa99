"""The commands for a gate in front of a label queue."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.console import (
    AsFormat,
    CommandGroup,
    Folder,
    Format,
    print_json,
    say,
)
from headgate.errors import Interrupted

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="""Labels: buy them by the price, from people, and keep the accounts.

    One team with a labelling bill is enough; no federated learning is needed.
    docs/do/labels.md has the rules.
    """,
)
File = Annotated[Path, typer.Argument(metavar="FILE")]


@commands.command()
def new(folder: Folder) -> None:
    """Write a gate's file with comments, unlabelled examples and prices into DIR, which
    run at once.
    """
    from headgate.labels.write import write_new

    gate = write_new(folder)
    say(gate)
    say(f"next: headgate labels run {gate} --once")


@commands.command()
def run(
    file: File,
    once: Annotated[
        bool,
        typer.Option("--once", help="End after one step, as for cron and timers."),
    ] = False,
    now: Annotated[
        bool,
        typer.Option("--now", help="Begin a round at once, whatever the schedule."),
    ] = False,
) -> None:
    """Run the gate of FILE: buy, release tasks, collect labels, pay for them.

    Each step prints one line on what was done and why. A step begins a round if the
    schedule has one. Killed anywhere, the same command goes on: no task is released
    twice, no label is paid twice, and none is lost. Labels that were paid for are
    appended to labelled/CLIENT.jsonl.
    """
    from headgate.labels.gate import run as run_gate

    # a service manager's SIGTERM acts as Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_gate(file, say, once, now)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; the same command goes on with {file}") from None


@commands.command()
def status(file: File, format_: AsFormat = Format.table) -> None:
    """Show the money and the price of the gate of FILE, what is under way and was
    rejected, the oldest task, and what happens next, as of its last step.
    """
    from headgate.labels.settings import accounts_of
    from headgate.labels.status import lines, read_status

    found = read_status(accounts_of(file))
    if format_ is Format.json:
        print_json(found)
        return
    for line in lines(found):
        say(line)


@commands.command()
def units(
    file: File,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the files.")
    ] = Path("units"),
) -> None:
    """Write systemd units and a line for cron that run the gate of FILE.

    headgate-labels.service keeps going; headgate-labels-once.timer and the line for
    cron make one step at a time. Choose one of the three.
    """
    from headgate.labels.write import write_units

    for path in write_units(file, out):
        say(path)
