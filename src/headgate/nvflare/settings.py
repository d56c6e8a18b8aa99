"""Checks of what users give `AdmissionController` and `Admissions`, in values that JSON
can hold.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.control.checks import amount, text, whole_number
from headgate.control.types import System
from headgate.errors import SettingError, require
from headgate.escaping import shown
from headgate.limits import LINE, SAMPLES, TINY
from headgate.registry import POLICY, make


def plain_folder(name: str, value: object) -> str:
    """Return the name of a folder as text."""
    stated = os.fspath(value) if isinstance(value, os.PathLike) else value
    fits = isinstance(stated, str) and bool(stated) and "\0" not in stated
    require(fits, name, value, "the name of a folder")
    return str(stated)


def plain_sites(name: str, value: object) -> list[str]:
    """Return the names of clients, which must differ."""
    sites = [
        text(f"{name}[{m}]", site, LINE) for m, site in enumerate(_listed(name, value))
    ]
    require(bool(sites), name, value, "a list with the name of at least one client")
    for m, site in enumerate(sites):
        if not site or site in sites[:m]:
            raise SettingError(
                f"{name}[{m}] = {shown(repr(site))}: must be the name of one more"
                " client"
            )
    return sites


def plain_system(name: str, value: object) -> dict[str, Any]:
    """Return the settings of a system, without those that are left out."""
    if not isinstance(value, Mapping):
        raise SettingError(
            f"{name} = {shown(value)}: must be the settings {', '.join(SYSTEM)}"
        )
    for key in value:
        require(
            key in SYSTEM,
            f"{name}: {shown(key)}",
            value[key],
            f"one of the settings {', '.join(SYSTEM)}",
        )
    stated = [key for key in SYSTEM if key in NEEDED or value.get(key) is not None]
    plain = {key: SYSTEM[key](f"{name}.{key}", value.get(key)) for key in stated}
    System(**plain)
    return plain


def plain_policy(name: str, value: Any) -> Any:
    """Return the description of a policy. A class of the user's own is looked up on the
    server, not where a job is exported.
    """
    kind = value.get("kind") if isinstance(value, Mapping) else value
    if not isinstance(kind, str) or ":" not in kind:
        make(POLICY, value, name)
    return dict(value) if isinstance(value, Mapping) else value


def amounts(name: str, value: object) -> list[float]:
    return [
        amount(f"{name}[{place}]", each)
        for place, each in enumerate(_listed(name, value))
    ]


def checked_price(
    t: int,
    value: Any,
    least: int,
    most: int,
) -> list[float]:
    """Return what `price(t)` gave as a list: one price, or one for each of `least` to
    `most` clients.
    """
    name = f"price({t})"
    plain = _plain(value)
    if not isinstance(plain, list | tuple):
        return [amount(name, plain)]
    prices = amounts(name, plain)
    if len(prices) != 1 and not least <= len(prices) <= most:
        raise SettingError(
            f"{name} = {shown(prices)}: must be one number, or one for each of {least}"
            " clients"
        )
    return prices


def checked_present(
    t: int,
    value: object,
    sites: Sequence[str],
) -> set[str]:
    """Return what `present(t)` gave as a set of names of sites."""
    name = f"present({t})"
    there = _listed(name, value)
    for place, site in enumerate(there):
        if not isinstance(site, str) or site not in sites:
            raise SettingError(
                f"{name}[{place}] = {shown(repr(site))}: must be one of the sites"
                f" {shown(list(sites))}"
            )
    return set(there)


def _listed(name: str, value: object) -> list[Any]:
    """Return the values of a list, a set or an array; text and tables are none."""
    plain = _plain(value)
    if not isinstance(plain, Iterable) or isinstance(plain, str | bytes | Mapping):
        raise SettingError(f"{name} = {shown(plain)}: must be a list")
    return list(plain)


def _plain(value: Any) -> Any:
    """Return the values of an array of numpy, torch or pandas as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _buffers(name: str, value: object) -> list[int]:
    return [
        whole_number(f"{name}[{m}]", places, 1, SAMPLES)
        for m, places in enumerate(_listed(name, value))
    ]


SYSTEM: dict[str, Callable[[str, Any], Any]] = {
    "buffer": _buffers,
    "budget": lambda name, value: amount(name, value, TINY),
    "horizon": lambda name, value: whole_number(name, value, 1),
    "weight": amounts,
    "currency": lambda name, value: text(name, value, 8),
    "quantum": lambda name, value: amount(name, value, TINY),
}
"""the settings of `System` that a job can state, and their checks"""
NEEDED = ("buffer", "budget")
