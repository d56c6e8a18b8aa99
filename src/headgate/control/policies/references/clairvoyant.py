"""The clairvoyant reference, which knows all prices and buys the most samples that the money can. Nobody could use it."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policy import PolicyContext
from headgate.control.types import Arrays, Floats, Ints, System, View
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False, kw_only=True)
class Clairvoyant(BudgetedPolicy):
    """Buys whole buffers at the lowest of the prices of these seeds: run r is that of the r-th seed."""

    fill: float = 0.0
    given: PolicyContext | None = field(default=None, metadata={"setting": False})
    """the experiment whose prices it knows"""

    def resolved(self, given: PolicyContext) -> Self:
        return replace(self, given=given)

    @property
    def known(self) -> PolicyContext:
        if self.given is None:
            raise SettingError("Clairvoyant: knows no prices yet; headgate.load, or `resolved`, tells it")
        return self.given

    @cached_property
    def path(self) -> Floats:
        """All prices, (seeds, rounds)."""
        return self.known.prices.path(self.known.seeds, 1, self.known.rounds + 1)

    @cached_property
    def _levels(self) -> Ints:
        """How many are bought up to each round, (seeds, rounds)."""
        system = self.known.system
        fill = self.most_in_first_round(system) if self.fill else 0.0
        return np.cumsum([cheapest_first(own, system, fill) for own in self.path], axis=-1)

    def start(self, system: System, runs: int) -> Arrays:
        if runs > len(self.known.seeds):
            raise SettingError(f"seeds = {len(self.known.seeds)}: there is no plan for the others of {runs} runs")
        return super().start(system, runs)

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        if view.t > self.known.rounds:
            raise SettingError(f"rounds = {self.known.rounds}: the plan ends there, round {view.t} was asked for")
        price = view.one_price()
        runs = len(price)
        if not np.array_equal(self.path[:runs, view.t - 1], price):
            raise SettingError(f"round {view.t}: the plan was made for other prices")
        wanted = self._levels[:runs, view.t - 1] - view.admitted
        return np.clip(wanted / self.places(view.system).sum(), 0.0, 1.0), memory


def cheapest_first(prices: Floats, system: System, fill: float = 0.0) -> Ints:
    """Whole buffers in the cheapest of these rounds until the money C·T is spent, (T,), after `fill` of it in the first."""
    money, bought = system.budget * len(prices), np.zeros(len(prices), dtype=np.int64)
    order = np.argsort(prices, kind="stable")
    if fill:
        order = np.concatenate([[0], order[order != 0]])
    for t in order:
        most = min(money, fill) if fill and t == 0 else money
        bought[t] = system.memory if prices[t] <= 0 else min(system.memory, int(max(most, 0.0) / prices[t]))
        money -= bought[t] * prices[t]
    return bought
