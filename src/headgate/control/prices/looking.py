"""What a label costs where clients look at samples before they choose which to buy."""

from dataclasses import dataclass

from headgate.control.prices.process import PriceProcess
from headgate.control.types import Floats, Ints


@dataclass(frozen=True)
class WithLooks(PriceProcess):
    """Prices of labels, and to each of them what the looks cost that it takes."""

    labels: PriceProcess
    looks: float

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        return self.labels.path(seeds, start, stop) + self.looks

    def mean(self, rounds: int | None) -> float:
        return self.labels.mean(rounds) + self.looks

    def most(self, rounds: int | None) -> float:
        return self.labels.most(rounds) + self.looks
