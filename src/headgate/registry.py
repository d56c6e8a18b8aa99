"""Parts of an experiment: classes, shipped with headgate or written by the user, whose
fields are their settings.

A recipe names a part by its kind or as `module:Class` and states its settings. In
Python, a part is an object; the record describes it as a recipe would.
"""

import importlib
import importlib.util
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from headgate.control import policies, prices, retention, selection
from headgate.control.policy import AdmissionPolicy
from headgate.errors import HeadgateError, SettingError, require
from headgate.escaping import one_line, shown
from headgate.limits import NUMBER

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)


class Unnamed(SettingError):
    """An object that a recipe cannot name; the message states the reason."""


class Untrusted(SettingError):
    """Code outside the package that is not trusted and therefore not imported."""


@dataclass(frozen=True)
class Search:
    """The folder of the modules that a recipe names, and which of these modules may be
    imported.
    """

    folder: Path | None = None
    trusted: Collection[str] | None = None
    """names that may be imported, `module` or `module:Class`; None: all, as in the
    user's own recipes
    """

    def check(self, setting: str, name: str) -> None:
        if self.trusted is not None and not {name, name.partition(":")[0]} & {
            *self.trusted
        }:
            raise Untrusted(
                f"{setting} = {name}: is code from outside headgate that is not trusted"
            )


OWN = Search()
"""the search for a user's own recipe that is not in a folder"""


SLOTS: dict[type, "Slot"] = {}
"""slots by their base class: a field with such a type is made from its description in a
recipe
"""


@dataclass(frozen=True)
class Slot:
    """A place in an experiment that is filled with a part."""

    name: str
    base: type
    """base class of the parts that fit"""
    kinds: Mapping[str, type]
    """shipped classes, by their names in recipes"""
    outside: type | None = None
    """class that represents a `module:Class` until it is used; None: it is imported at
    once
    """

    def __post_init__(self) -> None:
        SLOTS[self.base] = self


POLICY = Slot("policy", AdmissionPolicy, policies.KINDS)
RETENTION = Slot("retention rule", retention.Retention, retention.KINDS)
PRICES = Slot("price process", prices.PriceProcess, prices.KINDS)
SELECTION = Slot("buying rule", selection.Selection, selection.KINDS)


# make a part from a table


def make(
    slot: Slot,
    description: Any,
    where: str,
    search: Search = OWN,
    usual: str | None = None,
) -> Any:
    """Make the part of this `description`: a kind, a table with `kind`, or the part
    itself.

    `where` is its key in the recipe; `usual` is the kind if the table does not name
    one.
    """
    if isinstance(description, slot.base):
        return description
    if isinstance(description, str):
        description = {"kind": description}
    require(
        isinstance(description, Mapping),
        where,
        description,
        f"a {slot.name}: its kind, or a section with `kind`",
    )
    kind, settings = (
        description.get("kind", usual),
        {key: value for key, value in description.items() if key != "kind"},
    )
    if isinstance(kind, str) and kind in slot.kinds:
        return fill(slot.kinds[kind], settings, where, search)
    if not isinstance(kind, str) or ":" not in kind:
        known = nearest(shown(kind), list(slot.kinds))
        raise SettingError(
            f"{where}.kind = {shown(kind)}: no such {slot.name}{known}, or module:Class"
        )
    search.check(f"{where}.kind", kind)
    if slot.outside is not None:
        return slot.outside(kind, settings, search.folder)
    return fill(
        find_outside(f"{where}.kind", kind, (slot.base,), search.folder),
        settings,
        where,
        search,
    )


def fill(
    kind: type, settings: Mapping[str, Any], where: str, search: Search = OWN
) -> Any:
    """Make an instance of a class from its settings, checked against its fields; an
    error names the wrong key in one line.
    """
    require(isinstance(settings, Mapping), where, settings, "a section")
    values: dict[str, Any] = {}
    if is_dataclass(kind):
        stated = checked(_model(kind), dict(settings), where)
        values = {name: getattr(stated, name) for name in stated.model_fields_set}
    elif settings:
        raise SettingError(
            f"{where}: {kind.__name__} must be a data class to have settings"
        )
    hints = get_type_hints(kind) if values else {}
    paths = (
        [own.name for own in fields(kind) if own.metadata.get("path")] if values else []
    )
    for name, value in values.items():
        key, hint = f"{where}.{name}", hints[name]
        origin, args = get_origin(hint), get_args(hint)
        members = (
            (args[0], Ellipsis)
            if origin is tuple
            else args
            if origin in (Union, UnionType)
            else (hint,)
        )
        slot = next((SLOTS[each] for each in members if each in SLOTS), None)
        nested = next(
            (each for each in members if isinstance(each, type) and is_dataclass(each)),
            None,
        )
        if value is None:
            continue
        if slot is not None and Ellipsis in members:
            wanted = f"a list of {slot.name}s: kinds, or tables with `kind`"
            require(isinstance(value, list | tuple), key, value, wanted)
            values[name] = tuple(
                make(slot, each, f"{key}[{number}]", search)
                for number, each in enumerate(value)
            )
        elif slot is not None:
            values[name] = make(slot, value, key, search)
        elif nested is not None and not isinstance(value, nested):
            values[name] = fill(nested, value, key, search)
        elif isinstance(value, list):  # the field is an array
            values[name] = np.array(value)
        elif name in paths and isinstance(value, str):
            values[name] = str((search.folder or Path()).joinpath(value).resolve())
    try:
        return kind(**values)
    except SettingError as error:
        raise SettingError(f"{where}.{error}") from None
    except HeadgateError:
        raise
    except Exception as error:  # a user's class may raise any error
        raise SettingError(
            f"{where}: {kind.__name__} failed ({in_one_line(error)})"
        ) from error


