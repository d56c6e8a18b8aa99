"""Every objective as its paper states it: a loss of one sample, number by number, for
torch to differentiate.
"""

import math
from dataclasses import dataclass

from headgate.learning.objectives import LocalObjective


def plain(z, received, y, held):
    return -(z[y] - _log_sum(z))


def fedlc(z, received, y, held, tau=1.0, vacant=1.0):
    """−log of exp(z_y − τ·n_y^(−1/4)) over the sum of the same for all classes; without
    samples, n is `vacant`.
    """
    counts = [n if n else vacant for n in held]
    own = {c: z[c] - tau * n**-0.25 for c, n in enumerate(counts) if n}
    return -(own[y] - _log_sum(list(own.values())))


@dataclass(frozen=True)
class Pulled(LocalObjective):
    """One of a user's own: answers are pulled to those of the received model."""

    pull: float = 0.5

    def slope(self, at):
        return super().slope(at) + self.pull * (at.logits - at.received)


def pulled(z, received, y, held, pull=0.5):
    return plain(z, received, y, held) + pull / 2 * ((z - received) ** 2).sum()


def share_of_fresh(new, share):
    """Each sample's weight in its client's mean, times how many there are."""
    fresh, old, n = sum(new), len(new) - sum(new), len(new)
    if not fresh or not old:
        return [1.0] * n
    return [share * n / fresh if is_new else (1 - share) * n / old for is_new in new]


def _log_sum(values):
    most = max(float(value.detach()) for value in values)
    return sum((value - most).exp() for value in values).log() + (
        most if math.isfinite(most) else 0.0
    )
