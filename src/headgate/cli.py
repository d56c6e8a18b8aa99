"""The command line. Every command prints to stdout; progress and errors go to stderr."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from headgate import __version__
from headgate.config import Experiment, load, recipe_names, recipe_text
from headgate.control.plan import plan as make_plan
from headgate.control.policies import Acdpp
from headgate.control.rehearse import Rehearsal
from headgate.control.rehearse import rehearse as rehearse_policy
from headgate.errors import HeadgateError, Interrupted, SettingError
from headgate.experiments.rates import horizons, measure
from headgate.experiments.rehearsal import check_out, rows, summarise, write
from headgate.experiments.tables import print_plan, print_rates, print_summaries

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
theory = typer.Typer(no_args_is_help=True, help="What the paper's theorems claim, and what is measured.")
app.add_typer(theory, name="theory")


class Format(StrEnum):
    table = "table"
    json = "json"


Recipe = Annotated[str, typer.Argument(help="A recipe's name (see `headgate recipes`) or a TOML file.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="Override one key of the recipe; may be given again.", show_default=False
    ),
]
AsFormat = Annotated[Format, typer.Option("--format", help="A table for people or JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Gamma = Annotated[float, typer.Option(help="V = T^gamma.")]
Phi = Annotated[float, typer.Option(help="rho = 1 - T^-phi.")]


def _version(asked: bool) -> None:
    if asked:
        print(f"headgate {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Adaptive data admission and retention for streaming federated learning.

    Start with `headgate rehearse mnist`. Exit codes: 0 done, 2 a bad setting or option, 3 settings that cannot
    be met together, 4 an unreadable or missing file, 5 a ledger that does not fit, 130 interrupted.
    """


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe, to start your own file from.")] = None,
) -> None:
    """List the recipes that come with headgate, or print one."""
    if name is None:
        for each in recipe_names():
            e = load(each)
            size = f"{e.system.clients:>8} clients, budget {e.system.budget:g}, {e.rounds} rounds"
            print(f"{each:12} {size}: {', '.join(e.policies)}")
        return
    print(recipe_text(name), end="")


@app.command()
def plan(
    recipe: Recipe = "mnist",
    gamma: Gamma = 0.5,
    phi: Phi = 0.5,
    set_: Set = None,
    format_: AsFormat = Format.table,
) -> None:
    """Choose K, the rate, V and rho for a system, and say what to expect.

    Both branches of Corollary 2 and the search over the finite horizon give candidates for K; ACDPP is
    rehearsed with each of them, and the best that keeps the buffers on average is taken. Burst cap,
    capacity, N(0) and n(0) are those of the recipe's policy `acdpp`.
    """
    experiment, policy = _acdpp(recipe, set_ or [])
    with _status(format_, "rehearsing candidates"):
        made = make_plan(experiment.system, experiment.costs, experiment.bound, policy, experiment.seeds, gamma, phi)
    if format_ is Format.json:
        chosen = made.chosen
        print_json(
            {
                "K": chosen.K,
                "rate": chosen.rate,
                "V": made.V,
                "rho": made.rho,
                "bound": chosen.bound,
                "oracle_bound": made.oracle_bound,
                "regret": chosen.regret,
                "cost_violation": chosen.cost_violation,
                "buffer_violation": chosen.buffer_violation,
                "peak_buffer": chosen.peak_buffer,
                "why": made.why,
            }
        )
    else:
        print_plan(experiment, made)


@app.command()
def rehearse(
    recipe: Recipe = "mnist",
    rounds: Annotated[int | None, typer.Option(help="Rounds; default: the recipe's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds; default: the recipe's.")] = None,
    policies: Annotated[str | None, typer.Option(metavar="A,B,...", help="Policies: sections of the recipe, or kinds.")] = None,
    set_: Set = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one row per policy, seed and round: .parquet, .csv or .jsonl.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw money, memory and samples over rounds: .svg, .png or .pdf.")
    ] = None,
    format_: AsFormat = Format.table,
    quiet: Quiet = False,
) -> None:
    """Run control over a whole horizon, without learning: what is spent, held and used.

    Columns of --out: policy, seed, t, cost, admitted, n, N, n_eff, uniformity, debt (Z at the beginning of
    the round), spend (in the round), penalty, bound (the round's term of Theorem 1), peak_excess (max n_m - B_m).
    """
    overrides = list(set_ or ())
    overrides += [f"run.{key}={value}" for key, value in (("rounds", rounds), ("seeds", seeds)) if value is not None]
    if policies is not None:
        overrides.append(f"run.policies={json.dumps([name.strip() for name in policies.split(',') if name.strip()])}")
    experiment = load(recipe, overrides)
    if out is not None:
        check_out(out)
    if figure is not None:
        from headgate.experiments.figures import check_figure, draw_rehearsal

        check_figure(figure)
    results, interrupted = _rehearse_all(experiment, quiet)
    if results:
        if out is not None:
            write(rows(experiment, results), out)
        if figure is not None:
            draw_rehearsal(experiment, results, figure)
        summaries = [summarise(experiment, name, result) for name, result in results.items()]
        if format_ is Format.json:
            print_json([asdict(summary) for summary in summaries])
        else:
            print_summaries(experiment, summaries)
    for path in filter(None, (out, figure)):
        if results:
            print(f"wrote {path}", file=sys.stderr)
    if interrupted:
        done = ", ".join(f"{name} {result.rounds}/{experiment.rounds} rounds" for name, result in results.items())
        raise Interrupted(f"interrupted; kept: {done or 'nothing, no round was complete'}")


