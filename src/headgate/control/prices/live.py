"""Prices that are told round by round, from outside."""

from dataclasses import dataclass

import numpy as np

from headgate.control.prices.processes import PriceProcess
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError

UNKNOWN = (
    "prices: are told round by round, so nobody knows later ones; state the prices that"
    ' you expect, as in prices = {"kind": "uniform", "low": 1.0, "high": 9.0}'
)


@dataclass(frozen=True)
class Live(PriceProcess):
    """Prices of which nothing is known before their round."""

    def path(
        self,
        seeds: Ints,
        start: int,
        stop: int,
    ) -> Floats:
        """Refuse, as later prices are unknown."""
        raise SettingError(UNKNOWN)

    def mean(self, rounds: int | None) -> float:
        """Return that the mean is not known, NaN."""
        return np.nan
