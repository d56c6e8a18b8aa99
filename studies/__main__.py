"""`python -m studies`, from a checkout: runs the studies, keeps their results and
writes their pages.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit(
        "python -m studies needs torch: pip install 'headgate[sim]'"
    ) from None
import typer

from headgate.cli.commands import play
from headgate.cli.console import CommandGroup, On, Quiet, say
from headgate.errors import Interrupted
from headgate.experiment import Experiment, sweep_points
from headgate.learning.datasets import load_dataset
from headgate.progress import counted, ticked
from headgate.simulation.schedule import perform
from studies import HOME, recipe
from studies.better import better_content, leaderboard_content
from studies.comparisons import ALSO, BETTER, about, command, keep_rows, not_run
from studies.drift import DRIFT, drift_content
from studies.pages import of_one_sort, read_numbers, write_findings, write_page
from studies.paper import conclude
from studies.paper import theory_claims as claims
from studies.paper.batches import NAMES, QUICK, batches
from studies.paper.outcomes import rehearse_study
from studies.savings import SAVINGS, savings_content
from studies.selection import CHOOSING, SELECTION, selection_content
from studies.simplest import SIMPLEST, simplest_content
from studies.theory.excess_risk import measure_risk
from studies.theory.rates import horizons, measure

RESULTS, PAGES = HOME / "results", HOME / "findings"
SITE = HOME.parent / "docs" / "studies"
HOMES = {"claims": HOME / "paper", "savings": SITE}
"""where pages lie in a checkout that are not among the others"""
COMPARED = {
    "better": ((*BETTER, *ALSO), better_content),
    "savings": (SAVINGS, savings_content),
    "drift": (DRIFT, drift_content),
    "selection": ((*SELECTION, *CHOOSING), selection_content),
    "simplest": (SIMPLEST, simplest_content),
}
"""the comparisons of each study, and the query that makes its page of their results"""
PAPERS = {
    "paper": conclude.paper_content,
    "theory": conclude.theory_content,
    "claims": conclude.claims_content,
}
What = StrEnum(
    "What",
    [
        "mnist",
        "cifar10",
        "imagenette",
        "theory",
        "claims",
        "all",
        "better",
        "savings",
        "drift",
        "selection",
        "simplest",
    ],
)
app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """What was measured with headgate: the paper and its claims, its theory, and other
    policies beside the paper's.
    """


@dataclass(frozen=True)
class _Options:
    out: Path
    results: Path
    quick: bool
    device: str
    processes: int | None
    on: str | None
    quiet: bool

    @property
    def gpu(self) -> bool:
        return self.device != "cpu" and torch.cuda.is_available()

    def play(self, points: Sequence[tuple[str, Experiment]], runs: Path) -> list[Path]:
        try:
            with counted(f"{runs.name}: {len(points)} run folders", self.quiet) as bar:
                return [
                    run.path
                    for run in perform(
                        points,
                        runs,
                        device=self.device,
                        processes=self.processes,
                        pool=self.on,
                        tick=bar,
                        say=bar.say,
                    )
                ]
        except Interrupted as stop:
            raise Interrupted(
                stop.what, "nothing is lost, the same command resumes"
            ) from None


@app.command()
def reproduce(
    what: Annotated[What, typer.Argument(metavar="WHAT")],
    quick: Annotated[
        bool,
        typer.Option(
            help=(
                "A trial of the whole chain on embedded data; its numbers mean nothing."
            )
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Runs, results and pages; default: reproduced."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results are kept and looked for; default: in --out.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    processes: Annotated[
        int | None, typer.Option(help="Processes to run in; default: one per core.")
    ] = None,
    on: On = None,
    quiet: Quiet = False,
) -> None:
    """Run a study, keep its results and write its page.

    WHAT is mnist, cifar10 or imagenette, the paper's section 7 as its text and as its
    scripts have it; theory; all of these; claims, every claim of the paper judged by
    the results that are there; better, ours beside the paper's; savings, the money for
    the same accuracy; drift, policies under concept drift; selection, which samples to
    buy; or simplest, headgate without each of its parts.

    Results that lie in --results are used as they are, runs that are finished in --out
    likewise, and what was interrupted goes on; so runs may come from another machine.
    What needs a GPU is run with one only. Money, debt and memory are judged on 4,000
    rehearsed runs (one to four minutes a data set).
    """
    folder = out or Path("reproduced-quick" if quick else "reproduced")
    kept = (results or folder / "results") / ("better" if what in COMPARED else "paper")
    asked = _Options(folder, kept, quick, device, processes, on, quiet)
    for path in _comparisons(what, asked) if what in COMPARED else _paper(what, asked):
        say(path)
    if quick:
        say("a trial run: its numbers mean nothing", error=True)


def _paper(what: What, asked: _Options) -> list[Path]:
    for name in (*NAMES, claims.THEORY):  # a trial run and real results are not mixed
        of_one_sort(asked.results / f"{name}.json", asked.quick)
    for name in (name for name in NAMES if what in (name, What.all)):
        runs = asked.out / "runs" / name
        done = {
            each["batch"]
            for each in read_numbers(asked.results / f"{name}.json").get("runs", [])
        }
        points = [
            (run.name, run.experiment)
            for run in batches(name, asked.quick)
            if (runs / run.name).is_dir()
            or (run.name not in done and (asked.gpu or not run.needs_gpu))
        ]
        if points:
            conclude.keep_study(
                name, asked.play(points, runs), asked.results, asked.quick
            )
    if what in (What.theory, What.all):
        _measure_theory(asked)
    known = [name for name in NAMES if (asked.results / f"{name}.json").is_file()]
    for name in known:
        with counted(f"{name}: control", asked.quiet, unit="rehearsals") as tick:
            rehearse_study(name, asked.results, asked.quick, tick)
    made = conclude.keep_claims(asked.results)
    there = {
        "claims": True,
        "paper": bool(known),
        "theory": (asked.results / "theory.json").is_file(),
    }
    for page in (page for page in there if there[page]):
        made += write_page(page, PAPERS[page](asked.results), asked.out, asked.quick)
    return made


def _measure_theory(asked: _Options) -> None:
    began, quick = time.monotonic(), asked.quick
    Ts = horizons(10, 100) if quick else horizons(100, 31_623)
    with ticked(f"{len(Ts)} horizons", sum(Ts), asked.quiet) as tick:
        rates = measure(*claims.rehearsed(2 if quick else 10), Ts, 0.5, 0.5, tick=tick)
    others = (len(claims.OTHER) + 2) * sum(claims.other_horizons(quick))
    with ticked("other settings of V, rho and K", others, asked.quiet) as tick:
        found = {
            **claims.of_rates(rates),
            **claims.of_other_settings(rates, quick, tick),
            **claims.of_formulas(),
        }
    risks = []
    for name in ("digits",) if quick else ("digits", "mnist"):
        with counted(
            f"excess risk on {name}", asked.quiet, unit="experiments"
        ) as count:
            risks.append(
                measure_risk(
                    recipe(f"theory/{name}"),
                    load_dataset(name),
                    quick=quick,
                    tick=count,
                )
            )
    conclude.keep_theory(
        rates,
        {**found, **claims.of_runs(risks)},
        asked.results,
        quick,
        time.monotonic() - began,
    )


def _comparisons(what: What, asked: _Options) -> list[Path]:
    """Run those comparisons that have no results yet, what needs a GPU only with one,
    and write the page.
    """
    names, query = COMPARED[what]
    for name in not_run(names, asked.results, asked.quick):
        said, runs = about(name), asked.out / "runs" / "better" / name
        if asked.gpu or asked.quick or not said.get("needs_gpu") or runs.is_dir():
            points = sweep_points(
                recipe(f"better/{name}"),
                (*QUICK, *said.get("quick", ())) if asked.quick else (),
            )
            folders = asked.play(points, runs)
            keep_rows(folders, asked.results, name, command(name, points), asked.quick)
    return write_page(what.value, query(asked.results), asked.out, asked.quick)


@app.command()
def pages(
    results: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Results; default: those of the checkout."),
    ] = RESULTS,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where pages go; default: the checkout.")
    ] = PAGES,
) -> None:
    """Write the page of every study from its results, without any run."""
    compared = {name: query for name, (_, query) in COMPARED.items()}
    for name, query in {
        **compared,
        "leaderboard": leaderboard_content,
        **PAPERS,
    }.items():
        home = HOMES.get(name, out) if out == PAGES else out
        for path in write_page(
            name, query(results / ("paper" if name in PAPERS else "better")), home
        ):
            say(path)
    if out == PAGES:
        for path in write_findings(PAGES, SITE):
            say(path)


if __name__ == "__main__":
    play(app)
