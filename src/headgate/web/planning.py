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
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from headgate.analysis.curves import rounded, thinned
from headgate.analysis.rehearsal import summarise_rehearsal
from headgate.analysis.tables import POINT, plan_json
from headgate.control.controller import Controller
from headgate.control.plan import Plan, plan
from headgate.control.policies import BudgetedPolicy
from headgate.control.policies.references.foresight import foresee
from headgate.control.prices import Trace
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import Floats
from headgate.errors import DataError, InfeasibleError, SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment, build, recipe_names
from headgate.experiment.recipes import read_recipe
from headgate.experiment.sections import SystemTable
from headgate.registry import POLICY, PRICES, checked, fill, nearest
from headgate.theory.comparison import oracle_bound
from headgate.web.answers import GateTrace, Series, finite, gate_trace, series
from headgate.web.security import Refused

MOST_PRICES = 100_000
LIMITS = {
    "clients": 1000,
    "rounds": 5000,
    "seeds": 20,
    "prices": MOST_PRICES,
    "places": 250_000,  # clients times the largest buffer
    "decisions": 2_000_000,  # clients times rounds times seeds
    "number": 1e9,
}
FILE = "plan.toml"
FORESIGHT = 3e7
"""rounds times samples that can be bought: beyond it the clairvoyant takes more than a moment"""
POINTS = 500
CANDIDATE = ("rate", "spend", "bound", "cost_violation", "buffer_violation")
MOST_TEXT = 200
NOT_ASKED = ("file", "folder", "column", "sha256")
"""keys that would name something on this machine"""


class PlanRequest(BaseModel):
    """What may be asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    system: dict[str, Any]
    prices: dict[str, Any]
    """as in a recipe, a trace brings its own"""
    rounds: StrictInt
    seeds: StrictInt = 5
    policy: str = "headgate"
    K: StrictInt | None = None
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
    for name, value, least in (("rounds", asked.rounds, 2), ("seeds", asked.seeds, 1)):
        if not least <= value <= LIMITS[name]:
            raise SettingError(f"{name} = {value}: must be {least} to {LIMITS[name]:,}")
    if asked.K is not None and not 1 <= asked.K <= LIMITS["rounds"]:
        raise SettingError(f"K = {asked.K}: must be 1 to {LIMITS['rounds']:,}")
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
class PriceKey:
    name: str
    required: bool
    default: Any


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
    """Policies, kinds of prices with their keys, recipes to start from, limits."""

    policies: list[str]
    prices: dict[str, list[PriceKey]]
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
    prices = {
        kind: [
            PriceKey(each.name, each.default is MISSING, None if each.default is MISSING else each.default)
            for each in fields(PRICES.kinds[kind])
            if each.name not in NOT_ASKED
        ]
        for kind in PRICES.kinds
        if kind != "per-client"
    }
    return PlanChoices(list(POLICY.kinds), prices, recipes, LIMITS)


# the answer


@dataclass(frozen=True)
class PlanCandidate:
    K: int
    rate: float | None
    spend: float | None
    bound: float | None
    cost_violation: float | None
    buffer_violation: float | None
    peak_buffer: int
    chosen: bool


@dataclass(frozen=True)
class PlanCurves:
    t: list[int]
    series: dict[str, Series]


@dataclass(frozen=True)
class ClairvoyantBound:
    """The least surrogate cost at the first seed's prices, and what the policy comes to at the same prices."""

    bound: float
    surrogate: float
    ratio: float
    seeds: int


@dataclass(frozen=True)
class PlanAnswer:
    policy: str
    K: int | None
    rate: float | None
    V: float | None
    rho: float | None
    why: str
    warning: str
    """which limit is broken, by how much, and the way out; empty where both are kept"""
    rounds: int
    seeds: int
    budget: float
    spend: float
    peak_spend: float
    """money of the most costly round"""
    spend_share: float
    runs_over_budget: int
    dearest_share: float | None
    """what the dearest run spent, as a share of its budget"""
    memory: int
    peak_n: int
    peak_buffer: int
    peak_client: int
    peak_places: int
    """how many samples that client has room for"""
    peak_excess: int
    N: float
    n_eff: float | None
    cost_violation: float | None
    buffer_violation: float | None
    bound: float | None
    oracle_bound: float
    regret: float | None
    surrogate: float | None
    clairvoyant: ClairvoyantBound | None
    clairvoyant_note: str
    candidates: list[PlanCandidate]
    curves: PlanCurves
    trace: GateTrace | None
    toml: str
    command: str
    took_ms: float


class Superseded(Refused):
    def __init__(self) -> None:
        super().__init__(409, "page: a newer request has taken the place of this one")


