"""The comparisons behind the pages, each a recipe better/NAME: what runs, and its rows,
kept as one line each.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headgate.analysis.comparison import rows as compared_rows
from headgate.analysis.formatting import DASH, listed, plus_minus, prices_text
from headgate.analysis.intervals import Difference
from headgate.analysis.pages import facts_of, write
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import Row, paired
from headgate.errors import DataError
from headgate.experiment import Experiment
from headgate.experiment.recipes import read_recipe
from headgate.records.reader import RunFolder
from studies import HOME, recipe, study_table
from studies.pages import SAID, compact, of_one_sort, read_numbers

MEASURES = ("best", "last", "mean")
GRIDS = ("acdpp-logistic", "acdpp-lenet", "acdpp-cifar10", "acdpp-imagenette")
"""headgate beside ACDPP with a grid of its settings"""
BETTER: tuple[str, ...] = tuple(SAID["better"]["comparisons"])
"""policies at equal spend"""
HINDSIGHT = tuple(
    f"hindsight-{name}"
    for name in BETTER
    if (HOME / f"recipes/better/hindsight-{name}.toml").is_file()
)
"""schedules with all prices known, and price limits, beside one of these each"""
BY_AGE = ("age-mnist", "age-lenet", "age-cifar10", "age-imagenette")
WANDER = ("wander-ercot", "wander-brent", "wander-ercot-lenet", "wander-brent-lenet")
ALSO = ("listening", "first-round", *WANDER, *BY_AGE, *HINDSIGHT)
"""a policy that buys by the clients' losses, what round 1 may spend, one that finds its
window, limits by age, hindsight
"""
Found = Mapping[str, Sequence[Row]]
"""the rows of each comparison"""


@cache
def about(name: str) -> dict[str, Any]:
    """Return the table [study] of a comparison's recipe: `title`, `needs_gpu`, and
    `quick`, settings of a trial.
    """
    return study_table(recipe(f"better/{name}"))


def title(name: str) -> str:
    return str(about(name)["title"])


def budget(name: str) -> float:
    """Return the budget of the recipe itself, at which a comparison of several budgets
    is shown.
    """
    return float(read_recipe(recipe(f"better/{name}"))[1]["system"]["budget"])


def command(name: str, points: Sequence[tuple[str, Experiment]]) -> str:
    """The command that makes its numbers again, by themselves."""
    one_price = (
        len({prices_text(experiment.tables()["prices"]) for _, experiment in points})
        == 1
    )
    money = (
        ",".join(f"{experiment.system.budget:g}" for _, experiment in points)
        if one_price
        else "recipe"
    )
    return (
        f"headgate compare studies/recipes/better/{name}.toml --budgets {money}"
        " --policies recipe --as-printed"
    )


def not_run(names: Sequence[str], folder: Path, quick: bool) -> list[str]:
    """Return the comparisons without rows in `folder`; refused where trials and results
    would be mixed.
    """
    return [name for name in names if not of_one_sort(folder / f"{name}.json", quick)]


def read_finished(paths: Sequence[Path]) -> list[Runs]:
    """Return the runs of run folders; raise DataError if a run is not finished."""
    found = read_runs([RunFolder.open(path) for path in paths])
    for one in found:
        if not one.finished:
            where = f"metrics of policy {one.policy}"
            raise DataError(
                f"{one.folder}: {where}: not one row for each of {len(one.seeds)} seeds"
                f" and {one.rounds} rounds"
            )
    return found


def keep_rows(
    runs: Sequence[Path], folder: Path, name: str, command: str, quick: bool = False
) -> Path:
    """Write NAME.json, a row for each budget and policy with the scores of every seed;
    rows of other policies are kept.
    """
    rows = [
        {key: _rounded(value) for key, value in row.items() if key != "paid"}
        for row in compared_rows(read_finished(runs))
    ]
    facts, before = (
        facts_of(command, [RunFolder.open(run) for run in runs], quick),
        read_numbers(folder / f"{name}.json"),
    )
    ran = [(row["prices"], row["budget"], row["policy"]) for row in rows]
    if others := [
        row
        for row in rows_in(before)
        if (row["prices"], row["budget"], row["policy"]) not in ran
    ]:
        rows = [*map(dict, others), *rows]
        facts |= {
            key: sorted({*before[key], *facts[key]})
            for key in ("commits", "dates", "devices")
        }
    first = min((min(row["learnt"]) for row in rows if row["learnt"]), default=0)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    for row in rows:
        row["learnt"] = (
            None
            if row["learnt"] == list(range(first, first + row["seeds"]))
            else row["learnt"]
        )
    lines = ",\n".join(compact([row.get(key) for key in columns]) for row in rows)
    head = compact({**facts, "first_seed": first, "columns": columns})
    return write(folder, {f"{name}.json": f'{head[:-1]},"rows":[\n{lines}\n]}}\n'})[0]


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def rows_in(numbers: Mapping[str, Any]) -> Sequence[Row]:
    """Return the rows that `keep_rows` wrote; none where there are none."""
    made = [
        dict(zip(numbers["columns"], values, strict=True))
        for values in numbers.get("rows", ())
    ]
    for row in made:
        row["unit"] = row.get("unit") or ""
        if row["learnt"] is None:
            row["learnt"] = list(
                range(numbers["first_seed"], numbers["first_seed"] + row["seeds"])
            )
    return made


def rows_of(names: Sequence[str], folder: Path) -> dict[str, Sequence[Row]]:
    """Return the rows of each comparison; refused where one that needs no GPU was not
    run.
    """
    found = {name: rows_in(read_numbers(folder / f"{name}.json")) for name in names}
    if absent := [
        name
        for name, rows in found.items()
        if not rows and not about(name).get("needs_gpu")
    ]:
        raise DataError(f"{folder}: has no numbers of {listed(absent)}")
    return {name: rows for name, rows in found.items() if rows}


def at(rows: Sequence[Row], policy: str, budget: float | None = None) -> Row:
    return next(
        row
        for row in rows
        if row["policy"] == policy and budget in (None, row["budget"])
    )


def gap(one: Row, other: Row, key: str) -> str:
    """Seed by seed, in points, with its 95 % interval; nothing where all runs of a side
    were lost.
    """
    return said(
        paired(one, other, key)
        if one[f"{key}_by_seed"] and other[f"{key}_by_seed"]
        else None
    )


def said(
    gap: Difference | None, digits: int = 2, with_p: bool = False, bold: bool = False
) -> str:
    if gap is None:
        return DASH
    p, mark = "", "**" if bold else ""
    if with_p and gap.p is not None:
        p = f" (p {'< 0.001' if gap.p < 0.001 else f'= {gap.p:.2g}'})"
    return f"{mark}{plus_minus(gap, digits, signs=True)}{mark}{p}"


def clear(difference: Difference | None) -> int:
    """1 where the 95 % interval is above zero, −1 where it is below, else 0."""
    low, high = (
        (None, None) if difference is None else (difference.low, difference.high)
    )
    return int((low or 0) > 0) - int((high or 0) < 0)
