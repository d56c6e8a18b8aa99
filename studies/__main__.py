"""`python -m studies`, from a checkout: runs the studies, keeps their results and writes their pages."""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import headgate
from headgate.cli.commands import play
from headgate.cli.console import CommandGroup, Quiet, Recipe, Set, played, say
from headgate.errors import DataError, Interrupted, SettingError
from headgate.progress import counted, ticked
from studies import HOME, recipe

if TYPE_CHECKING:
    from headgate.control.policies import Acdpp
    from headgate.experiment import Experiment
    from studies.leaderboard import Board
    from studies.pages import StudyContent

RESULTS, PAGES = HOME / "results", HOME.parent / "docs" / "studies"
What = StrEnum("What", ["mnist", "cifar10", "imagenette", "theory", "claims", "all", "better", "savings", "drift", "selection"])
By = StrEnum("By", ["best", "last", "mean"])
app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
)
theory = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="What the paper's theorems claim, and what is measured.")
app.add_typer(theory, name="theory")
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Processes = Annotated[int | None, typer.Option(help="Processes to run in; default: one per core.")]


@app.callback()
def root() -> None:
    """What was measured with headgate: the paper and its claims, its theory, and other policies beside the paper's."""


@dataclass(frozen=True)
class _Options:
    out: Path
    results: Path
    quick: bool
    device: str
    processes: int | None
    quiet: bool

    def has_gpu(self) -> bool:
        try:
            import torch
        except ImportError as error:
            raise SettingError(f"learning needs {error.name}: pip install 'headgate[sim]'") from None
        return self.device != "cpu" and torch.cuda.is_available()


@contextmanager
def same_command_goes_on() -> Iterator[None]:
    """Where runs are a part of the work, taking up the runs alone would not finish it."""
    try:
        yield
    except Interrupted as stop:
        raise Interrupted(stop.what, "nothing is lost, the same command goes on") from None


