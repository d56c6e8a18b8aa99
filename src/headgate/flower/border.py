"""Checks of what users hand to the calls of server and client, beside those of single
values in `control.checks`.

Each check returns the plain Python value, or raises SettingError in one line with the
call, the field and the value.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

from headgate.control.retention import Retention
from headgate.control.selection import Selection
from headgate.errors import SettingError, require
from headgate.escaping import shown

Rule = Retention | Selection
T = TypeVar("T")


def instance(
    name: str,
    value: T,
    kind: type,
    wanted: str,
) -> T:
    """Return `value` if it is an instance of `kind`; `wanted` states in the message
    what it must be.
    """
    if not isinstance(value, kind):
        raise SettingError(f"{name} = {shown(value)}: must be {wanted}")
    return value


def unseen(
    name: str,
    value: T,
    kind: type | tuple[type, ...],
    wanted: str,
) -> T:
    """Return `value` if it is an instance of `kind`; the message has no more of it than
    its type.

    Messages of a client go to the server, and samples and scores never leave the
    client.
    """
    if not isinstance(value, kind):
        raise SettingError(f"{name}: must be {wanted}, not {type(value).__name__}")
    return value


def function(
    name: str,
    value: T,
    wanted: str = "a function",
) -> T:
    """Return `value` if it can be called."""
    require(callable(value), name, value, wanted)
    return value


def items(
    name: str,
    values: object,
    wanted: str,
) -> list[Any]:
    """Return the items of a list or another collection. Text is one item, not a list of
    letters.
    """
    listed = None
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        with suppress(TypeError):  # an array without dimensions
            listed = list(values)
    if listed is None:
        raise SettingError(f"{name} = {shown(values)}: must be {wanted}")
    return listed


def writable_text(name: str, value: Any) -> str:
    """Return text that a file can hold: any but with surrogates, which stand for bytes
    that are no text.
    """
    said: str = instance(name, value, str, "text")
    try:
        said.encode("utf-8")
    except UnicodeEncodeError:
        raise SettingError(
            f"{name} = {shown(said)}: must be text without surrogates"
        ) from None
    return str(said)


def writable_texts(name: str, values: object) -> list[str]:
    """Return a list of texts that a file can hold."""
    listed = items(name, values, "a list of texts")
    return [
        writable_text(f"{name}[{place}]", each) for place, each in enumerate(listed)
    ]


def rule_classes(name: str, values: object) -> list[type[Rule]]:
    """Return a list of classes of retention or buying rules."""
    wanted = "a class of retention or buying rules"
    listed = items(name, values, "a list of classes of rules")
    for place, each in enumerate(listed):
        require(
            isinstance(each, type) and issubclass(each, Rule),
            f"{name}[{place}]",
            each,
            wanted,
        )
    return listed
