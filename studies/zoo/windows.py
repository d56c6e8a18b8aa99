"""headgate that finds out how many of the latest prices to go by.
studies/theory/theorem.md has what it is worth.

A bet is made against prices that come in no order: a simple jumper on conformal
p-values, as in Vovk, Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman (2021, arXiv
2102.10439). Until it is won, all prices count, as ever. From then on a window counts
that would have been the better buyer: each has a ledger of what it would have spent and
bought, at one price a round, the mean over the places.
"""

from dataclasses import dataclass

import numpy as np

from headgate.control.policies.budgeted import all_prices, latest_prices, wear
from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.policies.budgeted.price_limit import SPREAD, spread
from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Arrays, Floats, Ints, System, View
from headgate.errors import SettingError

WINDOWS = (8, 32, 128)
"""rounds that are remembered, besides all"""
RECENT = 32
"""rounds at whose prices money is compared with samples"""
STAKES, JUMP = np.array([-2.0, 0.0, 2.0]), 0.01
"""a round's bet on high or low prices, and the part of the capital that changes sides
"""
OPEN = 100
"""the capital at which the bet is won where the end is open; else it is the number of
rounds
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Windows(Headgate):
    """Of prices without order it makes the same as headgate, but with a probability of
    1/T.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.remember != "all":
            raise SettingError(
                f"remember = {self.remember}: must be all; windows are found"
            )

    def start(self, system: System, runs: int) -> Arrays:
        latest = latest_prices.unseen(
            runs, max(WINDOWS) * (wear.PARTS if self.smooth else SPREAD), costs=True
        )
        return {
            **super().start(system, runs),
            **latest,
            **unseen(runs),
            "window": np.zeros(runs, dtype=np.int64),
        }

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        share, memory = super().wanted(view, memory)
        places, most = (
            self.places(view.system),
            self.turnover * self.all_places(view.system),
        )
        felt = (
            wear.felt(memory, view.price, view.t, self.smooth)
            if self.smooth
            else view.price
        )
        seen = spread(view.price, felt if self.smooth else None)
        price = (
            view.price
            if view.price.ndim == 1
            else (view.price * places).sum(axis=-1) / places.sum()
        )
        memory = observe(
            latest_prices.remember(memory, *seen), price, view.t, view.system
        )
        memory = self._ledgers(
            {**memory, "window": better(memory, view.t)}, view, price, most
        )
        spend, behind = (
            self.allowed(view, memory) / most,
            np.clip((memory["even"] - view.admitted) / most, 0.0, 1.0),
        )
        for k, rounds in enumerate(WINDOWS):
            if (rows := memory["window"] == k).any():
                own = newest(memory, rounds * seen[0].shape[-1])
                parts = felt.T if felt.ndim > view.price.ndim else [felt]
                deserved = np.mean(
                    [latest_prices.deserved(own, part, spend) for part in parts], axis=0
                )
                floor = behind if view.price.ndim == 1 else behind[:, None]
                share = np.where(
                    rows if share.ndim == 1 else rows[:, None],
                    self.turnover * np.maximum(deserved, floor),
                    share,
                )
        return share, memory

    def _ledgers(
        self, memory: Arrays, view: View, price: Floats, most: float
    ) -> Arrays:
        """What each window would have spent and bought of `most` samples a round, from
        round 2 on and never behind `even`.
        """
        spent, held = memory["would_spend"].copy(), memory["would_buy"].copy()
        if view.t == 2:
            spent[:], held[:] = view.spent[:, None], view.admitted[:, None]
        for k, rounds in enumerate((*WINDOWS, None)):
            own = view._replace(spent=spent[:, k])
            spend = self.allowed(own, memory) / most
            if rounds is None:
                share = all_prices.deserved(_market(memory), price, spend)
            else:
                latest = {
                    "prices": memory["market"][:, :rounds],
                    "prices_seen": np.full(price.shape, view.t),
                }
                share = latest_prices.deserved(latest, price, spend)
            buys = most * np.maximum(
                share, np.clip((memory["even"] - held[:, k]) / most, 0.0, 1.0)
            )
            cost = np.minimum(
                buys * price,
                np.maximum(self.spending_limit(own, memory) - spent[:, k], 0.0),
            )
            held[:, k] += np.divide(cost, price, out=buys, where=price > 0)
            spent[:, k] += cost
        return {**memory, "would_spend": spent, "would_buy": held}


def unseen(runs: int) -> Arrays:
    """No price seen, no bet made, nothing bought."""
    ledgers = {
        name: np.zeros((runs, len(WINDOWS) + 1))
        for name in ("would_spend", "would_buy")
    }
    market = {
        f"market_{name}": value for name, value in all_prices.unseen(runs).items()
    }
    bets: Arrays = {
        "bets": np.full((runs, STAKES.size), 1 / STAKES.size),
        "wander": np.zeros(runs, dtype=np.bool_),
    }
    return {**market, "market": np.zeros((runs, max(WINDOWS))), **bets, **ledgers}


def _market(memory: Arrays) -> Arrays:
    return {name: memory[f"market_{name}"] for name in all_prices.NAMES}


def observe(memory: Arrays, price: Floats, t: int, system: System) -> Arrays:
    """The memory with this round's price, (R,), and with the bet that was made on its
    rank; a lot ranks equal prices.
    """
    market = all_prices.remember(_market(memory), price[:, None])
    bins, _, counts, bits = (market[name] for name in all_prices.NAMES)
    today, whole = all_prices.bin_of(price, bits)[:, None], price.view(np.uint64)
    lot = uniform(
        0,
        Purpose.ADMISSION,
        t,
        ((whole ^ (whole >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).astype(np.int64),
    )
    below, same = (
        np.where(which, counts, 0).sum(axis=-1)
        for which in (bins < today, bins == today)
    )
    rank = (below + lot * same) / counts.sum(axis=-1)
    bets = (1 - JUMP) * memory["bets"] + JUMP * memory["bets"].mean(
        axis=-1, keepdims=True
    )
    bets = bets * (1 + STAKES * (rank[:, None] - 0.5))
    won = memory["wander"] | (bets.sum(axis=-1) >= (system.horizon or OPEN))
    latest = np.concatenate([price[:, None], memory["market"][:, :-1]], axis=-1)
    return {
        **memory,
        **{f"market_{n}": value for n, value in market.items()},
        "market": latest,
        "bets": bets,
        "wander": won,
    }


def better(memory: Arrays, t: int) -> Ints:
    """The number of the window to go by, (R,), the last one being all: the one furthest
    ahead of all at any recent price.
    """
    recent = memory["market"][:, : min(RECENT, t)]
    spent, bought = (
        memory[name] - memory[name][:, -1:] for name in ("would_spend", "would_buy")
    )
    ahead = np.minimum(
        *(
            bought * end[:, None] - spent
            for end in (recent.min(axis=-1), recent.max(axis=-1))
        )
    )
    ahead[:, -1] = 1e-9 * memory["would_spend"][:, -1]  # less is rounding
    return np.where(memory["wander"], ahead.argmax(axis=-1), len(WINDOWS))


def newest(memory: Arrays, count: int) -> Arrays:
    """The latest prices, had there been room for `count` of them alone."""
    places = (memory["prices_seen"][:, None] - 1 - np.arange(count)) % memory[
        "prices"
    ].shape[-1]
    own = {
        name: np.take_along_axis(memory[name], places, axis=-1)
        for name in ("prices", "price_costs")
    }
    return {**own, "prices_seen": memory["prices_seen"]}
