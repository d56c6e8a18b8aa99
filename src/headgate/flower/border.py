"""Checks of what users hand to the calls of server and client, beside those of single values in `control.checks`.

Each check returns the plain Python value, or raises SettingError in one line with the call, the field and the value.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from headgate.control.checks import amount
from headgate.control.retention import Retention
from headgate.control.selection import Selection
from headgate.control.types import Floats
from headgate.errors import SettingError, require
from headgate.escaping import shown

Rule = Retention | Selection
T = TypeVar("T")


def instance(name: str, value: T, kind: type, wanted: str) -> T:
    """Return `value` if it is an instance of `kind`; `wanted` states in the message what it must be."""
    if not isinstance(value, kind):
        raise SettingError(f"{name} = {shown(value)}: must be {wanted}")
    return value


def unseen(name: str, value: T, kind: type | tuple[type, ...], wanted: str) -> T:
    """Return `value` if it is an instance of `kind`; the message has no more of it than its type.

    Messages of a client go to the server, and samples and scores never leave the client.
    """
    if not isinstance(value, kind):
        raise SettingError(f"{name}: must be {wanted}, not {type(value).__name__}")
    return value


def function(name: str, value: T, wanted: str = "a function") -> T:
    """Return `value` if it can be called."""
    require(callable(value), name, value, wanted)
    return value


def items(name: str, values: object, wanted: str) -> list[Any]:
    """Return the items of a list or another collection. Text is one item, not a list of letters."""
    listed = None
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        with suppress(TypeError):  # an array without dimensions
            listed = list(values)
    if listed is None:
        raise SettingError(f"{name} = {shown(values)}: must be {wanted}")
    return listed


def path(name: str, value: object) -> Path:
    """Return the path of a file or a folder, which may be text."""
    named = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    fits = isinstance(named, str) and named != "" and "\0" not in named
    require(fits, name, value, "the path of a file or a folder")
    return Path(str(named))


def writable_text(name: str, value: Any) -> str:
    """Return text that a file can hold: any but with surrogates, which stand for bytes that are no text."""
    said: str = instance(name, value, str, "text")
    try:
        said.encode("utf-8")
    except UnicodeEncodeError:
        raise SettingError(f"{name} = {shown(said)}: must be text without surrogates") from None
    return str(said)


def writable_texts(name: str, values: object) -> list[str]:
    """Return a list of texts that a file can hold."""
    listed = items(name, values, "a list of texts")
    return [writable_text(f"{name}[{place}]", each) for place, each in enumerate(listed)]


def rule_classes(name: str, values: object) -> list[type[Rule]]:
    """Return a list of classes of retention or buying rules."""
    wanted = "a class of retention or buying rules"
    listed = items(name, values, "a list of classes of rules")
    for place, each in enumerate(listed):
        require(isinstance(each, type) and issubclass(each, Rule), f"{name}[{place}]", each, wanted)
    return listed


def stated_prices(name: str, value: object, clients: int) -> Floats:
    """Return what a user's function of prices has returned, as one number, (), or as one for each client, (M,)."""
    wanted = "one number, or one for each client"
    try:
        stated = np.asarray(value)
    except Exception:  # objects of other packages turn into arrays by code of their own
        raise SettingError(f"{name} = {shown(value)}: must be {wanted}") from None
    require(stated.size in (1, clients) and stated.dtype.kind in "iufO", name, value, wanted)
    each = stated.ravel().tolist()
    if stated.ndim == 0 or stated.size < clients:
        return np.asarray(amount(name, each[0]))
    return np.array([amount(f"{name}[{client}]", price) for client, price in enumerate(each)])
