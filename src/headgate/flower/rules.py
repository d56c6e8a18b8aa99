"""Rules as an order states them: which samples stay (a window by age and size, or a
named rule), and which are bought.

Windows and the reservoir do not depend on the rounds in which samples were admitted, so
server and client agree on every sample held, even if the server learned of some late.
Under the other rules they agree on the number. A client chooses what it buys among its
own samples, with the model that was sent with the order; its answer reports how many,
not which.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from headgate.control.retention import Retention, WindowRule
from headgate.control.selection import Selection
from headgate.errors import DataError
from headgate.flower.messages import Order
from headgate.limits import SAMPLES
from headgate.limits import WINDOW as LONGEST
from headgate.registry import RETENTION, SELECTION, Slot, fill, nearest, table_of

WINDOW = "window"


class StatedChoice(NamedTuple):
    """The choice that an order states: a buying rule, the window, and how many
    unlabelled samples a client may keep.
    """

    rule: Selection
    window: int
    keep: int


def stated(rule: Retention) -> tuple[str, str]:
    """Return the fields (rule, settings) of an order: the rule's name and its settings
    as JSON, without the capacity.
    """
    if isinstance(rule, WindowRule):
        return WINDOW, "{}"
    table = table_of(RETENTION, rule)
    return table.pop("kind"), json.dumps(
        {key: value for key, value in table.items() if key != "capacity"}
    )


def rule_of(order: Order, own: Collection[type] = ()) -> Retention | None:
    """Return the retention rule that an order names; None: a window."""
    if order.rule == WINDOW:
        return None
    settings = _object("order.settings", order.settings)
    made: Retention = _named(
        RETENTION, order.rule, {**settings, "capacity": order.limit}, "order.rule", own
    )
    return made


def choice_of(order: Order, own: Collection[type] = ()) -> StatedChoice | None:
    """Return the choice that an order states; None: the client buys the next
    samples.
    """
    if not order.choice:
        return None
    fields = _object("order.choice", order.choice)
    if fields.keys() != {"rule", "window", "keep"} or not isinstance(
        fields["rule"], dict
    ):
        raise DataError(
            "order.choice: must be a JSON object with rule, window and keep"
        )
    for key, least, most in (("window", 1, LONGEST), ("keep", 0, SAMPLES)):
        if type(fields[key]) is not int or not least <= fields[key] <= most:
            raise DataError(
                f"order.choice: {key} must be a whole number, {least} to {most:,}"
            )
    rule: Selection = _named(
        SELECTION,
        str(fields["rule"].pop("kind", "")),
        fields["rule"],
        "order.choice.rule",
        own,
    )
    rule.check()
    return StatedChoice(rule, fields["window"], fields["keep"])


def _named(
    slot: Slot,
    kind: str,
    settings: Mapping[str, Any],
    where: str,
    own: Collection[type],
) -> Any:
    """Make the named rule if it is a shipped one or one of the client's `own`; nothing
    is imported.
    """
    mine = {
        f"{each.__module__}:{each.__qualname__}": each
        for each in own
        if issubclass(each, slot.base)
    }
    known = {**slot.kinds, **mine}
    if kind not in known:
        raise DataError(
            f"{where} = {kind[:60]}: this client does not know"
            f" it{nearest(kind, list(known))}"
        )
    return fill(known[kind], settings, where)


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError(f"{name} = {text[:60]}: must be a JSON object")
    return value
