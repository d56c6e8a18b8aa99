"""Construction of experiments from the tables of recipes. Unknown keys are refused."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from headgate.control.buffers import BY_CLIENT
from headgate.errors import SettingError, require
from headgate.escaping import shown
from headgate.experiment.experiment import IN_PROCESS, Experiment
from headgate.experiment.recipes import assign, overridden, read_recipe
from headgate.experiment.sections import RunTable, SystemTable, Training
from headgate.learning.data import DATA, Data
from headgate.learning.models import MODEL
from headgate.learning.server import SERVER
from headgate.limits import POINTS, check_memory
from headgate.registry import POLICY, PRICES, Search, Untrusted, fill, make, nearest
from headgate.theory.bound import BoundConstants

SECTIONS = (
    "system",
    "prices",
    "run",
    "bound",
    "policies",
    "data",
    "model",
    "training",
    "server",
    "sweep",
)
PARTS = ("prices", "model", "server")
"""sections that may consist of a kind alone"""
OUTSIDE = re.compile(r"[\w.]+:\w+")
"""pattern by which a recipe names a class outside the package"""
DEALT = [own.name for own in fields(Data) if own.name != "source"]


def load(
    recipe: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    trusted: Collection[str] | None = None,
) -> Experiment:
    """Return the experiment of a recipe, given by name, path or content, with
    overrides; for `trusted` see `build`.
    """
    name, raw, folder = read_recipe(recipe)
    return build(name, overridden(raw, overrides, folder), folder, trusted)


def build(
    name: str,
    tables: Mapping[str, Any],
    folder: Path | None = None,
    trusted: Collection[str] | None = None,
) -> Experiment:
    """Build an experiment from the content of a recipe, without its `[sweep]`, which
    `sweep_points` reads.

    Code that the recipe names is imported if the experiment uses it and `trusted`
    contains it; None: all code is trusted.
    """
    _check_sections(tables)
    run: RunTable = fill(RunTable, tables.get("run", {}), "run")
    if run.folder is not None:
        folder = Path(run.folder).resolve()
    search = Search(folder, trusted)

    stated: SystemTable = fill(SystemTable, tables.get("system", {}), "system")
    clients = stated.clients or len(stated.buffers)
    check_memory(
        f"system.clients = {clients}: {run.seeds} runs of so many clients take",
        clients * run.seeds * BY_CLIENT,
    )
    bound: BoundConstants = fill(BoundConstants, tables.get("bound", {}), "bound")
    names, sections = _with_own(run.policies, tables.get("policies", {}))
    for unused in sections.keys() - set(names):
        # Its keys are checked without importing code.
        with suppress(Untrusted):
            _policy(unused, sections, bound, Search(folder, trusted=()))

    return Experiment(
        name=name,
        system=stated.system(run.known_horizon),
        prices=make(PRICES, tables.get("prices", {}), "prices", search),
        policies={each: _policy(each, sections, bound, search) for each in names},
        rounds=run.rounds,
        seeds=np.array(run.all_seeds),
        bound=bound,
        data=_data(tables.get("data", {}), search),
        model=make(MODEL, tables.get("model", {}), "model", search, "logistic"),
        training=fill(Training, tables.get("training", {}), "training"),
        server=make(SERVER, tables.get("server", {}), "server", search, "average"),
        folder=folder if named_outside(tables) else None,
    )


def _check_sections(tables: Mapping[str, Any]) -> None:
    for section, table in tables.items():
        if section not in SECTIONS:
            raise SettingError(
                f"[{shown(section)}]: unknown section{nearest(section, SECTIONS)}"
            )
        kind_alone = isinstance(table, str) and section in PARTS
        fits = kind_alone or isinstance(table, Mapping)
        require(fits, section, table, "a section")


def _data(table: Mapping[str, Any], search: Search) -> Data:
    """Make the data; the settings of the source stand in the same section."""
    dealt = {key: value for key, value in table.items() if key in DEALT}
    of_source = {key: value for key, value in table.items() if key not in DEALT}
    source = make(DATA, of_source, "data", search, "digits")
    data: Data = fill(Data, {"source": source, **dealt}, "data", search)
    return data


def _with_own(
    stated: Iterable[str], sections: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what states each policy, by its name, and the sections of policies.

    A `module:Class` has the name of its class, and needs no section.
    """
    names, found = dict[str, str](), dict(sections)
    for each in stated:
        name = each.rpartition(":")[2] if OUTSIDE.fullmatch(each) else each
        if names.setdefault(name, each) != each:
            raise SettingError(
                f"run.policies = {shown(each)}: {names[name]} has the same name; give"
                " one of them a section [policies.NAME] with its kind"
            )
        section = found.get(name, {})
        if name != each and isinstance(section, Mapping):
            found[name] = {**section, "kind": each}
    return names, found


