"""Recipes as tables of TOML: shipped or a user's own file, perhaps on top of another one, with single keys set anew."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from headgate.errors import DataError, SettingError
from headgate.experiment.parse import nearest

RECIPES = files("headgate") / "recipes"


def recipe_names(folder: str = "") -> list[str]:
    """The shipped recipes, or those of a folder of them, as in "paper/mnist"."""
    inside = RECIPES.joinpath(folder) if folder else RECIPES
    names = (entry.name.removesuffix(".toml") for entry in inside.iterdir() if entry.name.endswith(".toml"))
    return sorted(f"{folder}/{name}" if folder else name for name in names)


def recipe_text(name: str) -> str:
    """A shipped recipe as it stands in its file."""
    if not _shipped(name):
        raise SettingError(f"recipe {name}: no such recipe{nearest(name, recipe_names())}")
    return RECIPES.joinpath(f"{name}.toml").read_text("utf-8")


def _shipped(name: str) -> bool:
    return all(part.strip(".") for part in name.split("/")) and RECIPES.joinpath(f"{name}.toml").is_file()


def study_table(name: str) -> dict[str, Any]:
    """The table [study] of a shipped recipe: what a study says of it beside the experiment."""
    return dict(tomllib.loads(recipe_text(name)).get("study", {}))


def read_recipe(recipe: str) -> tuple[str, dict[str, Any], Path]:
    """(name, raw content, folder for relative paths) of a shipped recipe or a TOML file."""
    if _shipped(recipe):
        return recipe.rpartition("/")[2], _on_base(tomllib.loads(recipe_text(recipe))), Path()
    path = Path(recipe)
    if path.suffix != ".toml":
        raise SettingError(f"recipe {recipe}: no such recipe{nearest(recipe, recipe_names())}; a file must end in .toml")
    try:
        return path.stem, _on_base(tomllib.loads(path.read_text("utf-8"))), path.parent
    except OSError as error:
        raise DataError(f"recipe {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"recipe {path}: not valid TOML ({error})") from None


def _on_base(raw: dict[str, Any]) -> dict[str, Any]:
    """The content on top of that of the shipped recipe which `base` names. [study] is no part of the experiment."""
    base = raw.pop("base", None)
    raw.pop("study", None)
    return raw if base is None else _merged(_on_base(tomllib.loads(recipe_text(str(base)))), raw)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Table by table; one of another kind takes the place of the whole table below."""
    made = dict(below)
    for key, value in above.items():
        other = below.get(key)
        same = isinstance(value, dict) and isinstance(other, dict) and value.get("kind") in (None, other.get("kind"))
        made[key] = _merged(other, value) if same else value  # type: ignore[arg-type]
    return made


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
    table, parts = raw, ["prices" if i == 0 and part == "cost" else part for i, part in enumerate(parts)]
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SettingError(f"{'.'.join(parts)}: {part} is not a section")
    table[parts[-1]] = value
