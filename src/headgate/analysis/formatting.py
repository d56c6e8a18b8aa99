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
    """Return a number with 4 significant digits, from 1000 on without decimals.

    >>> number(1234.5), number(55.1234), number(-math.inf), number(None)
    ('1,234', '55.12', '−∞', '–')
    """
    if value is None or math.isnan(value):
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return _minus(text.replace("inf", "∞"))


def money(value: float | None) -> str:
    """Return an amount of money as text, without its currency.

    >>> money(1234.567), money(0.0012345), money(0.0), money(None)
    ('1,234.57', '0.0012', '0.00', '–')
    """
    if value is None or math.isnan(value):
        return DASH
    small = 0 < abs(value) < 0.01
    return _minus(f"{value:.2g}" if small else f"{value:,.2f}")


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
    if share is None or math.isnan(share):
        return DASH
    return _minus(f"{100 * share:,.{digits}f} %")


def accuracy(value: Estimate | None) -> str:
    """Return an accuracy in percent, with half the width of its interval if it has one.

    >>> accuracy(Estimate(0.7, 0.4, 1.0, 2)), accuracy(Estimate(0.3)), accuracy(None)
    ('70.0 ± 30.0 %', '30.0 %', '–')
    """
    return DASH if value is None else f"{plus_minus(value.scaled(100))} %"


def plus_minus(
    value: Estimate,
    digits: int = 1,
    signs: bool = False,
) -> str:
    """Return an estimate as text, with half the width of its interval if it has one.

    >>> plus_minus(Estimate(1.25, 0.75, 1.75, 3), 2, signs=True)
    '+1.25 ± 0.50'
    """
    sign = "+" if signs else ""
    text = _minus(f"{value.mean:{sign}.{digits}f}")
    if value.half is None:
        return text
    return f"{text} ± {value.half:.{digits}f}"


def interval(
    value: Estimate | None,
    digits: int = 1,
    signs: bool = False,
) -> str:
    """Return an estimate as text, with its interval in parentheses if it has one.

    >>> interval(Estimate(3.14, 2.0, 4.0, 5)), interval(Estimate(3.0), signs=True)
    ('3.1 (2.0 … 4.0)', '+3.0')
    """
    if value is None:
        return DASH
    form = f"{'+' if signs else ''}z.{digits}f"
    text = format(value.mean, form)
    if value.low is not None and value.high is not None:
        text += f" ({value.low:{form}} … {value.high:{form}})"
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
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


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


def delay_text(stated: Any) -> str:
    """Describe the setting `data.delay` of a recipe in a few words; empty if there is
    no delay.

    >>> delay_text(10), delay_text({"1": 3, "10": 1}), delay_text({"geometric": 5})
    ('delay 10', 'delay 1: 3, 10: 1', 'delay geometric: 5')
    """
    if not stated or (isinstance(stated, Mapping) and set(stated) == {"0"}):
        return ""
    if not isinstance(stated, Mapping):
        return f"delay {stated}"
    weights = [f"{key}: {number(value)}" for key, value in stated.items()]
    return shown(f"delay {', '.join(weights)}", 100)


def prices_text(table: Any) -> str:
    """Describe a `[prices]` table of a recipe in a few words.

    Nested tables come last, as they do in TOML files. A class of one's own is called by
    its name in lower case.

    >>> prices_text({"kind": "switches", "levels": [10.0, 1.0], "repeat": False})
    'switches, levels 10/1'
    >>> prices_text({"kind": "ercot", "scale": 0.1, "points": ["HB_WEST"] * 15})
    'ercot, scale 0.1, 15 points'
    >>> prices_text({"kind": "per-client", "common": {"kind": "brent"}, "noise": 0.2})
    'per-client, noise 0.2, common (brent)'
    >>> prices_text({"kind": "studies.zoo.prices:Pareto", "low": 1.0})
    'pareto, low 1'
    """
    if not isinstance(table, Mapping):
        return ""
    kind = str(table.get("kind", ""))
    _, outside, name = kind.partition(":")
    parts, nested = [name.lower() if outside else kind], []
    for key, value in table.items():
        if isinstance(value, Mapping):
            nested.append(f"{key} ({prices_text(value)})")
        elif key != "kind" or isinstance(value, list):
            parts.append(_setting(key, value))
    return shown(", ".join(filter(None, parts + nested)), 200)


def _setting(key: str, value: Any) -> str:
    """Describe one setting; false ones and nested lists are left out."""
    if value is True:
        return key
    if value is False:
        return ""
    if not isinstance(value, list):
        return f"{key} {_value(value)}"
    if any(isinstance(each, list | Mapping) for each in value):
        return ""
    if len(value) > SHORT:
        return f"{len(value)} {key}"
    return f"{key} {'/'.join(map(_value, value))}"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)


def unit_of(config: Mapping[str, Any]) -> str:
    """Return the currency that a recipe states, or that of its recorded prices.

    >>> unit_of({"prices": {"kind": "brent"}}), unit_of({})
    ('$', '')
    >>> unit_of({"system": {"currency": "€"}, "prices": {"kind": "brent"}})
    '€'
    """
    system, prices = config.get("system"), config.get("prices")
    if isinstance(system, Mapping) and system.get("currency"):
        return shown(system["currency"], CURRENCY)
    kind = prices.get("kind") if isinstance(prices, Mapping) else None
    recorded = KINDS.get(kind) if isinstance(kind, str) else None
    return shown(recorded.unit if recorded else "", CURRENCY)
