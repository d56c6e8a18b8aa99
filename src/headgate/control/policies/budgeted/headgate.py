"""Headgate: fill the buffers, then buy at the lowest prices that use up the money left.

A model's error falls like N^(−1/2) with the number N of distinct samples, so the same
money helps more at low prices, and the money is spent evenly over the rounds.
contributing/headgate.md derives the rule.
"""

from dataclasses import dataclass, replace
from types import ModuleType
from typing import Literal, Self

import numpy as np

from headgate.control.checks import a_share, zero_or_more
from headgate.control.policies.budgeted import all_prices, latest_prices, wear
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.price_limit import spread
from headgate.control.policies.budgeted.purse import money_left, pace, rounds_left
from headgate.control.policy import PolicyContext
from headgate.control.types import Arrays, Bools, Floats, System, View
from headgate.errors import require
from headgate.theory.reuse import quotient

MOST_REMEMBERED = 100_000
SHORT = 256
"""length in rounds up to which a run buys fractional shares of the places: whole
purchases would cost short runs accuracy
"""
FOR_NETS = 0.25, 5.0
"""default values of `smooth` and `ahead` for models that are not linear"""


@dataclass(
    frozen=True,
    eq=False,
    kw_only=True,
)
class Headgate(BudgetedPolicy):
    """The recommended policy. It needs the budget, the buffers and, if known, the
    horizon, and learns prices as they arrive.

    Parameters
    ----------
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

    turnover: float = 1.0
    smooth: float | None = None
    ahead: float | None = None
    remember: int | Literal["all"] = "all"

    above_limit = "to keep up with even spending"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        studies/findings/better.md explains the values.
        """
        smooth, ahead = (0.0, None) if given.linear else FOR_NETS
        return replace(
            self,
            smooth=smooth if self.smooth is None else self.smooth,
            ahead=ahead if self.ahead is None else self.ahead,
        )

    def start(self, system: System, runs: int) -> Arrays:
        memory = dict(super().start(system, runs))
        if self.remember == "all":
            memory |= all_prices.unseen(runs)
        else:
            window = self.remember * (wear.PARTS if self.smooth else 1)
            memory |= latest_prices.unseen(runs, window, costs=bool(self.smooth))
        if self.smooth:
            memory |= wear.unused(runs, system.clients)
        if self.ahead is not None:
            memory["first"] = np.zeros(runs)
        memory["even"] = np.zeros(runs)
        return memory

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        """Return the share to renew.

        This is all that may be renewed below the price limit, and no less than an even
        spend buys.
        """
        if self.ahead is not None and view.t == 2:
            memory = {**memory, "first": view.spent}
        renewed = self.turnover * self.all_places(view.system)
        even = memory["even"] + self._evenly(view, renewed)
        lead = (view.admitted - even) / renewed

        if self.smooth:
            share, after = self._smooth_share(view, memory, renewed)
        else:
            share, after = self._share(view, memory, renewed, lead)
        floor = np.clip(-lead, 0.0, 1.0)
        if view.price.ndim == 2:
            floor = floor[:, None]
        return self.turnover * np.maximum(share, floor), {**after, "even": even}

    @property
    def _prices(self) -> ModuleType:
        """The memory of prices, `all_prices` or `latest_prices`."""
        return all_prices if self.remember == "all" else latest_prices

    def _smooth_share(
        self,
        view: View,
        memory: Arrays,
        renewed: float,
    ) -> tuple[Floats, Arrays]:
        """Return the share of the places to renew by felt prices, and the memory."""
        assert self.smooth is not None
        memory = wear.observe(memory, view, self.places(view.system))
        felt = wear.felt(memory, view.price, view.t, self.smooth)
        memory = self._prices.remember(memory, *spread(view.price, felt))
        spend = self.allowed(view, memory) / renewed
        if view.price.ndim == 2:
            return self._prices.deserved(memory, felt, spend), memory
        of_parts = [self._prices.deserved(memory, part, spend) for part in felt.T]
        return np.mean(of_parts, axis=0), memory

    def _share(
        self,
        view: View,
        memory: Arrays,
        renewed: float,
        lead: Floats,
    ) -> tuple[Floats, Arrays]:
        """Return the share of the places to renew by real prices, and the memory."""
        after = self._prices.remember(memory, spread(view.price)[0])
        spend = self.allowed(view, after) / renewed
        share = self._prices.deserved(after, view.price, spend)
        if (view.system.horizon or view.t) <= SHORT:
            return share, after
        # Money that remains after the last round is lost.
        if rounds_left(view) == 1:
            return np.ones_like(share), after
        again = self._prices.holds(memory, _price_at_limit(view.price, share))
        rounds = min(view.t, rounds_left(view))
        return _all_or_nothing(share, again, lead, rounds), after

    def price_limit(self, view: View, memory: Arrays) -> Floats | None:
        if self.smooth:  # the limit is that of felt prices, which differ by place
            return None
        renewed = self.turnover * self.all_places(view.system)
        limit = self._prices.limit(memory, self.allowed(view, memory) / renewed)
        return np.asarray(limit)

    def _evenly(self, view: View, renewed: float) -> Floats:
        """Return the samples that a round's budget buys, at most `renewed`, (R,)."""
        price = view.price
        if price.ndim == 2:
            places = self.places(view.system)
            price = (price * places).sum(axis=-1) / self.all_places(view.system)
        buys = quotient(view.system.budget, price, price > 0, np.inf)
        return np.minimum(buys, renewed)

    def spending_limit(self, view: View, memory: Arrays) -> Floats:
        """Return the most money that may be spent so far, limited by `ahead`.

        Round 1, which may fill the buffers, is not limited by it.
        """
        most, horizon = super().spending_limit(view, memory), view.system.horizon
        if self.ahead is None or horizon is None or view.t == 1:
            return most
        first, begun = memory["first"], self.spent_by(1 / horizon)
        share = _part_of_rest(begun, self.spent_by(view.t / horizon))
        ahead = self.ahead * view.system.budget
        return np.minimum(most, first + share * (most - first) + ahead)

    def allowed(self, view: View, memory: Arrays) -> Floats:
        """Return the money for this round: the money left times the round's weight.

        Parameters
        ----------
        view : View
            The information that the server may use.
        memory : dict of str to array
            The memory, which subclasses may use.

        Returns
        -------
        array
            The money, (R,).
        """
        horizon = view.system.horizon
        if horizon is None:
            return pace(view, self.overdraft)
        before = self.spent_by((view.t - 1) / horizon)
        weight = _part_of_rest(before, self.spent_by(view.t / horizon))
        return weight * money_left(view, self.overdraft)

    def spent_by(self, time: float) -> float:
        """Return the share of the money to spend by a share of the rounds: the same.

        A subclass may have another pace.
        """
        return time


