"""The planner of the page. It computes K, money, memory and bounds from a system,
prices and a policy.

A request becomes a recipe and is built like any other, so the answer is that of
`headgate plan` for the recipe that it contains, or of `headgate rehearse` if the
request sets K or another number of the policy. A request cannot name a file or a
module, and one that would take too long or too much memory is refused before anything
is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from headgate.analysis.curves import PolicyCurves, Series, policy_curves, rounded
from headgate.analysis.rehearsal import as_runs, plan_json, summarise_rehearsal
from headgate.control.controller import Controller
from headgate.control.policies import BudgetedPolicy
from headgate.control.rehearse import Rehearsal, plan
from headgate.errors import InfeasibleError, SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment, build, recipe_names
from headgate.experiment.recipes import read_recipe
from headgate.experiment.sections import SystemTable
from headgate.registry import POLICY, fill, nearest
from headgate.theory.comparison import oracle_bound

LIMITS = {
    "clients": 1000,
    "rounds": 5000,
    "seeds": 20,
    "places": 250_000,  # clients times the largest buffer
    "decisions": 2_000_000,  # clients times rounds times seeds
    "number": 1e9,
}
MOST_TEXT = 200
NOT_ASKED = ("file", "folder", "column", "sha256")
"""keys that a request may not have, because they name something on this machine"""


class PlanRequest(BaseModel):
    """A request for a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    system: dict[str, Any]
    prices: dict[str, Any]
    """prices as in a recipe; a trace includes its list of prices"""
    rounds: Annotated[StrictInt, Field(ge=2, le=LIMITS["rounds"])]
    seeds: Annotated[StrictInt, Field(ge=1, le=LIMITS["seeds"])] = 5
    policy: str = "headgate"
    K: Annotated[StrictInt, Field(ge=1, le=LIMITS["rounds"])] | None = None
    """K of the policy; None: the planner chooses it"""
    gamma: float = 0.5
    phi: float = 0.5
    options: dict[str, Any] = Field(default_factory=dict)
    """other keys of the policy, as in a recipe"""
    bound: dict[str, Any] = Field(default_factory=dict)


