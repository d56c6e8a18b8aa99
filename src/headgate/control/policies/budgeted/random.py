"""Whole buffers at random rounds, whatever they cost: what a policy must beat to be worth its name."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policy import PolicyContext
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Arrays, Floats, View
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False, kw_only=True)
class Random(BudgetedPolicy):
    """Each round a coin: with `chance` all places are bought. C/(c̄·B̄) spends the budget on average.

    Coins are addressed by seed, round and the bits of the price, so that runs with other prices have
    other coins and each is the same in any batch.
    """

    chance: float | None = None
    """left out: the one that spends the budget on average"""
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chance is not None and not 0 <= self.chance <= 1:
            raise SettingError(f"chance = {self.chance}: must be a probability")

    def resolved(self, given: PolicyContext) -> Self:
        spends_all = min(1.0, given.system.budget / (given.mean_price * given.system.memory))
        return replace(self, chance=spends_all if self.chance is None else self.chance)

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        bits = view.one_price().view(np.uint64)
        folded = ((bits >> np.uint64(32)) ^ bits) & np.uint64(0xFFFFFFFF)
        coin = uniform(self.seed, Purpose.ADMISSION, view.t, folded.astype(np.int64))
        return (coin < self.required("chance")).astype(np.float64), memory
