"""The command that makes the leaderboard, and puts a policy of one's own on it."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.console import Quiet, same_command_goes_on, say
from headgate.errors import DataError, SettingError
from headgate.progress import counted

if TYPE_CHECKING:
    from studies.leaderboard.results import ComparedStudy

By = StrEnum("By", ["best", "last", "mean"])


def leaderboard(
    add: Annotated[str | None, typer.Option(metavar="KIND", help="A policy to put on it: module:Class, or a kind.")] = None,
    on: Annotated[str, typer.Option(metavar="RECIPE", help="The comparison to put it on.")] = "better/mnist",
    name: Annotated[str | None, typer.Option(help="What to call it; default: the name of its class.")] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="KEY=VALUE", help="A setting of the policy; may be given again.", show_default=False),
    ] = None,
    by: Annotated[By, typer.Option(help="What to rank by.")] = By.last,
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The comparisons' numbers; default: those of the checkout.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the page, what was added and its runs go.")] = Path(
        "leaderboard"
    ),
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    processes: Annotated[int | None, typer.Option(help="Processes to run in; default: one per core.")] = None,
    quiet: Quiet = False,
) -> None:
    """Every policy of every comparison at equal spend, ranked within the limits, with paired tests: leaderboard.md.

    With `--add` a policy of your own is run on the seeds, prices and budgets of a comparison first and stands on the page
    from then on, in this folder. `--on` may be a recipe file of your own that was compared into `--results` with
    `headgate compare RECIPE --pages DIR`. Ctrl-C loses nothing: the same command goes on.
    """
    from studies.leaderboard.adding import read_added
    from studies.leaderboard.page import conclude_page
    from studies.leaderboard.results import compared_in, grouped, shipped_results

    found = compared_in(results or shipped_results(), [on] if add is not None else [])
    if add is not None:
        one = next((each for each in found if each.recipe == on), None)
        if one is None:
            raise DataError(f"--on {on}: has no results; one of {', '.join(each.recipe for each in found)} has")
        _add(one, add, name or add.rpartition(":")[2], with_ or [], out, device, processes, quiet)
    elif name is not None or with_:
        raise SettingError("--name and --with: say something of a policy that --add names")
    if not found:
        raise DataError(f"{results}: holds no results of a comparison")
    say(conclude_page(grouped(found, read_added(out)), out, by.value))


def _add(
    one: "ComparedStudy", kind: str, name: str, settings: list[str], out: Path, device: str, processes: int | None, quiet: bool
) -> None:
    from headgate.simulation.schedule import perform
    from studies.leaderboard.adding import added_file, conclude_added, points_for

    file, runs = added_file(name, one), out / "runs" / added_file(name, one).removesuffix(".json")
    points = points_for(one, name, kind, settings)
    if (out / "added" / file).exists():
        raise DataError(f"{out / 'added' / file}: {name} stands there already; choose another --name, or remove it and {runs}")
    with same_command_goes_on(), counted(f"{name} on {one.recipe}", quiet) as tick:
        folders = [run.path for run in perform(points, runs, device=device, processes=processes, tick=tick)]
    said = ["python", "-m", "studies", "leaderboard", "--add", kind, "--on", one.recipe, "--name", name]
    command = shlex.join([*said, *(word for each in settings for word in ("--with", each))])
    say(conclude_added(one, name, folders, out, command))
