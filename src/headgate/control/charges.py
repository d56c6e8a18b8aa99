"""What an order costs: its price times its samples, rounded to a quantum if there is
one, as an invoice is.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.errors import SettingError
from headgate.escaping import shown

MOST_DECIMALS = 9
"""the most decimals of a quantum"""
NEAR = 1e-9, 1e-12
"""distance to half a quantum, plus this share of the quanta, below which only exact
arithmetic tells how to round
"""
EXACT = Context(prec=1_000)


def decimals_of(quantum: float) -> int:
    """Return the decimals of a quantum, which must be 1, 0.1, 0.01 and so on.

    >>> decimals_of(0.01)
    2
    """
    for decimals in range(MOST_DECIMALS + 1):
        if quantum == float(f"1e-{decimals}"):
            return decimals
    raise SettingError(
        f"system.quantum = {shown(quantum)}: must be 1, 0.1, 0.01 or another power of"
        " ten"
    )


def checked_quantum(quantum: float) -> float:
    """Return a quantum as a float; SettingError is raised if it is none."""
    return float(f"1e-{decimals_of(quantum)}")


def exactly(
    price: float,
    samples: int,
    quantum: float | None = None,
) -> Decimal:
    """Return the exact cost of an order; half a quantum is rounded to the even one.

    >>> exactly(0.0763, 43), exactly(0.0763, 43, 0.01), exactly(1.005, 1, 0.01)
    (Decimal('3.2809'), Decimal('3.28'), Decimal('1.00'))
    """
    cost = EXACT.multiply(Decimal(repr(float(price))), Decimal(int(samples)))
    if quantum is None:
        return cost
    step = Decimal(1).scaleb(-decimals_of(quantum))
    return cost.quantize(step, ROUND_HALF_EVEN, EXACT)


def costs(
    price: ArrayLike,
    samples: ArrayLike,
    quantum: float | None = None,
) -> NDArray[np.float64]:
    """Return the costs of orders as floats, those nearest to the exact ones.

    >>> costs([0.0763, 1.005, 1.015], [43, 1, 1], 0.01).tolist()
    [3.28, 1.0, 1.02]
    """
    prices, counts = np.broadcast_arrays(np.asarray(price, np.float64), samples)
    cost = np.asarray(prices * counts)
    if quantum is None:
        return cost
    decimals = decimals_of(quantum)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.asarray(np.round(cost, decimals))
        scaled = cost * 10.0**decimals
        apart = np.abs(scaled - np.floor(scaled) - 0.5)
        clear = apart > NEAR[0] + NEAR[1] * scaled
    for place in np.argwhere(~clear).tolist():
        at = tuple(place)
        rounded[at] = float(exactly(float(prices[at]), int(counts[at]), quantum))
    return rounded
