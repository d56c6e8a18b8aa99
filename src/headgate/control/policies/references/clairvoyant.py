"""The clairvoyant reference, which nobody could use, and the least surrogate cost that anybody could reach who knew all prices.

At capacity n(t) = min(N(t), B̄) is the most anybody can hold, and the penalty falls with n, so the
penalty of a round is at least g(N(t)), g(N) = p(min(N, B̄), N). What is left to choose is the path of
N: at most B̄ samples a round, Σ c(t)·λ(t) within the money. g is neither monotone nor convex while
N ≲ 2·Pdim (studies/paper/errata.md, errata 3 and 12); its greatest convex minorant is planned with, so the
bound holds for everybody, and the plan is judged by the penalty itself.

For a price μ of money the cost to go W_t(N) is convex, and one step back is a clip of its slope:
W_t'(N) = clip(−μ·c(t); h'(N), h'(N + B̄)) with h = g + W_{t+1}. It is optimal to buy up to the level
where h' crosses −μ·c(t), as in inventory control with a capacity. μ is found by bisection; the
Lagrangian at any μ is a lower bound, and the plan of the least affordable μ shows how close it is.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policy import PolicyContext
from headgate.control.types import Arrays, Floats, Ints, System, View
from headgate.errors import SettingError
from headgate.limits import FORESEEN
from headgate.theory.bound import BoundConstants, penalty

AIMS = ("bound", "samples")
MOST_STEPS = 60
"""tries for μ; a handful is usual"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Clairvoyant(BudgetedPolicy):
    """Follows the best purchases for the prices of these seeds: run r is that of the r-th seed.

    Best for `aim` = "bound" is the least Σ p(t); for "samples" the most samples that the money buys, the cheapest first.
    """

    aim: Literal["bound", "samples"] = "bound"
    fill: float = 0.0
    bound: BoundConstants | None = None
    """left out: those of the experiment"""
    given: PolicyContext | None = field(default=None, metadata={"setting": False})
    """the experiment whose prices it knows"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aim not in AIMS:
            raise SettingError(f"aim = {self.aim}: must be one of {', '.join(AIMS)}")

    def resolved(self, given: PolicyContext) -> Self:
        return replace(self, given=given, bound=self.bound or given.bound)

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
        """How many are bought up to each round, (seeds, rounds).

        Each run is planned by itself: together they share a convex minorant, which reaches as far as the longest needs.
        """
        system, k = self.known.system, self.bound or self.known.bound
        if self.aim == "bound":
            return np.cumsum(np.concatenate([foresee(own, system, k).purchases for own in self.path[:, None]]), axis=-1)
        return np.cumsum(
            [cheapest_first(own, system, self.most_in_first_round(system) if self.fill else 0.0) for own in self.path], axis=-1
        )

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


class Foresight(NamedTuple):
    """A plan made with all prices known, for each run."""

    purchases: Ints
    """(R, T)"""
    bound: Floats
    """no purchases inside budget and capacity cost less, (R,)"""


def foresee(
    prices: Floats, system: System, k: BoundConstants, money: float | None = None, tolerance: float = 1e-4
) -> Foresight:
    """The best purchases at `prices` (R, T) for `money` in all (left out: C·T), to within `tolerance` of the bound."""
    prices = np.asarray(prices, dtype=np.float64)
    if prices.ndim != 2:
        raise SettingError(f"prices of shape {prices.shape}: foresight needs one price for each run and round")
    money = system.budget * prices.shape[1] if money is None else money
    reach = [_reach(row, system.memory, money) for row in prices]
    if max(reach) > FORESEEN:
        raise SettingError(f"clairvoyant: the money buys {max(reach):,} samples; at most {FORESEEN:,} can be foreseen")
    values = convex_minorant(round_cost(np.arange(1, max(reach) + 1), system.memory, k))
    plans = [_one_run(row, system.memory, values[:most], money, tolerance) for row, most in zip(prices, reach, strict=True)]
    return Foresight(np.stack([plan for plan, _ in plans]), np.array([bound for _, bound in plans]))


def round_cost(N: ArrayLike, memory: int, k: BoundConstants) -> Floats:
    """g(N): the penalty of a round for those who hold as much as they can."""
    return penalty(np.minimum(N, memory), N, k)


def convex_minorant(values: Floats) -> Floats:
    """The greatest convex function below `values`, on the same grid."""
    knots: list[int] = []
    height = values.tolist()
    for i, value in enumerate(height):
        while len(knots) > 1:
            a, b = knots[-2:]
            if (height[b] - height[a]) * (i - a) < (value - height[a]) * (b - a):
                break
            knots.pop()  # on or above the line from its neighbour to i
        knots.append(i)
    return np.asarray(np.interp(np.arange(values.size), knots, values[knots]))


def _reach(prices: Floats, memory: int, money: float) -> int:
    """The most samples that the money buys, at least one."""
    ordered = np.sort(prices)
    whole = int(np.searchsorted(np.cumsum(ordered * memory), money, side="right"))
    if whole == prices.size:
        return memory * whole
    left = money - memory * ordered[:whole].sum()
    return max(1, memory * whole + min(memory, int(left / ordered[whole] * (1 + 1e-12))))


def _one_run(prices: Floats, memory: int, values: Floats, money: float, tolerance: float) -> tuple[Ints, float]:
    """(purchases, lower bound) for values[N − 1] = g(N). A search in parcels of samples finds about where μ is."""
    if prices[0] > money:  # not one sample for round 1
        return np.zeros(prices.size, dtype=np.int64), np.inf
    parcel = max(1, memory // 4)
    mu = prices.size * float(np.ptp(values)) / money / 4
    if values.size > 4 * memory:
        mu = _search(prices * parcel, memory // parcel, values[parcel - 1 :: parcel], money, mu, 4.0, 1e-3).mu
    found = _search(prices, memory, values, money, mu, 1.02, tolerance)
    return _top_up(found.thrifty, found.lavish, prices, money), found.bound


class _Found(NamedTuple):
    thrifty: Ints
    """the plan of the least μ that is known to be affordable"""
    lavish: Ints
    """the plan of the greatest μ that is known not to be"""
    mu: float
    bound: float


def _search(prices: Floats, memory: int, values: Floats, money: float, mu: float, stride: float, tolerance: float) -> _Found:
    """Bisection for μ, from a guess and in growing strides until it is bracketed."""
    slope = np.append(-np.inf, np.diff(values))  # nobody goes without a sample

    def lagrangian(mu: float) -> tuple[Ints, float, float, float]:
        plan = _follow(_levels(prices, memory, slope, mu), memory)
        spend, cost = float(prices @ plan), float(values[np.cumsum(plan) - 1].sum())
        return plan, spend, cost, cost + mu * (spend - money)

    lavish, spend, _, best = lagrangian(0.0)
    thrifty = lavish if spend <= money else np.zeros_like(lavish)
    low, high = 0.0, np.inf
    for _ in range(MOST_STEPS if spend > money else 0):
        plan, spend, cost, value = lagrangian(mu)
        best = max(best, value)
        if spend > money:
            lavish, low = plan, mu
        else:
            thrifty, high = plan, mu
            if cost - best <= tolerance * best:
                break
        stride *= stride
        mu = low * stride if high == np.inf else high / stride if low == 0 else (low + high) / 2
    return _Found(thrifty, lavish, mu, best)


def _levels(prices: Floats, memory: int, slope: Floats, mu: float) -> Ints:
    """Up to how many samples to buy in each round."""
    levels = []
    to_go = np.zeros(slope.size + memory)
    to_go[slope.size :] = np.inf  # nobody can pay for more
    reach = to_go[: slope.size]
    for price in reversed(prices.tolist()):
        reach += slope
        here = -mu * price
        level = int(reach.searchsorted(here))
        levels.append(level)
        below = max(0, level - memory)  # slopes rise, so the clip leaves what is above, and moves what is far below
        reach[:below] = to_go[memory : memory + below]
        reach[below:level] = here
    return np.array(levels[::-1], dtype=np.int64)


def _follow(levels: Ints, memory: int) -> Ints:
    purchases, N = [], 0
    for level in levels.tolist():
        purchases.append(min(max(level - N, 0), memory))
        N += purchases[-1]
    return np.array(purchases, dtype=np.int64)


def _top_up(plan: Ints, lavish: Ints, prices: Floats, money: float) -> Ints:
    """What is left over goes to the rounds in which a slightly cheaper money would have bought more."""
    plan = plan.copy()
    for t in np.flatnonzero(lavish > plan):
        left = money - float(prices @ plan)
        plan[t] += min(int(lavish[t] - plan[t]), max(0, int(left / prices[t] * (1 - 1e-12))) if prices[t] > 0 else 0)
    return plan
