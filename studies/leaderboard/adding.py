"""A policy of a user's own, run as those of a comparison were, and its results beside theirs."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headgate.analysis.comparison import closed_share, rows
from headgate.analysis.pages import as_json, facts_of, machine, write
from headgate.analysis.runs import read_finished
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment, sweep_points
from headgate.records.reader import RunFolder
from studies import recipe
from studies.leaderboard.results import (
    ADDED,
    MEASURES,
    ROWS,
    ComparedStudy,
    Result,
    of_one_seed,
    offer_of,
    read_results,
)

LONGEST = 60
"""characters of a name"""


def points_for(compared: ComparedStudy, name: str, kind: str, settings: Sequence[str]) -> Sequence[tuple[str, Experiment]]:
    """The comparison's own experiments with this policy in place of its policies."""
    if not name or len(name) > LONGEST or not all(each.isalnum() or each in "-_" for each in name):
        raise SettingError(f"--name {shown(name)}: must be letters, digits, - and _, at most {LONGEST}")
    if name in {row.policy for row in compared.rows}:
        raise SettingError(f"--name {name}: {compared.recipe} has a policy of that name; choose another")
    own = [f'policies.{name}={{kind = "{kind}"}}', *(f"policies.{name}.{each}" for each in settings)]
    return sweep_points(recipe(compared.recipe), [*own, f'run.policies=["{name}"]'])


def conclude_added(compared: ComparedStudy, name: str, folders: Sequence[Path], out: Path, command: str) -> Path:
    """Writes NAME-RECIPE.json into the folder of what was added."""
    found, facts = read_finished(folders), facts_of(command, [machine(RunFolder.open(each)) for each in folders])
    made = [_closing(row, compared) for row in ROWS.validate_python(rows(found))]
    told = {**facts, "recipe": compared.recipe, "rows": [asdict(row) for row in made]}
    return write(out / ADDED, {added_file(name, compared): as_json(told)})[0]


def added_file(name: str, compared: ComparedStudy) -> str:
    return f"{name}-{Path(compared.recipe).stem}.json"


def _closing(row: Result, compared: ComparedStudy) -> Result:
    """With what it closes of the gap between the comparison's own constant admission and oracle."""
    own = next(rows for point, rows in compared.by_point if offer_of(point) == (row.prices, row.budget))
    ends = {one.policy: one for one in own}
    if not {"constant", "oracle"} <= ends.keys():
        return row
    shares: dict[str, Any] = {}
    for measure in MEASURES:
        three = of_one_seed([row, ends["constant"], ends["oracle"]], measure)
        share = None if three is None else closed_share(three[0], three[1], three[2])
        shares[f"closed_{measure}"] = None if share is None else tuple(share.three)
    return replace(row, **shares)


def read_added(folder: Path) -> dict[str, list[Result]]:
    """What was added so far, by recipe."""
    found: dict[str, list[Result]] = {}
    for path in sorted((folder / ADDED).glob("*.json")):
        made, own = read_results(path)
        if made.recipe is None:
            raise DataError(f"{path}: does not say with which recipe it was made")
        found.setdefault(made.recipe, []).extend(replace(row, added=True) for row in own)
    return found
