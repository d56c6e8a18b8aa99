"""The planner of the page: the plan of a recipe that a request contains.

The answer is that of `headgate plan` for this recipe, with what buying evenly would
cost at the same prices, and the accuracy that finished runs had for the money. A
request cannot name a file or a module, and one that would take too long or too much
memory is refused before anything is built.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from headgate.analysis.curves import (
    PolicyCurves,
    Series,
    policy_curves,
    rounded,
    series,
)
from headgate.analysis.formatting import unit_of
from headgate.analysis.intervals import Estimate
from headgate.analysis.rehearsal import (
    EVEN,
    Bought,
    as_runs,
    plan_json,
    purchases,
    saved_beside,
    summarise_rehearsal,
)
from headgate.control.controller import Controller
from headgate.control.prices.trace import prices_in
from headgate.control.rehearse import Rehearsal, plan
from headgate.errors import InfeasibleError, SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment, build
from headgate.experiment.sections import SystemTable
from headgate.registry import POLICY, fill, nearest
from headgate.theory.comparison import oracle_bound
from headgate.web.runs import Library
from headgate.web.starts import (
    Accuracy,
    PlanStart,
    accuracy,
    finished_runs,
    recipes,
)

LIMITS = {
    "clients": 1000,
    "rounds": 5000,
    "seeds": 20,
    "places": 250_000,  # clients times the largest buffer
    "decisions": 2_000_000,  # clients times rounds times seeds
    "number": 1e9,
}
MOST_LIST = 200_000
"""most characters of a price list"""
LIST = Path("prices.csv")
"""name of a price list in messages, whatever the user calls it"""
MOST_RUNS = 20
MOST_TEXT = 200
MOST_DEPTH = 6
NOT_ASKED = ("file", "folder", "column", "sha256")
"""keys that a request may not have, because they name something on this machine"""


class PlanRun(BaseModel):
    """The section `run` of the recipe."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
    )

    rounds: StrictInt = Field(ge=2, le=LIMITS["rounds"])
    seeds: StrictInt = Field(5, ge=1, le=LIMITS["seeds"])


class PlanRequest(BaseModel):
    """A request for a plan: a recipe with one policy, as `headgate plan` reads it."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
    )

    system: dict[str, Any]
    prices: dict[str, Any]
    """prices as in a recipe; a trace includes its list of prices, or the text of a CSV
    file as `text` and perhaps the name of a `column`
    """
    run: PlanRun
    policies: dict[str, dict[str, Any]] = Field(
        {"headgate": {}},
        min_length=1,
        max_length=1,
    )
    """the settings of one policy, by its kind"""
    bound: dict[str, Any] = Field(default_factory=dict)
    runs: list[str] = Field([], max_length=MOST_RUNS)
    """finished runs whose accuracy is of interest"""

    @property
    def policy(self) -> str:
        return next(iter(self.policies))


def built(asked: PlanRequest) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment of a request, and its recipe."""
    if asked.policy not in POLICY.kinds:
        raise SettingError(
            f"policy = {asked.policy[:100]}: no such"
            f" policy{nearest(asked.policy, list(POLICY.kinds))}"
        )
    recipe = _without_none(asked.model_dump(exclude={"runs"}))
    recipe["prices"] = with_list(recipe["prices"])
    recipe["run"]["policies"] = [asked.policy]
    _check_sizes(recipe)
    return build("plan", recipe), recipe


def with_list(prices: dict[str, Any]) -> dict[str, Any]:
    """Return prices in which the text of a price list is replaced by its prices.

    A list of numbers needs no header, and what was copied from a spreadsheet has tabs.
    """
    if "text" not in prices:
        return prices
    text, column = str(prices.pop("text")), prices.pop("column", None)
    if len(text) > MOST_LIST:
        raise SettingError(f"{LIST}: must be text of at most {MOST_LIST:,} characters")
    text = text.strip()
    if "," not in text:
        text = text.replace("\t", ",")
    header = text.partition("\n")[0].strip(' "\r')
    if re.fullmatch(r"[-+.,\d]+", header):
        text = f"price\n{text}"
    elif re.fullmatch(r"[\w .€$-]+", header):  # one column alone
        column = header
    return {**prices, "prices": prices_in(LIST, text.encode(), column)}


