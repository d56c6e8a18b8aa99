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
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache, partial
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

    Parameters
    ----------
    folder : Path, optional
        The folder of the recipe.
    trusted : collection of str, optional
        Names that may be imported, `module` or `module:Class`; None: all, as in the
        user's own recipes.
    """

    folder: Path | None = None
    trusted: Collection[str] | None = None

    def check(self, setting: str, name: str) -> None:
        """Raise Untrusted if `name`, which is `module:Class`, may not be imported."""
        module = name.partition(":")[0]
        if self.trusted is None or name in self.trusted or module in self.trusted:
            return
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
    """A place in an experiment that is filled with a part.

    Parameters
    ----------
    name : str
        What a part is called in messages.
    base : type
        The base class of the parts that fit.
    kinds : mapping
        The shipped classes, by their names in recipes.
    outside : type, optional
        The class that represents a `module:Class` until it is used; None: the class is
        imported at once.
    """

    name: str
    base: type
    kinds: Mapping[str, type]
    outside: type | None = None

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
    settings = dict(description)
    kind = settings.pop("kind", usual)
    if isinstance(kind, str) and kind in slot.kinds:
        return fill(slot.kinds[kind], settings, where, search)

    setting = f"{where}.kind"
    if not isinstance(kind, str) or ":" not in kind:
        module, dot, name = str(kind).rpartition(".")
        if dot:
            raise SettingError(
                f"{setting} = {shown(kind)}: no such {slot.name}; a class of your own"
                f" is named {shown(f'{module}:{name}')}"
            )
        known = nearest(shown(kind), list(slot.kinds))
        raise SettingError(
            f"{setting} = {shown(kind)}: no such {slot.name}{known}, or module:Class"
        )
    search.check(setting, kind)
    if slot.outside is not None:
        return slot.outside(kind, settings, search.folder)
    found = find_outside(setting, kind, (slot.base,), search.folder)
    return fill(found, settings, where, search)


def fill(
    kind: type,
    settings: Any,
    where: str,
    search: Search = OWN,
) -> Any:
    """Make an instance of a class from its settings, checked against its fields; an
    error names the wrong key in one line.

    An instance of the class itself is returned unchanged.
    """
    if isinstance(settings, kind):
        return settings
    require(isinstance(settings, Mapping), where, settings, "a section")
    values: dict[str, Any] = {}
    if is_dataclass(kind):
        makers = _makers(kind)
        stated = checked(_model(kind), dict(settings), where)
        for name in settings:
            value = getattr(stated, name)
            if value is not None:
                value = makers[name](value, f"{where}.{name}", search)
            values[name] = value
    elif settings:
        raise SettingError(
            f"{where}: {kind.__name__} must be a data class to have settings"
        )

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


def setting_fields(kind: Any) -> list[Field[Any]]:
    """Return the fields of a data class that are settings."""
    return [
        own for own in fields(kind) if own.init and own.metadata.get("setting", True)
    ]


Maker = Callable[[Any, str, Search], Any]
"""(what a recipe states, its key, the search for code) → the value of a field"""


@cache
def _makers(kind: type) -> dict[str, Maker]:
    """Return what makes the value of each setting of a data class, by name."""
    hints = _hints(kind)
    return {own.name: _maker(own, hints[own.name]) for own in setting_fields(kind)}


def _maker(own: Field[Any], hint: Any) -> Maker:
    if get_origin(hint) is tuple and get_args(hint)[0] in SLOTS:
        return partial(_make_each, SLOTS[get_args(hint)[0]])
    for member in _members(hint):
        if member in SLOTS:
            return partial(make, SLOTS[member])
        if _is_nested(member):
            return partial(fill, member)
    return _absolute if own.metadata.get("path") else _array


def _make_each(
    slot: Slot,
    stated: Any,
    key: str,
    search: Search,
) -> tuple[Any, ...]:
    wanted = f"a list of {slot.name}s: kinds, or tables with `kind`"
    require(isinstance(stated, list | tuple), key, stated, wanted)
    return tuple(
        make(slot, each, f"{key}[{number}]", search)
        for number, each in enumerate(stated)
    )


def _absolute(
    stated: Any,
    key: str,
    search: Search,
) -> Any:
    """Return the path of a file, which is relative to the folder of the recipe."""
    return str((search.folder or Path()).joinpath(stated).resolve())


def _array(
    stated: Any,
    key: str,
    search: Search,
) -> Any:
    """Return a list as an array; `checked` returns lists for arrays alone."""
    return np.array(stated) if isinstance(stated, list) else stated


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_nested(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


# check settings against the fields of a class


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


def checked(
    model: "type[M]",
    raw: dict[str, Any],
    where: str,
) -> "M":
    """Return `raw` as an instance of the model; the first error of pydantic is raised
    as a SettingError of one line.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        problem, key = errors[0]["type"], str(errors[0]["loc"][0])
        if problem == "extra_forbidden":
            known = nearest(key, list(model.model_fields))
            raise SettingError(f"{where}.{shown(key)}: unknown key{known}") from None
        if problem == "missing":
            raise SettingError(f"{where}.{key}: is missing") from None
        messages = dict.fromkeys(
            IN_TOML.get(each["type"]) or PYDANTICS.sub("", each["msg"])
            for each in errors
            if str(each["loc"][0]) == key
        )
        wanted = " or ".join(messages)
        raise SettingError(
            f"{where}.{key} = {shown(raw.get(key))}: must be {wanted}"
        ) from None


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except Exception as error:
        # a user's hints may name types that are imported for type checkers only
        raise SettingError(
            f"{kind.__name__}: the types of its settings are not known"
            f" ({in_one_line(error)})"
        ) from error


