"""Rules by age and order: the oldest leave. A buffer is then a window of the client's stream, first..last−1.

The controller works such rules out from counts alone (`control/buffers.py`), so a million clients are fine. `keeps` says
the same sample by sample; a test holds the two together.
"""

from dataclasses import dataclass, field

import numpy as np

from headgate.control.checks import whole_numbers
from headgate.control.retention.rule import Bools, Candidates, Capacity, Retention
from headgate.control.types import Ints
from headgate.errors import SettingError
from headgate.limits import ROUNDS
from headgate.theory.labels import paper


class WindowRule(Retention):
    """The oldest leave a full client."""

    def keeps(self, given: Candidates) -> Bools:
        return given.lowest(-given.position)


@paper("def:kstep", "eq:kstep-drop", "eq:buffer-occupancy")
@dataclass(frozen=True, eq=False)
class KStep(WindowRule):
    """Every sample is trained on for exactly K rounds, or less where there is a `capacity` and its client is full.

    K may differ from run to run, (R,). Clients named in `forever` never drop anything: the stale half of the hybrid policy.
    """

    K: int | Ints
    capacity: Capacity | None = field(default=None, kw_only=True)
    forever: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.any(whole_numbers("K", self.K, ROUNDS) < 1):
            raise SettingError(f"K = {self.K}: a sample must be kept for at least one round")


@dataclass(frozen=True, eq=False)
class Fifo(WindowRule):
    """The oldest samples make room for new ones once a client holds `capacity`."""

    capacity: Capacity = "buffer"
