"""The clairvoyant reference as a policy, so that it can be run beside the others. Nobody could use it."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from headgate.control.clairvoyant import Foresight, clairvoyant
from headgate.control.costs import CostProcess
from headgate.control.policies.buyer import Buyer
from headgate.control.types import Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
from headgate.theory.bound import BoundConstants


@dataclass(frozen=True, eq=False, kw_only=True)
class Clairvoyant(Buyer):
    """Follows the best purchases for the prices of these seeds: run r is that of the r-th seed."""

    costs: CostProcess
    seeds: Ints
    rounds: int
    system: System
    bound: BoundConstants
    fill: bool = False

    @cached_property
    def prices(self) -> Floats:
        return self.costs.path(self.seeds, 1, self.rounds + 1)

    @cached_property
    def plan(self) -> Foresight:
        """Each run planned by itself: together they share a convex minorant, which reaches as far as the longest needs."""
        plans = [clairvoyant(own, self.system, self.bound) for own in self.prices[:, None]]
        return Foresight(**{f.name: np.concatenate([getattr(plan, f.name) for plan in plans]) for f in fields(Foresight)})

    @cached_property
    def _levels(self) -> Ints:
        return np.cumsum(self.plan.purchases, axis=-1)

    def start(self, system: System, runs: int) -> Arrays:
        if runs > len(self.seeds):
            raise SettingError(f"seeds = {len(self.seeds)}: foresight has no plan for the others of {runs} runs")
        return super().start(system, runs)

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        if view.t > self.rounds:
            raise SettingError(f"rounds = {self.rounds}: the plan ends there, round {view.t} was asked for")
        price = view.price()
        runs = len(price)
        if not np.array_equal(self.prices[:runs, view.t - 1], price):
            raise SettingError(f"round {view.t}: the plan was made for other prices")
        wanted = self._levels[:runs, view.t - 1] - view.distinct
        return np.clip(wanted / self.places(view.system).sum(), 0.0, 1.0), memory
