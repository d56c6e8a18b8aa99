"""Recipes: from TOML to frozen values. Nothing is guessed silently and no unknown key is ignored."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from headgate.control import costs as cost_processes
from headgate.control import policies as kinds
from headgate.control.costs import CostProcess
from headgate.control.plan import better_of_corollary
from headgate.control.retention import capacity_of
from headgate.control.types import AdmissionPolicy, Ints, System
from headgate.errors import DataError, InfeasibleError, SettingError
from headgate.learning.partition import ByColumn, Dirichlet, Iid, Pairs, Partition
from headgate.outside import call_outside
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import optimal_K, saturated

RECIPES = files("headgate") / "recipes"


@dataclass(frozen=True, eq=False)
class Experiment:
    """A recipe, resolved: everything a run needs."""

    name: str
    system: System
    costs: CostProcess
    bound: BoundConstants
    rounds: int
    seeds: Ints
    policies: Mapping[str, AdmissionPolicy]
    data: "DataSettings"
    model: "ModelSettings"
    training: "TrainingSettings"
    resolved: Mapping[str, Any]
    """all settings, defaults included: written to a file they make the same experiment again"""


class Settings(BaseModel):
    """A section of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


def _whole(value: object) -> object:
    """JSON and TOML writers turn 10 into 10.0; true and false are not numbers."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_whole)]


class SystemSettings(Settings):
    buffers: list[Whole]
    clients: Whole | None = None
    budget: float
    weights: list[float] | None = None

    def build(self, horizon: int | None) -> System:
        buffers, weights = np.array(self.buffers, dtype=np.int64), self.weights
        if self.clients is not None:
            if self.clients < 1:
                raise SettingError(f"system.clients = {self.clients}: at least one client is needed")
            buffers = np.resize(buffers, self.clients) if buffers.size else buffers
        return System(buffers, self.budget, horizon, None if weights is None else np.array(weights))  # type: ignore[arg-type]


class UniformCost(Settings):
    kind: Literal["uniform"]
    low: float
    high: float

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Uniform(self.low, self.high)


class IntegerCost(Settings):
    kind: Literal["integer"]
    low: Whole
    high: Whole

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.UniformInteger(self.low, self.high)


class ConstantCost(Settings):
    kind: Literal["constant"]
    value: float

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Constant(self.value)


class MarkovCost(Settings):
    kind: Literal["markov"]
    levels: list[float]
    transition: list[list[float]]

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Markov(tuple(self.levels), tuple(tuple(row) for row in self.transition))


class SeasonalCost(Settings):
    kind: Literal["seasonal"]
    average: float
    amplitude: float
    period: float
    noise: float = 0.0

    def build(self, folder: Path) -> CostProcess:
        return cost_processes.Seasonal(self.average, self.amplitude, self.period, self.noise)


class TraceCost(Settings):
    kind: Literal["trace"]
    file: str
    column: str = "cost"
    at_end: str = "stop"

    def build(self, folder: Path) -> CostProcess:
        """A relative path is relative to the recipe that names it."""
        return cost_processes.read_trace(folder / self.file, self.column, self.at_end)


class RunSettings(Settings):
    rounds: Whole
    seeds: Whole = 10
    first_seed: Whole = 0
    policies: list[str] = ["oracle", "acdpp", "constant"]
    horizon: Whole | Literal["open"] | None = None
    """T as the policies know it: the rounds of the run, another number, or "open" for none"""


class DataSettings(Settings):
    name: str = "digits"
    """digits, mnist, cifar10, imagenette, or module:function"""
    partition: Literal["pairs", "iid", "dirichlet", "column"] = "pairs"
    per_class: Whole | None = None
    """pairs: most images of one class at one client"""
    per_client: Whole | None = None
    """iid: most images at one client"""
    alpha: float = 0.5
    """dirichlet"""
    column: str | None = None
    """column: the one that names the owner"""
    stream: Literal["reshuffle", "replacement", "stop"] = "reshuffle"

    def rule(self) -> Partition:
        if self.partition == "column" and self.column is None:
            raise SettingError('data.column: is missing; data.partition = "column" needs it')
        match self.partition:
            case "pairs":
                return Pairs(self.per_class)
            case "iid":
                return Iid(self.per_client)
            case "dirichlet":
                return Dirichlet(self.alpha)
            case _:
                return ByColumn(self.column or "")


class ModelSettings(Settings):
    name: str = "logistic"
    """logistic, lenet, resnet9, or module:Class"""


class TrainingSettings(Settings):
    lr: float = 0.1
    steps: Whole = 10
    """local gradient steps E; with batch_size: passes over the buffer"""
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch_size: Whole | None = None
    aggregation: Literal["memory", "alpha", "uniform"] = "memory"
    evaluate_every: Whole = 1
    """rounds from one evaluation to the next; the last round is always evaluated"""
    target: float | None = None
    """test accuracy whose first round is reported"""
    dtype: Literal["float32", "float64"] = "float32"


class BoundSettings(Settings):
    """What is left out comes from the section [bound], and there from `BoundConstants`."""

    D: float | None = None
    sigma: float | None = None
    eta: float | None = None
    loss: float | None = None
    pdim: float | None = None
    C2: float | None = None

    def build(self, base: BoundConstants) -> BoundConstants:
        return BoundConstants(**{name: getattr(base, name) if value is None else value for name, value in self})


@dataclass(frozen=True)
class Given:
    """What a policy's settings are completed from."""

    system: System
    mean_cost: float
    bound: BoundConstants


