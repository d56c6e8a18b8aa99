"""The border of the accounts: what a caller hands to `Books`, as plain values of Python
or refused in one line.

A count of numpy is a whole number like any other. Whatever passes here can be written,
read again and replayed.
"""

import getpass
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np

from headgate.books.moments import moment
from headgate.books.nouns import Delivery
from headgate.control.checks import amount, text, whole_number
from headgate.control.types import Floats, System
from headgate.errors import DataError, LedgerError, SettingError
from headgate.escaping import one_line, shown
from headgate.limits import (
    CLIENTS,
    LARGEST,
    LINE,
    LISTED,
    NUMBER,
    ROUNDS,
    SAMPLES,
    TINY,
)

LONGEST_WAIT = timedelta(days=3_650)
"""the longest time after which an order may expire"""
COUNT = SAMPLES
"""the most samples that one report may name"""
T = TypeVar("T")


class Roll:
    """The clients of a system, as a caller names them: by number or by name.

    Parameters
    ----------
    system : System
        The system.
    """

    def __init__(self, system: System) -> None:
        self.clients = system.clients
        names = system.names or ()
        self._numbers = {name: number for number, name in enumerate(names)}

    def number(self, name: str, value: object) -> int:
        """Return the number of a client; `name` is that of the argument."""
        if not isinstance(value, str):
            return whole_number(name, value, 0, self.clients - 1)
        if value not in self._numbers:
            known = "have numbers" if not self._numbers else "have other names"
            raise SettingError(
                f"{name} = {shown(repr(value))}: is no client; the clients {known}"
            )
        return self._numbers[value]

    def listed(self, name: str, value: object) -> object:
        """Return the values of a mapping from clients in the order of their numbers;
        another value as it is.
        """
        if not isinstance(value, Mapping):
            return value
        own = {
            self.number(f"{name}: client", client): each
            for client, each in value.items()
        }
        if len(own) != self.clients:
            raise SettingError(
                f"{name}: must have a value for each of {self.clients} clients, has"
                f" {len(own)}"
            )
        return [own[client] for client in range(self.clients)]


