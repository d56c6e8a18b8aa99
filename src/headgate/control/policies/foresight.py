"""The clairvoyant reference as a policy, so that it can be run beside the others. Nobody could use it."""

from dataclasses import dataclass
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
    """Follows the best purchases for the prices of these seeds; a run is known by its prices.

    While several seeds' prices have been the same so far, the first one's plan is followed.
    """

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
        return clairvoyant(self.prices, self.system, self.bound)

    @cached_property
    def _levels(self) -> Ints:
        return np.cumsum(self.plan.purchases, axis=-1)

    def start(self, system: System, runs: int) -> Arrays:
        return {**super().start(system, runs), "like": np.ones((runs, len(self.seeds)), dtype=bool)}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        if view.t > self.rounds:
            raise SettingError(f"rounds = {self.rounds}: the plan ends there, round {view.t} was asked for")
        like = memory["like"] & (self.prices[:, view.t - 1] == view.price()[:, None])
        if not np.all(like.any(axis=-1)):
            raise SettingError(f"round {view.t}: the plan was made for other prices")
        wanted = self._levels[like.argmax(axis=-1), view.t - 1] - view.distinct
        return np.clip(wanted / self.places(view.system).sum(), 0.0, 1.0), {**memory, "like": like}