class Planner:
    """Answers requests, and remembers the last few clairvoyant bounds, which change with few of the sliders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, object] = {}
        self._bounds: OrderedDict[str, tuple[float, str]] = OrderedDict()

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
        policy = experiment.policies[asked.policy]
        stated = asked.K is not None or bool({"rate", "V", "rho"} & asked.options.keys())
        made = plan(experiment.given_for(policy), policy, asked.gamma, asked.phi, tick, search=not stated)
        if made.candidates:
            recipe["policies"][asked.policy] |= {name: made.setting(name) for name in POINT}
        point: dict[str, Any] = {
            key: value if isinstance(value, str) else finite(value)
            for key, value in plan_json(experiment, asked.policy, made).items()
        }
        toml = tomli_w.dumps(recipe)
        clairvoyant, note = self._clairvoyant(experiment, made.rehearsal, recipe)
        return PlanAnswer(
            **point,
            **_outcome(experiment, asked.policy, made),
            clairvoyant=clairvoyant,
            clairvoyant_note=note,
            trace=_trace(experiment, asked.policy, made, tick) if asked.trace else None,
            toml=toml,
            command=command(toml, stated, asked),
            took_ms=round(1e3 * (time.perf_counter() - began), 1),
        )

    def _clairvoyant(
        self, experiment: Experiment, result: Rehearsal, recipe: Mapping[str, Any]
    ) -> tuple[ClairvoyantBound | None, str]:
        """Return the bound, or why there is none."""
        own = float(result.penalty(experiment.bound)[0].sum())
        key = json.dumps([recipe[part] for part in ("system", "prices", "bound")] + [experiment.rounds])
        known = self._bounds.get(key)
        if known is None:
            known = _least(experiment)
            with self._lock:
                self._bounds[key] = known
                while len(self._bounds) > 16:
                    self._bounds.popitem(last=False)
        least, note = known
        if note or not np.isfinite(own):
            return None, note or "the policy had no sample in the first rounds"
        return ClairvoyantBound(least, own, own / least, 1), ""


def _outcome(experiment: Experiment, name: str, made: Plan) -> dict[str, Any]:
    """Return money, memory and curves of the rehearsed runs."""
    k, system, rounds, result = experiment.bound, experiment.system, experiment.rounds, made.rehearsal
    summary = summarise_rehearsal(experiment, name, result)
    return {
        "rounds": rounds,
        "seeds": len(experiment.seeds),
        "budget": system.budget,
        "spend_share": summary.spend_share,
        "runs_over_budget": summary.runs_over_budget,
        "dearest_share": summary.dearest_share,
        "memory": system.memory,
        "peak_n": summary.peak_n,
        "peak_client": made.peak_client,
        "peak_places": int(system.buffer[made.peak_client]),
        "peak_excess": summary.peak_excess,
        "N": summary.N,
        "n_eff": finite(summary.n_eff),
        "surrogate": finite(result.penalty(k).sum(axis=-1).mean()),
        "candidates": [
            PlanCandidate(
                each.K,
                peak_buffer=each.peak_buffer,
                chosen=made.setting("K") == each.K,
                **{name: finite(getattr(each, name)) for name in CANDIDATE},
            )
            for each in made.candidates
        ],
        "curves": _curves(result, result.bound(k), oracle_bound(system.buffer, rounds, k)),
    }


def _curves(result: Rehearsal, bound: Floats, oracle: Floats) -> PlanCurves:
    places = thinned(result.rounds, POINTS)
    lines = {name: getattr(result, name) for name in ("price", "spend", "debt", "admitted", "n", "N", "n_eff")}
    lines |= {"spent": np.cumsum(result.spend, axis=1), "bound": bound}
    drawn = {name: series(np.asarray(values[:, places], dtype=np.float64)) for name, values in lines.items()}
    drawn["oracle_bound"] = Series(rounded(oracle[places]), [None] * len(places))
    return PlanCurves((places + 1).tolist(), drawn)


def _least(experiment: Experiment) -> tuple[float, str]:
    """Return the clairvoyant bound at the first seed's prices; or why there is none."""
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
    system, seeds = experiment.system, experiment.seeds[:1]
    prices = experiment.given_for(made.policy).prices
    one = rehearse(system, made.policy, prices, seeds, experiment.rounds, tick, by_client=True)
    assert one.held_by_client is not None
    assert one.admitted_by_client is not None
    columns = {key: getattr(one, key)[0] for key in ("price", "spend", "debt", "admitted", "n", "N")}
    columns |= {"spent": np.cumsum(one.spend[0]), "accuracy": np.full(one.rounds, np.nan)}
    return gate_trace(
        columns,
        system.buffer.tolist(),
        one.held_by_client[0],
        one.admitted_by_client[0],
        first=1,
        limit=one.rounds,
        name=None,
        policy=name,
        seed=int(seeds[0]),
        policies=[name],
        seeds=seeds.tolist(),
        state="finished",
        rounds=one.rounds,
        budget=system.budget,
        K=made.setting("K"),
    )


# prices from a file


@dataclass(frozen=True)
class PriceColumn:
    """The prices in one column of a CSV file, checked, with their range."""

    column: str
    columns: list[str]
    count: int
    prices: list[float]
    least: float
    most: float
    mean: float


def prices_of(text: bytes, column: str | None = None) -> PriceColumn:
    """Return the prices of a column; price or cost, where none is named."""
    try:
        lines = csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
        columns = [name.strip() for name in next(lines, [])]
        column = column or ("cost" if "cost" in columns and "price" not in columns else "price")
        if column not in columns:
            there = ", ".join(name[:40] for name in columns[:20]) or "none"
            raise DataError(f'trace: no column "{shown(column)}"; it has {shown(there, 300)}')
        place, prices = columns.index(column), list[float]()
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            if len(prices) == MOST_PRICES:
                raise DataError(f"trace: more than {MOST_PRICES} prices")
            try:
                prices.append(float(line[place]))
            except (ValueError, IndexError):
                text_there = shown(line[place], 40) if place < len(line) else ""
                raise DataError(f'trace: "{text_there}" in row {number} of column "{shown(column)}" is not a number') from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"trace: cannot be read as CSV ({str(error)[:100]})") from None
    known = np.array(Trace(tuple(prices)).prices)
    ends = float(known.min()), float(known.max()), float(known.mean())
    return PriceColumn(column, columns, known.size, known.tolist(), *ends)
