"""Retention as an order states it: a window by age and room, or a rule that draws lots, by its name.

Windows and the reservoir do not depend on how admissions were spread over rounds, so server and client agree on every sample
held, also where the server heard of some late. Under the other rules they agree on how many; the class-balanced rule looks at
labels, which only clients know.
"""

import json
from collections.abc import Collection

from headgate.books.messages import Order
from headgate.control.retention import Retention, WindowRule
from headgate.errors import DataError
from headgate.experiment import Experiment
from headgate.registry import RETENTION, SELECTION, fill, nearest, table_of

WINDOW = "window"


def stated(rule: Retention) -> tuple[str, str]:
    """(rule, settings) of an order's fields: its name in recipes, and its settings as JSON. How many stay the order says."""
    if isinstance(rule, WindowRule):
        return WINDOW, "{}"
    table = table_of(RETENTION, rule)
    return table.pop("kind"), json.dumps({key: value for key, value in table.items() if key != "capacity"})


def stated_choice(experiment: Experiment) -> str:
    """Return the choice of an order, which samples to buy, as JSON; empty where clients have no choice."""
    (policy,), data = experiment.policies.values(), experiment.data
    if not data.chooses(policy.selection):
        return ""
    return json.dumps({"rule": table_of(SELECTION, policy.selection), "window": data.window, "keep": data.keep})


def rule_of(order: Order, own: Collection[type] = ()) -> Retention | None:
    """The rule that an order names; None: a window. A client knows the shipped ones and its `own`; it imports nothing."""
    if order.rule == WINDOW:
        return None
    known = {
        **RETENTION.kinds,
        **{f"{kind.__module__}:{kind.__qualname__}": kind for kind in own if issubclass(kind, Retention)},
    }
    if order.rule not in known:
        raise DataError(f"order.rule = {order.rule}: this client does not know it{nearest(order.rule, list(known))}")
    try:
        settings = json.loads(order.settings)
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise DataError(f"order.settings = {order.settings[:60]}: must be a JSON object")
    made: Retention = fill(known[order.rule], {**settings, "capacity": order.limit}, "order.rule")
    return made
