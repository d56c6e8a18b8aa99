"""The commands for control: recipes, plan, rehearse, replay and compare."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.console import (
    AsFormat,
    Device,
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
    status,
)
from headgate.errors import SettingError

if TYPE_CHECKING:
    from headgate.analysis.replay import ReplayResult, ShadowResult
    from headgate.experiment import Experiment


def recipes(
    name: Annotated[str | None, typer.Argument()] = None,
) -> None:
    """List the recipes that come with headgate, or print NAME, to start your own file
    from.

    Those of the studies are files in studies/recipes of the project's repository.
    """
    from headgate.experiment import load, recipe_names, recipe_text

    if name is None:
        for each in recipe_names():
            e = load(each)
            size = (
                f"{e.system.clients:>8} clients, budget {e.system.budget:g}, {e.rounds}"
                " rounds"
            )
            say(f"{each:12} {size}: {', '.join(e.policies)}")
        return
    for line in recipe_text(name).splitlines():
        say(line)


def plan(
    recipe: Recipe = "mnist",
    policy: Annotated[
        str,
        typer.Option(
            help="The policy: a section of the recipe, a kind, or module:Class."
        ),
    ] = "headgate",
    set_: Set = None,
    format_: AsFormat = Format.table,
) -> None:
    """Work out a policy's settings for a system, rehearse it, and report what to
    expect.

    RECIPE is a name from `headgate recipes` or a TOML file. What the policy does is
    checked against both limits: money that a run may spend, and places that a client
    has. The bound is Theorem 1's; it does not rank policies
    (docs/understand/how-it-decides.md).

    Where RECIPE is the folder of a run on Flower, the rounds that are left are
    rehearsed from its ledger, under the terms as they were amended.
    """
    from headgate.api import load
    from headgate.api import plan as plan_of

    if (Path(recipe) / "ledger.sqlite").is_file():
        _plan_rest(Path(recipe), set_ or [], format_)
        return
    experiment = load(recipe, *recipe_overrides(set_, policies=policy))
    with status(format_, "rehearsing"):
        made = plan_of(experiment, next(iter(experiment.policies)))
    _tell(made, made.numbers, format_)


def _plan_rest(
    folder: Path,
    overrides: list[str],
    format_: Format,
) -> None:
    from contextlib import closing

    from headgate.api import load
    from headgate.books.opening import tables_at
    from headgate.flower.accounts import FlowerAccounts

    experiment = load(str(folder / "config.toml"), *overrides)
    tables = tables_at(folder, writes=False)
    with closing(tables), status(format_, "rehearsing"):
        accounts = FlowerAccounts.of(experiment, tables)
        last = accounts.system.horizon or experiment.rounds
        found = accounts.rest(experiment.prices, last - accounts.t)
    if format_ is Format.json:
        print_json({"round": accounts.t, "rounds": last, **found})
        return
    say(
        f"Rounds {accounts.t + 1} to {last}, from the ledger after round {accounts.t}:"
        " mean of 100 rehearsals (5 to 95 %)"
    )
    for name, (mean, low, high) in found.items():
        say(f"{name:8} {mean:10.2f}  ({low:.2f} to {high:.2f})")


def rehearse(
    recipe: Recipe = "mnist",
    rounds: Rounds = None,
    seeds: Seeds = None,
    policies: Policies = None,
    set_: Set = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write one row per policy, seed and round: .parquet, .csv or .jsonl.",
        ),
    ] = None,
    format_: AsFormat = Format.table,
    quiet: Quiet = False,
) -> None:
    """Run control over a whole horizon, without learning: what is spent, held and used.

    RECIPE is a name from `headgate recipes` or a TOML file. The bound is Theorem 1's,
    summed over the rounds; it does not rank policies: `headgate compare` does, by
    learning.

    Columns of --out: policy, seed, t, price, admitted, n, N, n_eff, uniformity, debt (Z
    at the beginning of the round), spend (in the round), penalty, bound (the round's
    term of Theorem 1), peak_excess (max n_m - B_m).
    """
    from headgate.api import load
    from headgate.api import rehearse as rehearsed

    experiment = load(recipe, *recipe_overrides(set_, rounds, seeds, policies))
    _check_out(out)
    done = rehearsed(experiment, quiet)
    _tell(done, [each.to_dict() for each in done.summary], format_, out)


def replay(
    purchases: Annotated[str, typer.Argument()],
    capacity: Annotated[
        int | None,
        typer.Option(
            help=(
                "The most samples a client can buy in a round; default: the most it"
                " ever bought in one."
            )
        ),
    ] = None,
    currency: Annotated[
        str, typer.Option(help="The currency, as $ or EUR; only for display.")
    ] = "",
    shadow: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE",
            help="Decide as this recipe's policy headgate, round by round, instead.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write one row per round: .parquet, .csv or .jsonl.",
        ),
    ] = None,
    format_: AsFormat = Format.table,
) -> None:
    """Compare purchases that you made with those that headgate would have made at the
    same prices.

    PURCHASES is a CSV file with the columns time (ISO dates or numbers), price (of one
    sample), samples (or bought) and perhaps client; or what `headgate ledger export`
    wrote; or accounts, their folder, that of a run on Flower, or their address in
    PostgreSQL. The result: what headgate would have paid for as many samples, and how
    many it would have bought for as much money.
    Rows of one time are one round; a client without a row has no offer in it, a row
    with 0 samples is an offer.

    Columns of --out: time, price (mean of those offered), bought, paid, and with
    as_much_ and as_many_ before them those of headgate for as much money and for as
    many samples.

    With --shadow, headgate decides beside your pipeline with the budget and the buffers
    of a recipe, by each round's price and those before it, and buys nothing. Run it
    again when the file has grown: the last row is the newest decision.
    """
    from headgate.analysis import replay as replayed
    from headgate.api import load

    _check_out(out)
    if shadow is not None and capacity is not None:
        raise SettingError(f"--capacity {capacity}: not with --shadow {shadow}")
    done: ReplayResult | ShadowResult
    with status(format_, "replaying"):
        if shadow is None:
            done = replayed.replay(purchases, capacity, currency)
        else:
            experiment = load(shadow, *recipe_overrides(policies="headgate"))
            done = replayed.shadow(purchases, experiment, currency)
    _tell(done, done.numbers, format_, out)


def _check_out(out: Path | None) -> None:
    from headgate.analysis.pages import check_file
    from headgate.analysis.rehearsal import WRITERS

    if out is not None:
        check_file("--out", out, WRITERS)


def _tell(
    done: Any,
    numbers: object,
    format_: Format,
    out: Path | None = None,
) -> None:
    """Show a result, or print its numbers as JSON, and write its rows into a file."""
    from headgate.analysis.display import show
    from headgate.analysis.rehearsal import write

    if out is not None:
        write(done.frame, out)
    if format_ is Format.json:
        print_json(numbers)
    else:
        show(*done.render())
    if out is not None:
        say(f"wrote {out}", error=True)


COMPARED = "headgate,constant,acdpp,below,oracle"
"""the policies that are compared by default if the recipe comes with headgate"""


def compare(
    recipe: Recipe = "digits",
    budgets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help=(
                "Budgets a round, or `recipe`: the points of its sweep; default: 0.25,"
                " 0.5, 1 and 2 times its own, less where that buys all places."
            ),
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help=(
                "Policies: sections of the recipe, kinds, module:Class; recipe: those"
                " it runs, the default for a file."
            ),
        ),
    ] = None,
    rounds: Rounds = None,
    seeds: Seeds = None,
    set_: Set = None,
    device: Device = "auto",
    processes: Annotated[
        int | None, typer.Option(help="Processes to run in; default: one per core.")
    ] = None,
    on: On = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Runs and page; default: compared/NAME. Finished runs there are used.",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the figure for a paper: .pdf, .png or .svg.",
        ),
    ] = None,
    width: Annotated[
        float, typer.Option(metavar="INCHES", help="The width of --figure.")
    ] = 6.4,
    as_printed: Annotated[
        bool,
        typer.Option(
            "--as-printed",
            help="Leave policies as they are, including those that break their limits.",
        ),
    ] = False,
    format_: AsFormat = Format.table,
    wide: Wide = False,
    quiet: Quiet = False,
) -> None:
    """Compare policies at equal money: what each learns at every budget, and what it
    needs for the same accuracy.

    RECIPE is a name from `headgate recipes` or a TOML file. Every policy is held to the
    money and the buffers: it buys nothing more once C·T is spent, and no client holds
    more than its buffer. References, such as the oracle, are not held. Every policy is
    tested against constant admission, seed by seed. Writes compare.json and
    report.html. Ctrl-C loses nothing: the same command resumes. With other
    --budgets it adds those that are missing.
    """
    from headgate.analysis.display import show
    from headgate.api import budgets_that_bind, load, sweep
    from headgate.api import compare as compared
    from headgate.experiment import recipe_names

    if figure is not None:
        _check_figure(figure)
    chosen = policies
    if policies is None and recipe in recipe_names():
        chosen = COMPARED
    elif policies == "recipe":
        chosen = None
    overrides = recipe_overrides(set_, rounds, seeds, chosen)
    experiment = load(recipe, *overrides)
    if policies is None and chosen and _prices_differ(experiment):
        chosen = COMPARED.replace("acdpp,", "")  # it needs one price for all clients
        overrides = recipe_overrides(set_, rounds, seeds, chosen)
        experiment = load(recipe, *overrides)
    held = "" if as_printed else ", each held to the money and the buffers"
    say(f"comparing {', '.join(experiment.policies)}{held}", error=True)

    money = None
    points: Experiment | list[tuple[str, Experiment]] = experiment
    if budgets == "recipe":
        points = sweep(recipe, *overrides)
    else:
        money = _budgets(budgets) if budgets else budgets_that_bind(experiment)
    stated = {"--policies": policies, "--rounds": rounds, "--seeds": seeds}
    found = compared(
        points,
        money,
        out,
        device=device,
        processes=processes,
        pool=on,
        quiet=quiet or format_ is Format.json,
        command=_command(recipe, money, stated, set_ or [], as_printed),
        as_printed=as_printed,
    )

    if format_ is Format.json:
        rival = "constant" in experiment.policies
        saved = [*found.saved_against()] if rival else []
        print_json({"savings": saved, "rows": found.rows})
    else:
        show(*(found.wide() if wide else found.render()))
    say(f"report: {found.report}", error=format_ is Format.json)
    if figure is not None:
        say(f"figure: {found.figure(figure, width)}", error=format_ is Format.json)


def _check_figure(path: Path) -> None:
    """Raise an error, before anything is learnt, if the figure cannot be drawn."""
    from headgate.analysis.figure_files import SUFFIXES
    from headgate.analysis.pages import check_file

    check_file("--figure", path, SUFFIXES)


def _prices_differ(experiment: "Experiment") -> bool:
    """Return whether clients have different prices."""
    return experiment.prices.path(experiment.seeds[:1], 1, 2).ndim == 3


def _budgets(stated: str) -> list[float]:
    try:
        money = [float(each) for each in stated.split(",")]
    except ValueError:
        raise SettingError(
            f"--budgets {stated}: must be numbers with commas between them, as in"
            " 20,40,55"
        ) from None
    if len(set(money)) < len(money):
        raise SettingError(f"--budgets {stated}: names a budget twice")
    return money


def _command(
    recipe: str,
    money: list[float] | None,
    options: Mapping[str, object],
    set_: Sequence[str],
    as_printed: bool,
) -> str:
    """Return the command line that makes the same comparison again."""
    stated = "recipe"
    if money is not None:
        stated = ",".join(f"{each:g}" for each in money)
    parts = ["headgate", "compare", recipe, "--budgets", stated]
    for option, value in options.items():
        if value is not None:
            parts += [option, str(value)]
    for override in set_:
        parts += ["--set", override]
    if as_printed:
        parts.append("--as-printed")
    return shlex.join(parts)
