"""Least mean age for the money: a place is renewed where the price is at most a limit
that rises with its age.

studies/theory/age.md proves that no rule holds younger samples where prices are
independent draws of one distribution. Here the distribution is that of the prices seen,
and every round sets the price of age so that the limits would spend the money left over
the rounds left.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted import wear
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.latest_prices import (
    remember,
    remembered,
    seen_prices,
    unseen,
)
from headgate.control.policies.budgeted.price_limit import spread
from headgate.control.policies.budgeted.purse import pace
from headgate.control.types import Arrays, Floats, System, View

STEPS = np.geomspace(0.25, 4.0, 9)
"""prices of age that are tried in a round, relative to the last round's"""
QUANTILES, IMPROVEMENTS = 128, 6
"""of the prices seen, that limits are made for; and rounds of policy iteration"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Age(BudgetedPolicy):
    """A place whose sample was used in `a` rounds before costs a^`power` a round: 1 is
    the mean age. One price for all.
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("power", self.power)

    def start(self, system: System, runs: int) -> Arrays:
        worn = wear.unused(runs, system.clients)
        used = {name: worn[name] for name in ("renewed", "admitted_before")}
        return {
            **super().start(system, runs),
            **unseen(runs),
            **used,
            "age_price": np.zeros(runs),
        }

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price, places = view.one_price(), self.places(view.system)
        memory = wear.observe(remember(memory, spread(view.price)[0]), view, places)
        spend = np.maximum(
            pace(view, self.overdraft) / places.sum(), np.finfo(np.float64).tiny
        )
        mean = np.maximum(
            memory["prices"].sum(axis=-1) / remembered(memory),
            np.finfo(np.float64).tiny,
        )
        guess = mean / np.maximum(mean / spend, 1.0) ** (1 + self.power)
        kappa = (
            np.where(memory["age_price"] > 0, memory["age_price"], guess)[:, None]
            * STEPS
        )
        place = (
            (np.arange(QUANTILES) + 0.5) / QUANTILES * remembered(memory)[:, None]
        ).astype(np.int64)
        quantiles = np.take_along_axis(
            np.sort(seen_prices(memory), axis=-1), place, axis=-1
        )
        tried = age_limits(quantiles, kappa, self.power)
        at, up = (
            np.arange(len(price)),
            np.clip((tried.spend < spend[:, None]).sum(axis=-1), 1, STEPS.size - 1),
        )
        low, high = tried.spend[at, up - 1], tried.spend[at, up]
        part = np.clip(
            np.divide(
                spend - low, high - low, out=np.ones_like(spend), where=high > low
            ),
            0.0,
            1.0,
        )
        limit = (
            tried.limit[at, up - 1] ** (1 - part[:, None])
            * tried.limit[at, up] ** part[:, None]
        )
        ages = np.minimum(wear.ages(memory["renewed"], view.t), wear.LONGEST) - 1
        share = (price[:, None] <= np.take_along_axis(limit, ages, axis=-1)).mean(
            axis=-1
        )
        return share, {
            **memory,
            "age_price": kappa[at, up - 1] ** (1 - part) * kappa[at, up] ** part,
        }


class AgeLimits(NamedTuple):
    """The rule that minimises κ·(mean of a^power) + spend, for every price of age κ
    that was tried.
    """

    limit: Floats
    """the highest price at which a place is renewed, by the rounds in which its sample
    was used, (R, K, LONGEST)
    """
    spend: Floats
    """money a round and place, (R, K)"""
    age: Floats
    """mean of a^power, (R, K)"""


def age_limits(prices: Floats, kappa: Floats, power: float = 1.0) -> AgeLimits:
    """By policy iteration, where each of `prices`, (R, Q) and ascending, is equally
    likely; `kappa` is (R, K).

    A place that is `wear.LONGEST` rounds old is renewed at any price.
    """
    (runs, count), tried, last = prices.shape, kappa.shape[-1], wear.LONGEST
    sums = (
        np.concatenate([np.zeros((runs, 1)), prices.cumsum(axis=-1)], axis=-1) / count
    )
    scale, run = (
        2 * np.maximum(prices[:, -1:], np.finfo(np.float64).tiny),
        np.arange(runs)[:, None],
    )
    ordered = (
        run + prices / scale
    ).ravel()  # of all runs, so that one search serves them all
    worth = np.arange(1, last + 1.0) ** power
    limit = np.full((runs, tried, last), np.median(prices, axis=-1)[:, None, None])
    limit[..., -1] = np.inf
    chance, cost = np.empty_like(limit), np.empty_like(limit)
    spend = age = np.zeros_like(kappa)
    for _ in range(1 + IMPROVEMENTS):
        paid = kappa * age + spend  # a round, on average
        for a in range(last - 1, -1, -1):
            if spend.any() and a < last - 1:
                missed = np.where(chance[..., a + 1] < 1, limit[..., a + 1], 0.0) * (
                    1.0 - chance[..., a + 1]
                )
                limit[..., a] = np.maximum(
                    kappa * worth[a] - paid + cost[..., a + 1] + missed, 0.0
                )
            below = ordered.searchsorted(
                (run + np.minimum(limit[..., a] / scale, 0.75)).ravel(), side="right"
            )
            below = below.reshape(runs, tried) - run * count
            chance[..., a], cost[..., a] = (
                below / count,
                np.take_along_axis(sums, below, axis=-1),
            )
        stays = np.cumprod(1.0 - chance, axis=-1)
        alive = np.concatenate([np.ones((runs, tried, 1)), stays[..., :-1]], axis=-1)
        length = alive.sum(axis=-1)
        spend, age = (
            (alive * cost).sum(axis=-1) / length,
            (stays * worth).sum(axis=-1) / length,
        )
    return AgeLimits(limit, spend, age)
