"""Experiments: a recipe's tables as frozen values, one for each point of its sweep."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from headgate.control.prices.processes import PriceProcess
from headgate.control.types import AdmissionPolicy, Ints, System
from headgate.errors import InfeasibleError, SettingError
from headgate.experiment.parse import nearest, parse
from headgate.experiment.policies import Given, OutsideSettings, PolicySettings
from headgate.experiment.prices import COSTS, TraceCost
from headgate.experiment.recipes import assign, override, read_recipe
from headgate.experiment.settings import (
    BoundSettings,
    DataSettings,
    ModelSettings,
    RunSettings,
    SystemSettings,
    TrainingSettings,
)
from headgate.theory.bound import BoundConstants

SECTIONS = ("system", "prices", "run", "bound", "policies", "data", "model", "training", "sweep")


@dataclass(frozen=True, eq=False)
class Experiment:
    """A recipe, resolved: everything a run needs."""

    name: str
    system: System
    prices: PriceProcess
    bound: BoundConstants
    rounds: int
    seeds: Ints
    policies: Mapping[str, AdmissionPolicy]
    data: DataSettings
    model: ModelSettings
    training: TrainingSettings
    resolved: Mapping[str, Any]
    """all settings, defaults included: written to a file they make the same experiment again"""


def load(recipe: str, overrides: Sequence[str] = ()) -> Experiment:
    """A recipe by name or path, with `section.key=value` overrides, as frozen values."""
    name, raw, folder = read_recipe(recipe)
    for assignment in overrides:
        override(raw, assignment)
    return build(name, raw, folder)


def build(name: str, raw: Mapping[str, Any], folder: Path) -> Experiment:
    """An experiment from the content of a recipe; a `[sweep]` is not its business (`sweep_points`)."""
    raw = {"prices" if section == "cost" else section: table for section, table in raw.items()}  # older recipes
    for section in raw:
        if section not in SECTIONS:
            raise SettingError(f"[{section}]: unknown section{nearest(section, SECTIONS)}")
    run = parse(RunSettings, raw.get("run", {}), "run")
    _check_run(run)
    horizon = None if run.horizon == "open" else run.rounds if run.horizon is None else run.horizon
    settings = {
        "system": parse(SystemSettings, raw.get("system", {}), "system"),
        "prices": _price_settings(raw.get("prices", {})),
        "run": run,
        "bound": parse(BoundSettings, raw.get("bound", {}), "bound"),
        "data": parse(DataSettings, raw.get("data", {}), "data"),
        "model": parse(ModelSettings, raw.get("model", {}), "model"),
        "training": parse(TrainingSettings, raw.get("training", {}), "training"),
    }
    target = settings["training"].target
    if target is not None and not 0 < target <= 1:
        raise SettingError(f"training.target = {target:g}: must be an accuracy above 0 and at most 1, as in 0.9 for 90 %")
    system = settings["system"].build(horizon)
    cohort = settings["training"].cohort
    if cohort is not None and not 1 <= cohort <= system.clients:
        raise SettingError(f"training.cohort = {cohort}: must be 1 to {system.clients}, the number of clients")
    try:
        prices = settings["prices"].build(folder)
    except SettingError as error:
        raise SettingError(f"prices.{error}".replace("prices.prices.", "prices.")) from None
    bound = settings["bound"].build(BoundConstants())
    seeds = np.arange(run.first_seed, run.first_seed + run.seeds, dtype=np.int64)
    given = Given(system, prices.mean(horizon), bound, prices, seeds, run.rounds)
    if given.mean_price <= 0:
        raise SettingError(f"prices: every price in rounds 1 to {run.rounds} is zero; a budget decides nothing then")
    if system.budget * run.rounds < given.mean_price:
        raise InfeasibleError(
            f"system.budget = {system.budget:g}: buys less than one sample in {run.rounds} rounds "
            f"at a mean price of {given.mean_price:g}"
        )
    sections = raw.get("policies", {})
    if not isinstance(sections, dict):
        raise SettingError(f"policies = {sections}: must be a section")
    stated = {each: _policy_settings(each, sections) for each in dict.fromkeys([*run.policies, *sections])}
    built = {each: _build_policy(each, own, given) for each, own in stated.items()}
    resolved = {section: own.model_dump(exclude_none=True) for section, own in settings.items()}
    resolved["bound"] = asdict(bound)
    resolved["policies"] = {each: own.model_dump(exclude_none=True) for each, own in stated.items()}
    if isinstance(settings["prices"], TraceCost):
        resolved["prices"]["file"] = str((folder / settings["prices"].file).resolve())
    return Experiment(
        name=name,
        system=system,
        prices=prices,
        bound=bound,
        rounds=run.rounds,
        seeds=seeds,
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


def _price_settings(raw: Any) -> Any:
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind not in COSTS:
        raise SettingError(f"prices.kind = {kind}: must be one of {', '.join(COSTS)}{nearest(str(kind), list(COSTS))}")
    return parse(COSTS[kind], raw, "prices")


def _policy_settings(name: str, sections: Mapping[str, Any]) -> PolicySettings:
    """The settings in section [policies.NAME]; a kind needs no section, it has defaults."""
    raw = sections.get(name, {"kind": name} if name in PolicySettings.kinds else None)
    if raw is None:
        known = [*sections, *PolicySettings.kinds]
        raise SettingError(f"policy {name}: no section [policies.{name}] and no such kind{nearest(name, known)}")
    if not isinstance(raw, dict):
        raise SettingError(f"policies.{name} = {raw}: must be a section")
    kind = raw.get("kind", name)
    model = OutsideSettings if ":" in str(kind) else PolicySettings.kinds.get(kind)
    if model is None:
        known = list(PolicySettings.kinds)
        raise SettingError(
            f"policies.{name}.kind = {kind}: must be one of {', '.join(known)}, or module:Class{nearest(str(kind), known)}"
        )
    stated = {key: value for key, value in raw.items() if value != "auto"} | {"kind": kind}
    return parse(model, stated, f"policies.{name}")


def _build_policy(name: str, settings: PolicySettings, given: Given) -> AdmissionPolicy:
    try:
        return settings.build(given)
    except SettingError as error:
        raise SettingError(f"policies.{name}.{error}") from None
