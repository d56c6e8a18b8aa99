"""What users bring from outside the package, named `module:name` in a recipe: policies, models, data sets."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headgate.errors import HeadgateError, SettingError


def call_outside(setting: str, name: str, *args: Any, **settings: Any) -> Any:
    """What `module:name` makes of these arguments. The module may lie in the working folder."""
    with _importing_from_here():
        made_by = find_outside(setting, name)
        try:
            return made_by(*args, **settings)
        except HeadgateError:
            raise
        except Exception as error:  # the code is the user's, so is what it raises
            raise SettingError(f"{setting} = {name}: failed ({in_one_line(error)})") from error


def find_outside(setting: str, name: str) -> Callable[..., Any]:
    """The callable behind `module:name`."""
    module_name, _, attribute = name.partition(":")
    with _importing_from_here():
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # importing runs the user's module, which may raise anything
            raise SettingError(f"{setting} = {name}: module {module_name} cannot be imported ({in_one_line(error)})") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise SettingError(f"{setting} = {name}: module {module_name} has nothing to call by the name {attribute or '(none)'}")
    return found  # type: ignore[no-any-return]


def in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@contextmanager
def _importing_from_here() -> Iterator[None]:
    """Lets a module beside the user be imported: a command's own search path leaves the working folder out."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)
