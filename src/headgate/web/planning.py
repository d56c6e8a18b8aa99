"""The planner behind the page: a system, prices and a policy in; K, money, memory and bounds out, within a moment.

A request becomes a recipe and is built as any other, so the answer is that of `headgate plan` on the file that comes back with
it, or of `headgate rehearse` where K or another number of the policy was stated. Nothing a visitor sends can name a file or a
module, and what would take too long or too much memory is refused before anything is built.
"""

import csv
import io
import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any

import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from headgate.analysis.curves import rounded
from headgate.analysis.rehearsal import as_runs, summarise_rehearsal
from headgate.analysis.tables import POINT, plan_json
from headgate.control.controller import Controller
from headgate.control.plan import Plan, plan
from headgate.control.policies import BudgetedPolicy
from headgate.control.policies.references.clairvoyant import foresee
from headgate.control.prices import Trace
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.errors import DataError, InfeasibleError, SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment, build, recipe_names
from headgate.experiment.recipes import read_recipe
from headgate.experiment.sections import SystemTable
from headgate.registry import POLICY, checked, fill, nearest
from headgate.theory.comparison import oracle_bound
from headgate.web.answers import GateTrace, PolicyCurves, Series, gate_trace, policy_curves
from headgate.web.security import Refused

LIMITS = {
    "clients": 1000,
    "rounds": 5000,
    "seeds": 20,
    "prices": 100_000,
    "places": 250_000,  # clients times the largest buffer
    "decisions": 2_000_000,  # clients times rounds times seeds
    "number": 1e9,
}
FILE = "plan.toml"
FORESIGHT = 3e7
"""rounds times samples that can be bought: beyond it the clairvoyant takes more than a moment"""
POINTS = 500
MOST_TEXT = 200
NOT_ASKED = ("file", "folder", "column", "sha256")
"""keys that would name something on this machine"""


class PlanRequest(BaseModel):
    """What may be asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    system: dict[str, Any]
    prices: dict[str, Any]
    """as in a recipe, a trace brings its own"""
    rounds: Annotated[StrictInt, Field(ge=2, le=LIMITS["rounds"])]
    seeds: Annotated[StrictInt, Field(ge=1, le=LIMITS["seeds"])] = 5
    policy: str = "headgate"
    K: Annotated[StrictInt, Field(ge=1, le=LIMITS["rounds"])] | None = None
    """left out: chosen"""
    gamma: float = 0.5
    phi: float = 0.5
    options: dict[str, Any] = Field(default_factory=dict)
    """other keys of the policy, as in a recipe"""
    bound: dict[str, Any] = Field(default_factory=dict)
    trace: bool = False
    page: str = Field(default="", max_length=MOST_TEXT)
    """a newer request of the same page takes the place of an older one"""


def built(asked: PlanRequest) -> tuple[Experiment, dict[str, Any]]:
    """The experiment, and the recipe that makes it again."""
    if asked.policy not in POLICY.kinds:
        raise SettingError(f"policy = {asked.policy[:100]}: no such policy{nearest(asked.policy, list(POLICY.kinds))}")
    _check_sizes(asked)
    process = dict(asked.prices)
    if process.get("kind") == "trace":
        process["prices"] = _prices(process.get("prices"), asked.rounds)
    own = {**asked.options, "kind": asked.policy}
    if asked.K is not None:
        by_rule = issubclass(POLICY.kinds[asked.policy], BudgetedPolicy) and "rule" not in own  # keeps samples by a rule
        own |= {"rule": {"kind": "kstep", "K": asked.K, "capacity": "buffer"}} if by_rule else {"K": asked.K}
    known = {each.name for each in fields(POLICY.kinds[asked.policy])}
    own |= {key: value for key, value in (("gamma", asked.gamma), ("phi", asked.phi)) if key in known and key not in own}
    recipe = {
        "system": dict(asked.system),
        "prices": process,
        "run": {"rounds": asked.rounds, "seeds": asked.seeds, "policies": [asked.policy]},
        "bound": dict(asked.bound),
        "policies": {asked.policy: own},
    }
    recipe = _without_none(recipe)
    return build("plan", recipe), recipe


def _without_none(value: Any) -> Any:
    """TOML has no null: what is null is left out."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return value


