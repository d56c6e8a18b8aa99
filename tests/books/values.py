"""Values that callers hand in by mistake or on purpose, and what each one says if it is
accepted.
"""

import operator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction

import numpy as np

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
ODD = {name: getattr(np, name) for name in INTEGERS} | {
    "numpy bool": np.bool_,
    "bool": bool,
    "float, whole": float,
    "float, not whole": lambda n: n + 0.5,
    "numpy float": np.float64,
    "numpy short float": np.float32,
    "NaN": lambda n: float("nan"),
    "infinity": lambda n: float("inf"),
    "less than nothing": lambda n: -1,
    "nothing": lambda n: 0,
    "2**70": lambda n: 2**70,
    "-2**70": lambda n: -(2**70),
    "1e300": lambda n: 1e300,
    "text": str,
    "two lines": lambda n: f"{n}\n{n}",
    "bytes": lambda n: str(n).encode(),
    "None": lambda n: None,
    "list": lambda n: [n],
    "decimal": Decimal,
    "decimal NaN": lambda n: Decimal("sNaN"),
    "fraction": lambda n: Fraction(2 * n + 1, 3),
    "complex": complex,
    "array": lambda n: np.array([n]),
    "array without axes": np.array,
    "empty array": lambda n: np.array([]),
    "object": lambda n: object(),
}
"""names of odd values, each made from a whole number that would fit"""

KEYS = {
    "key with a space": "a b",
    "key of two lines": "a\nb",
    "empty key": "",
    "formula": "=1+1",
    "key as bytes": b"a",
    "key as a number": 7,
    "key of numpy": np.str_("k"),
    "numpy number as key": np.int64(7),
    "no key": None,
    "half a letter": "\ud800",
    "zero byte": "a\0b",
    "list as key": ["a"],
}
"""odd keys, by name"""

DAYS = [
    None, "2026-10-30", "2026-10-31", "2026-11-01", "2026-11-15", "2026-11-30",
    "2026-12-01", "2026-12-31", "2027-01-01", "2026-10-31T23:59:59+00:00",
    "2026-11-30T23:30:00-12:00", "2026-12-01T10:00:00+14:00", "2026-11-01T00:00:00",
]  # fmt: skip
"""dates and times that stand in the documentation's forms, around the ends of months"""

DATES = {
    "day first": "01/11/2026",
    "without hyphens": "20261101",
    "week": "2026-W45-1",
    "a word": "tomorrow",
    "a space": " ",
    "no text": "",
    "without zeros": "2026-9-1",
    "year of two digits": "26-11-01",
    "month 13": "2026-13-01",
    "31 November": "2026-11-31",
    "after the last year": "9999-12-31T23:59:59-12:00",
    "before the first year": "0001-01-01T00:00:00+14:00",
    "number as date": 20261101,
    "bytes as date": b"2026-11-01",
    "date of two lines": "2026-11-01\n",
    "wide digits": "２０２６-11-01",
    "zero byte in a date": "2026-11-01\0",
    "date object": date(2026, 11, 1),
    "datetime object": datetime(2026, 11, 30, 23, 0, tzinfo=UTC),
    "naive datetime": datetime(2026, 12, 1),
    "time object": time(12, 0),
    "numpy date": np.datetime64("2026-11-01"),
    "time with a place": "2026-11-01T00:00:00Z",
}
"""odd dates, by name"""


class WrongError(AssertionError):
    """Something was accepted that says nothing, or the accounts are not what they must
    be.
    """


def whole(value):
    """Return the whole number that an accepted value says, however it is written."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return whole(value.item())
    try:
        return operator.index(value)
    except TypeError:
        if (
            isinstance(value, np.bool_ | float | np.floating | Decimal | Fraction)
            and value == value // 1
        ):
            return int(value)
    raise WrongError(f"{value!r} was accepted as a whole number")


def money(value):
    """Return the exact amount that an accepted value says: a float is the decimal
    number that it is printed as.
    """
    try:
        amount = float(value)
    except (TypeError, ValueError, OverflowError):
        raise WrongError(f"{value!r} was accepted as an amount") from None
    if not np.isfinite(amount):
        raise WrongError(f"{value!r} was accepted as an amount")
    return Decimal(repr(amount))


def truth(value):
    if isinstance(value, bool | np.bool_) or (
        isinstance(value, int | float | np.number) and value in (0, 1)
    ):
        return bool(value)
    raise WrongError(f"{value!r} was accepted as true or false")


def month(value, clock):
    """Return the month, as in 2026-11 and in UTC, of an accepted `when`; `clock` is the
    time of rounds without one.
    """
    left_out = value is None or (isinstance(value, str) and not value)
    moment = clock if left_out else _moment(value)
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:
            raise WrongError(
                f"{value!r} was accepted as a date, and in UTC there is no such one"
            ) from None
    return f"{moment.year:04}-{moment.month:02}"


def _moment(value):
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.datetime64):
        return datetime.fromisoformat(str(value))
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise WrongError(f"{value!r} was accepted as a date") from None


def clients_of(value, clients):
    """Return the clients that an accepted `present` names: numbers, or true or false
    for each client.
    """
    given = np.asarray(value).tolist() if isinstance(value, np.ndarray) else list(value)
    if given and all(isinstance(each, bool | np.bool_) for each in given):
        if len(given) != clients:
            raise WrongError(f"{value!r} was accepted as clients; there are {clients}")
        return {client for client, there in enumerate(given) if there}
    return {whole(each) for each in given}