class PolicySettings(Settings):
    """A policy's settings. What is left out, or "auto", is worked out from the system."""

    kinds: ClassVar[dict[str, type["PolicySettings"]]] = {}
    kind: str

    def __init_subclass__(cls, kind: str, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if kind:
            PolicySettings.kinds[kind] = cls

    def build(self, given: Given) -> AdmissionPolicy:
        raise SettingError(f"kind = {self.kind}: cannot be built")


class ConstantSettings(PolicySettings, kind="constant"):
    K: Whole | None = None
    rate: float | None = None
    capacity: Literal["buffer"] | Whole | list[Whole] | None = None

    def build(self, given: Given) -> AdmissionPolicy:
        K, rate = operating_point(self.K, self.rate, given)
        return kinds.Constant(rate=rate, K=K, capacity=capacity_of(self.capacity, given.system))


class DppSettings(PolicySettings, kind="dpp"):
    K: Whole | None = None
    V: float | None = None
    gamma: float = 0.5
    N0: float = 0.0
    n0: float = 0.0
    burst: Literal["buffer", "none"] | float = "buffer"
    capacity: Literal["buffer"] | Whole | list[Whole] | None = None
    bound: BoundSettings = BoundSettings()

    def shared(self, given: Given) -> dict[str, Any]:
        return {
            "V": self.V,
            "gamma": self.gamma,
            "N0": self.N0,
            "n0": self.n0,
            "burst": None if self.burst == "none" else self.burst,
            "capacity": capacity_of(self.capacity, given.system),
            "bound": self.bound.build(given.bound),
        }

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Dpp(K=operating_point(self.K, None, given)[0], **self.shared(given))


class AcdppSettings(DppSettings, kind="acdpp"):
    rate: float | None = None
    rho: float | None = None
    phi: float = 0.5
    burst: Literal["buffer", "none"] | float = "none"

    def build(self, given: Given) -> AdmissionPolicy:
        K, rate = operating_point(self.K, self.rate, given)
        return kinds.Acdpp(K=K, rate=rate, rho=self.rho, phi=self.phi, **self.shared(given))


class OracleSettings(PolicySettings, kind="oracle"):
    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Oracle()


class HybridSettings(PolicySettings, kind="hybrid"):
    stale: list[Whole] | None = None
    """client numbers; left out: the second half"""
    fill: str = "first"
    paid: bool = False
    K: Whole | None = None
    rate: float | None = None

    def build(self, given: Given) -> AdmissionPolicy:
        clients = given.system.clients
        names = range((clients + 1) // 2, clients) if self.stale is None else self.stale
        stale = np.zeros(clients, dtype=bool)
        for client in names:
            if not 0 <= client < clients:
                raise SettingError(f"stale = {self.stale}: there is no client {client}; they are numbered 0 to {clients - 1}")
            stale[client] = True
        fresh = given.system.buffer[~stale]
        if fresh.size == 0:
            raise SettingError(f"stale = {self.stale}: names every client, so nobody is left to admit")
        K = optimal_K(given.mean_cost, fresh, given.system.budget)[0].K if self.K is None else _at_least_one(self.K)
        rate = saturated(K, given.mean_cost, fresh, given.system.budget).rate if self.rate is None else self.rate
        return kinds.Hybrid(rate=rate, K=K, stale=stale, fill=self.fill, paid=self.paid)


class OutsideSettings(PolicySettings, kind=""):
    """A user's own class, `kind = "module:Class"`; every other key is handed to it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def build(self, given: Given) -> AdmissionPolicy:
        made = call_outside("kind", self.kind, **(self.model_extra or {}))
        if not isinstance(made, AdmissionPolicy):
            raise SettingError(f"kind = {self.kind}: must make an AdmissionPolicy, made {type(made).__name__}")
        return made


class ReleasedSettings(PolicySettings, kind="released"):
    K: Whole = 6
    V: float = 1000.0
    centre: float = 40.0
    base: float = 0.999
    pace: float = 0.01
    width: float = 10.0
    cap: float = 50.0
    bound: BoundSettings = BoundSettings()

    def build(self, given: Given) -> AdmissionPolicy:
        own = self.model_dump(exclude={"kind", "bound"})
        return kinds.Released(**own, bound=self.bound.build(given.bound))


COSTS: dict[str, type[Settings]] = {
    "uniform": UniformCost,
    "integer": IntegerCost,
    "constant": ConstantCost,
    "markov": MarkovCost,
    "seasonal": SeasonalCost,
    "trace": TraceCost,
}
SECTIONS = ("system", "cost", "run", "bound", "policies", "data", "model", "training", "sweep")


def operating_point(K: int | None, rate: float | None, given: Given) -> tuple[int, float]:
    """K and Λ̄ where they are not stated: as in the paper the better of Corollary 2's K, and the highest rate that fits."""
    if K is None:
        K = better_of_corollary(given.system, given.mean_cost, given.bound).K
    if rate is None:
        rate = saturated(_at_least_one(K), given.mean_cost, given.system.buffer, given.system.budget).rate
    return K, rate


def _at_least_one(K: int) -> int:
    if K < 1:
        raise SettingError(f"K = {K}: a sample must be kept for at least one round")
    return K


def recipe_names() -> list[str]:
    return sorted(entry.name.removesuffix(".toml") for entry in RECIPES.iterdir() if entry.name.endswith(".toml"))


def recipe_text(name: str) -> str:
    """A shipped recipe as it stands in its file."""
    if name not in recipe_names():
        raise SettingError(f"recipe {name}: no such recipe{_nearest(name, recipe_names())}")
    return (RECIPES / f"{name}.toml").read_text("utf-8")


def read_recipe(recipe: str) -> tuple[str, dict[str, Any], Path]:
    """(name, raw content, folder for relative paths) of a shipped recipe or a TOML file."""
    if recipe in recipe_names():
        return recipe, tomllib.loads(recipe_text(recipe)), Path()
    path = Path(recipe)
    if path.suffix != ".toml":
        raise SettingError(f"recipe {recipe}: no such recipe{_nearest(recipe, recipe_names())}; a file must end in .toml")
    try:
        return path.stem, tomllib.loads(path.read_text("utf-8")), path.parent
    except OSError as error:
        raise DataError(f"recipe {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"recipe {path}: not valid TOML ({error})") from None


def override(raw: dict[str, Any], assignment: str) -> None:
    """Apply one `section.key=value`; the value is TOML, or a string where it is none."""
    key, equals, text = assignment.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or len(parts) < 2 or not all(parts):
        raise SettingError(f"--set {assignment}: must look like section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    assign(raw, parts, value)


def assign(raw: dict[str, Any], parts: Sequence[str], value: Any) -> None:
    """Set a key of nested tables, making tables on the way."""
    table = raw
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SettingError(f"{'.'.join(parts)}: {part} is not a section")
    table[parts[-1]] = value


def load(recipe: str, overrides: Sequence[str] = ()) -> Experiment:
    """A recipe by name or path, with `section.key=value` overrides, as frozen values."""
    name, raw, folder = read_recipe(recipe)
    for assignment in overrides:
        override(raw, assignment)
    return build(name, raw, folder)


def build(name: str, raw: Mapping[str, Any], folder: Path) -> Experiment:
    """An experiment from the content of a recipe; a `[sweep]` is not its business (`sweep_points`)."""
    for section in raw:
        if section not in SECTIONS:
            raise SettingError(f"[{section}]: unknown section{_nearest(section, SECTIONS)}")
    run = _parse(RunSettings, raw.get("run", {}), "run")
    _check_run(run)
    horizon = None if run.horizon == "open" else run.rounds if run.horizon is None else run.horizon
    settings = {
        "system": _parse(SystemSettings, raw.get("system", {}), "system"),
        "cost": _cost_settings(raw.get("cost", {})),
        "run": run,
        "bound": _parse(BoundSettings, raw.get("bound", {}), "bound"),
        "data": _parse(DataSettings, raw.get("data", {}), "data"),
        "model": _parse(ModelSettings, raw.get("model", {}), "model"),
        "training": _parse(TrainingSettings, raw.get("training", {}), "training"),
    }
    target = settings["training"].target
    if target is not None and not 0 < target <= 1:
        raise SettingError(f"training.target = {target:g}: must be an accuracy above 0 and at most 1, as in 0.9 for 90 %")
    system = settings["system"].build(horizon)
    costs = settings["cost"].build(folder)
    bound = settings["bound"].build(BoundConstants())
    given = Given(system, costs.mean(horizon), bound)
    if system.budget * run.rounds < given.mean_cost:
        raise InfeasibleError(
            f"system.budget = {system.budget:g}: buys less than one sample in {run.rounds} rounds "
            f"at a mean price of {given.mean_cost:g}"
        )
    sections = raw.get("policies", {})
    if not isinstance(sections, dict):
        raise SettingError(f"policies = {sections}: must be a section")
    stated = {each: _policy_settings(each, sections) for each in dict.fromkeys([*run.policies, *sections])}
    built = {each: _build_policy(each, own, given) for each, own in stated.items()}
    resolved = {section: own.model_dump(exclude_none=True) for section, own in settings.items()}
    resolved["bound"] = asdict(bound)
    resolved["policies"] = {each: own.model_dump(exclude_none=True) for each, own in stated.items()}
    if isinstance(settings["cost"], TraceCost):
        resolved["cost"]["file"] = str((folder / settings["cost"].file).resolve())
    return Experiment(
        name=name,
        system=system,
        costs=costs,
        bound=bound,
        rounds=run.rounds,
        seeds=np.arange(run.first_seed, run.first_seed + run.seeds, dtype=np.int64),
        policies={each: built[each] for each in run.policies},
        data=settings["data"],
        model=settings["model"],
        training=settings["training"],
        resolved=resolved,
    )


def _check_run(run: RunSettings) -> None:
    if run.rounds < 1:
        raise SettingError(f"run.rounds = {run.rounds}: must be at least 1")
    if run.seeds < 1 or run.first_seed < 0:
        raise SettingError(f"run.seeds = {run.seeds}, run.first_seed = {run.first_seed}: needs at least one seed, from 0 on")
    if not run.policies:
        raise SettingError("run.policies = []: at least one policy is needed")


def sweep_points(recipe: str, overrides: Sequence[str] = ()) -> list[tuple[str, Experiment]]:
    """(label, experiment) for every point of the recipe's `[sweep]`; one without a label where there is none.

    Keys of the sweep are dotted keys of the recipe, values are lists; `mode` is "cartesian" or "zip".
    """
    name, raw, folder = read_recipe(recipe)
    for assignment in overrides:
        override(raw, assignment)
    sweep = dict(raw.pop("sweep", {}))
    mode = sweep.pop("mode", "cartesian")
    if mode not in ("cartesian", "zip"):
        raise SettingError(f"sweep.mode = {mode}: must be cartesian or zip")
    keys = dict(_dotted(sweep))
    if not keys:
        return [("", build(name, raw, folder))]
    for key, values in keys.items():
        if not isinstance(values, list) or not values:
            raise SettingError(f"sweep.{key} = {values}: must be a list of values")
    lengths = {len(values) for values in keys.values()}
    if mode == "zip" and len(lengths) > 1:
        raise SettingError(f"sweep: zipped lists must have one length, they have {', '.join(map(str, sorted(lengths)))}")
    points = product(*keys.values()) if mode == "cartesian" else zip(*keys.values(), strict=True)
    made = []
    for values in points:
        own = deepcopy(raw)
        for key, value in zip(keys, values, strict=True):
            assign(own, key.split("."), value)
        label = ",".join(f"{key.split('.')[-1]}={value}" for key, value in zip(keys, values, strict=True))
        made.append((label, build(name, own, folder)))
    return made


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested tables: TOML reads `policies.acdpp.V = [1, 10]` as tables in tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _cost_settings(raw: Any) -> Any:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind not in COSTS:
        raise SettingError(f"cost.kind = {kind}: must be one of {', '.join(COSTS)}{_nearest(str(kind), list(COSTS))}")
    return _parse(COSTS[kind], raw, "cost")


def _policy_settings(name: str, sections: Mapping[str, Any]) -> PolicySettings:
    """The settings in section [policies.NAME]; a kind needs no section, it has defaults."""
    raw = sections.get(name, {"kind": name} if name in PolicySettings.kinds else None)
    if raw is None:
        known = [*sections, *PolicySettings.kinds]
        raise SettingError(f"policy {name}: no section [policies.{name}] and no such kind{_nearest(name, known)}")
    if not isinstance(raw, dict):
        raise SettingError(f"policies.{name} = {raw}: must be a section")
    kind = raw.get("kind", name)
    model = OutsideSettings if ":" in str(kind) else PolicySettings.kinds.get(kind)
    if model is None:
        known = list(PolicySettings.kinds)
        raise SettingError(
            f"policies.{name}.kind = {kind}: must be one of {', '.join(known)}, or module:Class{_nearest(str(kind), known)}"
        )
    stated = {key: value for key, value in raw.items() if value != "auto"} | {"kind": kind}
    return _parse(model, stated, f"policies.{name}")


def _build_policy(name: str, settings: PolicySettings, given: Given) -> AdmissionPolicy:
    try:
        return settings.build(given)
    except SettingError as error:
        raise SettingError(f"policies.{name}.{error}") from None


def _parse(model: type[S], raw: Any, section: str) -> S:
    """Validate a section, and put the first complaint into one line."""
    if not isinstance(raw, dict):
        raise SettingError(f"{section} = {raw}: must be a section")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        first, path = errors[0], [str(part) for part in errors[0]["loc"]]
        if first["type"] == "extra_forbidden":
            known = list((BoundSettings if path[:-1] == ["bound"] else model).model_fields)
            raise SettingError(f"{'.'.join([section, *path])}: unknown key{_nearest(path[-1], known)}") from None
        if first["type"] == "missing":
            raise SettingError(f"{section}.{path[0]}: is missing") from None
        messages = dict.fromkeys(_plain(e["msg"]) for e in errors if e["loc"][0] == first["loc"][0])
        raise SettingError(f"{section}.{path[0]} = {raw.get(path[0])}: must be {' or '.join(messages)}") from None


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("must be ")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(dict.fromkeys(known))}"
