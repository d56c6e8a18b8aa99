"""How many of the latest prices to go by, found out during the run. docs/understand/headgate.md derives it.

One price a round is looked at: the mean over the places. A bet is made against prices that come in no order (a simple jumper on
conformal p-values: Vovk, Testing randomness online, 2021). While it is not won, all prices count. Once it is, a window counts
that would have been the better buyer: each has a ledger of what it would have spent and bought.
"""

from collections.abc import Callable

import numpy as np

from headgate.control.policies.budgeted import all_prices, latest_prices
from headgate.control.randomness import by_price
from headgate.control.types import Arrays, Floats, Ints, View

WINDOWS = (8, 32, 128)
"""rounds that are remembered, besides all"""
RECENT = 32
"""rounds at whose prices money is compared with samples"""
STAKES, JUMP = np.array([-2.0, 0.0, 2.0]), 0.01
"""a round's bet on high or low prices, and the part of the capital that changes sides"""
OPEN = 100
"""rounds in which one false alarm is expected at most, where the end is open"""


def unseen(runs: int) -> Arrays:
    """No price seen, no bet made, nothing bought."""
    ledgers = {name: np.zeros((runs, len(WINDOWS) + 1)) for name in ("would_spend", "would_buy")}
    bets: Arrays = {
        "bets": np.full((runs, STAKES.size), 1 / STAKES.size),
        "wander": np.zeros(runs, dtype=np.bool_),
        "window": np.zeros(runs, dtype=np.int64),
    }
    market = {f"market_{name}": value for name, value in all_prices.unseen(runs).items()}
    return {**market, "market": np.zeros((runs, max(WINDOWS))), **bets, **ledgers}


def _market(memory: Arrays) -> Arrays:
    return {name: memory[f"market_{name}"] for name in all_prices.NAMES}


def observe(memory: Arrays, price: Floats, view: View) -> Arrays:
    """The memory with this round's price, (R,), and with the bet that was made on its rank."""
    market = all_prices.remember(_market(memory), price[:, None])
    below, same = all_prices.rank(market, price)
    rank = (below + by_price(0, view.t, price) * same) / all_prices.remembered(market)
    bets = (1 - JUMP) * memory["bets"] + JUMP * memory["bets"].mean(axis=-1, keepdims=True)
    bets = bets * (1 + STAKES * (rank[:, None] - 0.5))
    won = bets.sum(axis=-1) >= (view.system.horizon or OPEN)
    latest = np.concatenate([price[:, None], memory["market"][:, :-1]], axis=-1)
    named = {f"market_{name}": value for name, value in market.items()}
    return {**memory, **named, "market": latest, "bets": bets, "wander": memory["wander"] | won}


def best(memory: Arrays, t: int) -> Ints:
    """The number of the window to go by, (R,), the last one being all: the one that is ahead of all at any recent price."""
    recent = memory["market"][:, : min(RECENT, t)]
    spent, bought = (memory[name] - memory[name][:, -1:] for name in ("would_spend", "would_buy"))
    ends = (bought * end[:, None] - spent for end in (recent.min(axis=-1), recent.max(axis=-1)))
    ahead = np.minimum(*ends)
    ahead[:, -1] = 1e-9 * memory["would_spend"][:, -1]  # less is rounding
    return np.where(memory["wander"], ahead.argmax(axis=-1), len(WINDOWS))


def bought(
    memory: Arrays, price: Floats, t: int, may: Callable[[Floats], tuple[Floats, Floats]], even: Floats, most: float
) -> Arrays:
    """The memory with what each window would have bought of `most` samples, never behind `even`.

    `may` says of the money spent before what a round may cost, and what may have been spent after it.
    """
    spent, held = memory["would_spend"].copy(), memory["would_buy"].copy()
    for k in range(len(WINDOWS) + 1):
        money, limit = may(spent[:, k])
        if k < len(WINDOWS):
            latest = {"prices": memory["market"][:, : WINDOWS[k]], "prices_seen": np.full(price.shape, t)}
            share = latest_prices.deserved(latest, price, money / most)
        else:
            share = all_prices.deserved(_market(memory), price, money / most)
        buys = most * np.maximum(share, np.clip((even - held[:, k]) / most, 0.0, 1.0))
        cost = np.minimum(buys * price, np.maximum(limit - spent[:, k], 0.0))
        held[:, k] += np.divide(cost, price, out=buys, where=price > 0)
        spent[:, k] += cost
    return {**memory, "would_spend": spent, "would_buy": held}
