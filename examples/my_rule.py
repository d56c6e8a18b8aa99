"""A retention rule of one's own: who stays when a client is full."""

from dataclasses import dataclass

from headgate.control import Retention


@dataclass(frozen=True, eq=False)
class OldestAndUnlucky(Retention):
    """The oldest leave, but a draw counts for up to `luck` rounds of age."""

    luck: float = 5.0

    def rank(self, candidates):
        return candidates.age + self.luck * candidates.draw()
