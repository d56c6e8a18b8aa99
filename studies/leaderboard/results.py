"""What the leaderboard is made from: the rows of comparisons, those that come with headgate and those that a user has added."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from headgate.analysis.comparison import Offer
from headgate.analysis.formatting import prices_text
from headgate.analysis.intervals import Floats
from headgate.errors import DataError
from headgate.escaping import shown
from headgate.experiment import Experiment, sweep_points
from headgate.experiment.recipes import read_recipe, study_table
from headgate.reading import read_object
from studies import HOME, recipe
from studies.better.studies import AT_EQUAL_SPEND

MEASURES = ("best", "last", "mean")
ADDED = "added"
"""the folder with what a user has added"""


def shipped_results() -> Path:
    """Return the folder with the numbers of the comparisons."""
    return HOME.parent / "docs" / "better"


@dataclass(frozen=True)
class Result:
    """What a policy came to at one budget, over its seeds: a row of a comparison."""

    policy: str
    budget: float
    reference: bool
    seeds: int
    """whose model was not lost"""
    diverged: int
    rounds: int
    spend: float
    """a round"""
    worst_spend: float
    overspent_runs: int
    worst_excess: int | None
    kept_limits: bool
    best: tuple[float, float | None, float | None] | None
    last: tuple[float, float | None, float | None] | None
    mean: tuple[float, float | None, float | None] | None
    best_by_seed: tuple[float, ...]
    last_by_seed: tuple[float, ...]
    mean_by_seed: tuple[float, ...]
    closed_best: tuple[float, float | None, float | None] | None = None
    closed_last: tuple[float, float | None, float | None] | None = None
    closed_mean: tuple[float, float | None, float | None] | None = None
    learnt: tuple[int, ...] = ()
    """the seeds themselves; older results do not say them"""
    prices: str | None = None
    price_paid: float | None = None
    added: bool = False
    """by a user"""

    def by_seed(self, measure: str) -> Floats:
        return np.array(getattr(self, f"{measure}_by_seed"))


def of_one_seed(rows: Sequence[Result], measure: str) -> list[Floats] | None:
    """By seed, of the seeds that all of these have learnt; None where it is not told which those are."""
    if not any(row.diverged for row in rows):
        return [row.by_seed(measure) for row in rows]
    both = [seed for seed in rows[0].learnt if all(seed in row.learnt for row in rows)]
    return [row.by_seed(measure)[[row.learnt.index(seed) for seed in both]] for row in rows] if both else None


@dataclass(frozen=True)
class HowMade:
    """What a comparison says of its runs."""

    commits: Annotated[list[str], Field(min_length=1)]
    dates: Annotated[list[str], Field(min_length=1)]
    devices: list[str]
    quick: bool = False
    recipe: str | None = None
    """of what was added: the comparison that it stands beside"""


ROWS, HOW_MADE = TypeAdapter(list[Result]), TypeAdapter(HowMade)


def read_results(path: Path) -> tuple[HowMade, list[Result]]:
    """What a comparison says of its runs, and its rows."""
    said = read_object(path)
    try:
        return HOW_MADE.validate_python(said), ROWS.validate_python(said.get("rows"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "rows"
        raise DataError(f"{path}: holds no results of a comparison ({shown(where)}: {shown(first['msg'])})") from None


# a comparison, and those of the same setting together


@dataclass(frozen=True)
class ComparedStudy:
    """A recipe and what came of it."""

    recipe: str
    made: HowMade
    rows: Sequence[Result]
    points: Sequence[tuple[str, Experiment]]

    @property
    def title(self) -> str:
        return str(study_table(recipe(self.recipe)).get("title", Path(self.recipe).stem))

    @property
    def budget(self) -> float | None:
        """That of the recipe without its sweep: where the experiment is the paper's, the paper's."""
        budget: float | None = read_recipe(recipe(self.recipe))[1].get("system", {}).get("budget")
        return budget

    @cached_property
    def by_point(self) -> list[tuple[Experiment, list[Result]]]:
        """The rows of each point; refused where they were made with another recipe."""
        found = []
        for _, point in self.points:
            offer = offer_of(point)
            own = [row for row in self.rows if row.budget == offer.budget and row.prices in (None, offer.prices)]
            if not own or any((row.rounds, row.seeds + row.diverged) != (point.rounds, len(point.seeds)) for row in own):
                raise DataError(f"{self.recipe}: its results were made with other rounds, seeds or budgets; make them anew")
            found.append((point, own))
        return found


def offer_of(point: Experiment) -> Offer:
    return Offer(prices_text(point.tables()["prices"]), point.system.budget)


@dataclass
class BoardTable:
    """All policies with one offer."""

    offer: Offer
    rows: dict[str, Result] = field(default_factory=dict)
    """by policy"""
    settings: dict[str, Any] = field(default_factory=dict)
    """likewise, where they are known"""

    def enter(self, row: Result, settings: Any, recipe: str) -> None:
        """A policy that stands there already is the same one; another one of its name is told apart by its recipe."""
        other = row.policy in self.rows and settings != self.settings[row.policy]
        name = f"{row.policy} ({recipe})" if other else row.policy
        if name not in self.rows:
            self.rows[name], self.settings[name] = row, settings


@dataclass
class BoardGroup:
    """Comparisons that differ in budget, prices and policies alone: of one data set, model and training."""

    compared: list[ComparedStudy] = field(default_factory=list)
    standings: dict[Offer, BoardTable] = field(default_factory=dict)

    def title(self, others: Collection[str] = ()) -> str:
        """What the titles of its comparisons begin with alike; all of them where another group is called so."""
        parts = [each.title.split(", ") for each in self.compared]
        alike = [names[0] for names in zip(*parts, strict=False) if len(set(names)) == 1]
        short = ", ".join(alike or parts[0])
        own = [each.title.removeprefix(f"{short}, ") for each in self.compared]
        return f"{short}: {', '.join(own)}" if short in others else short


def compared_in(results: Path, more: Sequence[str] = ()) -> list[ComparedStudy]:
    """The comparisons that have results: those that come with headgate, and these recipes."""
    names = dict.fromkeys([*(f"better/{name}" for name in AT_EQUAL_SPEND), *more])
    paths = {name: results / f"{Path(name).stem}.json" for name in names}
    return [
        ComparedStudy(name, *read_results(path), sweep_points(recipe(name))) for name, path in paths.items() if path.is_file()
    ]


def grouped(found: Sequence[ComparedStudy], added: Mapping[str, Sequence[Result]]) -> list[BoardGroup]:
    """By setting, in the order of the comparisons; `added` by recipe."""
    groups: dict[str, BoardGroup] = {}
    for one in found:
        for point, rows in one.by_point:
            group = groups.setdefault(_setting(point), BoardGroup())
            group.compared += [] if one in group.compared else [one]
            offer = offer_of(point)
            standing = group.standings.setdefault(offer, BoardTable(offer))
            told = point.tables()["policies"]
            for row in rows:
                standing.enter(row, told.get(row.policy), one.recipe)
            for row in added.get(one.recipe, ()):
                if row.budget == offer.budget and row.prices == offer.prices:
                    standing.enter(row, {"added": row.policy}, ADDED)
    return list(groups.values())


def _setting(point: Experiment) -> str:
    """All that an experiment is but its budget, its prices and its policies. A target changes nothing."""
    tables = point.tables()
    told = {key: table for key, table in tables.items() if key not in ("policies", "prices", "bound")}
    told["system"] = {key: value for key, value in told["system"].items() if key != "budget"}
    told["run"] = {key: value for key, value in told["run"].items() if key not in ("policies", "folder")}
    told["training"] = {key: value for key, value in told["training"].items() if key != "target"}
    return json.dumps(told, sort_keys=True)
