"""RCCDA's rule: renew all places when the loss has risen enough to outweigh how often
that was done before.

Piaseczny, Shisher, Wang and Brinton, *RCCDA: Adaptive Model Updates in the Presence of
Concept Drift under a Constrained Resource Budget*, NeurIPS 2025 (arXiv 2505.24149).
There a model is updated, u = 1, where

    V·[K_p·(ℓ − ℓ_best) + K_d·(ℓ − ℓ_prev)] > Q + ½ − π̄,    Q ← [Q + u − π̄]⁺,

with ℓ the loss of the newest data under the present model, ℓ_best the least so far,
ℓ_prev that of the round before, Q a queue of updates and π̄ how often updates may
happen. Here an update renews all places at the price of the day, the purse is hard, and
round 1, which fills the buffers, is the first one. A look at new data is not free, so
in the other rounds a `probe` is bought; ℓ is the loss of what was bought in the round
before, and stays as it was where nothing was.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from headgate.control.policies.budgeted import alert
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policy import PolicyContext
from headgate.control.types import Arrays, Floats, System, View

UNHEARD = -1.0
"""in place of a loss, before the first"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rccda(BudgetedPolicy):
    """Where nothing is heard, as in a rehearsal, it buys its probes alone."""

    listens: ClassVar[bool] = True
    V: float = 10.0
    """how much the loss counts beside the queue; theirs are 10 to 65"""
    proportional: float = 1.0
    """K_p; theirs are 1 to 5"""
    derivative: float = 1.0
    """K_d; theirs are 0.1 to 1"""
    rate: float | None = None
    """π̄, renewals a round; left out: those that spend the budget at the mean price,
    probes included
    """
    probe: float = 0.01
    """the share of the places that is bought in rounds without a renewal, to hear of
    new samples
    """

    def resolved(self, given: PolicyContext) -> Self:
        if self.rate is not None:
            return self
        bought = given.system.budget / (
            given.mean_price * float(self.places(given.system).sum())
        )
        return replace(
            self, rate=min(max((bought - self.probe) / (1 - self.probe), 0.0), 1.0)
        )

    def start(self, system: System, runs: int) -> Arrays:
        own = {
            "queue": np.zeros(runs),
            "loss": np.full(runs, UNHEARD),
            "least_loss": np.full(runs, UNHEARD),
        }
        return {
            **super().start(system, runs),
            **own,
            "heard_until": np.zeros(runs, dtype=np.int64),
        }

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        rate, before, least, queue = (
            self.required("rate"),
            memory["loss"],
            memory["least_loss"],
            memory["queue"],
        )
        heard, count, memory = alert.heard(view, memory)
        first = before == UNHEARD
        loss = np.where(count > 0, heard, before)
        before = np.where(first, loss, before)
        least = np.where(first, loss, np.minimum(least, loss))
        risen = self.V * (
            self.proportional * (loss - least) + self.derivative * (loss - before)
        )
        renew = (risen > queue + 0.5 - rate) | (
            view.t == 1 and self.money_to_fill(view.system) > 0
        )
        queue = np.maximum(queue + renew - rate, 0.0)
        share = np.where(renew, 1.0, self.probe)
        if view.price.ndim == 2:
            share = np.repeat(share[:, None], view.price.shape[1], axis=1)
        return share, {**memory, "queue": queue, "loss": loss, "least_loss": least}
