"""The border of the accounts: what a caller hands to `Books`, as plain values of Python
or refused in one line.

A count of numpy is a whole number like any other. Whatever passes here can be written,
read again and replayed.
"""

import getpass
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from headgate.books.messages import TEXT
from headgate.control.checks import amount, text, whole_number
from headgate.control.types import Floats
from headgate.errors import LedgerError, SettingError
from headgate.escaping import one_line, shown
from headgate.limits import CLIENTS, NUMBER, ROUNDS, SAMPLES, TINY

COUNT = SAMPLES
"""the most samples that one report may name"""
T = TypeVar("T")


class Delivery(NamedTuple):
    """The report of a client on its purchases.

    Parameters
    ----------
    admitted : int
        Samples admitted on this round's purchase.
    keys : iterable of str, optional
        Keys of these samples for the statement, one for each sample or none at all.
    earlier : mapping of int to int, optional
        Samples admitted on purchases of earlier rounds, by round. An open purchase that
        is left out counts as 0. A repeated report is not charged again.
    erased : int, optional
        Samples that the client should hold now but that were erased.

    Examples
    --------
    >>> Delivery(2, keys=["photo-17", "photo-18"]).admitted
    2
    """

    admitted: int
    keys: Iterable[str] = ()
    earlier: Mapping[int, int] = MappingProxyType({})
    erased: int = 0


def clients_in(
    name: str,
    value: object,
    clients: int,
) -> list[int]:
    """Return the clients that a collection of numbers, or a mask with a truth value for
    each client, names.
    """
    listed = _listed(name, value, clients)
    if listed and all(isinstance(each, bool | np.bool_) for each in listed):
        if len(listed) != clients:
            raise SettingError(
                f"{name} = {shown(listed)}: a mask has one truth value for each of"
                f" {clients} clients"
            )
        return [client for client, there in enumerate(listed) if there]
    return sorted(
        {
            whole_number(f"{name}[{place}]", each, 0, clients - 1)
            for place, each in enumerate(listed)
        }
    )


def prices_for(
    name: str,
    value: object,
    clients: int,
) -> Floats:
    """Return the price of a sample, (1,), or that of each client, (M,)."""
    prices = _one_or_each(name, value, clients, _price)
    return np.array(prices if isinstance(prices, list) else [prices])


def counts_for(
    name: str,
    value: object,
    clients: int,
) -> int | list[int] | None:
    """Return one count, or one for each client; None for none."""
    if value is None:
        return None
    return _one_or_each(name, value, clients, _count)


def _one_or_each(
    name: str,
    value: object,
    clients: int,
    check: Callable[[str, object], T],
) -> T | list[T]:
    """Return one checked value, or a list with one for each client."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        return check(name, value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return check(name, value.item())
    listed = _listed(name, value, clients)
    if len(listed) not in (1, clients):
        raise SettingError(
            f"{name} = {shown(listed)}: must be one number, or one for each of"
            f" {clients} clients"
        )
    return [check(f"{name}[{place}]", each) for place, each in enumerate(listed)]


def reports_of(name: str, value: object) -> dict[int, Delivery]:
    """Return the report of each client, sorted by client."""
    return _by_client(name, value, delivery)


def reasons_of(name: str, value: object) -> dict[int, str]:
    """Return the reason for each refused client, sorted by client."""
    return _by_client(name, value, _line)


def _by_client(
    name: str,
    value: object,
    check: Callable[[str, object], T],
) -> dict[int, T]:
    """Return a checked value for each client that a dict has, sorted by client."""
    found = {}
    for client, each in _pairs(name, value):
        number = whole_number(f"{name}: client", client)
        found[number] = check(f"{name}[{number}]", each)
    return dict(sorted(found.items()))


def delivery(name: str, value: object) -> Delivery:
    """Return a report; a plain number is a report of that many samples."""
    if not isinstance(value, Delivery):
        return Delivery(_count(name, value))
    admitted = _count(f"{name}.admitted", value.admitted)
    earlier = {}
    for t, each in _pairs(f"{name}.earlier", value.earlier):
        number = whole_number(f"{name}.earlier: round", t, 1, ROUNDS)
        earlier[number] = _count(f"{name}.earlier[{number}]", each)
    keys = _keys(f"{name}.keys", value.keys, admitted)
    return Delivery(admitted, keys, earlier, _count(f"{name}.erased", value.erased))


def _keys(
    name: str,
    value: object,
    admitted: int,
) -> tuple[str, ...]:
    """Return the keys of the samples of one report, of which no two are the same."""
    listed = _listed(name, value, admitted)
    found = tuple(
        text(f"{name}[{place}]", each, TEXT) for place, each in enumerate(listed)
    )
    if found and len(found) != admitted:
        raise LedgerError(f"{name}: {len(found)} keys for {admitted} samples")
    seen = set[str]()
    for key in found:
        if not key:
            raise SettingError(
                f"{name}: a key is empty; give every sample a key, or none"
            )
        if key in seen:
            raise LedgerError(
                f"{name}: {shown(key)} is there twice; every sample has a key of"
                " its own"
            )
        seen.add(key)
    return found


def signed(
    name: str,
    by: object,
    why: object,
) -> tuple[str, str]:
    """Return who makes an amendment and why, in one line each; left out: the user of
    this process.
    """
    author = getpass.getuser() if by is None else by
    return _line(f"{name}: by", author), _line(f"{name}: why", why)


def name_of(name: str, key: object) -> str | None:
    """Return the key of an amendment; None for none."""
    if key is None:
        return None
    found = text(name, key, TEXT)
    if not found.strip():
        raise SettingError(f"{name} = {shown(repr(found))}: must not be empty")
    return found


def order_of(
    call: str,
    t: object,
    client: object,
) -> tuple[int, int]:
    """Return the round and the client that name an order."""
    return whole_number(f"{call}: round", t, 1, ROUNDS), whole_number(
        f"{call}: client", client, 0, CLIENTS
    )


def refund(name: str, value: object) -> float:
    """Return the amount of an invoice less what was charged, which is not 0."""
    found = amount(name, value, -NUMBER)
    if found == 0:
        raise SettingError(f"{name} = 0: changes nothing")
    return found


def _line(name: str, value: object) -> str:
    """Return a text in one line, with what cannot be printed escaped."""
    if not isinstance(value, str):
        raise SettingError(f"{name} = {shown(value)}: must be text")
    return one_line(value.encode("utf-8", "backslashreplace").decode("utf-8"), TEXT)


def _count(name: str, value: object) -> int:
    return whole_number(name, value, 0, COUNT)


def _price(name: str, value: object) -> float:
    price = amount(name, value)
    if 0 < price < TINY:
        raise SettingError(f"{name} = {price:g}: must be 0, or at least {TINY:g}")
    return price


def _listed(
    name: str,
    value: object,
    most: int,
) -> list[Any]:
    """Return what a list, an array of one axis, a set or a generator holds, of which
    only `most` and one more are read.
    """
    if isinstance(value, np.ndarray) and value.ndim != 1:
        raise SettingError(
            f"{name}: must be a list or an array of one axis, has {value.ndim}"
        )
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise SettingError(f"{name} = {shown(value)}: must be a list")
    if isinstance(value, Collection):
        return list(value)
    return list(islice(value, most + 1))


def _pairs(name: str, value: object) -> list[tuple[Any, Any]]:
    if not isinstance(value, Mapping):
        raise SettingError(f"{name} = {shown(value)}: must be a dict")
    return list(value.items())
