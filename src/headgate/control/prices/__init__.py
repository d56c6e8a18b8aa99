"""Price processes: the price of a sample in each round."""

from headgate.control.prices.processes import (
    Fixed,
    Markov,
    PerClient,
    PriceProcess,
    Switches,
    Uniform,
    rounds_of,
)
from headgate.control.prices.trace import Brent, Ercot, Trace

KINDS: dict[str, type[PriceProcess]] = {
    "uniform": Uniform,
    "constant": Fixed,
    "markov": Markov,
    "trace": Trace,
    "switches": Switches,
    "per-client": PerClient,
    "ercot": Ercot,
    "brent": Brent,
}
"""price processes by their names in recipes; `live` prices come as functions, files and
addresses, which a recipe cannot repeat"""

__all__ = [
    "KINDS",
    "Brent",
    "Ercot",
    "Fixed",
    "Markov",
    "PerClient",
    "PriceProcess",
    "Switches",
    "Trace",
    "Uniform",
    "rounds_of",
]
