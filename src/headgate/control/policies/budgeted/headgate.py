"""Headgate: fill the buffers, then buy whole buffers at low prices, as low as the money left allows.

A model's error falls like N^(−1/2) with the number N of distinct samples, so what is bought cheaply helps more for the money.
The money is spent evenly, or leaning to early rounds, where a sample helps for longer. docs/understand/headgate.md
derives the rule and both paces.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import a_share, zero_or_more
from headgate.control.policies.budgeted import all_prices, latest_prices, wear
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import spread, todays
from headgate.control.policies.budgeted.purse import pace, rounds_left
from headgate.control.policy import PolicyContext
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import require

MOST_REMEMBERED = 100_000
SHORT = 256
"""rounds of a run that buys shares at the limit as they are: whole purchases come in lumps, which cost short runs accuracy"""
FOR_NETS = 0.25, 5.0
"""smooth and ahead"""


@cache
def _early_path() -> tuple[Floats, Floats]:
    """(time, money spent), both from 0 to 1, that minimise ∫N^(−1/2) where money m a round buys √m samples.

    Euler–Lagrange: m ∝ N^(−1/2) − N(T)^(−1/2); with N = sin⁴φ it integrates in closed form.
    """
    angle = np.linspace(0.0, np.pi / 2, 513)
    time = 16 / (3 * np.pi) * (3 * angle / 8 - np.sin(2 * angle) / 4 + np.sin(4 * angle) / 32)
    money = 16 / np.pi * (angle / 8 - np.sin(4 * angle) / 32)
    return time, money


@dataclass(frozen=True, eq=False, kw_only=True)
class Headgate(BudgetedPolicy):
    """Needs budget, buffers and the horizon, or none. Learns the prices as they come."""

    early: float = 0.0
    """0: the error of the last round alone counts; 1: the mean over all rounds. A known horizon is needed to lean"""
    turnover: float = 1.0
    """the share of the places that a round may renew, once the buffers are full"""
    smooth: float | None = None
    """above 0: old places sooner, and few at a time, the more so the higher; 0: whole buffers at the lowest prices. Left out:
    0 for linear models, where the number of distinct samples says all, and 0.25 for nets, which overfit buffers that stand
    still; 0 where no model is known"""
    ahead: float | None = None
    """rounds' budgets by which the spend may be ahead of its pace. Left out: 5 for nets, so that their buffers never stand
    still for want of money where prices wander; no limit for linear models, and where no model or no end is known"""
    remember: int | Literal["all"] = "all"
    """prices: how many of the latest. All, where prices keep to one distribution; some, where they drift"""

    def __post_init__(self) -> None:
        super().__post_init__()
        a_share("early", self.early)
        require(0 < self.turnover <= 1, "turnover", self.turnover, "above 0 and at most 1")
        a_share("smooth", self.smooth, optional=True)
        zero_or_more("ahead", self.ahead, optional=True)
        known = self.remember == "all" or 1 <= self.remember <= MOST_REMEMBERED
        require(known, "remember", self.remember, f"all, or from 1 to {MOST_REMEMBERED:,}")

    def resolved(self, given: PolicyContext) -> Self:
        """What was left out and goes by the model: docs/studies/better.md has what it was chosen by."""
        smooth, ahead = (0.0, None) if given.linear else FOR_NETS
        return replace(
            self, smooth=smooth if self.smooth is None else self.smooth, ahead=ahead if self.ahead is None else self.ahead
        )

    def start(self, system: System, runs: int) -> Arrays:
        if self.remember == "all":
            seen = all_prices.unseen(runs)
        elif self.smooth:
            seen = latest_prices.unseen(runs, self.remember * wear.PARTS, costs=True)
        else:
            seen = latest_prices.unseen(runs, self.remember)
        worn = wear.unused(runs, system.clients) if self.smooth else {}
        first = {} if self.ahead is None else {"first": np.zeros(runs)}
        return {**super().start(system, runs), **seen, **worn, **first, "even": np.zeros(runs)}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        """Of the places that may be renewed, all where the price is below the limit, and never behind an even spend."""
        if self.ahead is not None and view.t == 2:
            memory = {**memory, "first": view.spent}
        prices = all_prices if self.remember == "all" else latest_prices
        places = self.places(view.system)
        renewed = self.turnover * self.all_places(view.system)
        if self.smooth:
            memory = wear.observe(memory, view, places)
            felt = wear.felt(memory, view.price, view.t, self.smooth)
            memory = prices.remember(memory, *spread(felt, view.price))
            spend = self.allowed(view, memory) / renewed
            if view.price.ndim == 2:
                share = prices.deserved(memory, felt, spend)
            else:
                share = np.mean([prices.deserved(memory, part, spend) for part in felt.T], axis=0)
        else:
            before, memory = memory, prices.remember(memory, todays(view))
            share = prices.deserved(memory, view.price, self.allowed(view, memory) / renewed)
        bundle = view.price if view.price.ndim == 1 else (view.price * places).sum(axis=-1) / self.all_places(view.system)
        buys = np.divide(view.system.budget, bundle, out=np.full_like(bundle, np.inf), where=bundle > 0)
        even = memory["even"] + np.minimum(buys, renewed)
        lead = (view.admitted - even) / renewed
        if not self.smooth and (view.system.horizon or view.t) > SHORT:
            again = prices.holds(before, _price_at_limit(view.price, share))
            share = _all_or_nothing(share, again, lead, min(view.t, rounds_left(view)))
            if rounds_left(view) == 1:  # money that is left after the last round is lost
                share = np.ones_like(share)
        floor = np.clip(-lead, 0.0, 1.0)
        return self.turnover * np.maximum(share, floor if view.price.ndim == 1 else floor[:, None]), {**memory, "even": even}

    def spending_limit(self, view: View, memory: Arrays) -> Floats:
        """Not more than `ahead` allows after round 1, which may fill the buffers."""
        most, horizon = super().spending_limit(view, memory), view.system.horizon
        if self.ahead is None or horizon is None or view.t == 1:
            return most
        first, begun = memory["first"], self._spent_by(1 / horizon)
        share = (self._spent_by(view.t / horizon) - begun) / (1.0 - begun) if begun < 1 else 1.0
        return np.minimum(most, first + share * (most - first) + self.ahead * view.system.budget)

    def allowed(self, view: View, memory: Arrays) -> Floats:
        """The money for this round: what is left, by the rounds' weights in the pace. `memory` is for who follows another."""
        horizon = view.system.horizon
        if horizon is None:
            return pace(view, self.overdraft)
        before, after = (self._spent_by(t / horizon) for t in (view.t - 1, view.t))
        weight = (after - before) / (1.0 - before) if before < 1 else 1.0
        return np.asarray(weight * np.maximum(view.system.money(view.t, self.overdraft) - view.spent, 0.0))

    def _spent_by(self, time: float) -> float:
        early = float(np.interp(time, *_early_path())) if self.early else 0.0
        return (1 - self.early) * time + self.early * early


def _price_at_limit(price: Floats, share: Floats) -> Floats:
    """The price of which a part is bought, (R,); any other where there is none."""
    if price.ndim == 1:
        return price
    return np.take_along_axis(price, ((share > 0) & (share < 1)).argmax(axis=-1)[:, None], axis=-1)[:, 0]


def _all_or_nothing(share: Floats, again: NDArray[np.bool_], lead: Floats, rounds: float) -> Floats:
    """The shares, (R,) or (R, M), with those near 0 and 1 rounded.

    Where prices take few values, a share at the limit in every round loses √T samples if the budget pays for all of some prices
    and for nothing else. Near is a half at a price that is new, and less at one that came before, the more rounds are known
    and left. Nothing is bought only where that leaves at least one purchase of all places before the floor.
    """
    near, ahead = np.where(again, min(0.5, 2 * rounds**-0.25), 0.5), lead >= 1
    if share.ndim == 2:
        near, ahead = near[:, None], ahead[:, None]
    return np.where(share >= 1 - near, 1.0, np.where(ahead & (share < near), 0.0, share))
