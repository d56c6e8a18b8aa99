"""The section `[cost]`: one model for each kind of price."""

from abc import abstractmethod
from pathlib import Path
from typing import Literal

from headgate.config.settings import Settings, Whole
from headgate.control import costs, hard_prices
from headgate.control.costs import CostProcess
from headgate.errors import SettingError


class CostSettings(Settings):
    """A kind of price. With `per_client` every client has its own: the common one times its factor, ± `client_noise`."""

    per_client: list[float] | None = None
    client_noise: float | None = None

    @abstractmethod
    def process(self, folder: Path) -> CostProcess:
        """The common price; a trace lies relative to `folder`."""

    def build(self, folder: Path) -> CostProcess:
        common = self.process(folder)
        if self.per_client is None:
            if self.client_noise is not None:
                raise SettingError(f"cost.client_noise = {self.client_noise}: needs cost.per_client, a factor for each client")
            return common
        return hard_prices.PerClient(common, tuple(self.per_client), self.client_noise or 0.0)


class UniformCost(CostSettings):
    kind: Literal["uniform"]
    low: float
    high: float

    def process(self, folder: Path) -> CostProcess:
        return costs.Uniform(self.low, self.high)


class IntegerCost(CostSettings):
    kind: Literal["integer"]
    low: Whole
    high: Whole

    def process(self, folder: Path) -> CostProcess:
        return costs.UniformInteger(self.low, self.high)


class ConstantCost(CostSettings):
    kind: Literal["constant"]
    value: float

    def process(self, folder: Path) -> CostProcess:
        return costs.Constant(self.value)


class MarkovCost(CostSettings):
    kind: Literal["markov"]
    levels: list[float]
    transition: list[list[float]]

    def process(self, folder: Path) -> CostProcess:
        return costs.Markov(tuple(self.levels), tuple(tuple(row) for row in self.transition))


class SeasonalCost(CostSettings):
    kind: Literal["seasonal"]
    average: float
    amplitude: float
    period: float
    noise: float = 0.0

    def process(self, folder: Path) -> CostProcess:
        return costs.Seasonal(self.average, self.amplitude, self.period, self.noise)


class TraceCost(CostSettings):
    kind: Literal["trace"]
    file: str
    column: str = "cost"
    at_end: str = "stop"

    def process(self, folder: Path) -> CostProcess:
        """A relative path is relative to the recipe that names it."""
        return costs.read_trace(folder / self.file, self.column, self.at_end)


class BurstsCost(CostSettings):
    kind: Literal["bursts"]
    low: float
    high: float
    factor: float
    chance: float
    length: Whole

    def process(self, folder: Path) -> CostProcess:
        return hard_prices.Bursts(self.low, self.high, self.factor, self.chance, self.length)


class DriftCost(CostSettings):
    kind: Literal["drift"]
    first: float
    last: float
    rounds: Whole
    noise: float = 0.5

    def process(self, folder: Path) -> CostProcess:
        return hard_prices.Drift(self.first, self.last, self.rounds, self.noise)


class ParetoCost(CostSettings):
    kind: Literal["pareto"]
    low: float
    high: float
    tail: float

    def process(self, folder: Path) -> CostProcess:
        return hard_prices.Pareto(self.low, self.high, self.tail)


class SwitchesCost(CostSettings):
    kind: Literal["switches"]
    levels: list[float]
    lengths: list[Whole]
    repeat: bool = False

    def process(self, folder: Path) -> CostProcess:
        return hard_prices.Switches(tuple(self.levels), tuple(self.lengths), self.repeat)


COSTS: dict[str, type[CostSettings]] = {
    "uniform": UniformCost,
    "integer": IntegerCost,
    "constant": ConstantCost,
    "markov": MarkovCost,
    "seasonal": SeasonalCost,
    "trace": TraceCost,
    "bursts": BurstsCost,
    "drift": DriftCost,
    "pareto": ParetoCost,
    "switches": SwitchesCost,
}
