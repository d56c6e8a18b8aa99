"""Headgate: fill the buffers, then buy whole buffers at the lowest prices that use up
the money left.

A model's error falls like N^(−1/2) with the number N of distinct samples, so the same
money helps more at low prices. The money is spent evenly, or with more in early rounds,
where a sample helps for longer. docs/understand/headgate.md derives the rule and both
paces.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import a_share, zero_or_more
from headgate.control.policies.budgeted import all_prices, latest_prices, wear
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import spread
from headgate.control.policies.budgeted.purse import pace, rounds_left
from headgate.control.policy import PolicyContext
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import require

MOST_REMEMBERED = 100_000
SHORT = 256
"""length in rounds up to which a run buys fractional shares of the places: whole
purchases would cost short runs accuracy
"""
LONG_FILL = 3.0
"""default of `fill` in longer runs: filling at a high first price costs samples, and
early samples count for less there
"""
FOR_NETS = 0.25, 5.0
"""default values of `smooth` and `ahead` for models that are not linear"""


@cache
def _early_path() -> tuple[Floats, Floats]:
    """Return (time, money spent), both from 0 to 1, that minimise ∫N^(−1/2) if money m
    per round buys √m samples.

    The Euler–Lagrange equation gives m ∝ N^(−1/2) − N(T)^(−1/2), which has a closed
    integral with N = sin⁴φ.
    """
    angle = np.linspace(0.0, np.pi / 2, 513)
    time = (
        16
        / (3 * np.pi)
        * (3 * angle / 8 - np.sin(2 * angle) / 4 + np.sin(4 * angle) / 32)
    )
    money = 16 / np.pi * (angle / 8 - np.sin(4 * angle) / 32)
    return time, money


@dataclass(frozen=True, eq=False, kw_only=True)
class Headgate(BudgetedPolicy):
    """The recommended policy. It needs the budget, the buffers and, if known, the
    horizon, and learns prices as they arrive.

    Parameters
    ----------
    early : float, default 0.0
        0: minimise the error of the last round; 1: the mean error of all rounds. Values
        above 0 need a known horizon.
    turnover : float, default 1.0
        The largest share of the places that a round may renew, once the buffers are
        full.
    smooth : float, optional
        0: whole buffers at the lowest prices; the higher the value, the sooner old
        places are renewed and the fewer at a time. Left out: 0 for linear models, for
        which only the number of distinct samples counts, and if no model is known; 0.25
        for nets, which overfit buffers that do not change.
    ahead : float, optional
        Number of rounds' budgets by which the spend may exceed its pace. Left out: 5
        for nets, so that there is always money to renew their buffers if prices drift;
        no limit for linear models, and if no model or no end is known.
    remember : int or "all", default "all"
        Number of latest prices to remember. All suits prices with one distribution; a
        number suits prices that drift.
    """

    early: float = 0.0
    turnover: float = 1.0
    smooth: float | None = None
    ahead: float | None = None
    remember: int | Literal["all"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        a_share("early", self.early)
        require(
            0 < self.turnover <= 1, "turnover", self.turnover, "above 0 and at most 1"
        )
        a_share("smooth", self.smooth, optional=True)
        zero_or_more("ahead", self.ahead, optional=True)
        known = self.remember == "all" or 1 <= self.remember <= MOST_REMEMBERED
        require(
            known, "remember", self.remember, f"all, or from 1 to {MOST_REMEMBERED:,}"
        )

    def resolved(self, given: PolicyContext) -> Self:
        """Set `smooth` and `ahead`, if left out, by the kind of model.
        docs/studies/better.md explains the values.
        """
        smooth, ahead = (0.0, None) if given.linear else FOR_NETS
        return replace(
            self,
            smooth=smooth if self.smooth is None else self.smooth,
            ahead=ahead if self.ahead is None else self.ahead,
        )

    def start(self, system: System, runs: int) -> Arrays:
        if self.remember == "all":
            seen = all_prices.unseen(runs)
        else:
            seen = latest_prices.unseen(
                runs,
                self.remember * (wear.PARTS if self.smooth else 1),
                costs=bool(self.smooth),
            )
        worn = wear.unused(runs, system.clients) if self.smooth else {}
        first = {} if self.ahead is None else {"first": np.zeros(runs)}
        return {
            **super().start(system, runs),
            **seen,
            **worn,
            **first,
            "even": np.zeros(runs),
        }

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        """Return the share to renew: all that may be renewed below the price limit, and
        no less than an even spend buys.
        """
        if self.ahead is not None and view.t == 2:
            memory = {**memory, "first": view.spent}
        prices = all_prices if self.remember == "all" else latest_prices
        places = self.places(view.system)
        renewed = self.turnover * self.all_places(view.system)
        if self.smooth:
            memory = wear.observe(memory, view, places)
            felt = wear.felt(memory, view.price, view.t, self.smooth)
            memory = prices.remember(memory, *spread(view.price, felt))
            spend = self.allowed(view, memory) / renewed
            if view.price.ndim == 2:
                share = prices.deserved(memory, felt, spend)
            else:
                share = np.mean(
                    [prices.deserved(memory, part, spend) for part in felt.T], axis=0
                )
        else:
            before, memory = memory, prices.remember(memory, spread(view.price)[0])
            share = prices.deserved(
                memory, view.price, self.allowed(view, memory) / renewed
            )
        bundle = (
            view.price
            if view.price.ndim == 1
            else (view.price * places).sum(axis=-1) / self.all_places(view.system)
        )
        buys = np.divide(
            view.system.budget,
            bundle,
            out=np.full_like(bundle, np.inf),
            where=bundle > 0,
        )
        even = memory["even"] + np.minimum(buys, renewed)
        lead = (view.admitted - even) / renewed
        if not self.smooth and (view.system.horizon or view.t) > SHORT:
            again = prices.holds(before, _price_at_limit(view.price, share))
            share = _all_or_nothing(share, again, lead, min(view.t, rounds_left(view)))
            if (
                rounds_left(view) == 1
            ):  # money that remains after the last round is lost
                share = np.ones_like(share)
        floor = np.clip(-lead, 0.0, 1.0)
        return self.turnover * np.maximum(
            share, floor if view.price.ndim == 1 else floor[:, None]
        ), {**memory, "even": even}

    def spending_limit(self, view: View, memory: Arrays) -> Floats:
        """Return the most money that may be spent so far, limited by `ahead` after
        round 1, which may fill the buffers.
        """
        most, horizon = super().spending_limit(view, memory), view.system.horizon
        if self.ahead is None or horizon is None or view.t == 1:
            return most
        first, begun = memory["first"], self._spent_by(1 / horizon)
        share = (
            (self._spent_by(view.t / horizon) - begun) / (1.0 - begun)
            if begun < 1
            else 1.0
        )
        return np.minimum(
            most, first + share * (most - first) + self.ahead * view.system.budget
        )

    def money_to_fill(self, system: System, default: float = 8.0) -> float:
        long = not self.smooth and (system.horizon or 1) > SHORT
        return super().money_to_fill(system, LONG_FILL if long else default)

    def allowed(self, view: View, memory: Arrays) -> Floats:
        """Return the money for this round, (R,): the money left times the round's
        weight. Subclasses may use `memory`.
        """
        horizon = view.system.horizon
        if horizon is None:
            return pace(view, self.overdraft)
        before, after = (self._spent_by(t / horizon) for t in (view.t - 1, view.t))
        weight = (after - before) / (1.0 - before) if before < 1 else 1.0
        return np.asarray(
            weight
            * np.maximum(view.system.money(view.t, self.overdraft) - view.spent, 0.0)
        )

    def _spent_by(self, time: float) -> float:
        early = float(np.interp(time, *_early_path())) if self.early else 0.0
        return (1 - self.early) * time + self.early * early


def _price_at_limit(price: Floats, share: Floats) -> Floats:
    """Return the price at which a part of the places is bought, (R,), or another price
    if there is none.
    """
    if price.ndim == 1:
        return price
    return np.take_along_axis(
        price, ((share > 0) & (share < 1)).argmax(axis=-1)[:, None], axis=-1
    )[:, 0]


def _all_or_nothing(
    share: Floats, again: NDArray[np.bool_], lead: Floats, rounds: float
) -> Floats:
    """Return the shares, (R,) or (R, M), with those near 0 and 1 rounded to these.

    If prices take few values and the budget just pays for all places at some of them, a
    share in every round loses √T samples. A share is near if it differs by up to ½ at a
    new price, and by less at a known price if many rounds are over and left. A share
    becomes 0 only if the admissions are at least one purchase of all places ahead of
    the even spend.
    """
    near, ahead = np.where(again, min(0.5, 2 * rounds**-0.25), 0.5), lead >= 1
    if share.ndim == 2:
        near, ahead = near[:, None], ahead[:, None]
    return np.where(
        share >= 1 - near, 1.0, np.where(ahead & (share < near), 0.0, share)
    )
