"""Recipes as text: shipped recipes, the user's files, recipes that extend another one,
and overrides.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.experiment.sections import RunTable, SystemTable, Training
from headgate.learning.data import DATA
from headgate.limits import DEPTH, RECIPE
from headgate.reading import parse_toml
from headgate.registry import POLICY, PRICES, nearest

RECIPES = files("headgate") / "recipes"
BASES = 8
"""the most recipes that may extend one another"""
KIND_ALONE = ("rule", "partition", "stream", "changes")
"""keys below a section whose value may be a kind alone"""
SECTIONS = {"system": SystemTable, "run": RunTable, "training": Training}
"""sections that have no kind"""
SLOTS = {"prices": PRICES, "policies": POLICY, "data": DATA}


def recipe_names() -> list[str]:
    """Return the names of the shipped recipes."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in RECIPES.iterdir()
        if entry.name.endswith(".toml")
    )


def recipe_text(name: str) -> str:
    """Return the text of a shipped recipe."""
    if name not in recipe_names():
        raise SettingError(
            f"recipe {shown(name)}: no such recipe{nearest(name, recipe_names())}"
        )
    return RECIPES.joinpath(f"{name}.toml").read_text("utf-8")


def read_recipe(
    recipe: str | Path | Mapping[str, Any],
) -> tuple[str, dict[str, Any], Path | None]:
    """Return (name, raw content, folder for relative paths and modules) of a shipped
    recipe, a TOML file or its content.
    """
    if isinstance(recipe, Mapping):
        return "experiment", _on_base(deepcopy(dict(recipe))), None
    if str(recipe) in recipe_names():
        text = RECIPES.joinpath(f"{recipe}.toml").read_text("utf-8")
        return str(recipe), _on_base(parse_toml(text, f"recipe {recipe}")), None
    path = Path(recipe)
    if path.suffix != ".toml":
        known = nearest(shown(recipe), recipe_names())
        raise SettingError(
            f"recipe {shown(recipe)}: no such recipe{known}; a file must end in .toml"
        )
    folder = path.parent.resolve()
    return path.stem, _on_base(_read_file(path), folder), folder


def _read_file(path: Path) -> dict[str, Any]:
    name = f"recipe {shown(path, 300)}"
    try:
        with path.open("rb") as file:
            content = file.read(RECIPE + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{name}: cannot be read ({why})") from None
    if len(content) > RECIPE:
        raise DataError(f"{name}: more than {RECIPE:,} bytes")
    return parse_toml(content.decode("utf-8", "replace"), name)


def _on_base(
    raw: dict[str, Any],
    folder: Path | None = None,
    left: int = BASES,
) -> dict[str, Any]:
    """Merge the content over the recipe that `base` names, a shipped one or a file in
    the same folder, without [study].
    """
    base = raw.pop("base", None)
    raw.pop("study", None)
    if base is None:
        return raw
    if not left:
        raise SettingError(
            f"base = {shown(base)}: more than {BASES} recipes on top of each other"
        )
    if folder is not None and str(base).endswith(".toml"):
        if Path(base).name != base:
            raise SettingError(
                f"base = {shown(base)}: must be the name of a recipe, or of a file in"
                " the same folder"
            )
        below = _read_file(folder / base)
    else:
        below = parse_toml(recipe_text(str(base)), f"recipe {base}")
    return _merged(_on_base(below, folder, left - 1), raw)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge tables recursively; a table of another kind replaces the whole table
    below.
    """
    made = dict(below)
    for key, value in above.items():
        other = below.get(key)
        same = (
            isinstance(value, dict)
            and isinstance(other, dict)
            and value.get("kind") in (None, other.get("kind"))
        )
        made[key] = _merged(other, value) if same else value  # type: ignore[arg-type]
    if "clients" in above and "buffers" not in above:
        _cut_buffers(made)
    return made


def _cut_buffers(system: dict[str, Any]) -> None:
    """Leave out the buffers of a recipe that fewer `clients` do not need, where these
    alone were stated anew.
    """
    buffers, clients = system.get("buffers"), system.get("clients")
    if isinstance(buffers, list) and isinstance(clients, int) and clients > 0:
        system["buffers"] = buffers[:clients]


def overridden(
    raw: dict[str, Any],
    assignments: Sequence[str],
    folder: Path | None = None,
) -> dict[str, Any]:
    """Apply overrides `section.key=value` or `section={…}` to a recipe, whose file is
    in `folder`, and return it.

    A value is read as TOML; a value that is not valid TOML is a string.
    """
    stated = set[str]()
    for assignment in assignments:
        if not isinstance(assignment, str):
            raise SettingError(
                f"{shown(assignment)}: an override must be a string, as in"
                ' "run.rounds=20"'
            )
        key, equals, text = assignment.partition("=")
        parts = [part.strip() for part in key.split(".")]
        value = _value(assignment, text)
        section = len(parts) > 1 or isinstance(value, dict)
        if not equals or not all(parts) or len(parts) > DEPTH or not section:
            raise SettingError(
                f"--set {shown(assignment)}: must look like section.key=value"
                f"{_with_section(key, text)}"
            )
        assign(raw, parts, _from_here(parts[-1], value, folder))
        stated.add(".".join(parts))
    if "system.clients" in stated and "system.buffers" not in stated:
        _cut_buffers(raw["system"])
    return raw


def _with_section(key: str, text: str) -> str:
    """Return the end of a message that offers a key with its section."""
    for section, kind in SECTIONS.items():
        if key.strip() in {own.name for own in fields(kind)}:
            return f", as in {section}.{key.strip()}={shown(text)}"
    return ""


def _value(assignment: str, text: str) -> Any:
    """Read a value as TOML; what is not valid TOML is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
    except (ValueError, RecursionError):
        # too many digits, or lists nested too deeply
        raise SettingError(
            f"--set {shown(assignment)}: a value so long or so deep is not taken"
        ) from None


def _from_here(
    key: str,
    value: Any,
    folder: Path | None,
) -> Any:
    """Rewrite file names in an override, which are relative to the working folder, as
    relative to the recipe's `folder`.
    """
    if isinstance(value, dict):
        return {own: _from_here(own, each, folder) for own, each in value.items()}
    if isinstance(value, list):
        return [_from_here(key, each, folder) for each in value]
    if folder is None or key not in ("file", "test_file"):
        return value
    if not isinstance(value, str) or os.path.isabs(value):
        return value
    return os.path.relpath(value, folder)


def assign(
    raw: dict[str, Any],
    parts: Sequence[str],
    value: Any,
) -> None:
    """Set a key of nested tables and create missing tables. A new `kind` removes the
    keys that only the old kind has.
    """
    table = raw
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if isinstance(inner, str) and part in KIND_ALONE:
            inner = table[part] = {"kind": inner}
        if not isinstance(inner, dict):
            raise SettingError(
                f"{shown('.'.join(parts))}: {shown(part)} is not a section"
            )
        table = inner
    if parts[-1] == "kind" and parts[0] in SLOTS and len(parts) > 1:
        kinds = SLOTS[parts[0]].kinds
        before = _settings(kinds, table.get("kind", parts[-2]))
        after = _settings(kinds, value)
        if before is not None and after is not None:
            for key in (before - after) & table.keys():
                del table[key]
    table[parts[-1]] = value


def _settings(kinds: Mapping[str, type], kind: Any) -> set[str] | None:
    """Return the names of the fields of a shipped kind; None: it is another one."""
    if not isinstance(kind, str) or kind not in kinds:
        return None
    return {own.name for own in fields(kinds[kind])}