def _part_of_rest(before: float, after: float) -> float:
    """Return which part of what is left at `before` is gone at `after`."""
    return (after - before) / (1.0 - before) if before < 1 else 1.0


def _price_at_limit(price: Floats, share: Floats) -> Floats:
    """Return the price at which a part of the places is bought, (R,).

    If there is none, it is another price.
    """
    if price.ndim == 1:
        return price
    first = ((share > 0) & (share < 1)).argmax(axis=-1)
    return np.take_along_axis(price, first[:, None], axis=-1)[:, 0]


def _all_or_nothing(
    share: Floats,
    again: Bools,
    lead: Floats,
    rounds: float,
) -> Floats:
    """Return the shares, (R,) or (R, M), with those near 0 and 1 rounded to these.

    If prices take few values and the budget just pays for all places at some of them, a
    share in every round loses √T samples. A share is near if it differs by up to ½ at a
    new price, and by less at a known price if many rounds are over and left. A share
    becomes 0 only if the admissions are at least one purchase of all places ahead of
    the even spend.
    """
    near = np.where(again, min(0.5, 2 * rounds**-0.25), 0.5)
    ahead = lead >= 1
    if share.ndim == 2:
        near, ahead = near[:, None], ahead[:, None]
    rounded = np.where(ahead & (share < near), 0.0, share)
    return np.where(share >= 1 - near, 1.0, rounded)
