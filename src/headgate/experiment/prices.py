"""The section `[cost]`: one model for each kind of price."""

from abc import abstractmethod
from pathlib import Path
from typing import Literal

from headgate.control.prices import hard, processes
from headgate.control.prices.processes import PriceProcess
from headgate.errors import SettingError
from headgate.experiment.settings import Settings, Whole


class CostSettings(Settings):
    """A kind of price. With `per_client` every client has its own: the common one times its factor, ± `client_noise`."""

    per_client: list[float] | None = None
    client_noise: float | None = None

    @abstractmethod
    def process(self, folder: Path) -> PriceProcess:
        """The common price; a trace lies relative to `folder`."""

    def build(self, folder: Path) -> PriceProcess:
        common = self.process(folder)
        if self.per_client is None:
            if self.client_noise is not None:
                raise SettingError(f"cost.client_noise = {self.client_noise}: needs cost.per_client, a factor for each client")
            return common
        return hard.PerClient(common, tuple(self.per_client), self.client_noise or 0.0)


class UniformCost(CostSettings):
    kind: Literal["uniform"]
    low: float
    high: float

    def process(self, folder: Path) -> PriceProcess:
        return processes.Uniform(self.low, self.high)


class IntegerCost(CostSettings):
    kind: Literal["integer"]
    low: Whole
    high: Whole

    def process(self, folder: Path) -> PriceProcess:
        return processes.UniformInteger(self.low, self.high)


class ConstantCost(CostSettings):
    kind: Literal["constant"]
    value: float

    def process(self, folder: Path) -> PriceProcess:
        return processes.Constant(self.value)


class MarkovCost(CostSettings):
    kind: Literal["markov"]
    levels: list[float]
    transition: list[list[float]]

    def process(self, folder: Path) -> PriceProcess:
        return processes.Markov(tuple(self.levels), tuple(tuple(row) for row in self.transition))


class SeasonalCost(CostSettings):
    kind: Literal["seasonal"]
    average: float
    amplitude: float
    period: float
    noise: float = 0.0

    def process(self, folder: Path) -> PriceProcess:
        return processes.Seasonal(self.average, self.amplitude, self.period, self.noise)


class TraceCost(CostSettings):
    kind: Literal["trace"]
    file: str
    column: str = "cost"
    at_end: str = "stop"

    def process(self, folder: Path) -> PriceProcess:
        """A relative path is relative to the recipe that names it."""
        return processes.read_trace(folder / self.file, self.column, self.at_end)


class BurstsCost(CostSettings):
    kind: Literal["bursts"]
    low: float
    high: float
    factor: float
    chance: float
    length: Whole

    def process(self, folder: Path) -> PriceProcess:
        return hard.Bursts(self.low, self.high, self.factor, self.chance, self.length)


class DriftCost(CostSettings):
    kind: Literal["drift"]
    first: float
    last: float
    rounds: Whole
    noise: float = 0.5

    def process(self, folder: Path) -> PriceProcess:
        return hard.Drift(self.first, self.last, self.rounds, self.noise)


class ParetoCost(CostSettings):
    kind: Literal["pareto"]
    low: float
    high: float
    tail: float

    def process(self, folder: Path) -> PriceProcess:
        return hard.Pareto(self.low, self.high, self.tail)


class SwitchesCost(CostSettings):
    kind: Literal["switches"]
    levels: list[float]
    lengths: list[Whole]
    repeat: bool = False

    def process(self, folder: Path) -> PriceProcess:
        return hard.Switches(tuple(self.levels), tuple(self.lengths), self.repeat)


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