def _without_none(value: Any) -> Any:
    """Return the value without entries that are None, because TOML has no null."""
    if not isinstance(value, dict):
        return value
    return {key: _without_none(each) for key, each in value.items() if each is not None}


def _check_sizes(recipe: Mapping[str, Any]) -> None:
    """Refuse a recipe that would take too long or too much memory."""
    for section in ("system", "prices", "policies", "bound"):
        check_values(section, recipe[section])
    buffers = recipe["system"].get("buffers")
    if not isinstance(buffers, list) or not buffers:
        raise SettingError(
            "system.buffers: must be a list of whole numbers, one for each client"
        )

    # with the types that are used later
    system: SystemTable = fill(SystemTable, recipe["system"], "system")
    clients = system.clients or len(system.buffers)
    largest = max(system.buffers)
    rounds, seeds = recipe["run"]["rounds"], recipe["run"]["seeds"]
    if not 1 <= clients <= LIMITS["clients"]:
        raise SettingError(
            f"system.clients = {clients}: must be 1 to {LIMITS['clients']:,}"
        )
    if clients * largest > LIMITS["places"]:
        raise SettingError(
            f"system.buffers: {clients} clients times {largest} places; at most"
            f" {LIMITS['places']:,}"
        )
    if clients * rounds * seeds > LIMITS["decisions"]:
        what = f"{clients} clients, {rounds} rounds and {seeds} seeds"
        raise SettingError(
            f"run.rounds = {rounds}: {what} are more than {LIMITS['decisions']:,}"
            " decisions"
        )


def check_waiting(experiment: Experiment) -> None:
    """Refuse too many places, and too many rounds to fill the buffers.

    A policy's own K is close to the rounds that fill the buffers.
    """
    system = experiment.system
    for policy in experiment.policies.values():
        limit = Controller(system, policy, len(experiment.seeds)).buffers.limit
        if limit is not None and system.clients * int(limit.max()) > LIMITS["places"]:
            raise SettingError(
                f"capacity = {limit.max()}: {system.clients} clients; at most"
                f" {LIMITS['places']:,} places"
            )
    mean_price = experiment.prices.mean(experiment.rounds)
    filled = mean_price * system.all_places / system.budget
    if filled > 2 * LIMITS["rounds"]:
        raise InfeasibleError(
            f"system.budget = {system.budget:g}: fills the buffers of"
            f" {system.all_places} samples in {filled:,.0f} rounds; at most"
            f" {2 * LIMITS['rounds']:,} can be planned"
        )


def check_values(
    where: str,
    value: Any,
    depth: int = 0,
) -> None:
    """Refuse what is too large, and what names a file or a module."""
    if depth > MOST_DEPTH:
        raise SettingError(f"{where[:100]}: too deep")
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in NOT_ASKED:
                raise SettingError(
                    f"{where[:100]}.{key}: a plan names no file; prices are sent with"
                    " it, as prices.prices"
                )
            check_values(f"{where}.{key}", each, depth + 1)
    elif isinstance(value, list):
        most = LIMITS["rounds"] if where == "prices.prices" else LIMITS["clients"]
        if len(value) > most:
            raise SettingError(f"{where[:100]}: {len(value)} entries; at most {most:,}")
        for each in value:
            check_values(where, each, depth + 1)
    elif isinstance(value, str):
        _check_text(where, value)
    elif isinstance(value, int | float):
        _check_number(where, value)


def _check_text(where: str, value: str) -> None:
    if ":" in value:  # a module:Class, under any key
        raise SettingError(
            f"{where[:100]} = {value[:100]}: a plan knows what is shipped, nothing else"
        )
    if len(value) > MOST_TEXT:
        raise SettingError(
            f"{where[:100]} = {shown(value)}: {len(value):,} characters; at most"
            f" {MOST_TEXT}"
        )


