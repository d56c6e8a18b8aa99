"""A price process of one's own. Draws are addressed by seed and round, so all policies
meet the same prices.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.prices import PriceProcess, rounds_of
from headgate.control.randomness import Purpose, uniform


@dataclass(frozen=True)
class Weekends(PriceProcess):
    """Half price in rounds 5 and 6 of every 7, and within ±50 % at random."""

    weekday: float = 6.0

    def path(self, seeds, start, stop):
        seed, t = rounds_of(seeds, start, stop)
        return (
            self.weekday
            * np.where(t % 7 >= 5, 0.5, 1.0)
            * (0.5 + uniform(seed, Purpose.PRICE, t))
        )

    def mean(self, rounds):
        t = np.arange(1, 8 if rounds is None else rounds + 1)
        return self.weekday * np.where(t % 7 >= 5, 0.5, 1.0).mean()