@theory.command()
def rates(
    recipe: Recipe = "mnist",
    gamma: Gamma = 0.5,
    phi: Phi = 0.5,
    least: Annotated[int, typer.Option("--from", help="Shortest horizon.")] = 100,
    most: Annotated[int, typer.Option("--to", help="Longest horizon; the default takes two to three minutes.")] = 100_000,
    set_: Set = None,
    figure: Annotated[Path, typer.Option(metavar="FILE", help="The plot: .svg, .png or .pdf.")] = Path("rates.svg"),
    format_: AsFormat = Format.table,
    quiet: Quiet = False,
) -> None:
    """Measure Reg(T), Vio_S(T), Vio_B(T) and Omega_1..3 over growing horizons, and fit their exponents.

    V = T^gamma and rho = 1 - T^-phi, as in the remark after Theorem 3. The fit uses the longer half of the horizons; a claim
    holds if the exponent is at most 0.05 above the claimed one.
    """
    from headgate.experiments.figures import check_figure, draw_rates

    check_figure(figure)
    experiment, policy = _acdpp(recipe, set_ or [])
    Ts = horizons(least, most)
    with _progress(quiet) as progress:
        task = progress.add_task(f"{len(Ts)} horizons", total=sum(Ts))
        result = measure(experiment, policy, Ts, gamma, phi, tick=_every(lambda done: progress.advance(task, done)))
    if result.fits:
        draw_rates(result, figure)
    if format_ is Format.json:
        print_json(asdict(result))
    else:
        print_rates(result)
    if result.fits:
        print(f"wrote {figure}", file=sys.stderr)
    if len(result.points) < len(Ts):
        raise Interrupted(f"interrupted; kept: {len(result.points)} of {len(Ts)} horizons")


def _acdpp(recipe: str, overrides: list[str]) -> tuple[Experiment, Acdpp]:
    """The recipe, and its policy `acdpp` or the default one where it has none."""
    experiment = load(recipe, overrides)
    policy = experiment.policies.get("acdpp") or load(recipe, [*overrides, 'run.policies=["acdpp"]']).policies["acdpp"]
    if not isinstance(policy, Acdpp):
        raise SettingError(f"policies.acdpp.kind = {type(policy).__name__.lower()}: must be acdpp")
    return experiment, policy


def _rehearse_all(experiment: Experiment, quiet: bool) -> tuple[dict[str, Rehearsal], bool]:
    results: dict[str, Rehearsal] = {}
    with _progress(quiet) as progress:
        total = experiment.rounds * len(experiment.policies)
        task = progress.add_task("", total=total)
        for name, policy in experiment.policies.items():
            progress.update(task, description=f"{name}, {len(experiment.seeds)} seeds")
            result = rehearse_policy(
                experiment.system,
                policy,
                experiment.costs,
                experiment.seeds,
                experiment.rounds,
                tick=_every(lambda done: progress.advance(task, done)),
            )
            if result.rounds:
                results[name] = result
            if result.rounds < experiment.rounds:
                return results, True
        progress.update(task, description="done", completed=total)
    return results, False


def _every(advance: Callable[[int], None], rounds: int = 25) -> Callable[[int], None]:
    """Tell the bar every so many rounds; drawing it costs more than deciding a round."""

    def tick(t: int) -> None:
        if t % rounds == 0:
            advance(rounds)

    return tick


def _progress(quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet,
        transient=True,
    )


@contextmanager
def _status(format_: Format, text: str) -> Iterator[None]:
    if format_ is Format.json:
        yield
    else:
        with Console(stderr=True).status(text):
            yield


def print_json(value: Any) -> None:
    """JSON has no infinity: it becomes null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def main() -> None:
    """Run the command line; every refusal is one line on stderr and a documented exit code."""
    try:
        app()
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        raise SystemExit(stop.exit_code) from None
    except HeadgateError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
