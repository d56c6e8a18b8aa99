"""The commands for learning: run, runs, report, data and serve."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.console import (
    AsFormat,
    Device,
    Folder,
    Format,
    On,
    Policies,
    Quiet,
    Recipe,
    Rounds,
    Seeds,
    Set,
    Wide,
    print_json,
    recipe_overrides,
    say,
)
from headgate.errors import DataError, SettingError
from headgate.escaping import one_line
from headgate.progress import counted

if TYPE_CHECKING:
    from headgate.records.reader import RunFolder

RUNS = Path("runs")
"""the folder of the runs, unless another is named"""
OPTIONS = {"recipe": "RECIPE", "set_": "--set"}
"""what the user types for parameters whose name differs from it"""


BEGUN = ("recipe", "rounds", "seeds", "policies", "set_", "executor", "out")
"""parameters that a run which is resumed has had from its beginning"""


class Show(StrEnum):
    bar = "bar"
    json = "json"
    none = "none"


def run(
    context: typer.Context,
    recipe: Recipe = "digits",
    rounds: Rounds = None,
    seeds: Seeds = None,
    policies: Policies = None,
    set_: Set = None,
    device: Device = "auto",
    executor: Annotated[
        str,
        typer.Option(
            help=(
                "The executor of local training: auto, or a name (see"
                " docs/do/scale.md#executors)."
            )
        ),
    ] = "auto",
    processes: Annotated[
        int | None,
        typer.Option(
            help=(
                "Single-thread processes; default: one for each core, 1 on a GPU. 1:"
                " this process alone."
            )
        ),
    ] = None,
    on: On = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run folder, new or of the same experiment; default: runs/NAME-TIME.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Resume an interrupted run.",
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE[:CLASS]",
            help=(
                "With --resume: code outside headgate that the folder names and that"
                " may run; may be repeated."
            ),
            show_default=False,
        ),
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Also log to tensorboard, mlflow or wandb.",
        ),
    ] = None,
    show: Annotated[
        Show, typer.Option("--progress", help="A bar, JSON lines on stderr, or none.")
    ] = Show.bar,
    format_: AsFormat = Format.table,
    wide: Wide = False,
    quiet: Quiet = False,
) -> None:
    """Learn from streams: all policies and seeds of a recipe, and all points of its
    sweep, over the cores of this machine, or over many machines.

    RECIPE is a name from `headgate recipes` or a TOML file. Writes a run folder:
    config.toml with all settings, metrics, what each client admitted and held,
    checkpoints, a summary and a self-contained report. After Ctrl-C the same command
    with `--out DIR`, or `--resume DIR`, continues the run and writes the same bytes, on
    any number of processes, and with `--on ADDRESS` on the workers of Dask.
    """
    from headgate.experiment import sweep_points
    from headgate.records.trackers import Watching
    from headgate.simulation.schedule import new_folder, perform

    _refuse_useless(context, resume)
    if quiet and show is Show.bar:
        show = Show.none
    lines = partial(say, error=True) if show is Show.json else None
    watch = None
    if track or lines:
        watch = Watching(re.findall(r"[^\s,]+", track or ""), lines)

    points = None
    if resume is None:
        overrides = recipe_overrides(set_, rounds, seeds, policies)
        points = sweep_points(recipe, overrides)
    folder = resume or out or new_folder(points or [])

    drawn = show is Show.bar
    with watch or nullcontext(), counted("learning", not drawn) as bar:
        runs = perform(
            points,
            folder,
            device=device,
            executor=executor,
            processes=processes,
            pool=on,
            trust=trust or (),
            tick=bar if drawn else None,
            watch=watch,
            say=bar.say,
        )
    show_and_conclude(runs, folder, format_, wide)


def _refuse_useless(context: typer.Context, resume: Path | None) -> None:
    """Refuse options that would have no effect."""
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            continue
        stated = " ".join(value) if isinstance(value, list | tuple) else value
        option = f"{OPTIONS.get(name, f'--{name}')} {stated}"
        if resume is not None and name in BEGUN:
            raise SettingError(
                f"{option}: not with --resume {resume}, which goes on with what was"
                " begun"
            )
        if resume is None and name == "trust":
            raise SettingError(
                f"{option}: only with --resume; a recipe of your own needs no trust"
            )


def runs(
    folder: Folder = RUNS,
    format_: AsFormat = Format.table,
) -> None:
    """List the runs in DIR: state, progress, policies, spend against budget, best
    accuracy within the limits.

    Points of a sweep are listed as SWEEP~POINT.
    """
    from headgate.analysis.display import show
    from headgate.analysis.tables import list_rows, list_tables
    from headgate.records.reader import scan_runs

    whole, damaged = scan_runs(folder)
    found = list_rows(whole)
    if format_ is Format.json:
        unread = [
            {"name": name, "state": "damaged", "problem": why}
            for name, why in damaged.items()
        ]
        print_json([*found, *unread])
    elif found:
        show(*list_tables(found))
    for row in found:
        if row["problem"]:
            say(one_line(f"{row['name']}: unreadable: {row['problem']}"), error=True)
    for name, why in damaged.items():
        say(one_line(f"{name}: damaged: {why}"), error=True)
    if not found and not damaged:
        say(f"no runs in {folder}; headgate run makes one", error=True)


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...")],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The page; default: report.html in the first folder.",
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="Test accuracy whose first round is reported; default: the recipe's."
        ),
    ] = None,
) -> None:
    """Draw one run, or compare several, on a self-contained page.

    DIR... are run folders, or a folder of a sweep for all its points.
    """
    from headgate.analysis.report import write_report
    from headgate.records.reader import RunFolder
    from headgate.records.tables import points_of

    found = [RunFolder.open(each) for folder in folders for each in points_of(folder)]
    page = out or folders[0] / "report.html"
    if not page.parent.is_dir():
        raise DataError(f"--out {page}: there is no folder {page.parent}")
    if target is None:
        target = found[0].target
    say(write_report(found, page, target))


def data_list() -> None:
    """List the data sets that are available, and the commands that fetch the others."""
    from headgate.analysis.display import show
    from headgate.analysis.tables import dataset_tables
    from headgate.learning.datasets import available, data_folder

    show(*dataset_tables(available(), data_folder()))


def data_get(name: Annotated[str, typer.Argument()]) -> None:
    """Fetch a data set from the Hugging Face hub; run it again to resume.

    NAME is mnist, cifar10 or imagenette.
    """
    from headgate.learning.datasets import data_folder, fetch

    folder = data_folder()
    paths = fetch(name, folder)
    say(f"{name}: {len(paths)} files in {folder / name}")


def show_and_conclude(
    folders: "Sequence[Path | RunFolder]",
    whole: Path,
    format_: Format = Format.table,
    wide: bool = False,
) -> None:
    """Show the results of finished runs, and write their summaries and reports."""
    from headgate.analysis.display import show
    from headgate.analysis.report import conclude, summary_rows
    from headgate.analysis.tables import runs_tables

    runs, page = conclude(folders, whole)
    if format_ is Format.json:
        for run in runs:
            print_json({"folder": str(run.path), "policies": summary_rows(run)})
    else:
        show(*runs_tables(runs, wide))
    say(f"report: {page}", error=format_ is Format.json)


def serve(
    runs_dir: Annotated[Path, typer.Argument(metavar="RUNS_DIR")] = RUNS,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other machines need the token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8040,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "File with the token; default: HEADGATE_TOKEN, or a new token where one"
                " is needed."
            ),
            show_default=False,
        ),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.")
    ] = False,
    accounts: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Serve accounts, too: a folder with a folder for each of them, or"
                " postgresql://HOST/DATABASE."
            ),
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --accounts: the file of `headgate tokens`; default: in DIR.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            min=0,
            help="With --accounts: requests a second of one token; 0: any number.",
        ),
    ] = 100.0,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="With --accounts: no line for each request."
        ),
    ] = False,
) -> None:
    """Serve a page with live runs, comparisons and a planner, and accounts.

    RUNS_DIR holds run folders, or is one; left out, it is runs, which the first
    `headgate run` makes. The page shows runs while they are written,
    changes nothing in the folder, and loads nothing from elsewhere. Start `headgate
    run` in another terminal and watch it. With --accounts, programs and people with a
    token of `headgate tokens` begin, settle and amend accounts of `headgate.Books`
    there; the first start prints a token once. Ctrl-C ends the page.
    """
    try:
        from headgate.web.accounts.service import Service
        from headgate.web.accounts.telling import to_stderr
        from headgate.web.serving import serve as serve_page
        from headgate.web.serving import token_for
    except ModuleNotFoundError as error:
        raise SettingError(
            f"serve: needs {error.name}, as in pip install 'headgate[web]'"
        ) from None
    if not runs_dir.is_dir() and runs_dir != RUNS:
        raise DataError(
            f"RUNS_DIR {runs_dir}: there is no such folder; headgate run makes runs,"
            " mkdir an empty one"
        )
    service = None
    if accounts is not None:
        log = None if quiet else to_stderr
        service = Service(accounts, tokens, rate, log)
        token = service.first_token()
    else:
        token = token_for(host, token_file)

    def started(link: str) -> None:
        what = runs_dir if service is None else f"The accounts in {accounts}"
        verb = "is" if service is None else "are"
        for line in (f"{what} {verb} shown at", "", f"  {link}", ""):
            say(line)
        if service is not None and token is not None:
            say(f"The token in it is printed this once: {token}")
        say("Ctrl-C ends it.")
        if open_:
            import webbrowser

            webbrowser.open(link)

    serve_page(runs_dir, host, port, token, started, service)
