"""Text for numbers, prices and money, the same in the terminal, in reports, on Markdown
pages and on the web page.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic_core import to_jsonable_python

from headgate.analysis.intervals import Estimate
from headgate.control.prices import KINDS
from headgate.escaping import shown

DASH = "–"


def number(value: float | None) -> str:
    """Return a number as text, with 4 significant digits below 1000 and no decimals
    from 1000 on.
    >>> number(1234.5), number(55.1234), number(-0.5), number(float("inf")), number(None)
    ('1,234', '55.12', '−0.5', '∞', '–')
    """
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return _minus(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}")


def money(value: float | None) -> str:
    """Return an amount of money as text, without its currency.
    >>> money(1234.567), money(0.0012345), money(0.0), money(None)
    ('1,234.57', '0.0012', '0.00', '–')
    """
    small = value is not None and 0 < abs(value) < 0.01
    return (
        DASH
        if value is None or math.isnan(value)
        else _minus(f"{value:.2g}" if small else f"{value:,.2f}")
    )


def money_in(unit: str, value: float | None) -> str:
    """Return an amount of money as text, with its currency before it.
    >>> money_in("$", 1234.5), money_in("", 5.5), money_in("$", None)
    ('$ 1,234.50', '5.50', '–')
    """
    return DASH if value is None else f"{unit} {money(value)}".strip()


def signed(value: int | None) -> str:
    """Return a whole number as text, always with its sign.
    >>> signed(2), signed(0), signed(-3), signed(None)
    ('+2', '+0', '−3', '–')
    """
    return DASH if value is None else _minus(f"{value:+,d}")


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share as text in percent.

    >>> percent(0.85), percent(1.4821, 1), percent(None)
    ('85 %', '148.2 %', '–')
    """
    return (
        DASH
        if share is None or math.isnan(share)
        else _minus(f"{100 * share:,.{digits}f} %")
    )


def accuracy(value: Estimate | None, digits: int = 1) -> str:
    """Return an accuracy as text in percent, with half the width of its interval if it
    has one.

    >>> accuracy(Estimate(0.7, 0.4, 1.0, 2)), accuracy(Estimate(0.3)), accuracy(None)
    ('70.0 ± 30.0 %', '30.0 %', '–')
    """
    return DASH if value is None else f"{plus_minus(value.scaled(100), digits)} %"


def plus_minus(value: Estimate, digits: int = 1, signs: bool = False) -> str:
    """Return an estimate as text, with half the width of its interval if it has one.
    >>> plus_minus(Estimate(1.25, 0.75, 1.75, 3), 2, signs=True)
    '+1.25 ± 0.50'
    """
    half = "" if value.half is None else f" ± {value.half:.{digits}f}"
    return _minus(f"{value.mean:{'+' if signs else ''}.{digits}f}") + half


def interval(value: Estimate | None, digits: int = 1, signs: bool = False) -> str:
    """Return an estimate as text, with its interval in parentheses if it has one.
    >>> interval(Estimate(3.14, 2.0, 4.0, 5)), interval(Estimate(3.0), signs=True)
    ('3.1 (2.0 … 4.0)', '+3.0')
    """
    if value is None:
        return DASH
    sign = "+" if signs else ""
    text = f"{value.mean:{sign}z.{digits}f}"
    if value.low is not None and value.high is not None:
        text += f" ({value.low:{sign}z.{digits}f} … {value.high:{sign}z.{digits}f})"
    return _minus(text)


def counted(count: int, thing: str) -> str:
    """Return a count and its noun, in the plural unless the count is 1.
    >>> counted(1, "seed"), counted(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def listed(names: list[str]) -> str:
    """Return names joined by commas, with "and" before the last.
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


Row = TypeVar("Row")
Key = TypeVar("Key")


def grouped(things: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Group things by their key; keys and things keep their order.

    >>> grouped(["one", "two", "three"], len)
    {3: ['one', 'two'], 5: ['three']}
    """
    found: dict[Key, list[Row]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return found


def _minus(text: str) -> str:
    return text.replace("-", "−")


def jsonable(value: Any) -> Any:
    """Return a value in types that JSON has: infinity becomes null, tuples become
    lists, data classes become objects.
    """
    return to_jsonable_python(value, inf_nan_mode="null")


CURRENCY = 8
"""the most characters of a currency that are shown"""
SHORT = 4
"""the most values of a list that are written one by one; for a longer list only their
number is written
"""


def prices_text(table: Any) -> str:
    """Describe a `[prices]` table of a recipe in a few words. Nested tables come last,
    as they do in TOML files.

    >>> prices_text({"kind": "switches", "levels": [10.0, 1.0], "lengths": [50, 50], "repeat": False})
    'switches, levels 10/1, lengths 50/50'
    >>> prices_text({"kind": "ercot", "scale": 0.1, "points": ["HB_WEST"] * 15})
    'ercot, scale 0.1, 15 points'
    >>> prices_text({"kind": "per-client", "common": {"kind": "uniform", "low": 1.0, "high": 2.0}, "noise": 0.2})
    'per-client, noise 0.2, common (uniform, low 1, high 2)'
    """
    if not isinstance(table, Mapping):
        return ""
    parts = [str(table.get("kind", ""))]
    for key, value in sorted(
        table.items(), key=lambda each: isinstance(each[1], Mapping)
    ):
        if isinstance(value, Mapping):
            parts.append(f"{key} ({prices_text(value)})")
        elif isinstance(value, list) and not any(
            isinstance(each, list | Mapping) for each in value
        ):  # flat lists only
            parts.append(
                f"{key} {'/'.join(map(_value, value))}"
                if len(value) <= SHORT
                else f"{len(value)} {key}"
            )
        elif key != "kind" and value is not False and not isinstance(value, list):
            parts.append(str(key) if value is True else f"{key} {_value(value)}")
    return shown(", ".join(parts), 200)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)


def unit_of(config: Mapping[str, Any]) -> str:
    """Return the currency of a recipe's settings: the one it states, or that of its
    recorded prices, or an empty text.

    >>> unit_of({"prices": {"kind": "brent"}}), unit_of({"prices": {"kind": "uniform"}}), unit_of({})
    ('$', '', '')
    >>> unit_of({"system": {"currency": "€"}, "prices": {"kind": "brent"}})
    '€'
    """
    system, prices = (
        own if isinstance(own, Mapping) else {}
        for own in (config.get("system"), config.get("prices"))
    )
    kind = prices.get("kind")
    recorded = KINDS[kind].unit if isinstance(kind, str) and kind in KINDS else ""
    return shown(system.get("currency") or recorded, CURRENCY)
