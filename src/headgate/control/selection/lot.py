"""Lots decide: what every rule that looks is held against."""

from dataclasses import dataclass

from headgate.control.selection.rule import Bools, Offered, Selection


@dataclass(frozen=True, eq=False)
class ByLot(Selection):
    """Each choice among the samples of the window is equally likely. It looks at none of them, so it pays for labels alone.

    The draw is addressed by the run's seed, the client and the sample's place in the stream.
    """

    def chooses(self, offered: Offered) -> Bools:
        return offered.highest(offered.draw())
