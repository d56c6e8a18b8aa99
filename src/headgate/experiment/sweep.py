"""A recipe with a [sweep]: one experiment for each point."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.experiment.build import build
from headgate.experiment.experiment import Experiment
from headgate.experiment.recipes import assign, overridden, read_recipe
from headgate.limits import POINTS


def sweep_points(recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> list[tuple[str, Experiment]]:
    """(label, experiment) for every point of the recipe's `[sweep]`; one without a label where there is none.

    Keys of the sweep are dotted keys of the recipe, values are lists; `mode` is "cartesian" or "zip".
    """
    name, raw, folder = read_recipe(recipe)
    raw = overridden(raw, overrides, folder)
    sweep = raw.pop("sweep", {})
    if not isinstance(sweep, Mapping):
        raise SettingError(f"sweep = {shown(sweep)}: must be a section")
    sweep = dict(sweep)
    mode = sweep.pop("mode", "cartesian")
    if mode not in ("cartesian", "zip"):
        raise SettingError(f"sweep.mode = {shown(mode)}: must be cartesian or zip")
    keys = dict(dotted(sweep)) if sweep else {}
    if not keys:
        return [("", build(name, raw, folder))]
    for key, values in keys.items():
        if not isinstance(values, list) or not values:
            raise SettingError(f"sweep.{shown(key)} = {shown(values)}: must be a list of values")
    points_in_all = prod(map(len, keys.values())) if mode == "cartesian" else 0
    if points_in_all > POINTS:
        raise SettingError(f"sweep: {points_in_all:,} points; at most {POINTS:,}")
    lengths = {len(values) for values in keys.values()}
    if mode == "zip" and len(lengths) > 1:
        raise SettingError(f"sweep: zipped lists must have one length, they have {', '.join(map(str, sorted(lengths)))}")
    points = product(*keys.values()) if mode == "cartesian" else zip(*keys.values(), strict=True)
    made = []
    for values in points:
        own = deepcopy(raw)
        for key, value in zip(keys, values, strict=True):
            assign(own, key.split("."), value)
        label = ",".join(f"{key}={shown(value)}" for key, value in zip(keys, values, strict=True))
        made.append((label, build(name, own, folder)))
    return made


def dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested tables: TOML reads `policies.acdpp.V = [1, 10]` as tables in tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differing(one: Mapping[str, Any], other: Mapping[str, Any], most: int = 3) -> str:
    """The first keys that say something else, or nothing, in the other tables.

    >>> differing({"run": {"rounds": 3, "seeds": 1}}, {"run": {"rounds": 4, "seeds": 1}, "system": {"budget": 5}})
    'run.rounds, system.budget'
    """
    own, others = dict(dotted(one)), dict(dotted(other))
    keys = [key for key in {**own, **others} if key not in own or key not in others or own[key] != others[key]]
    return ", ".join(map(shown, keys[:most])) + (f" and {len(keys) - most} more" if len(keys) > most else "")
