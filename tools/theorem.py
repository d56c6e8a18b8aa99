"""How far headgate stays below what nobody can exceed: the numbers of studies/theory/theorem.md.

python tools/theorem.py

Prices are even from 1 to 10, ten clients have 100 places, the budget is 55 a round. The distance to T·B̄·F(θ*) is measured by
the identity (I), whose parts do not depend on whether the prices of a seed were lucky. A second table compares with the most
that anybody who knows all prices could buy, also where prices are whole numbers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control import AdmissionPolicy, System
from headgate.control.policies import Clairvoyant, Headgate
from headgate.control.policy import PolicyContext
from headgate.control.prices import PriceProcess, Uniform, UniformInteger
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.theory.bound import BoundConstants

LOW, HIGH = 1.0, 10.0
HORIZONS, SEEDS = (300, 1000, 3000, 10_000, 30_000), 24
BUFFERS, BUDGET = np.array([8, 9, 10, 11, 12] * 2), 55.0


class Ceiling(NamedTuple):
    """The fixed limit that spends the budget on average, and what it buys a round."""

    limit: float
    samples: float


def ceiling(places: float, budget: float, low: float = LOW, high: float = HIGH) -> Ceiling:
    """For prices even from `low` to `high`: m(θ) = (θ² − low²)/2(high − low)."""
    limit = float(np.sqrt(low**2 + 2 * (high - low) * budget / places))
    assert low < limit < high, "money is not short"
    return Ceiling(limit, places * (limit - low) / (high - low))


def proven(places: float, budget: float, low: float = LOW, high: float = HIGH) -> tuple[float, int]:
    """κ₁ of the theorem, and the T from which κ₁·log T is less than all that can be bought."""
    limit, rate = ceiling(places, budget, low, high)
    kappa = 18 * places * (high - low) * high**2 / (limit * low**2)  # f₊/f₋² = high − low
    T = np.arange(2, 10**6)
    return kappa, int(T[kappa * np.log(T) < rate * T][0])


def short(price: NDArray[np.float64], bought: NDArray[np.int64], places: float, budget: float) -> NDArray[np.float64]:
    """What each run is short of the ceiling, (R,), by the identity (I): wrong purchases, and money left."""
    limit = ceiling(places, budget).limit
    worth = 1 - price / limit
    wrong = (places * np.maximum(worth, 0.0) - bought * worth).sum(axis=-1)
    return np.asarray(wrong + (budget * price.shape[-1] - (price * bought).sum(axis=-1)) / limit)


def played(policy: AdmissionPolicy, prices: PriceProcess, budget: float, rounds: int, seeds: int) -> Rehearsal:
    system, runs = System(BUFFERS, budget, rounds), np.arange(seeds)
    return rehearse(
        system, policy.resolved(PolicyContext(system, prices, BoundConstants(), runs, rounds)), prices, runs, rounds
    )


def measured(policy: AdmissionPolicy, rounds: int, seeds: int, places: float | None = None) -> NDArray[np.float64]:
    """Of the ceiling of all places, or of those that a round may renew."""
    found = played(policy, Uniform(LOW, HIGH), BUDGET, rounds, seeds)
    return short(found.price, found.admitted, float(BUFFERS.sum()) if places is None else places, BUDGET)


def behind(policy: AdmissionPolicy, prices: PriceProcess, budget: float, rounds: int, seeds: int) -> NDArray[np.float64]:
    """How many samples fewer than the most that the prices of each seed allow, (R,)."""
    runs = (played(each, prices, budget, rounds, seeds) for each in (Clairvoyant(aim="samples"), policy))
    most, own = (run.admitted.sum(axis=-1) for run in runs)
    return np.asarray(most - own)


ATOMS: dict[str, tuple[PriceProcess, float]] = {
    "even from 1 to 10, C = 55": (Uniform(LOW, HIGH), 55.0),
    "whole numbers 1 to 10, C = 55": (UniformInteger(1, 10), 55.0),
    "whole numbers 1 to 10, C = 60": (UniformInteger(1, 10), 60.0),
}


POLICIES: dict[str, AdmissionPolicy] = {
    "headgate, all prices": Headgate(early=0.0),
    "the latest 256": Headgate(early=0.0, remember=256),
    "the latest 64": Headgate(early=0.0, remember=64),
    "all prices known": Clairvoyant(aim="samples", fill=8.0),
}


def main() -> None:
    print(f"samples short of T·B̄·F(θ*), mean of {SEEDS} seeds ± standard error, by T")
    for name, policy in POLICIES.items():
        print(f"{name}: " + "; ".join(f"{T:,}: {cell(measured(policy, T, SEEDS))}" for T in HORIZONS), flush=True)
    print("κ₁ = {:,.0f}; κ₁·log T is less than all that can be bought from T = {:,} on".format(*proven(BUFFERS.sum(), BUDGET)))
    print("samples of headgate short of the most that all prices known would buy, by T")
    for name, offer in ATOMS.items():
        cells = (f"{T:,}: {cell(behind(Headgate(early=0.0), *offer, T, SEEDS))}" for T in HORIZONS)
        print(f"{name}: " + "; ".join(cells), flush=True)


def cell(found: NDArray[np.float64]) -> str:
    return f"{found.mean():,.0f} ± {found.std(ddof=1) / np.sqrt(len(found)):.0f}"


if __name__ == "__main__":
    main()
