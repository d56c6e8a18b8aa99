"""How far each policy is from the least surrogate cost that its prices and its money allow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from headgate.control import policies as kinds
from headgate.control.policies.references.foresight import foresee
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.prices import Markov, PriceProcess, Seasonal, Uniform
from headgate.control.prices.processes import Bursts, Drift, Pareto, Switches
from headgate.control.rehearse import rehearse
from headgate.control.types import Floats, Ints, System
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import optimal_K
from studies.pages import table
from studies.zoo.lookahead import Lookahead
from studies.zoo.pi import PI


@dataclass(frozen=True)
class RegretRow:
    """One policy under one kind of price; means over the runs."""

    prices: str
    policy: str
    spend_per_round: float
    overspending_runs: int
    """runs whose own total is above the money"""
    peak_excess: int
    """largest n_m(t) − B_m of any client, round and run"""
    distinct: float
    surrogate: float
    """Σ p(t)"""
    ratio: float
    """surrogate over the clairvoyant bound"""
    worst: float
    """the largest ratio of any run"""
    bound: float
    """Ē_T of Theorem 1, which counts how unevenly samples are used, as the surrogate does not"""


def trying_prices(rounds: int) -> dict[str, PriceProcess]:
    """Prices between about 1 and 10, as the paper's, that behave in all the ways that prices do."""
    half = max(1, rounds // 2)
    return {
        "uniform": Uniform(1, 10),
        "markov": Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9))),
        "seasonal": Seasonal(5.5, 3.5, max(2, rounds // 10), 1.0),
        "drift up": Drift(3, 8, rounds),
        "drift down": Drift(8, 3, rounds),
        "bursts": Bursts(1, 6, 5, 0.02, 10),
        "heavy tails": Pareto(1, 100, 1.2),
        "cheap, then dear": Switches((1.0, 10.0), (half, half)),
        "dear, then cheap": Switches((10.0, 1.0), (half, half)),
        "dear, cheap at last": Switches((10.0, 1.0), (rounds - max(1, rounds // 10), max(1, rounds // 10))),
        "alternating": Switches((10.0, 1.0), (max(1, rounds // 40),) * 2, repeat=True),
    }


def contenders(given: PolicyContext) -> dict[str, AdmissionPolicy]:
    """All policies that need no tuning; `constant`, `threshold` and `random` know the distribution of the prices."""
    best = optimal_K(given.mean_price, given.system.buffer, given.system.budget)[0]
    named = {
        "headgate": kinds.Headgate(),
        "headgate, early 0.25": kinds.Headgate(early=0.25),
        "headgate, early 1": kinds.Headgate(early=1.0),
        "threshold": kinds.Threshold(),
        "resolving": kinds.Resolving(),
        "pacing": kinds.Pacing(),
        "lookahead": Lookahead(),
        "pi": PI(),
        "bucket": kinds.Bucket(),
        "random": kinds.Random(),
        "constant": kinds.Constant(rate=best.rate, K=best.K),
    }
    return {name: policy.resolved(given) for name, policy in named.items()}


def regret_table(
    system: System,
    k: BoundConstants,
    seeds: Ints,
    rounds: int,
    processes: Mapping[str, PriceProcess] | None = None,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> list[RegretRow]:
    """Every contender under every kind of price, each against the clairvoyant bound of its own runs.

    `tick` is called with how many kinds are done, and how many there are.
    """
    table, tried = [], processes or trying_prices(rounds)
    for done, (name, costs) in enumerate(tried.items()):
        tick(done, len(tried))
        least = _least(costs.path(seeds, 1, rounds + 1), system, k)
        for policy, member in contenders(PolicyContext(system, costs, k, seeds, rounds)).items():
            result = rehearse(system, member, costs, seeds, rounds)
            surrogate = result.penalty(k).sum(axis=-1)
            table.append(
                RegretRow(
                    prices=name,
                    policy=policy,
                    spend_per_round=float(result.spend.mean()),
                    overspending_runs=int((result.spend.sum(axis=-1) > system.budget * rounds * (1 + 1e-12)).sum()),
                    peak_excess=int(result.peak_excess.max()),
                    distinct=float(result.N[:, -1].mean()),
                    surrogate=float(surrogate.mean()),
                    ratio=float((surrogate / least).mean()),
                    worst=float((surrogate / least).max()),
                    bound=float(result.bound(k).sum(axis=-1).mean()),
                )
            )
    return table


def _least(prices: Floats, system: System, k: BoundConstants) -> Floats:
    """The clairvoyant bound of each run; runs with the same prices are solved once."""
    distinct, which = np.unique(prices, axis=0, return_inverse=True)
    return foresee(distinct, system, k).bound[which.ravel()]


def as_text(rows: Sequence[RegretRow]) -> str:
    """The table in Markdown."""
    header = ["prices", "policy", "spend a round", "overspent", "peak n_m − B_m", "N", "Σ p(t)", "to clairvoyant", "worst run"]
    formats = ("", "", ".2f", "", "", ".0f", ".4g", ".3f", ".3f", ".4g")
    lines = [[f"{value:{shape}}" for value, shape in zip(astuple(row), formats, strict=True)] for row in rows]
    return table([*header, "Ē_T"], lines)
