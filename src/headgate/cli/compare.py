"""The command that compares policies at equal spend."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

import headgate
from headgate.cli.console import AsFormat, Format, Quiet, Recipe, Set, Wide, print_json, recipe_overrides, say
from headgate.errors import SettingError

POLICIES = "headgate,constant,acdpp,below,oracle"
"""compared where a recipe comes with headgate"""


def compare(
    recipe: Recipe = "digits",
    budgets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Budgets a round, or `recipe`: the points of its sweep; default: 0.25, 0.5, 1 and 2 times its own.",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Policies: sections of the recipe, kinds, module:Class; recipe: those it runs, the default for a file.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds; default: the recipe's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds; default: the recipe's.")] = None,
    set_: Set = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    processes: Annotated[int | None, typer.Option(help="Processes to run in; default: one per core.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Runs and page; default: compared/NAME. What is finished there is used.")
    ] = None,
    pages: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the page here, as NAME.md, NAME.json and NAME.svg.")
    ] = None,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Leave policies as they are, also those that break their limits.")
    ] = False,
    format_: AsFormat = Format.table,
    wide: Wide = False,
    quiet: Quiet = False,
) -> None:
    """Compare policies at equal money: what each learns at every budget, and what it needs for the same accuracy.

    RECIPE is a name from `headgate recipes` or a TOML file. Every policy is held to the money and the buffers: it buys nothing
    more once C·T is spent, and no client holds more than its buffer. References, such as the oracle, are not held. Every policy
    is tested against constant admission, seed by seed. Writes compare.md, compare.json, compare.svg and report.html.
    Ctrl-C loses nothing: the same command goes on. With other --policies or --budgets it plays what is not there yet.
    """
    from headgate.analysis.display import show
    from headgate.experiment.recipes import is_shipped

    chosen = policies or (POLICIES if is_shipped(recipe) else "recipe")
    overrides = recipe_overrides(set_, rounds, seeds, None if chosen == "recipe" else chosen)
    experiment = headgate.load(recipe, *overrides)
    if policies is None and chosen == POLICIES and experiment.price_per_client:
        chosen = POLICIES.replace("acdpp,", "")  # which needs one price a round
        overrides = recipe_overrides(set_, rounds, seeds, chosen)
        experiment = headgate.load(recipe, *overrides)
    held = "" if as_printed else ", each held to the money and the buffers"
    say(f"comparing {', '.join(experiment.policies)}{held}", error=True)
    money = None if budgets == "recipe" else _budgets(budgets, experiment.system.budget)
    found = headgate.compare(
        experiment if money is not None else headgate.sweep(recipe, *overrides),
        money,
        out,
        device=device,
        processes=processes,
        quiet=quiet or format_ is Format.json,
        page=None if pages is None else (pages, experiment.name),
        command=_command(recipe, money, policies, rounds, seeds, set_ or [], as_printed),
        as_printed=as_printed,
    )
    if format_ is Format.json:
        rival = "constant" in experiment.policies
        print_json({"savings": found.saved_against() if rival else [], "rows": found.rows})
    else:
        show(*(found.wide() if wide else found.render()))
    say(f"report: {found.report}" if found.report else f"wrote {found.path}", error=format_ is Format.json)


def _budgets(said: str | None, own: float) -> list[float]:
    from headgate.api import SHARES

    if said is None:
        return [round(share * own, 6) for share in SHARES]
    try:
        money = [float(each) for each in said.split(",")]
    except ValueError:
        raise SettingError(f"--budgets {said}: must be numbers with commas between them, as in 20,40,55") from None
    if len(set(money)) < len(money):
        raise SettingError(f"--budgets {said}: names a budget twice")
    return money


def _command(
    recipe: str,
    money: list[float] | None,
    policies: str | None,
    rounds: int | None,
    seeds: int | None,
    set_: list[str],
    as_printed: bool,
) -> str:
    """What makes the same page again."""
    said = "recipe" if money is None else ",".join(f"{each:g}" for each in money)
    parts = ["headgate", "compare", recipe, "--budgets", said]
    parts += [] if policies is None else ["--policies", policies]
    for option, value in (("--rounds", rounds), ("--seeds", seeds)):
        parts += [] if value is None else [option, str(value)]
    for each in set_:
        parts += ["--set", each]
    parts += ["--as-printed"] * as_printed
    return shlex.join(parts)
