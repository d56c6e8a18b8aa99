"""Recipes as tables of TOML: shipped or a user's own file, with single keys set anew."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from headgate.errors import DataError, SettingError
from headgate.experiment.parse import nearest

RECIPES = files("headgate") / "recipes"


def recipe_names() -> list[str]:
    return sorted(entry.name.removesuffix(".toml") for entry in RECIPES.iterdir() if entry.name.endswith(".toml"))


def recipe_text(name: str) -> str:
    """A shipped recipe as it stands in its file."""
    if name not in recipe_names():
        raise SettingError(f"recipe {name}: no such recipe{nearest(name, recipe_names())}")
    return (RECIPES / f"{name}.toml").read_text("utf-8")


def read_recipe(recipe: str) -> tuple[str, dict[str, Any], Path]:
    """(name, raw content, folder for relative paths) of a shipped recipe or a TOML file."""
    if recipe in recipe_names():
        return recipe, tomllib.loads(recipe_text(recipe)), Path()
    path = Path(recipe)
    if path.suffix != ".toml":
        raise SettingError(f"recipe {recipe}: no such recipe{nearest(recipe, recipe_names())}; a file must end in .toml")
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
    table, parts = raw, ["prices" if i == 0 and part == "cost" else part for i, part in enumerate(parts)]
    for part in parts[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SettingError(f"{'.'.join(parts)}: {part} is not a section")
    table[parts[-1]] = value