@cache
def _model(kind: type) -> "type[BaseModel]":
    """Make the pydantic model of a data class's fields: arrays are lists, nested parts
    and tables are not checked here.
    """
    from pydantic import ConfigDict, create_model

    hints = _hints(kind)
    given: dict[str, Any] = {}
    for own in setting_fields(kind):
        hint = _checked_hint(hints[own.name], own.metadata.get("infinite", False))
        needed = own.default is MISSING and own.default_factory is MISSING
        given[own.name] = (hint, ... if needed else None)
    config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    return create_model(
        kind.__name__,
        __config__=config,
        **given,
    )


def _checked_hint(hint: Any, infinite: bool) -> Any:
    """Return the type of a field as TOML can state it."""
    from pydantic import BeforeValidator

    if hint in (int, float):
        check = partial(
            _check_number,
            kind=hint,
            infinite=infinite,
        )
        return Annotated[hint, BeforeValidator(check)]
    if hint in SLOTS or _is_nested(hint):
        return Any

    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        some = tuple(_checked_hint(each, infinite) for each in args)
        return Union[some]  # noqa: UP007  # made at run time
    if origin is np.ndarray:
        element = np.dtype(get_args(args[1])[0]).kind
        inside = {"i": int, "f": float, "b": bool}[element]
        return list[_checked_hint(inside, infinite)]  # type: ignore[misc]
    if origin is not tuple:
        return hint
    if args[0] in SLOTS:
        return Any
    members = [each if each is ... else _checked_hint(each, infinite) for each in args]
    return tuple[tuple(members)]  # type: ignore[misc]


def _check_number(
    value: Any,
    kind: type,
    infinite: bool,
) -> Any:
    """Refuse truth values and text, which pydantic would convert, NaN, too large
    numbers, and infinity unless allowed.
    """
    if isinstance(value, bool | str):
        raise ValueError("a whole number" if kind is int else "a number")
    if not isinstance(value, int | float):
        return value
    large_number_fits = kind is float and isinstance(value, float)
    if abs(value) > NUMBER and not large_number_fits:
        raise ValueError(f"a number not beyond {NUMBER:g}")
    if math.isnan(value) or (math.isinf(value) and not infinite):
        raise ValueError("a finite number")
    return value


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
    table = {}
    for own in setting_fields(part):
        value = getattr(part, own.name)
        if value is None:
            continue
        if own.metadata.get("path"):
            value = os.path.abspath(value)
        table[own.name] = _toml(f"{type(part).__name__}.{own.name}", value)
    return table


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
    """Return a value as TOML can hold it; `name` stands in the error if it cannot."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_toml(name, each) for each in value]
    if isinstance(value, Mapping):
        there = {key: each for key, each in value.items() if each is not None}
        return {str(key): _toml(name, each) for key, each in there.items()}
    if isinstance(value, Path):
        return str(value)
    for base, slot in SLOTS.items():
        if isinstance(value, base):
            return table_of(slot, value)
    if is_dataclass(value) and not isinstance(value, type):
        return settings_of(value)
    raise Unnamed(f"{name} holds a {type(value).__name__}, which TOML cannot")


# code outside the package


def find_outside(
    setting: str,
    name: str,
    bases: tuple[type, ...],
    folder: Path | None = None,
) -> type:
    """Import the class `module:Class` from Python's search path, the folder of the
    recipe or the working folder.

    The class must be a subclass of one of `bases`, so that no other code is called.
    """
    module_name, _, attribute = name.partition(":")
    with searching(folder):
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # the user's module may raise any error
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
    """Return the end of a message that offers the known name nearest to a wrong one."""
    close = get_close_matches(
        name[:100],
        known,
        n=1,
        cutoff=0.5,
    )
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(dict.fromkeys(known))}"


@contextmanager
def searching(folder: Path | None) -> Iterator[None]:
    """Add the folder of the recipe and the working folder to Python's search path,
    which lacks them in a command.
    """
    folders = [Path.cwd()] if folder is None else [folder.resolve(), Path.cwd()]
    more = list(dict.fromkeys(map(str, folders)))
    sys.path.extend(more)
    try:
        yield
    finally:
        for each in more:
            sys.path.remove(each)
