"""First come, first bought."""

from dataclasses import dataclass

import numpy as np

from headgate.control.selection.rule import Bools, Offered, Selection


@dataclass(frozen=True, eq=False)
class FirstCome(Selection):
    """The next samples of the stream: what every client does that is told nothing else.

    It needs no window and passes over nothing, so a run with it is the run without any rule.
    """

    def chooses(self, offered: Offered) -> Bools:
        return offered.highest(np.zeros(offered.position.shape))
