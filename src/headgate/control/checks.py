"""Checks of settings.

A check raises SettingError with the setting's name and value; `optional` allows None.
"""

import hashlib
import math
import numbers
import operator
import os
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import DataError, SettingError, require
from headgate.escaping import LONGEST, shown
from headgate.limits import NUMBER, TINY

T = TypeVar("T")


def positive(
    name: str,
    value: ArrayLike | None,
    most: float = NUMBER,
    optional: bool = False,
) -> None:
    """Raise SettingError unless all values are finite and above zero."""
    if optional and value is None:
        return
    array = _array(value)
    if array is None or not np.all(np.isfinite(array) & (array > 0)):
        raise SettingError(
            f"{name} = {_said(value)}: must be a positive, finite number"
        )
    _check_most(name, value, array, most)
    if np.any(array < TINY):
        raise SettingError(f"{name} = {_said(value)}: must be at least {TINY:g}")


def zero_or_more(
    name: str,
    value: ArrayLike | None,
    most: float = NUMBER,
    optional: bool = False,
) -> None:
    """Raise SettingError unless all values are finite and zero or more."""
    if optional and value is None:
        return
    array = _array(value)
    if array is None or not np.all(np.isfinite(array) & (array >= 0)):
        raise SettingError(
            f"{name} = {_said(value)}: must be a finite number, zero or more"
        )
    _check_most(name, value, array, most)


def _check_most(
    name: str,
    value: object,
    array: NDArray[Any],
    most: float,
) -> None:
    if np.any(array > most):
        raise SettingError(f"{name} = {_said(value)}: must not be beyond {most:g}")


def a_share(
    name: str,
    value: float | None,
    optional: bool = False,
) -> None:
    """Raise SettingError unless the value lies between 0 and 1."""
    fits = optional if value is None else 0 <= value <= 1
    if not fits:
        raise SettingError(f"{name} = {value}: must lie between 0 and 1")


def inside_unit(name: str, value: ArrayLike) -> None:
    """Raise SettingError unless all values lie strictly between 0 and 1."""
    array = _array(value)
    if array is None or not np.all((array > 0) & (array < 1)):
        raise SettingError(
            f"{name} = {_said(value)}: must lie strictly between 0 and 1"
        )


def whole(
    name: str,
    value: object,
    least: int = 1,
    most: int | None = None,
) -> None:
    """Raise SettingError unless `value` is one whole number in these limits."""
    wanted = f"a whole number, {least} or more"
    if most is not None:
        wanted = f"a whole number, {least} to {most:,}"
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(is_whole, name, value, wanted)
    assert isinstance(value, int | np.integer)
    require(bool(least <= value <= (most or value)), name, value, wanted)


def whole_numbers(
    name: str,
    values: ArrayLike,
    most: float = NUMBER,
) -> NDArray[np.int64]:
    """Return the values as a new int64 array.

    SettingError is raised if they are not whole numbers or are beyond `most`.
    """
    array = _array(values)
    fits = array is not None
    if array is not None and array.dtype.kind == "f":
        fits = bool(np.all(np.isfinite(array) & (array == np.floor(array))))
    if array is None or not fits:
        raise SettingError(f"{name} = {_said(values)}: must be whole numbers")
    if np.max(array, initial=0) > most or np.min(array, initial=0) < -most:
        raise SettingError(f"{name} = {_said(values)}: must not be beyond {most:,.0f}")
    return array.astype(np.int64, copy=False)


def _array(value: ArrayLike | None) -> NDArray[Any] | None:
    """Return the values as an array of numbers, or None if they are no numbers."""
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "iuf" or not array.size else None


def _said(value: object) -> str:
    return shown(_plain(value))


def checksum(
    named: object,
    known: str | None,
    *contents: bytes,
) -> str:
    """Return the sha256 of the contents of files, for a run's record.

    DataError is raised if it differs from `known`.
    """
    found = hashlib.sha256()
    for content in contents:
        found.update(content)
    if known not in (None, found.hexdigest()):
        raise DataError(f"file = {named}: was changed since the run began")
    return found.hexdigest()


def whole_number(
    name: str,
    value: object,
    least: int = 0,
    most: int = int(NUMBER),
) -> int:
    """Return `value` as an int, if it is one whole number from `least` to `most`.

    Integers of numpy are whole numbers. Floats, text and truth values are not, whatever
    their value.

    >>> whole_number("settle: reports[0]", np.int64(8))
    8
    """
    if type(value) is int and least <= value <= most:
        return value
    number = None
    if not isinstance(value, bool | np.bool_):
        with suppress(TypeError):  # it is no whole number
            number = operator.index(value)  # type: ignore[arg-type]
    if number is None or not least <= number <= most:
        raise SettingError(
            f"{name} = {_quoted(value)}: must be a whole number from {least:,} to"
            f" {most:,}"
        )
    return number


def amount(
    name: str,
    value: object,
    least: float = 0.0,
    most: float = NUMBER,
) -> float:
    """Return `value` as a float, if it is one finite number from `least` to `most`.

    >>> amount("adjust: amount", np.float32(0.5))
    0.5
    >>> amount("adjust: amount", Decimal("4.45"))
    4.45
    """
    kinds = Decimal | numbers.Real | np.number
    others = bool | np.bool_ | np.complexfloating
    number = math.nan
    if isinstance(value, kinds) and not isinstance(value, others):
        # A number is too large for a float, or it is Decimal's signalling NaN.
        with suppress(OverflowError, ValueError):
            number = float(value)
    if not least <= number <= most:
        raise SettingError(
            f"{name} = {_quoted(value)}: must be a finite number from {least:g} to"
            f" {most:g}"
        )
    return number


def true_or_false(name: str, value: object) -> bool:
    """Return `value` as a bool, if it is a truth value of Python or numpy."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(f"{name} = {_quoted(value)}: must be true or false")
    return bool(value)


def text(
    name: str,
    value: object,
    most: int,
) -> str:
    """Return `value` as a str, if it is one line of at most `most` printable ones."""
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise SettingError(
            f"{name} = {_quoted(value)}: must be one line of text, at most {most}"
            " printable characters"
        )
    return str(value)


def path(name: str, value: object) -> Path:
    """Return the path of a file or a folder, which may be text."""
    named = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(named, str) or named == "" or any(each < " " for each in named):
        raise SettingError(
            f"{name} = {_quoted(value)}: must be the path of a file or a folder"
        )
    return Path(named)


def optional(
    check: Callable[..., T],
    name: str,
    value: object,
    *bounds: float,
) -> T | None:
    """Return `check(name, value, *bounds)`, or None for None.

    >>> optional(whole_number, "begin: in_all", None)
    """
    return None if value is None else check(name, value, *bounds)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _quoted(value: object) -> str:
    """Return a value as short text; text is in quotes, so that '8' is not 8."""
    if isinstance(value, str | bytes):
        return shown(repr(value[:LONGEST]))
    return shown(_plain(value))