def _check_sizes(asked: PlanRequest) -> None:
    """What would take too long or too much memory is refused before anything is built."""
    for key in asked.options.keys() & {"K", "kind"}:
        raise SettingError(f"options.{key}: is asked for as {'policy' if key == 'kind' else key}")
    if asked.options.get("capacity", "buffer") not in ("buffer", None):
        raise SettingError(f"options.capacity = {str(asked.options['capacity'])[:100]}: must be buffer")
    for section in ("system", "prices", "options", "bound"):
        _check_values(section, getattr(asked, section))
    if not isinstance(asked.system.get("buffers"), list) or not asked.system["buffers"]:
        raise SettingError("system.buffers: must be a list of whole numbers, one for each client")
    system: SystemTable = fill(SystemTable, _without_none(asked.system), "system")  # of the types that will be used
    count, buffers = system.count, system.buffers
    if not 1 <= count <= LIMITS["clients"]:
        raise SettingError(f"system.clients = {count}: must be 1 to {LIMITS['clients']:,}")
    if count * max(buffers) > LIMITS["places"]:
        raise SettingError(f"system.buffers: {count} clients times {max(buffers)} places; at most {LIMITS['places']:,}")
    if count * asked.rounds * asked.seeds > LIMITS["decisions"]:
        what = f"{count} clients, {asked.rounds} rounds and {asked.seeds} seeds"
        raise SettingError(f"rounds = {asked.rounds}: {what} are more than {LIMITS['decisions']:,} decisions")


def check_waiting(experiment: Experiment) -> None:
    """K is about the rounds that it takes to fill the buffers, and retention remembers so many."""
    system = experiment.system
    for policy in experiment.policies.values():
        limit = Controller(system, policy, len(experiment.seeds)).buffers.limit
        if limit is not None and system.clients * int(limit.max()) > LIMITS["places"]:
            raise SettingError(
                f"options.rule.capacity = {limit.max()}: {system.clients} clients; at most {LIMITS['places']:,} places"
            )
    filled = experiment.prices.mean(experiment.rounds) * system.memory / system.budget
    if filled > 2 * LIMITS["rounds"]:
        raise InfeasibleError(
            f"system.budget = {system.budget:g}: fills the buffers of {system.memory} samples in {filled:,.0f} rounds; "
            f"at most {2 * LIMITS['rounds']:,} can be planned"
        )


def _check_values(where: str, value: Any, depth: int = 0) -> None:
    """Numbers and lists are bounded, and nothing names a file or a module."""
    if depth > 6:
        raise SettingError(f"{where[:100]}: too deep")
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in NOT_ASKED:
                raise SettingError(f"{where[:100]}.{key}: a plan names no file; prices are sent with it, as prices.prices")
            _check_values(f"{where}.{key}", each, depth + 1)
    elif isinstance(value, list):
        most = LIMITS["prices"] if where == "prices.prices" else LIMITS["clients"]
        if len(value) > most:
            raise SettingError(f"{where[:100]}: {len(value)} entries; at most {most:,}")
        for each in value:
            _check_values(where, each, depth + 1)
    elif isinstance(value, str) and ":" in value:  # a module:Class, whichever key says it
        raise SettingError(f"{where[:100]} = {value[:100]}: a plan knows what is shipped, nothing else")
    elif isinstance(value, int | float) and not abs(value) <= LIMITS["number"]:
        raise SettingError(f"{where[:100]} = {shown(value)}: must not be beyond {LIMITS['number']:g}")
    elif isinstance(value, int | float) and where.endswith((".length", ".rounds")) and value > LIMITS["rounds"]:
        raise SettingError(f"{where} = {shown(value)}: at most {LIMITS['rounds']:,}")
    elif isinstance(value, str) and len(value) > MOST_TEXT:
        raise SettingError(f"{where[:100]} = {shown(value)}: {len(value):,} characters; at most {MOST_TEXT}")