IN_TOML = {
    "tuple_type": "a list",
    "list_type": "a list",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
"""pydantic's error types that name Python's types, in the words of a recipe"""
PYDANTICS = re.compile("^(Value error, )?(Input should be )?(must be )?")
"""beginnings of pydantic's other messages, which are removed"""


def checked(model: "type[M]", raw: dict[str, Any], where: str) -> "M":
    """Return `raw` as an instance of the model; the first error of pydantic is raised
    as a SettingError of one line.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        first, path = errors[0], [str(part) for part in errors[0]["loc"]]
        if first["type"] == "extra_forbidden":
            raise SettingError(
                f"{where}.{shown(path[0])}: unknown"
                f" key{nearest(path[0], list(model.model_fields))}"
            ) from None
        if first["type"] == "missing":
            raise SettingError(f"{where}.{path[0]}: is missing") from None
        messages = dict.fromkeys(
            IN_TOML.get(e["type"]) or PYDANTICS.sub("", e["msg"])
            for e in errors
            if e["loc"][0] == first["loc"][0]
        )
        raise SettingError(
            f"{where}.{path[0]} = {shown(raw.get(path[0]))}: must be"
            f" {' or '.join(messages)}"
        ) from None


@cache
def _model(kind: type) -> "type[BaseModel]":
    """Make the pydantic model of a data class's fields: arrays are lists, nested parts
    and tables are not checked here.
    """
    from pydantic import ConfigDict, create_model

    given: dict[str, Any] = {}
    try:
        hints = get_type_hints(kind)
    except Exception as error:
        # a user's hints may name types that are imported for type checkers only
        raise SettingError(
            f"{kind.__name__}: the types of its settings are not known"
            f" ({in_one_line(error)})"
        ) from error
    for own in fields(kind):
        if own.init and own.metadata.get("setting", True):
            needed = own.default is MISSING and own.default_factory is MISSING
            hint = _checked_hint(hints[own.name], own.metadata.get("infinite", False))
            given[own.name] = (hint, ... if needed else None)
    config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, protected_namespaces=()
    )
    return create_model(kind.__name__, __config__=config, **given)


def _checked_hint(hint: Any, infinite: bool) -> Any:
    """Return the type of a field as TOML can state it."""
    from pydantic import BeforeValidator

    def plain(value: Any) -> Any:
        """Refuse truth values and text, which pydantic would convert, NaN, too large
        numbers, and infinity unless allowed.
        """
        if isinstance(value, bool | str):
            raise ValueError(
                "must be a whole number" if hint is int else "must be a number"
            )
        if (
            isinstance(value, int if hint is float else int | float)
            and abs(value) > NUMBER
        ):
            raise ValueError(f"a number not beyond {NUMBER:g}")
        if isinstance(value, float) and (
            math.isnan(value) or (math.isinf(value) and not infinite)
        ):
            raise ValueError("must be a finite number")
        return value

    if hint in (int, float):
        return Annotated[hint, BeforeValidator(plain)]
    if hint in SLOTS or (is_dataclass(hint) and isinstance(hint, type)):
        return Any
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        # made at run time
        return Union[tuple(_checked_hint(each, infinite) for each in args)]  # noqa: UP007
    if origin is np.ndarray:
        return list[
            _checked_hint(
                {"i": int, "f": float, "b": bool}[np.dtype(get_args(args[1])[0]).kind],
                infinite,
            )
        ]  # type: ignore[misc]
    if origin is tuple and args[0] in SLOTS:
        return Any
    if origin is tuple:
        return tuple[
            tuple(
                each if each is Ellipsis else _checked_hint(each, infinite)
                for each in args
            )
        ]  # type: ignore[misc]
    return hint


# make a table from a part


def table_of(slot: Slot, part: Any) -> dict[str, Any]:
    """Return the part as a recipe would describe it, with all settings; raise `Unnamed`
    if a recipe cannot.
    """
    if slot.outside is not None and isinstance(part, slot.outside):
        # every `outside` has both
        return {"kind": part.kind, **part.settings}  # type: ignore[attr-defined]
    return {"kind": kind_of(slot, part), **settings_of(part)}


def settings_of(part: Any) -> dict[str, Any]:
    """Return the settings of a part as TOML can hold them, without those that are
    None.
    """
    if not is_dataclass(part):
        if inspect.signature(type(part)).parameters:
            raise Unnamed(
                f"{type(part).__name__} is no data class, so its settings are not known"
            )
        return {}
    own = [
        each
        for each in fields(part)
        if each.init and each.metadata.get("setting", True)
    ]
    given = {
        each.name: value
        for each in own
        if (value := getattr(part, each.name)) is not None
    }
    given |= {
        each.name: os.path.abspath(given[each.name])
        for each in own
        if each.metadata.get("path") and each.name in given
    }
    return {
        name: _toml(f"{type(part).__name__}.{name}", value)
        for name, value in given.items()
    }


def kind_of(slot: Slot, part: Any) -> str:
    """Return the name of a part's class in recipes; raise `Unnamed` if it has none."""
    own = type(part)
    for name, kind in slot.kinds.items():
        if kind is own:
            return name
    module = sys.modules.get(own.__module__)
    if own.__module__ == "__main__" or module is None:
        raise Unnamed(
            f"{own.__qualname__} is defined in {own.__module__}, which a recipe cannot"
            " import; put it into a module"
        )
    if getattr(module, own.__qualname__, None) is not own:
        raise Unnamed(
            f"{own.__qualname__} of {own.__module__} is not a class at the top of its"
            " module"
        )
    with searching(None):
        try:
            importable = importlib.util.find_spec(own.__module__) is not None
        except (ImportError, ValueError):
            importable = False
    if not importable:
        raise Unnamed(
            f"{own.__module__}, which holds {own.__qualname__}, cannot be imported by"
            " name"
        )
    return f"{own.__module__}:{own.__qualname__}"


def shown_kind(slot: Slot, part: Any) -> str:
    """Return the name of a part's class in recipes, or the class name if it has none,
    to be displayed.
    """
    try:
        return kind_of(slot, part)
    except Unnamed:
        return type(part).__qualname__


def _toml(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        return [
            _toml(name, each)
            for each in (value.tolist() if isinstance(value, np.ndarray) else value)
        ]
    if isinstance(value, Mapping):
        return {
            str(key): _toml(name, each)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, Path):
        return str(value)
    slot = next((own for base, own in SLOTS.items() if isinstance(value, base)), None)
    if slot is not None:
        return table_of(slot, value)
    if is_dataclass(value) and not isinstance(value, type):
        return settings_of(value)
    raise Unnamed(f"{name} holds a {type(value).__name__}, which TOML cannot")


# code outside the package


def find_outside(
    setting: str, name: str, bases: tuple[type, ...], folder: Path | None = None
) -> type:
    """Import the class `module:Class` from Python's search path, the folder of the
    recipe or the working folder.

    The class must be a subclass of one of `bases`, so that no other code is called.
    """
    module_name, _, attribute = name.partition(":")
    with searching(folder):
        try:
            module = importlib.import_module(module_name)
        except (
            Exception
        ) as error:  # importing runs the user's module, which may raise any error
            raise SettingError(
                f"{setting} = {name}: module {module_name} cannot be imported"
                f" ({in_one_line(error)})"
            ) from error
    if not hasattr(module, attribute):
        classes = [
            own
            for own, each in vars(module).items()
            if getattr(each, "__module__", None) == module_name
        ]
        close = nearest(attribute, classes) if classes else ""
        raise SettingError(
            f"{setting} = {name}: module {module_name} has no {attribute}{close}"
        )
    found = getattr(module, attribute)
    if not (isinstance(found, type) and issubclass(found, bases)):
        raise SettingError(
            f"{setting} = {name}: must be a class, a subclass of"
            f" {' or '.join(b.__name__ for b in bases)}"
        )
    return found


def call_outside(
    setting: str,
    name: str,
    made_by: Callable[..., Any],
    *args: Any,
    folder: Path | None = None,
    **settings: Any,
) -> Any:
    """Return the result of a user's callable; an error that it raises becomes a
    SettingError.
    """
    with searching(folder):
        try:
            return made_by(*args, **settings)
        except HeadgateError:
            raise
        except Exception as error:  # a user's code may raise any error
            raise SettingError(
                f"{setting} = {name}: failed ({in_one_line(error)})"
            ) from error


def in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"


def nearest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name[:100], known, n=1, cutoff=0.5)
    return (
        f"; did you mean {close[0]}?"
        if close
        else f"; known: {', '.join(dict.fromkeys(known))}"
    )


@contextmanager
def searching(folder: Path | None) -> Iterator[None]:
    """Add the folder of the recipe and the working folder to Python's search path,
    which lacks them in a command.
    """
    more = [
        str(each)
        for each in dict.fromkeys((folder and folder.resolve(), Path(os.getcwd())))
        if each
    ]
    sys.path.extend(more)
    try:
        yield
    finally:
        for each in more:
            sys.path.remove(each)
