"""The keys `retention`, `K`, `capacity` and `ratio` of a policy: what its clients drop."""

from typing import Literal

from headgate.control.retention.replacement import ClassBalanced, DynamicRatio, Reservoir, StaticRatio
from headgate.control.retention.windows import Fifo, KStepFifo, capacity_of
from headgate.control.types import Retention, System
from headgate.errors import SettingError
from headgate.experiment.settings import Whole

Capacity = Literal["buffer"] | Whole | list[Whole]
Rule = Literal["fifo", "reservoir", "class-balanced", "static", "dynamic"]


def retention_of(rule: Rule, system: System, K: int | None, capacity: Capacity | None, ratio: float | None = None) -> Retention:
    """The rule of that name at this capacity."""
    room = capacity_of(capacity, system)
    if room is None:
        raise SettingError(f'capacity: is missing; retention = "{rule}" needs one, as in capacity = "buffer"')
    if K is not None and rule != "fifo":
        raise SettingError(f'K = {K}: age decides nothing under retention = "{rule}"; leave K out, or take retention = "fifo"')
    if ratio is not None and rule != "static":
        raise SettingError(f'ratio = {ratio}: goes with retention = "static", not with "{rule}"')
    match rule:
        case "fifo":
            return Fifo(room) if K is None else KStepFifo(K, room)
        case "reservoir":
            return Reservoir(room)
        case "class-balanced":
            return ClassBalanced(room)
        case "static":
            return StaticRatio(room) if ratio is None else StaticRatio(room, ratio)
        case "dynamic":
            return DynamicRatio(room)
