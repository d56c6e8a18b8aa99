"""Retention as an order states it: a window by age and room, or a rule that draws lots, by its name.

Windows and the reservoir do not depend on how admissions were spread over rounds, so server and client agree on every sample
held, also where the server heard of some late. Under the other rules they agree on how many; the class-balanced rule looks at
labels, which only clients know.
"""

from headgate.control.retention.replacement import ClassBalanced, DynamicRatio, Replacement, Reservoir, StaticRatio
from headgate.control.retention.windows import Fifo, KStep, KStepFifo
from headgate.control.types import Retention
from headgate.errors import DataError, SettingError
from headgate.flower.messages import Order

WINDOW = "window"
RULES: dict[str, type[Replacement]] = {
    "reservoir": Reservoir,
    "class-balanced": ClassBalanced,
    "static": StaticRatio,
    "dynamic": DynamicRatio,
}


def stated(retention: Retention) -> tuple[str, float]:
    """(rule, ratio) of an order's fields; refused where a client could not do it."""
    for name, kind in RULES.items():
        if type(retention) is kind:
            return name, float(getattr(retention, "ratio", 0.0))
    if isinstance(retention, KStep | Fifo | KStepFifo):
        return WINDOW, 0.0
    raise SettingError(f"retention = {type(retention).__name__}: clients on Flower know {WINDOW}s, {', '.join(RULES)}")


def rule_of(order: Order) -> Replacement | None:
    """The rule that an order names; None: a window."""
    if order.rule == WINDOW:
        return None
    if order.rule not in RULES:
        raise DataError(f"order.rule = {order.rule}: must be {WINDOW} or one of {', '.join(RULES)}")
    kind = RULES[order.rule]
    return kind(order.limit, order.ratio) if kind is StaticRatio else kind(order.limit)