def built(asked: PlanRequest) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment of a request, and its recipe."""
    if asked.policy not in POLICY.kinds:
        raise SettingError(
            f"policy = {asked.policy[:100]}: no such"
            f" policy{nearest(asked.policy, list(POLICY.kinds))}"
        )
    _check_sizes(asked)
    process = dict(asked.prices)
    if process.get("kind") == "trace":
        process["prices"] = _prices(process.get("prices"), asked.rounds)
    own = {**asked.options, "kind": asked.policy}
    if asked.K is not None:
        by_rule = (
            issubclass(POLICY.kinds[asked.policy], BudgetedPolicy) and "rule" not in own
        )  # it has a retention rule
        own |= (
            {"rule": {"kind": "kstep", "K": asked.K, "capacity": "buffer"}}
            if by_rule
            else {"K": asked.K}
        )
    known = {each.name for each in fields(POLICY.kinds[asked.policy])}
    own |= {
        key: value
        for key, value in (("gamma", asked.gamma), ("phi", asked.phi))
        if key in known and key not in own
    }
    recipe = {
        "system": dict(asked.system),
        "prices": process,
        "run": {
            "rounds": asked.rounds,
            "seeds": asked.seeds,
            "policies": [asked.policy],
        },
        "bound": dict(asked.bound),
        "policies": {asked.policy: own},
    }
    recipe = _without_none(recipe)
    return build("plan", recipe), recipe


def _without_none(value: Any) -> Any:
    """Return the value without entries that are None, because TOML has no null."""
    if isinstance(value, dict):
        return {
            key: _without_none(each) for key, each in value.items() if each is not None
        }
    return value


def _check_sizes(asked: PlanRequest) -> None:
    """Refuse a request that would take too long or too much memory, before anything is
    built.
    """
    for key in asked.options.keys() & {"K", "kind"}:
        raise SettingError(
            f"options.{key}: is asked for as {'policy' if key == 'kind' else key}"
        )
    if asked.options.get("capacity", "buffer") not in ("buffer", None):
        raise SettingError(
            f"options.capacity = {str(asked.options['capacity'])[:100]}: must be buffer"
        )
    for section in ("system", "prices", "options", "bound"):
        _check_values(section, getattr(asked, section))
    if not isinstance(asked.system.get("buffers"), list) or not asked.system["buffers"]:
        raise SettingError(
            "system.buffers: must be a list of whole numbers, one for each client"
        )
    system: SystemTable = fill(
        SystemTable, _without_none(asked.system), "system"
    )  # with the types that are used later
    count, buffers = system.clients or len(system.buffers), system.buffers
    if not 1 <= count <= LIMITS["clients"]:
        raise SettingError(
            f"system.clients = {count}: must be 1 to {LIMITS['clients']:,}"
        )
    if count * max(buffers) > LIMITS["places"]:
        raise SettingError(
            f"system.buffers: {count} clients times {max(buffers)} places; at most"
            f" {LIMITS['places']:,}"
        )
    if count * asked.rounds * asked.seeds > LIMITS["decisions"]:
        what = f"{count} clients, {asked.rounds} rounds and {asked.seeds} seeds"
        raise SettingError(
            f"rounds = {asked.rounds}: {what} are more than {LIMITS['decisions']:,}"
            " decisions"
        )


def check_waiting(experiment: Experiment) -> None:
    """Refuse a retention rule with too many places, and too many rounds to fill the
    buffers, to which K is close.
    """
    system = experiment.system
    for policy in experiment.policies.values():
        limit = Controller(system, policy, len(experiment.seeds)).buffers.limit
        if limit is not None and system.clients * int(limit.max()) > LIMITS["places"]:
            raise SettingError(
                f"options.rule.capacity = {limit.max()}: {system.clients} clients; at"
                f" most {LIMITS['places']:,} places"
            )
    filled = experiment.prices.mean(experiment.rounds) * system.all_places / system.budget
    if filled > 2 * LIMITS["rounds"]:
        raise InfeasibleError(
            f"system.budget = {system.budget:g}: fills the buffers of {system.all_places}"
            f" samples in {filled:,.0f} rounds; at most {2 * LIMITS['rounds']:,} can be"
            " planned"
        )


def _check_values(where: str, value: Any, depth: int = 0) -> None:
    """Refuse numbers and lists that are too large, and values that name a file or a
    module.
    """
    if depth > 6:
        raise SettingError(f"{where[:100]}: too deep")
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in NOT_ASKED:
                raise SettingError(
                    f"{where[:100]}.{key}: a plan names no file; prices are sent with"
                    " it, as prices.prices"
                )
            _check_values(f"{where}.{key}", each, depth + 1)
    elif isinstance(value, list):
        most = LIMITS["rounds"] if where == "prices.prices" else LIMITS["clients"]
        if len(value) > most:
            raise SettingError(f"{where[:100]}: {len(value)} entries; at most {most:,}")
        for each in value:
            _check_values(where, each, depth + 1)
    elif isinstance(value, str) and ":" in value:  # a module:Class, under any key
        raise SettingError(
            f"{where[:100]} = {value[:100]}: a plan knows what is shipped, nothing else"
        )
    elif isinstance(value, int | float) and not abs(value) <= LIMITS["number"]:
        raise SettingError(
            f"{where[:100]} = {shown(value)}: must not be beyond {LIMITS['number']:g}"
        )
    elif (
        isinstance(value, int | float)
        and where.endswith((".length", ".rounds"))
        and value > LIMITS["rounds"]
    ):
        raise SettingError(f"{where} = {shown(value)}: at most {LIMITS['rounds']:,}")
    elif isinstance(value, str) and len(value) > MOST_TEXT:
        raise SettingError(
            f"{where[:100]} = {shown(value)}: {len(value):,} characters; at most"
            f" {MOST_TEXT}"
        )


def _prices(prices: Any, rounds: int) -> list[float]:
    """Return the prices of a trace, at most one for each round that a run has."""
    if (
        not isinstance(prices, list)
        or not prices
        or not all(type(each) in (int, float) for each in prices)
    ):
        raise SettingError("prices.prices: must be a list of numbers")
    return [float(each) for each in prices[:rounds]]


# what can be chosen


@dataclass(frozen=True)
class PlanRecipe:
    """A recipe to start from."""

    name: str
    system: dict[str, Any]
    prices: dict[str, Any]
    rounds: int
    bound: dict[str, Any]


@dataclass(frozen=True)
class PlanChoices:
    """The policies, the recipes to start from, and the limits."""

    policies: list[str]
    recipes: list[PlanRecipe]
    limits: dict[str, float]


def choices() -> PlanChoices:
    """Return what can be planned."""
    recipes = []
    for name in recipe_names():
        _, raw, _ = read_recipe(name)
        system = raw["system"]
        if (system.get("clients") or len(system["buffers"])) <= LIMITS["clients"]:
            recipes.append(
                PlanRecipe(
                    name,
                    system,
                    raw["prices"],
                    raw["run"]["rounds"],
                    raw.get("bound", {}),
                )
            )
    return PlanChoices(list(POLICY.kinds), recipes, LIMITS)


# the answer


@dataclass(frozen=True)
class PlanAnswer:
    plan: dict[str, Any]
    """plan as `headgate plan --format json` prints it"""
    summary: dict[str, Any]
    """summary of its rehearsal, as `headgate rehearse --format json` prints it"""
    memory: int
    peak_client: int
    """client that held the most samples beyond its buffer"""
    peak_places: int
    """size of the buffer of that client, in samples"""
    curves: PolicyCurves
    """curves as for a run, with the bound of the oracle"""
    toml: str


def answer(asked: PlanRequest) -> PlanAnswer:
    """Return the plan for a request, and its rehearsal."""
    experiment, recipe = built(asked)
    check_waiting(experiment)
    system, policy = experiment.system, experiment.policies[asked.policy]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        made = plan(experiment.given_for(policy), policy)
        return PlanAnswer(
            plan=plan_json(experiment, asked.policy, made),
            summary=summarise_rehearsal(
                experiment, asked.policy, made.rehearsal
            ).to_dict(),
            memory=system.all_places,
            peak_client=made.peak_client,
            peak_places=int(system.buffer[made.peak_client]),
            curves=_curves(experiment, asked.policy, made.rehearsal),
            toml=tomli_w.dumps(recipe),
        )


def _curves(experiment: Experiment, name: str, result: Rehearsal) -> PolicyCurves:
    found = policy_curves(as_runs(experiment, name, result))
    oracle = oracle_bound(experiment.system.buffer, experiment.rounds, experiment.bound)
    drawn = Series(rounded(oracle[np.array(found.t) - 1]), [None] * len(found.t))
    return replace(found, series={**found.series, "oracle_bound": drawn})