def clients_in(
    name: str,
    value: object,
    roll: Roll,
) -> list[int]:
    """Return the clients that a collection of numbers, or a mask with a truth value for
    each client, names.
    """
    clients = roll.clients
    listed = _listed(name, value, clients)
    if listed and all(isinstance(each, bool | np.bool_) for each in listed):
        if len(listed) != clients:
            raise SettingError(
                f"{name} = {shown(listed)}: a mask has one truth value for each of"
                f" {clients} clients"
            )
        return [client for client, there in enumerate(listed) if there]
    return sorted(
        {roll.number(f"{name}[{place}]", each) for place, each in enumerate(listed)}
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


def reports_of(
    name: str,
    value: object,
    roll: Roll,
    t: int | None,
) -> list[list[Any]]:
    """Return what is reported as rows of the log: client, round, delivered, keys,
    cancelled, rejected and erased, sorted by client and round.

    `t` is the round that is open; None: there is none, so each delivery names its own.
    """
    rows = list[list[Any]]()
    for given, each in _pairs(name, value):
        client = roll.number(f"{name}: client", given)
        own = f"{name}[{given}]"
        many = each if isinstance(each, list) else [each]
        rows += [delivery_row(own, client, delivery, t) for delivery in many]
    rows.sort(key=lambda row: row[:2])
    for before, after in pairwise(rows):
        if before[:2] == after[:2]:
            raise SettingError(
                f"{name}: has two reports of client {after[0]} on round {after[1]}"
            )
    return rows


def delivery_row(
    name: str,
    client: int,
    value: object,
    t: int | None,
) -> list[Any]:
    """Return one report as a row of the log; a plain number is a delivery of that many
    samples.
    """
    plain: Any = value
    given = value if isinstance(value, Delivery) else Delivery(plain)
    own = name if given is not value else f"{name}.delivered"
    delivered = _count(own, given.delivered)
    if given.round is not None:
        t = whole_number(f"{name}.round", given.round, 1, ROUNDS)
    if t is None:
        raise SettingError(f"{name}: no round was begun, so name the order's round")
    if given is not value:
        return [client, t, delivered, [], 0, [], 0]
    keys = _keys(f"{name}.keys", given.keys, delivered)
    cancelled = _count(f"{name}.cancelled", given.cancelled)
    rejected = [
        [_key(f"{name}.rejected", key), _line(f"{name}.rejected[{shown(key)}]", why)]
        for key, why in _pairs(f"{name}.rejected", given.rejected)
    ]
    erased = _count(f"{name}.erased", given.erased)
    return [client, t, delivered, keys, cancelled, sorted(rejected), erased]


def reasons_of(
    name: str,
    value: object,
    roll: Roll,
) -> list[list[Any]]:
    """Return each refused client with the reason, sorted by client."""
    return sorted(
        [roll.number(f"{name}: client", client), _line(f"{name}[{client}]", why)]
        for client, why in _pairs(name, value)
    )


def expiry_of(
    name: str,
    value: object,
    t: int,
    at: str,
) -> int | str | None:
    """Return the last round, or the time in UTC, at which a sample may arrive."""
    if value is None:
        return None
    if isinstance(value, timedelta):
        if not timedelta(0) < value <= LONGEST_WAIT:
            raise SettingError(
                f"{name} = {value}: must be longer than nothing, and at most"
                f" {LONGEST_WAIT.days} days"
            )
        return moment(name, datetime.fromisoformat(at) + value)
    return t + whole_number(name, value, 0, ROUNDS)


def _keys(
    name: str,
    value: object,
    delivered: int,
) -> list[str]:
    """Return the keys of the samples of one report, of which no two are the same."""
    listed = _listed(name, value, delivered)
    found = [_key(f"{name}[{place}]", each) for place, each in enumerate(listed)]
    if found and len(found) != delivered:
        raise LedgerError(f"{name}: {len(found)} keys for {delivered} samples")
    if len(set(found)) < len(found):
        twice = next(key for key, n in Counter(found).items() if n > 1)
        raise LedgerError(
            f"{name}: {shown(twice)} is there twice; every sample has a key of its own"
        )
    return found


def _key(name: str, value: object) -> str:
    key = text(name, value, LINE)
    if not key:
        raise SettingError(f"{name}: a key is empty; give every sample a key, or none")
    return key


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
    found = text(name, key, LINE)
    if not found.strip():
        raise SettingError(f"{name} = {shown(repr(found))}: must not be empty")
    return found


def order_of(
    call: str,
    t: object,
    client: object,
    roll: Roll | None = None,
) -> tuple[int, int]:
    """Return the round and the client that name an order."""
    round_ = whole_number(f"{call}: round", t, 1, ROUNDS)
    if roll is None:
        return round_, whole_number(f"{call}: client", client, 0, CLIENTS)
    return round_, roll.number(f"{call}: client", client)


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
    return one_line(value.encode("utf-8", "backslashreplace").decode("utf-8"), LINE)


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


def checked(
    name: str,
    hint: Any,
    value: Any,
    most: int = LINE,
) -> Any:
    """Return a value from another process if it has the type `hint` and is within
    bounds, a text of at most `most` characters; otherwise raise DataError.
    """
    if hint == tuple[int, ...]:
        if not isinstance(value, list) or len(value) > LISTED:
            raise DataError(
                f"{name} = {shown(value)}: must be a list of whole numbers, at most"
                f" {LISTED}"
            )
        return tuple(checked(name, int, entry) for entry in value)
    if hint is int:
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not 0 <= value <= LARGEST
        ):
            raise DataError(
                f"{name} = {shown(value)}: must be a whole number, 0 or more"
            )
    elif hint is float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not abs(value) <= LARGEST
        ):
            raise DataError(
                f"{name} = {shown(value)}: must be a finite number, at most {LARGEST}"
            )
    elif not isinstance(value, hint):
        raise DataError(
            f"{name} = {shown(value)}: must be"
            f" {'true or false' if hint is bool else 'text'}"
        )
    elif hint is str and (len(value) > most or not value.isprintable()):
        raise DataError(
            f"{name} = {shown(value)}: must be one line of at most {most} printable"
            " characters"
        )
    return value