def _prices(prices: Any, rounds: int) -> list[float]:
    """A run meets no more of them than it has rounds."""
    if not isinstance(prices, list) or not prices or not all(type(each) in (int, float) for each in prices):
        raise SettingError("prices.prices: must be a list of numbers")
    return [float(each) for each in prices[:rounds]]


def command(toml: str, stated: bool, asked: PlanRequest) -> str:
    """Lines for a shell that leave the file and work it out again."""
    written = f"cat > {shlex.quote(FILE)} <<'END'\n{toml}END\n"
    if stated:
        return f"{written}headgate rehearse {FILE}\n"
    given = (("gamma", asked.gamma), ("phi", asked.phi)) if asked.policy == "acdpp" else ()
    exponents = "".join(f" --{name} {value!r}" for name, value in given if value != 0.5)
    return f"{written}headgate plan {FILE} --policy {asked.policy}{exponents}\n"


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
    """Policies, recipes to start from, limits."""

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
            recipes.append(PlanRecipe(name, system, raw["prices"], raw["run"]["rounds"], raw.get("bound", {})))
    return PlanChoices(list(POLICY.kinds), recipes, LIMITS)


# the answer


@dataclass(frozen=True)
class PlanAnswer:
    plan: dict[str, Any]
    """as `headgate plan --format json` prints it"""
    summary: dict[str, Any]
    """of its rehearsal, as `headgate rehearse --format json` prints it"""
    memory: int
    peak_client: int
    """who held most above its buffer"""
    peak_places: int
    """how many samples that client has room for"""
    clairvoyant: dict[str, float] | None
    """the least surrogate cost at the first seed's prices (bound), the policy's there (surrogate), and their ratio"""
    clairvoyant_note: str
    candidates: list[dict[str, Any]]
    """every K that was rehearsed"""
    curves: PolicyCurves
    """as of a run, and the oracle's bound"""
    trace: GateTrace | None
    toml: str
    command: str
    took_ms: float


class Superseded(Refused):
    def __init__(self) -> None:
        super().__init__(409, "page: a newer request has taken the place of this one")


class Planner:
    """Answers requests, one at a time for each page."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, object] = {}

    def arrive(self, raw: Mapping[str, Any]) -> Callable[[], PlanAnswer]:
        """Return the work to be done for a request, which may have to wait; older work of the same page is given up now."""
        began, me = time.perf_counter(), object()
        asked = checked(PlanRequest, dict(raw), "plan")
        if asked.page:
            with self._lock:
                self._newest[asked.page] = me

        def tick(t: int) -> None:
            if asked.page and self._newest.get(asked.page) is not me:
                raise Superseded

        def work() -> PlanAnswer:
            try:
                tick(0)
                with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                    return self._answer(asked, tick, began)
            finally:
                with self._lock:
                    if self._newest.get(asked.page) is me:
                        del self._newest[asked.page]

        return work

    def _answer(self, asked: PlanRequest, tick: Callable[[int], None], began: float) -> PlanAnswer:
        experiment, recipe = built(asked)
        check_waiting(experiment)
        system, policy = experiment.system, experiment.policies[asked.policy]
        stated = asked.K is not None or bool({"rate", "V", "rho"} & asked.options.keys())
        made = plan(experiment.given_for(policy), policy, asked.gamma, asked.phi, tick, search=not stated)
        if made.candidates:
            recipe["policies"][asked.policy] |= {name: made.setting(name) for name in POINT}
        toml = tomli_w.dumps(recipe)
        clairvoyant, note = _clairvoyant(experiment, made.rehearsal, recipe)
        return PlanAnswer(
            plan=plan_json(experiment, asked.policy, made),
            summary=summarise_rehearsal(experiment, asked.policy, made.rehearsal).to_dict(),
            memory=system.memory,
            peak_client=made.peak_client,
            peak_places=int(system.buffer[made.peak_client]),
            clairvoyant=clairvoyant,
            clairvoyant_note=note,
            candidates=[vars(each) for each in made.candidates],
            curves=_curves(experiment, asked.policy, made.rehearsal),
            trace=_trace(experiment, asked.policy, made, tick) if asked.trace else None,
            toml=toml,
            command=command(toml, stated, asked),
            took_ms=round(1e3 * (time.perf_counter() - began), 1),
        )


def _curves(experiment: Experiment, name: str, result: Rehearsal) -> PolicyCurves:
    found = policy_curves(as_runs(experiment, name, result), 0, POINTS)
    oracle = oracle_bound(experiment.system.buffer, experiment.rounds, experiment.bound)
    drawn = Series(rounded(oracle[np.array(found.t) - 1]), [None] * len(found.t))
    return replace(found, series={**found.series, "oracle_bound": drawn})


def _clairvoyant(experiment: Experiment, result: Rehearsal, recipe: Mapping[str, Any]) -> tuple[dict[str, float] | None, str]:
    """Return the clairvoyant bound beside what the policy comes to, or why there is none."""
    own = float(result.penalty(experiment.bound)[0].sum())
    alone = {"rounds": experiment.rounds, "seeds": 1, "policies": ["constant"]}
    least, note = _least(json.dumps({**recipe, "run": alone, "policies": {}}))
    if note or not np.isfinite(own):
        return None, note or "the policy had no sample in the first rounds"
    return {"bound": least, "surrogate": own, "ratio": own / least}, ""


@lru_cache(maxsize=16)
def _least(recipe: str) -> tuple[float, str]:
    """Return the clairvoyant bound at the first seed's prices, or why there is none. Few of the sliders change it."""
    experiment = build("plan", json.loads(recipe))
    system, rounds = experiment.system, experiment.rounds
    prices = experiment.prices.path(experiment.seeds[:1], 1, rounds + 1)
    if prices.ndim != 2:
        return 0.0, "every client has a price of its own, for which there is no clairvoyant bound"
    affordable = 1 + np.searchsorted(np.cumsum(np.sort(prices[0]) * system.memory), system.budget * rounds)
    if rounds * system.memory * min(int(affordable), rounds) > FORESIGHT:
        return 0.0, "too many rounds and samples to solve while you wait"
    bound = float(foresee(prices, system, experiment.bound, tolerance=1e-3).bound[0])
    return (bound, "") if np.isfinite(bound) and bound > 0 else (0.0, "the money does not buy a sample in the first round")