def _check_number(where: str, value: float) -> None:
    if not abs(value) <= LIMITS["number"]:
        raise SettingError(
            f"{where[:100]} = {shown(value)}: must not be beyond {LIMITS['number']:g}"
        )
    if where.endswith(".K") and value > LIMITS["rounds"]:
        most = f"at most {LIMITS['rounds']:,}"
        raise SettingError(f"{where[:100]} = {shown(value)}: {most}")


# what can be chosen


@dataclass(frozen=True)
class PlanChoices:
    """The policies, the recipes to start from, and the limits."""

    policies: dict[str, list[str]]
    """names of the settings of each policy, by its kind"""
    recipes: list[PlanStart]
    finished: list[PlanStart]
    """runs to start from, the newest first"""
    limits: dict[str, float]


def choices(library: Library) -> PlanChoices:
    """Return what can be planned."""
    policies = {
        kind: [each.name for each in fields(policy)]
        for kind, policy in POLICY.kinds.items()
    }
    return PlanChoices(
        policies=policies,
        recipes=[*filter(_can_be_planned, recipes())],
        finished=[*filter(_can_be_planned, finished_runs(library))],
        limits=LIMITS,
    )


def _can_be_planned(start: PlanStart) -> bool:
    run = {"rounds": start.rounds, "seeds": 1}
    try:
        _check_sizes({**vars(start), "run": run, "policies": {}})
    except SettingError:
        return False
    return start.rounds <= LIMITS["rounds"]


# the answer


@dataclass(frozen=True)
class PlanAnswer:
    unit: str
    """currency, empty if none is known"""
    total: float
    """budget of all rounds, which is never exceeded by a policy with a purse"""
    bought: Bought
    evenly: Bought
    """what the same money buys if every round spends the same, within the limits"""
    saved: Estimate
    """share of the price of a label that is saved beside buying evenly; means have the
    least and the most of the rehearsed runs
    """
    accuracy: Accuracy
    plan: dict[str, Any]
    """plan as `headgate plan --format json` prints it"""
    summary: dict[str, Any]
    """summary of its rehearsal, as `headgate rehearse --format json` prints it"""
    memory: int
    curves: PolicyCurves
    """curves as for a run, with the labels bought so far, what buying evenly comes to,
    and the bound of the oracle
    """
    toml: str


def answer(asked: PlanRequest, library: Library) -> PlanAnswer:
    """Return the plan for a request, and its rehearsal."""
    experiment, recipe = built(asked)
    check_waiting(experiment)
    system, policy = experiment.system, experiment.policies[asked.policy]
    with np.errstate(
        over="ignore",
        invalid="ignore",
        divide="ignore",
    ):
        made = plan(experiment.given_for(policy), policy)
        even = plan(experiment.given_for(EVEN), EVEN).rehearsal
        return PlanAnswer(
            unit=unit_of(recipe),
            total=system.budget * experiment.rounds,
            bought=purchases(made.rehearsal),
            evenly=purchases(even),
            saved=saved_beside(made.rehearsal, even),
            accuracy=accuracy(library, asked.runs, experiment.tables(), made.spend),
            plan=plan_json(experiment, asked.policy, made),
            summary=summarise_rehearsal(
                experiment, asked.policy, made.rehearsal
            ).to_dict(),
            memory=system.all_places,
            curves=_curves(experiment, asked.policy, made.rehearsal, even),
            toml=tomli_w.dumps(recipe),
        )


def _curves(
    experiment: Experiment,
    name: str,
    result: Rehearsal,
    even: Rehearsal,
) -> PolicyCurves:
    found = policy_curves(as_runs(experiment, name, result))
    at = np.array(found.t) - 1
    oracle = oracle_bound(experiment.system.buffer, experiment.rounds, experiment.bound)
    so_far = {
        "bought": result.admitted,
        "even_bought": even.admitted,
        "even_spent": even.spend,
    }
    more = {
        key: series(np.cumsum(each, axis=1, dtype=float)[:, at])
        for key, each in so_far.items()
    }
    more["oracle_bound"] = Series(rounded(oracle[at]), [None] * len(at))
    return replace(found, series=found.series | more)
