"""The best purchases in hindsight, by the age of what is held: all prices are known.
Nobody could use it.

A place whose sample has been used in `a` rounds before costs a^`power` in a round, and
renewing it in round t costs ν·c(t). Places do not depend on each other, so each follows
a shortest path through its renewals, and ν is found by bisection; the last of the money
is shared between the two plans that enclose it. `power` = 1 is the least mean age for
the money and 0 the most samples; the higher it is, the more even are the renewals.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.control.checks import zero_or_more
from headgate.control.policies.references import Clairvoyant
from headgate.control.types import Arrays, Bools, Floats, View
from headgate.errors import SettingError

PARTS = 10
"""of the places, that are planned one after another where they crowd"""
SWEEPS, HALVINGS = 2, 60


@dataclass(frozen=True, eq=False, kw_only=True)
class Hindsight(Clairvoyant):
    """Run r is that of the r-th seed, as with the clairvoyant buyer; clients may have
    prices of their own.
    """

    fill: float = 8.0
    fairness: float = 1.0
    """what is moved to other clients costs more than was planned, and the money would
    end early
    """
    power: float = 1.0
    crowding: float = 0.0
    """a tenth of the places, renewed in a round in which a share j of the others is,
    feels the price c(t)·(1 + crowding·j)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("power", "crowding"):
            zero_or_more(name, getattr(self, name))

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        runs = len(view.price)
        if view.t > self.known.rounds or not np.array_equal(
            self.path[:runs, view.t - 1], view.price
        ):
            raise SettingError(f"round {view.t}: the plan was made for other prices")
        return self.plan[:runs, view.t - 1], memory

    @cached_property
    def plan(self) -> Floats:
        """The share of the places to renew, (seeds, rounds), or (seeds, rounds, M) with
        a price per client; round 1 fills.
        """
        system, prices = self.known.system, self.path
        places = (
            self.places(system)
            if prices.ndim == 3
            else np.array([self.all_places(system)])
        )
        prices = prices.reshape(*prices.shape[:2], -1).swapaxes(1, 2)  # (R, M or 1, T)
        first = np.minimum(
            (prices[..., 0] * places).sum(axis=-1),
            self.money_to_fill(system) or system.budget,
        )
        money = system.budget * prices.shape[-1] - first
        waiting = waits(prices.shape[-1], self.power)
        high = np.full(len(prices), waiting.max() / max(float(prices.min()), 1e-6))
        low, enclosed = high * 1e-30, dict[str, tuple[Floats, Floats]]()
        for _ in range(HALVINGS):
            nu = np.sqrt(low * high)
            shares = self._renewals(waiting, nu[:, None, None] * prices)
            spend = (shares * prices * places[:, None]).sum(axis=(1, 2))
            dear = spend > money
            low, high = np.where(dear, nu, low), np.where(dear, high, nu)
            for name, own in (("lavish", dear), ("thrifty", ~dear)):
                before, cost = enclosed.get(
                    name, (np.zeros_like(shares), np.zeros_like(spend))
                )
                enclosed[name] = (
                    np.where(own[:, None, None], shares, before),
                    np.where(own, spend, cost),
                )
        (lavish, most), (thrifty, least) = enclosed["lavish"], enclosed["thrifty"]
        part = np.clip(
            np.divide(
                money - least, most - least, out=np.zeros_like(most), where=most > least
            ),
            0.0,
            1.0,
        )
        mixed = thrifty + part[:, None, None] * (lavish - thrifty)
        return np.asarray(mixed.swapaxes(1, 2).reshape(self.path.shape))

    def _renewals(self, waiting: Floats, costs: Floats) -> Floats:
        """The share of its places that each client renews in each round, (R, M, T),
        where renewing all costs `costs`.
        """
        flat = costs.reshape(-1, costs.shape[-1])
        if not self.crowding:
            return shortest(waiting, flat).reshape(costs.shape).astype(np.float64)
        parts = np.zeros((PARTS, *flat.shape))
        for k in [*range(PARTS)] * SWEEPS:
            others = (parts.sum(axis=0) - parts[k]) / PARTS
            parts[k] = shortest(waiting, flat * (1.0 + self.crowding * others))
        return np.asarray(parts.mean(axis=0).reshape(costs.shape))


def waits(rounds: int, power: float) -> Floats:
    """What it costs to keep what was bought in round i until round j, (T, T + 1), where
    the last column is the end.
    """
    age = np.arange(rounds) - np.arange(rounds)[:, None]
    cost = np.where(age > 0, np.maximum(age, 1.0) ** power, 0.0)
    return np.concatenate([np.zeros((rounds, 1)), cost.cumsum(axis=-1)], axis=-1)


def shortest(waiting: Floats, costs: Floats) -> Bools:
    """The rounds after the first in which to renew, (n, T), at the least cost of
    waiting and of renewing, (n, T).
    """
    runs, rounds = costs.shape
    to_go, then = np.zeros((runs, rounds + 1)), np.zeros((runs, rounds), dtype=np.int64)
    for i in range(rounds - 1, -1, -1):
        ways = waiting[i, i + 1 :] + to_go[:, i + 1 :]
        then[:, i] = ways.argmin(axis=-1)
        to_go[:, i] = (
            np.take_along_axis(ways, then[:, i, None], axis=-1)[:, 0] + costs[:, i]
        )
    then += np.arange(1, rounds + 1)
    renewed, due = np.zeros(costs.shape, dtype=np.bool_), then[:, 0]
    for t in range(1, rounds):
        renewed[:, t] = due == t
        due = np.where(renewed[:, t], then[:, t], due)
    return renewed
