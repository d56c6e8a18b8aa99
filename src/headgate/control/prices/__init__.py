"""Price processes: the price of a sample in each round."""

from headgate.control.prices.processes import (
    Bursts,
    Drift,
    Fixed,
    Markov,
    Pareto,
    PerClient,
    PriceProcess,
    Seasonal,
    Switches,
    Uniform,
    UniformInteger,
    rounds_of,
)
from headgate.control.prices.trace import Brent, Ercot, Trace

KINDS: dict[str, type[PriceProcess]] = {
    "uniform": Uniform,
    "integer": UniformInteger,
    "constant": Fixed,
    "markov": Markov,
    "seasonal": Seasonal,
    "trace": Trace,
    "bursts": Bursts,
    "drift": Drift,
    "pareto": Pareto,
    "switches": Switches,
    "per-client": PerClient,
    "ercot": Ercot,
    "brent": Brent,
}
"""price processes by their names in recipes"""

__all__ = [
    "KINDS",
    "Brent",
    "Bursts",
    "Drift",
    "Ercot",
    "Fixed",
    "Markov",
    "Pareto",
    "PerClient",
    "PriceProcess",
    "Seasonal",
    "Switches",
    "Trace",
    "Uniform",
    "UniformInteger",
    "rounds_of",
]
