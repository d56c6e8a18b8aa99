"""headgate without one of its parts that no setting switches off."""

from dataclasses import dataclass

import numpy as np

from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.policies.budgeted.price_limit import spread
from headgate.control.types import Arrays, Floats, View


@dataclass(frozen=True, eq=False, kw_only=True)
class Unfloored(Headgate):
    """It may fall behind an even spend: the floor is 0."""

    def _evenly(self, view: View, renewed: float) -> Floats:
        return np.zeros_like(view.spent)


@dataclass(frozen=True, eq=False, kw_only=True)
class Unrounded(Headgate):
    """In runs of any length it buys shares of the places: none is rounded."""

    def _share(
        self, view: View, memory: Arrays, renewed: float, lead: Floats
    ) -> tuple[Floats, Arrays]:
        after = self._prices.remember(memory, spread(view.price)[0])
        spend = self.allowed(view, after) / renewed
        return self._prices.deserved(after, view.price, spend), after