@app.command()
def reproduce(
    what: Annotated[What, typer.Argument(metavar="WHAT")],
    quick: Annotated[bool, typer.Option(help="A trial of the whole chain on embedded data; its numbers mean nothing.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Runs, results and pages; default: reproduced.")] = None,
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results are kept and looked for; default: in --out.")
    ] = None,
    device: Device = "auto",
    processes: Processes = None,
    list_: Annotated[bool, typer.Option("--list", help="Only print what would be run.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a study, keep its results and write its page.

    WHAT is mnist, cifar10 or imagenette, the paper's section 7 as its text and as its scripts have it; theory; all of these;
    claims, every claim of the paper judged by the results that are there; better, ours beside the paper's; savings, the money
    for the same accuracy; drift, policies when the world moves; or selection, which samples to buy.

    Results that lie in --results are used as they are, runs that are finished in --out likewise, and what was interrupted goes
    on; so runs may come from another machine. What needs a GPU is run with one only. Money, debt and memory are judged on
    4,000 rehearsed runs (one to four minutes a data set).
    """
    folder = out or Path("reproduced-quick" if quick else "reproduced")
    sub = "paper" if what not in _compared() else "better"
    asked = _Options(folder, (results or folder / "results") / sub, quick, device, processes, quiet)
    if list_:
        _list(what, quick)
        return
    made = _paper(what, asked) if sub == "paper" else _comparisons(what, asked)
    for path in dict.fromkeys(made):
        say(path)
    if quick:
        say("a trial run: its numbers mean nothing", error=True)


def _compared() -> "dict[str, tuple[Sequence[str], Callable[[Path], StudyContent]]]":
    """Return the comparisons of each study, and the query that makes its page of their results."""
    from studies.better import better_content
    from studies.comparisons import ALSO, BETTER
    from studies.drift import DRIFT, drift_content
    from studies.savings import SAVINGS, savings_content
    from studies.selection import CHOOSING, SELECTION, selection_content

    return {
        "better": ((*BETTER, *ALSO), better_content),
        "savings": (SAVINGS, savings_content),
        "drift": (DRIFT, drift_content),
        "selection": ((*SELECTION, *CHOOSING), selection_content),
    }


def _list(what: What, quick: bool) -> None:
    from studies.comparisons import comparison
    from studies.paper.batches import NAMES, batches

    for name in (name for name in NAMES if what in (name, What.all)):
        for run in batches(name, quick):
            e = run.experiment
            says = f"{len(e.seeds)} seeds x {e.rounds} rounds, {e.model.kind} lr {e.training.lr:g}: {', '.join(e.policies)}"
            say(f"{f'{name}/{run.name}':44} {says}" + (" (needs a GPU)" if run.needs_gpu else ""))
    if what in (What.theory, What.all):
        say("theory: rates over growing horizons and Theorem 1 beside runs (about six minutes on one core)")
    for name in _compared()[what][0] if what in _compared() else ():
        say(comparison(name).command)


def _paper(what: What, asked: _Options) -> list[Path]:
    from studies.pages import read_numbers, write_page
    from studies.paper import conclude
    from studies.paper.batches import NAMES, batches
    from studies.paper.control import rehearse_study

    conclude.check_results(asked.results, asked.quick)
    gpu = asked.has_gpu()
    for name in (name for name in NAMES if what in (name, What.all)):
        runs = asked.out / "runs" / name
        done = {each["batch"] for each in read_numbers(asked.results / f"{name}.json").get("runs", [])}
        points = [
            (run.name, run.experiment)
            for run in batches(name, asked.quick)
            if (runs / run.name).is_dir() or (run.name not in done and (gpu or not run.needs_gpu))
        ]
        if points:
            conclude.keep_study(name, _play(points, runs, asked), asked.results, asked.quick)
    if what in (What.theory, What.all):
        _measure_theory(asked)
    known = [name for name in NAMES if (asked.results / f"{name}.json").is_file()]
    for name in known:
        with counted(f"{name}: control", asked.quiet, unit="rehearsals") as tick:
            rehearse_study(name, asked.results, asked.quick, tick)
    made = conclude.keep_claims(asked.results)
    made += write_page("claims", conclude.claims_content(asked.results), asked.out, asked.quick)
    made += write_page("paper", conclude.paper_content(asked.results), asked.out, asked.quick) if known else []
    if (asked.results / "theory.json").is_file():
        made += write_page("theory", conclude.theory_content(asked.results), asked.out, asked.quick)
    return made


def _measure_theory(asked: _Options) -> None:
    from headgate.learning.datasets import load_dataset
    from studies.paper.conclude import keep_theory
    from studies.paper.theory_checks import OTHER, check, check_horizons
    from studies.theory.measure import measure as measure_risk
    from studies.theory.rates import horizons, measure

    began, quick = time.monotonic(), asked.quick
    experiment, policy = _acdpp_of("mnist", ["run.seeds=2"] if quick else [])
    Ts = horizons(10, 100) if quick else horizons(100, 31_623)
    with ticked(f"{len(Ts)} horizons", sum(Ts), asked.quiet) as tick:
        rates = measure(experiment, policy, Ts, 0.5, 0.5, tick=tick)
    with ticked("other settings of V, rho and K", (len(OTHER) + 2) * sum(check_horizons(quick)), asked.quiet) as tick:
        checks = check(quick, tick)
    risks = []
    for name in ("digits",) if quick else ("digits", "mnist"):
        with counted(f"excess risk on {name}", asked.quiet) as count:
            risks.append(measure_risk(recipe(f"theory/{name}"), load_dataset(name), quick=quick, tick=count))
    keep_theory(rates, checks, risks, asked.results, quick, time.monotonic() - began)


def _comparisons(what: What, asked: _Options) -> list[Path]:
    """Run those comparisons that have no results yet, what needs a GPU only with one, and write the page."""
    from studies import study_table
    from studies.comparisons import comparison, keep_rows, not_run
    from studies.pages import write_page
    from studies.paper.batches import QUICK

    gpu = asked.has_gpu() or asked.quick
    names, query = _compared()[what]
    for name in not_run(names, asked.results, asked.quick):
        trial = (*QUICK, *study_table(recipe(f"better/{name}")).get("quick", ()))
        own = comparison(name, trial if asked.quick else ())
        if gpu or not own.needs_gpu:
            folders = _play(own.points, asked.out / "runs" / "better" / name, asked)
            keep_rows(folders, asked.results, name, own.command, asked.quick)
    return write_page(what.value, query(asked.results), asked.out, asked.quick)


def _play(points: "Sequence[tuple[str, Experiment]]", runs: Path, asked: _Options) -> list[Path]:
    from headgate.simulation.schedule import perform

    with same_command_goes_on(), counted(f"{runs.name}: {len(points)} run folders", asked.quiet) as tick:
        return [run.path for run in perform(points, runs, device=asked.device, processes=asked.processes, tick=tick)]


# pages from results


@app.command()
def pages(
    results: Annotated[Path, typer.Option(metavar="DIR", help="Results; default: those of the checkout.")] = RESULTS,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pages go; default: docs/studies.")] = PAGES,
) -> None:
    """Write the page of every study from its results, without any run."""
    from studies.leaderboard import boards, leaderboard_content
    from studies.pages import write_page
    from studies.paper.conclude import claims_content, paper_content, theory_content

    made = [write_page(name, query(results / "better"), out) for name, (_, query) in _compared().items()]
    for name, query in {"paper": paper_content, "theory": theory_content}.items():
        made.append(write_page(name, query(results / "paper"), out))
    made.append(write_page("claims", claims_content(results / "paper"), HOME / "paper" if out == PAGES else out))
    made.append(write_page("leaderboard", leaderboard_content(boards(results / "better", out), By.last.value), out))
    for path in (path for own in made for path in own):
        say(path)


@app.command()
def leaderboard(
    add: Annotated[str | None, typer.Option(metavar="KIND", help="A policy to put on it: module:Class, or a kind.")] = None,
    on: Annotated[str, typer.Option(metavar="RECIPE", help="The comparison to put it on.")] = "better/mnist",
    name: Annotated[str | None, typer.Option(help="What to call it; default: the name of its class.")] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="KEY=VALUE", help="A setting of the policy; may be given again.", show_default=False),
    ] = None,
    by: Annotated[By, typer.Option(help="What to rank by.")] = By.last,
    full: Annotated[bool, typer.Option("--full", help="Write every table, not only those with what was added.")] = False,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The comparisons' results.")] = RESULTS / "better",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the page, what was added and its runs go.")] = Path(
        "leaderboard"
    ),
    device: Device = "auto",
    processes: Processes = None,
    quiet: Quiet = False,
) -> None:
    """Rank every policy of every comparison at equal spend within the limits, with paired tests: leaderboard.md.

    With `--add` a policy of your own is run on the seeds, prices and budgets of a comparison first and stands on the page
    from then on, in this folder. `--on` may be a recipe file of your own that was compared into `--results` with
    `headgate compare RECIPE --pages DIR`. Ctrl-C loses nothing: the same command goes on.
    """
    from studies.leaderboard import boards, leaderboard_content
    from studies.pages import write_page

    found = boards(results, out, [on] if add is not None else [])
    if add is not None:
        one = next((each for each in found if each.recipe == on), None)
        if one is None:
            raise DataError(f"--on {on}: has no results; one of {', '.join(each.recipe for each in found)} has")
        _add(one, add, name or add.rpartition(":")[2], with_ or [], out, device, processes, quiet)
        found = boards(results, out, [on])
    elif name is not None or with_:
        raise SettingError("--name and --with: need a policy that --add names")
    if not found:
        raise DataError(f"{results}: holds no results of a comparison")
    for path in write_page("leaderboard", leaderboard_content(found, by.value, full), out):
        say(path)


def _add(
    board: "Board", kind: str, name: str, settings: list[str], out: Path, device: str, processes: int | None, quiet: bool
) -> None:
    from headgate.simulation.schedule import perform
    from studies.comparisons import keep_rows
    from studies.leaderboard import ADDED, points_for

    points, stem = points_for(board, name, kind, settings), Path(board.recipe).stem
    folder, runs = out / ADDED / stem, out / "runs" / stem / name
    if (folder / f"{name}.json").exists():
        raise DataError(f"{folder / name}.json: {name} stands there already; choose another --name, or remove it and {runs}")
    with same_command_goes_on(), counted(f"{name} on {board.recipe}", quiet) as tick:
        folders = [run.path for run in perform(points, runs, device=device, processes=processes, tick=tick)]
    words = ["python", "-m", "studies", "leaderboard", "--add", kind, "--on", board.recipe, "--name", name]
    command = shlex.join([*words, *(word for each in settings for word in ("--with", each))])
    say(keep_rows(folders, folder, name, command))


# the theory


@theory.command()
def errata(numbers: Annotated[list[int] | None, typer.Argument(metavar="NUMBER...")] = None) -> None:
    """List where the paper's text cannot be taken literally, with the numbers that show it, computed now.

    NUMBER says which of them; without it all. By weight: errors that change a statement, gaps that can be closed, slips,
    conventions. Each says whether the paper's conclusion survives. Tests: studies/paper/errata.md. A few seconds.
    """
    from studies.paper.errata.page import LISTED, entry, numbered

    for each in map(numbered, numbers) if numbers else LISTED["erratum"]:
        for line in entry(each):
            say(line)


@theory.command()
def rates(
    recipe: Recipe = "mnist",
    gamma: Annotated[float, typer.Option(help="V = T^gamma.")] = 0.5,
    phi: Annotated[float, typer.Option(help="rho = 1 - T^-phi.")] = 0.5,
    least: Annotated[int, typer.Option("--from", help="Shortest horizon.")] = 100,
    most: Annotated[int, typer.Option("--to", help="Longest horizon; the default takes two to three minutes.")] = 100_000,
    set_: Set = None,
    figure: Annotated[Path, typer.Option(metavar="FILE", help="The plot: .svg, .png or .pdf.")] = Path("rates.svg"),
    quiet: Quiet = False,
) -> None:
    """Measure Reg(T), Vio_S(T), Vio_B(T) and Omega_1..3 over growing horizons, and fit their exponents.

    RECIPE is a name from `headgate recipes` or a TOML file; its acdpp is measured. V = T^gamma and rho = 1 - T^-phi, as in
    the remark after Theorem 3. The fit uses the longer half of the horizons and at least four of them, so all where there are
    four or fewer. A claim holds if the exponent from each of these to the next is at most 0.05 above that of the claimed shape
    over all of them, and fails if each is above that. Vio_S is taken with the luck of the prices taken out, so it is not that
    of `headgate plan`.
    """
    from headgate.analysis.figures import check_figure
    from studies.theory.rates import draw_rates, horizons, measure, print_rates

    check_figure(figure)
    experiment, policy = _acdpp_of(recipe, set_ or [])
    Ts = horizons(least, most)
    with ticked(f"{len(Ts)} horizons", sum(Ts), quiet) as tick:
        result = measure(experiment, policy, Ts, gamma, phi, tick=tick)
    print_rates(result)
    draw_rates(result, figure)
    say(f"wrote {figure}", error=True)


def _acdpp_of(recipe: str, overrides: list[str]) -> "tuple[Experiment, Acdpp]":
    """The recipe, and its policy `acdpp` or the default one where it has none."""
    from headgate.control.policies import Acdpp

    experiment = headgate.load(recipe, *overrides, *played(["acdpp"]))
    policy = experiment.policies["acdpp"]
    if not isinstance(policy, Acdpp):
        raise SettingError(f"policies.acdpp.kind = {type(policy).__name__.lower()}: must be acdpp")
    return experiment, policy


if __name__ == "__main__":
    play(app)