def _policy(
    name: str,
    sections: Mapping[str, Any],
    bound: BoundConstants,
    search: Search,
) -> Any:
    """Make the policy of section [policies.NAME]; a shipped kind needs no section and
    then has its defaults.
    """
    usual = {"kind": name} if name in POLICY.kinds else None
    raw = sections.get(name, usual)
    if raw is None:
        short = shown(name)
        known = nearest(name, [*sections, *POLICY.kinds])
        module, dot, own = name.rpartition(".")
        hint = ""
        if dot:
            hint = f"; a class of your own is named {shown(f'{module}:{own}')}"
        raise SettingError(
            f"policy {short}: no section [policies.{short}] and no such kind{known}"
            f"{hint}"
        )
    require(isinstance(raw, Mapping), f"policies.{shown(name)}", raw, "a section")
    table: dict[str, Any] = {"kind": name, **raw}
    if str(table["kind"]).startswith(IN_PROCESS):
        raise SettingError(
            f"policies.{shown(name)}: ran {table['kind']}, which no recipe can name;"
            " hand it over in Python"
        )
    if isinstance(table.get("bound"), Mapping):
        # The experiment's bound fills in the rest.
        table["bound"] = {**vars(bound), **table["bound"]}
    return make(POLICY, table, f"policies.{shown(name)}", search)


def named_outside(tables: Any, where: str = "") -> dict[str, str]:
    """Return all values in these tables that look like `module:Class`, by their
    keys.
    """
    if isinstance(tables, str):
        return {where: tables} if OUTSIDE.fullmatch(tables) else {}
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(tables, Mapping):
        inside = tables.items()
    if isinstance(tables, list | tuple):
        inside = enumerate(tables)
    found: dict[str, str] = {}
    for own, each in inside:
        found |= named_outside(each, f"{where}.{own}")
    return found


# one experiment for each point of a [sweep]


def sweep_points(
    recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()
) -> list[tuple[str, Experiment]]:
    """Return (label, experiment) for every point of a recipe's `[sweep]`; without a
    sweep, one with an empty label.

    The keys of a sweep are dotted keys of the recipe, and its values are lists; `mode`
    is "cartesian" or "zip".
    """
    name, raw, folder = read_recipe(recipe)
    raw = overridden(raw, overrides, folder)
    sweep = raw.pop("sweep", {})
    require(isinstance(sweep, Mapping), "sweep", sweep, "a section")
    sweep = dict(sweep)
    mode = sweep.pop("mode", "cartesian")
    require(mode in ("cartesian", "zip"), "sweep.mode", mode, "cartesian or zip")
    keys = dict(dotted(sweep))
    if not keys:
        return [("", build(name, raw, folder))]
    made = []
    for values in _value_tuples(keys, mode):
        own = deepcopy(raw)
        point = dict(zip(keys, values, strict=True))
        for key, value in point.items():
            assign(own, key.split("."), value)
        label = ",".join(f"{key}={shown(value)}" for key, value in point.items())
        made.append((label, build(name, own, folder)))
    return made


def _value_tuples(keys: Mapping[str, Any], mode: str) -> Iterable[tuple[Any, ...]]:
    """Return the values of all keys at each point of a sweep."""
    for key, values in keys.items():
        fits = isinstance(values, list) and bool(values)
        require(fits, f"sweep.{shown(key)}", values, "a list of values")
    lengths = [len(values) for values in keys.values()]
    if mode == "cartesian":
        if prod(lengths) > POINTS:
            raise SettingError(f"sweep: {prod(lengths):,} points; at most {POINTS:,}")
        return product(*keys.values())
    if len(set(lengths)) > 1:
        found = ", ".join(map(str, sorted(set(lengths))))
        raise SettingError(
            f"sweep: zipped lists must have one length, they have {found}"
        )
    return zip(*keys.values(), strict=True)


def dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of the leaves of nested tables; TOML reads
    `policies.acdpp.V = [1, 10]` as nested tables.
    """
    for key, value in table.items():
        if isinstance(value, dict):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differing(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    most: int = 3,
) -> str:
    """Return the first `most` keys whose values differ between the tables or are
    missing in one, and the number of others.

    >>> one = {"run": {"rounds": 3, "seeds": 1}}
    >>> differing(one, {"run": {"rounds": 4, "seeds": 1}, "system": {"budget": 5}})
    'run.rounds, system.budget'
    """
    own, others = dict(dotted(one)), dict(dotted(other))
    keys = [
        key
        for key in {**own, **others}
        if key not in own or key not in others or own[key] != others[key]
    ]
    first = ", ".join(map(shown, keys[:most]))
    return f"{first} and {len(keys) - most} more" if len(keys) > most else first
