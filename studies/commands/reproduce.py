"""The command that makes the studies anew: the paper's section 7, its theory, and ours beside them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import headgate
from headgate.cli.console import Quiet, same_command_goes_on, say
from headgate.errors import Interrupted, SettingError
from headgate.progress import counted, ticked
from studies import recipe

if TYPE_CHECKING:
    from headgate.experiment import Experiment
    from studies.paper.theory_checks import Checks
    from studies.theory.outcome import ExcessRisk
    from studies.theory.rates import MeasuredRates


What = StrEnum("What", ["mnist", "cifar10", "imagenette", "theory", "claims", "all", "better", "savings", "drift", "looking"])


@dataclass(frozen=True)
class _Asked:
    """What the options say."""

    runs: Path
    pages: Path
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


def reproduce(
    what: Annotated[What, typer.Argument(metavar="WHAT")],
    quick: Annotated[bool, typer.Option(help="A trial of the whole chain on embedded data; its numbers mean nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Runs and pages; default: reproduced, or reproduced-quick.")
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages here; default: --out, or its folder better for ours."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    processes: Annotated[int | None, typer.Option(help="Processes to run in; default: one per core.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Only say what would be run, and about how long that takes.")] = False,
    quiet: Quiet = False,
) -> None:
    """Make every number and figure of the paper's section 7, and judge every claim of the paper.

    WHAT is mnist, cifar10 or imagenette, the paper's data sets; theory; all of these; claims, the page of all claims from
    the results that are there; better, ours beside the paper's; savings, the money for the same accuracy; drift, policies
    when the world moves; or looking, which samples to buy and to keep.

    Both as the text has it and as the released scripts do, with all policies on the same prices and samples. What is
    finished in --out is used as it is and what was interrupted goes on, so runs may come from another machine. What looks
    further on CIFAR-10 and ImageNette is run with a GPU only; without one the pages say that it was not run.
    Pages: NAME.md, NAME.json, NAME.csv, figures/ and, over all studies done so far, claims.md and claims.json. Money, debt
    and memory are judged on 4,000 rehearsed runs, which are kept in control.json (one to four minutes a data set).

    `better` compares headgate with the paper's policies within both limits: a comparison whose NAME.json lies in --pages is
    used as it is, the others are run; README.md is made from all of them. `drift` and `looking` do the same for
    drift.md and looking.md.
    """
    from studies.paper.batches import NAMES

    names = [name for name in NAMES if what in (name, What.all)]
    theory = what in (What.theory, What.all)
    if list_:
        _list(names, theory, what, quick)
        return
    folder = out or Path("reproduced-quick" if quick else "reproduced")
    ours = {What.better: _better, What.savings: _savings, What.drift: _drift, What.looking: _looking}
    inside = folder / "better" if what in ours else folder
    asked = _Asked(folder / "runs", pages or inside, quick, device, processes, quiet)
    own = {What.claims: _claims, **ours}.get(what)
    made = _paper(names, theory, asked) if own is None else own(asked)
    for path in dict.fromkeys(made):
        say(path)
    if quick:
        say("a trial run: its numbers mean nothing", error=True)


def _list(names: list[str], theory: bool, what: What, quick: bool) -> None:
    from studies.better.drift import DRIFT
    from studies.better.looking import LOOKING
    from studies.better.savings import SAVINGS
    from studies.better.studies import NAMES, OBJECTIVES, SERVERS, study
    from studies.paper.batches import batches

    for name in names:
        total = 0.0
        for run in batches(name, quick):
            seconds, e = run.gpu_seconds(), run.experiment
            total += seconds or 0.0
            says = f"{len(e.seeds)} seeds x {e.rounds} rounds, {e.model.kind} lr {e.training.lr:g}: {', '.join(e.policies)}"
            say(f"{f'{name}/{run.name}':44} {says}" + (f" (about {seconds:.0f} s of H200)" if seconds is not None else ""))
        if total:
            say(f"{name}: about {total:.0f} s of H200 in all")
    if theory:
        say("theory: rates over growing horizons and Theorem 1 beside runs (about six minutes on one core)")
    for name in {What.better: NAMES, What.savings: SAVINGS, What.drift: DRIFT, What.looking: LOOKING}.get(what, ()):
        say(study(name).command)
    for name in (*SERVERS, *OBJECTIVES) if what is What.better else ():
        points = study(name).points
        first = points[0][1]
        says = f"{len(first.seeds)} seeds x {first.rounds} rounds: {', '.join(first.policies)}"
        say(f"better/{name}: {len(points)} settings, {says}")


def _paper(names: list[str], theory: bool, asked: _Asked) -> list[Path]:
    from studies.paper.batches import batches
    from studies.paper.conclude import check_pages, conclude_claims, conclude_study, conclude_theory

    gpu, quick, pages = asked.has_gpu(), asked.quick, asked.pages
    check_pages(pages, quick)
    made: list[Path] = []
    for name in names:
        runs = asked.runs / name
        points = [run for run in batches(name, quick) if gpu or not run.needs_gpu or (runs / run.name).is_dir()]
        folders, took = _play([(run.name, run.experiment) for run in points], runs, asked)
        _control([name], asked)
        made += conclude_study(name, folders, pages, quick, took)
        made += conclude_claims(pages)
    if theory:
        began = time.monotonic()
        found = _rates(quick, asked.quiet), _checks(quick, asked.quiet), _excess_risk(quick, asked.quiet)
        made += conclude_theory(*found, pages, quick, time.monotonic() - began)
        made += conclude_claims(pages)
    return made


def _claims(asked: _Asked) -> list[Path]:
    from studies.paper.batches import NAMES
    from studies.paper.conclude import check_pages, conclude_claims

    check_pages(asked.pages, asked.quick)
    _control([name for name in NAMES if (asked.pages / f"{name}.json").is_file()], asked)
    return conclude_claims(asked.pages)


def _control(names: "Sequence[str]", asked: _Asked) -> None:
    """Money and memory, where they are not known yet."""
    from studies.paper.control import rehearse_study

    for name in names:
        with counted(f"{name}: control", asked.quiet, unit="rehearsals") as tick:
            rehearse_study(name, asked.pages, asked.quick, tick)


def _better(asked: _Asked) -> list[Path]:
    from studies.better.page import conclude_page, conclude_regret
    from studies.better.studies import NAMES, OBJECTIVES, SERVERS

    _compared((*NAMES, *SERVERS, *OBJECTIVES), asked)
    with counted("regret", asked.quiet, unit="kinds of prices") as tick:
        conclude_regret(asked.pages, asked.quick, tick)
    return conclude_page(asked.pages, asked.quick)


def _savings(asked: _Asked) -> list[Path]:
    from studies.better.savings import SAVINGS, conclude_savings

    _compared(SAVINGS, asked)
    return conclude_savings(asked.pages, asked.quick)


def _drift(asked: _Asked) -> list[Path]:
    from studies.better.drift import DRIFT, conclude_drift

    _compared(DRIFT, asked)
    return conclude_drift(asked.pages, asked.quick)


def _looking(asked: _Asked) -> list[Path]:
    from studies.better.looking import LOOKING, conclude_looking

    _compared(LOOKING, asked)
    return conclude_looking(asked.pages, asked.quick)


def _compared(names: "Sequence[str]", asked: _Asked) -> None:
    """Runs those of these comparisons that have no numbers yet and writes their pages; what needs a GPU only with one."""
    from headgate.analysis.conclude import conclude_comparison
    from headgate.experiment.recipes import study_table
    from studies.better.savings import SAVINGS, conclude_runs
    from studies.better.seed_by_seed import not_run
    from studies.better.studies import OBJECTIVES, SERVERS, study
    from studies.better.worth import conclude_worth
    from studies.paper.batches import QUICK

    gpu = asked.has_gpu() or asked.quick
    for name in not_run(names, asked.pages, asked.quick):
        trial = (*QUICK, *study_table(recipe(f"better/{name}")).get("quick", ()))
        own = study(name, trial if asked.quick else ())
        if gpu or not own.needs_gpu:
            folders, _ = _play(own.points, asked.runs / "better" / name, asked)
            if name in (*SERVERS, *OBJECTIVES):
                conclude_worth(folders, asked.pages, name, asked.quick)
            elif name in SAVINGS:
                conclude_runs(folders, asked.pages, name, own.command, asked.quick)
            else:
                conclude_comparison(folders, asked.pages, name, own.command, asked.quick)


def _play(points: "Sequence[tuple[str, Experiment]]", runs: Path, asked: _Asked) -> tuple[list[Path], float | None]:
    """The run folders, and the seconds it took to play what was not finished yet; None where nothing was left to do."""
    from headgate.simulation.schedule import perform

    began, played = time.monotonic(), False
    with same_command_goes_on(), counted(f"{runs.name}: {len(points)} run folders", asked.quiet) as told:

        def tick(done: int, total: int) -> None:
            nonlocal played
            played = True
            told(done, total)

        folders = [run.path for run in perform(points, runs, device=asked.device, processes=asked.processes, tick=tick)]
    return folders, time.monotonic() - began if played else None


def _rates(quick: bool, quiet: bool) -> "MeasuredRates":
    from studies.theory.rates import horizons, measure

    experiment = headgate.load("mnist", 'run.policies=["acdpp"]', *(["run.seeds=2"] if quick else []))
    Ts = horizons(10, 100) if quick else horizons(100, 31_623)
    with ticked(f"{len(Ts)} horizons", sum(Ts), quiet) as tick:
        rates = measure(experiment, experiment.policies["acdpp"], Ts, 0.5, 0.5, tick=tick)  # type: ignore[arg-type]
    if len(rates.points) < len(Ts):
        raise Interrupted(f"interrupted after {len(rates.points)} of {len(Ts)} horizons; nothing was written")
    return rates


def _checks(quick: bool, quiet: bool) -> "Checks":
    from studies.paper.theory_checks import OTHER, check, check_horizons

    with ticked("other settings of V, rho and K", (len(OTHER) + 2) * sum(check_horizons(quick)), quiet) as tick:
        found = check(quick, tick)
    if found is None:
        raise Interrupted("interrupted while other settings were measured; nothing was written")
    return found


def _excess_risk(quick: bool, quiet: bool) -> "list[ExcessRisk]":
    """Theorem 1 beside runs with learning."""
    from headgate.learning.datasets import load_dataset
    from studies.theory.measure import measure

    outcomes = []
    for name in ("digits",) if quick else ("digits", "mnist"):
        with counted(f"excess risk on {name}", quiet) as tick:
            outcomes.append(measure(recipe(f"theory/{name}"), load_dataset(name), quick=quick, tick=tick))
    return outcomes
