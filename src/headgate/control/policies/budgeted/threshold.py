"""A fixed price limit from a known price distribution: buy all places at or below it, none above."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from headgate.control.checks import zero_or_more
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import Edge, edge_of
from headgate.control.policy import PolicyContext
from headgate.control.prices import PriceProcess
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import SettingError

DRAWS = 1 << 17
"""prices from which a distribution is read off"""
OTHERS = 1 << 31
"""first seed of those draws: the distribution is known, the run's own prices are not"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Threshold(BudgetedPolicy):
    """`limit` is the highest price at which to buy, `share` the part of the places bought at exactly this price.

    A limit that is left out, and its share, are those at which the expected spend is C·T.
    """

    limit: float | None = field(default=None, metadata={"infinite": True})
    share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None:
            zero_or_more("limit", self.limit if self.limit != np.inf else 0.0)
        if not 0 <= self.share <= 1:
            raise SettingError(f"share = {self.share}: must lie between 0 and 1")

    def resolved(self, given: PolicyContext) -> Self:
        if self.limit is not None:
            return self
        fill = self.most_in_first_round(given.system) if self.fill else 0.0
        limit, share = known_edge(given.prices, given.system, given.rounds, fill)
        return replace(self, limit=limit, share=share)

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        runs = view.debt.shape
        return Edge(np.full(runs, self.required("limit")), np.full(runs, self.share)).wanted(view.price), memory


def known_edge(prices: PriceProcess, system: System, rounds: int, fill: float = 0.0) -> tuple[float, float]:
    """(limit, share) at which the expected spend of all rounds is C·T, with at most `fill` of it in round 1 at any price."""
    seeds = OTHERS + np.arange(max(1, DRAWS // rounds), dtype=np.int64)
    seen = np.sort(prices.path(seeds, 1, rounds + 1).ravel())[None]
    money, memory = system.budget * rounds, float(system.memory)
    if fill and rounds > 1:
        filling = min(memory * prices.mean(rounds), fill)
        spend = (money - filling) / (rounds - 1) / memory
    else:
        spend = system.budget / memory
    limit, share = edge_of(seen, np.array([seen.size]), np.array([spend]))
    return float(limit[0]), float(share[0])
