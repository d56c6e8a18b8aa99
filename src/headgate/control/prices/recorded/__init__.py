"""Prices that markets had: electricity by the hour at several places, oil by the day. README.md has sources and licences."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from headgate.control.checks import positive
from headgate.control.prices.processes import PriceProcess, rounds_of
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError


@cache
def table(name: str) -> tuple[tuple[str, ...], Floats]:
    """The points of a file beside this one, and its prices, (rows, points).

    It holds whole cents, (points, rows) of int32, byte by byte: first the lowest bytes of all, which packs best.
    """
    with np.load(Path(__file__).with_name(f"{name}.npz"), allow_pickle=False) as file:
        values = np.ascontiguousarray(np.stack(file["cents"], axis=-1).view("<i4")[..., 0].T) / 100
        values.flags.writeable = False
        return tuple(file["points"].tolist()), values


@dataclass(frozen=True)
class Market(PriceProcess):
    """Each seed begins at a row of its own and goes on from it, past the last one to the first. What was below zero is zero."""

    scale: float = 0.1
    """a sample's price is so many times the market's"""

    market: ClassVar[str]
    unit = "$"

    def __post_init__(self) -> None:
        positive("scale", self.scale)

    @property
    def _prices(self) -> Floats:
        """(rows,), or (rows, clients)."""
        return np.asarray(self.scale * np.maximum(table(self.market)[1][:, 0], 0.0))

    def path(self, seeds: Ints, start: int, stop: int) -> Floats:
        prices = self._prices
        seed, t = rounds_of(seeds, start, stop)
        first = (uniform(seed, Purpose.PRICE_START, 0) * len(prices)).astype(np.int64)
        return np.asarray(prices[(first + t - 1) % len(prices)])

    def mean(self, rounds: int | None) -> float:
        """Over beginnings, each as likely as another: that of all rows; over clients, too."""
        return float(self._prices.mean())


@dataclass(frozen=True)
class Ercot(Market):
    """Texan electricity, hour by hour: one price, the mean of the hubs, or with `points` one for each client."""

    points: tuple[str, ...] = ()
    """a hub or load zone for each client, such as HB_WEST or LZ_HOUSTON"""

    market = "ercot"

    def __post_init__(self) -> None:
        super().__post_init__()
        known, _ = table(self.market)
        for point in self.points:
            if point not in known:
                raise SettingError(f"points = {list(self.points)}: {point} is none of {', '.join(known)}")

    @property
    def _prices(self) -> Floats:
        if not self.points:
            return super()._prices
        known, values = table(self.market)
        return np.asarray(self.scale * np.maximum(values[:, [known.index(point) for point in self.points]], 0.0))


@dataclass(frozen=True)
class Brent(Market):
    """Crude oil, day by day: a price that wanders slowly and far."""

    market = "brent"
