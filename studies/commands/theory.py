"""The commands of the theory: errata, measured rates, and regret against the clairvoyant bound."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import headgate
from headgate.cli.command_group import CommandGroup
from headgate.cli.console import AsFormat, Format, Quiet, Recipe, Set, played, print_json, say
from headgate.errors import Interrupted, SettingError
from headgate.progress import counted, ticked

if TYPE_CHECKING:
    from headgate.control.policies import Acdpp
    from headgate.experiment import Experiment

commands = typer.Typer(cls=CommandGroup, no_args_is_help=True, help="What the paper's theorems claim, and what is measured.")


@commands.command()
def errata(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="NUMBER...")] = None,
    format_: AsFormat = Format.table,
) -> None:
    """List where the paper's text cannot be taken literally, with the numbers that show it, computed now.

    NUMBER says which of them; without it all. By weight: errors that change a statement, gaps that can be closed, slips,
    conventions. Each says whether the paper's conclusion survives. Tests: docs/understand/errata.md. A few seconds.
    """
    from studies.paper.errata.listing import as_text, listed

    known = listed()
    chosen = [known.numbered(number) for number in numbers] if numbers else list(known.errata)
    if format_ is Format.json:
        print_json([{**vars(each), "numbers": each.numbers()} for each in chosen])
    else:
        for line in as_text(chosen).splitlines():
            say(line)


@commands.command()
def rates(
    recipe: Recipe = "mnist",
    gamma: Annotated[float, typer.Option(help="V = T^gamma.")] = 0.5,
    phi: Annotated[float, typer.Option(help="rho = 1 - T^-phi.")] = 0.5,
    least: Annotated[int, typer.Option("--from", help="Shortest horizon.")] = 100,
    most: Annotated[int, typer.Option("--to", help="Longest horizon; the default takes two to three minutes.")] = 100_000,
    set_: Set = None,
    figure: Annotated[Path, typer.Option(metavar="FILE", help="The plot: .svg, .png or .pdf.")] = Path("rates.svg"),
    format_: AsFormat = Format.table,
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
    from studies.theory.rates import horizons, measure
    from studies.theory.rates_view import draw_rates, print_rates

    check_figure(figure)
    experiment, policy = _acdpp_of(recipe, set_ or [])
    Ts = horizons(least, most)
    with ticked(f"{len(Ts)} horizons", sum(Ts), quiet) as tick:
        result = measure(experiment, policy, Ts, gamma, phi, tick=tick)
    if result.fits:
        draw_rates(result, figure)
    if format_ is Format.json:
        print_json(result)
    else:
        print_rates(result)
    if result.fits:
        say(f"wrote {figure}", error=True)
    if len(result.points) < len(Ts):
        raise Interrupted(f"interrupted; kept: {len(result.points)} of {len(Ts)} horizons")


@commands.command()
def regret(
    recipe: Recipe = "mnist",
    rounds: Annotated[int, typer.Option(help="Horizon.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Seeds.")] = 10,
    prices: Annotated[str | None, typer.Option(metavar="A,B,...", help="Kinds of prices to try; default: all.")] = None,
    set_: Set = None,
    format_: AsFormat = Format.table,
    quiet: Quiet = False,
) -> None:
    """Hold every policy that needs no tuning against the clairvoyant bound, under all kinds of prices.

    The bound is the least surrogate cost that anybody could reach who knew all prices and kept both limits. RECIPE, a name
    from `headgate recipes` or a TOML file, gives the buffers, the budget and the constants. Some minutes for 1,000 rounds.
    """
    from studies.theory.regret import as_text, regret_table, trying_prices

    experiment = headgate.load(recipe, *(set_ or []), f"run.rounds={rounds}", f"run.seeds={seeds}")
    known = trying_prices(rounds)
    names = list(known) if prices is None else [name.strip() for name in prices.split(",")]
    for name in names:
        if name not in known:
            raise SettingError(f"--prices {name}: must be one of {', '.join(known)}")
    wanted, e = {name: known[name] for name in names}, experiment
    with counted("rehearsing", quiet or format_ is Format.json, unit="kinds of prices") as tick:
        table = regret_table(e.system, e.bound, e.seeds, rounds, wanted, tick)
    if format_ is Format.json:
        print_json(table)
    else:
        for line in as_text(table).splitlines():
            say(line)


def _acdpp_of(recipe: str, overrides: list[str]) -> "tuple[Experiment, Acdpp]":
    """The recipe, and its policy `acdpp` or the default one where it has none."""
    from headgate.control.policies import Acdpp

    experiment = headgate.load(recipe, *overrides, *played(["acdpp"]))
    policy = experiment.policies["acdpp"]
    if not isinstance(policy, Acdpp):
        raise SettingError(f"policies.acdpp.kind = {type(policy).__name__.lower()}: must be acdpp")
    return experiment, policy
