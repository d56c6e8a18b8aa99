"""A price process in a few words, from its table in a recipe or in a run folder, which may be a stranger's."""

from collections.abc import Mapping
from typing import Any

from headgate.control.prices import KINDS
from headgate.escaping import shown

CURRENCY = 8
"""characters of a currency"""
SHORT = 4
"""values of a list that are said one by one; of a longer one it is said how many there are"""


def prices_said(table: Any) -> str:
    """
    >>> prices_said({"kind": "switches", "levels": [10.0, 1.0], "lengths": [50, 50], "repeat": False})
    'switches, levels 10/1, lengths 50/50'
    >>> prices_said({"kind": "ercot", "scale": 0.1, "points": ["HB_WEST"] * 15})
    'ercot, scale 0.1, 15 points'
    >>> prices_said({"kind": "per-client", "common": {"kind": "uniform", "low": 1.0, "high": 2.0}, "noise": 0.2})
    'per-client, noise 0.2, common (uniform, low 1, high 2)'

    Tables come last, as in a file of TOML, so that a recipe and a run folder say the same.
    """
    if not isinstance(table, Mapping):
        return ""
    told = [(str(key), value) for key, value in table.items() if key != "kind" and value is not False and not _nested(value)]
    settings = [_said(key, value) for key, value in sorted(told, key=lambda each: isinstance(each[1], Mapping))]
    return shown(", ".join([str(table.get("kind", "")), *settings]), 200)


def _said(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{key} ({prices_said(value)})"
    if isinstance(value, list):
        return f"{key} {'/'.join(map(_value, value))}" if len(value) <= SHORT else f"{len(value)} {key}"
    return key if value is True else f"{key} {_value(value)}"


def _nested(value: Any) -> bool:
    """Lists in lists take too many words."""
    return isinstance(value, list) and any(isinstance(each, list | Mapping) for each in value)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else shown(value)


def unit_of(config: Mapping[str, Any]) -> str:
    """What the money is counted in: the recipe's currency, or that of recorded prices; else nothing.

    >>> unit_of({"prices": {"kind": "brent"}}), unit_of({"prices": {"kind": "uniform"}}), unit_of({})
    ('$', '', '')
    >>> unit_of({"system": {"currency": "€"}, "prices": {"kind": "brent"}})
    '€'
    """
    system, prices = (own if isinstance(own, Mapping) else {} for own in (config.get("system"), config.get("prices")))
    kind = prices.get("kind")
    recorded = KINDS[kind].unit if isinstance(kind, str) and kind in KINDS else ""
    return shown(system.get("currency") or recorded, CURRENCY)
