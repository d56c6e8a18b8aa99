"""What a price process is: c(1), c(2), …, the price of one sample in each round."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.control.types import Floats, Ints


class PriceProcess(ABC):
    """A frozen value whose fields are its settings. `path` is addressed by seed and round.

    Asking for more rounds never changes earlier ones, every policy with the same seed meets the same prices, and each
    process knows its mean, which the plan needs.
    """

    unit: ClassVar[str] = ""
    """what prices are counted in; nothing where they are made up"""

    @abstractmethod
    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        """Return the prices of rounds start ≤ t < stop.

        Parameters
        ----------
        seeds : array
            One for each run, (R,).
        start, stop : int
            Rounds are counted from 1.

        Returns
        -------
        array
            (R, stop − start); (R, stop − start, M) where each client has a price of its own.
        """

    @abstractmethod
    def mean(self, rounds: int | None) -> float:
        """Return c̄_T, the expected average price.

        Parameters
        ----------
        rounds : int or None
            Over rounds 1..T; None: in the long run.
        """

    @abstractmethod
    def most(self, rounds: int | None) -> float:
        """Return a number that no price exceeds.

        Parameters
        ----------
        rounds : int or None
            In rounds 1..T; None: ever.
        """


def rounds_of(seeds: Ints, start: int, stop: int) -> tuple[Ints, Ints]:
    """Addresses that broadcast to (R, stop − start), for `headgate.control.randomness.uniform`."""
    return np.asarray(seeds, dtype=np.int64)[:, None], np.arange(start, stop, dtype=np.int64)[None, :]


@dataclass(frozen=True)
class WithLooks(PriceProcess):
    """What a label costs where clients look at samples before they choose: its price, and that of the looks it takes."""

    labels: PriceProcess
    looks: float

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        return self.labels.path(seeds, start, stop) + self.looks

    def mean(self, rounds: int | None) -> float:
        return self.labels.mean(rounds) + self.looks

    def most(self, rounds: int | None) -> float:
        return self.labels.most(rounds) + self.looks