def _trace(experiment: Experiment, name: str, made: Plan, tick: Callable[[int], None]) -> GateTrace:
    """Return the first seed's run, client by client."""
    prices = experiment.given_for(made.policy).prices
    one = rehearse(experiment.system, made.policy, prices, experiment.seeds[:1], experiment.rounds, tick, by_client=True)
    assert one.held_by_client is not None
    assert one.admitted_by_client is not None
    known: dict[str, Any] = {"name": None, "policies": [name], "state": "finished", "K": made.setting("K")}
    by_client = one.held_by_client[0], one.admitted_by_client[0]
    return gate_trace(as_runs(experiment, name, one), 0, *by_client, first=1, limit=one.rounds, **known)


# prices from a file


@dataclass(frozen=True)
class PriceColumn:
    """The prices in one column of a CSV file, checked, with their range."""

    count: int
    prices: list[float]
    least: float
    most: float
    mean: float


def prices_of(text: bytes, column: str | None = None) -> PriceColumn:
    """Return the prices of a column; price or cost, where none is named."""
    most = int(LIMITS["prices"])
    try:
        rows = csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
        rows.fieldnames = columns = [name.strip() for name in rows.fieldnames or ()]
        column = column or ("cost" if "cost" in columns and "price" not in columns else "price")
        if column not in columns:
            there = ", ".join(name[:40] for name in columns[:20]) or "none"
            raise DataError(f'trace: no column "{shown(column)}"; it has {shown(there, 300)}')
        found = [row[column] or "" for row in islice(rows, most + 1)]
        if len(found) > most:
            raise DataError(f"trace: more than {most} prices")
        prices = np.array(Trace(tuple(map(float, found))).prices)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"trace: cannot be read as CSV ({str(error)[:100]})") from None
    except ValueError as error:
        raise DataError(f'trace: a cell of column "{shown(column)}" is not a number ({shown(error)})') from None
    return PriceColumn(prices.size, prices.tolist(), float(prices.min()), float(prices.max()), float(prices.mean()))
