"""The money that may still be spent, and the most whole samples that it buys."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.control.apportion import PART_OF_SAMPLE
from headgate.control.types import Floats, Ints, View


def kept_back(most: float, amounts: ArrayLike, orders: int) -> float:
    """Return the money to set aside if answers may come late, because the ledger then
    sums amounts in another order.

    `amounts` are the terms of the sums, money spent and prices; `orders` is the number
    of orders with separate answers. A check of an order rounds at most twice and its
    charge four times, each time by half a unit in the last place of `most`; the sums
    around it round six times. If all amounts are multiples of a unit that is large
    enough for `most`, nothing is rounded.

    >>> kept_back(5500.0, [1234.5, 0.25], 10), float(kept_back(5500.0, [0.1], 10) / np.spacing(5500.0))
    (0.0, 33.0)
    """
    mantissa, exponent = np.frexp(np.asarray(amounts, dtype=np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    units = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)[whole != 0]
    exact = most <= 2.0**52 * units.min(initial=np.inf)
    return 0.0 if exact else float((3 * orders + 3) * np.spacing(most))


def rounds_left(view: View) -> float:
    """Return the number of rounds left, including this one; with an open end, t but at
    least 20.
    """
    horizon = view.system.horizon
    return float(max(view.t, 20) if horizon is None else max(horizon - view.t + 1, 1))


def pace(view: View, overdraft: float) -> Floats:
    """Return the money that an even spend allows in this round, (R,): the money left,
    divided by the rounds left.
    """
    unspent = np.maximum(view.system.money(view.t, overdraft) - view.spent, 0.0)
    even = (
        0.0
        if view.system.horizon is not None
        else view.system.budget * (1 - 1 / rounds_left(view))
    )  # later budgets
    return unspent / rounds_left(view) + even


@np.errstate(over="ignore")  # at a price near zero infinitely many fit
def affordable(view: View, wanted: Floats, most: Floats) -> Floats:
    """Return the most whole lots of samples, up to `wanted`, after which no more than
    `most` is spent, (R,).

    Division rounds, so the function checks the sum as the ledger will form it. If the
    sum is too large, one lot less is enough, unless rounding removes the price from the
    sum; then nothing is bought.
    """
    price, lot = view.one_price(), view.lot
    fits = np.divide(
        np.maximum(most - view.spent, 0.0),
        price,
        out=np.full_like(price, np.inf),
        where=price > 0,
    )
    whole = in_lots(np.minimum(wanted + PART_OF_SAMPLE, fits), lot)
    whole = np.where(
        view.spent + price * whole > most, np.maximum(whole - lot, 0.0), whole
    )
    return np.where(view.spent + price * whole > most, 0.0, whole)


def in_lots(samples: Floats, lot: int) -> Floats:
    """Return the number of samples, rounded down to whole lots."""
    return np.asarray(lot * np.floor(samples / lot))


def within_purse(view: View, total: Floats) -> Floats:
    """Return a real total, reduced so that its whole samples never cost more than C·T
    in all (open end: C·t), (R,).
    """
    most = np.full(view.debt.shape, view.system.money(view.t))
    return np.minimum(total, affordable(view, np.ceil(total) + view.lot, most))


def affordable_by_client(
    view: View, wanted: Floats, owed: Floats, places: Ints, most: Floats
) -> tuple[Floats, Floats]:
    """Return (whole samples, remainders of rounding), both (R, M), for prices per
    client, from `wanted` plus the old `owed`.

    If the money does not suffice, `wanted` is reduced in proportion. The remainders are
    below one lot for each client and contain nothing of the reduction.
    """

    def too_dear(samples: Floats) -> NDArray[np.bool_]:
        return np.asarray(view.spent + (view.price * samples).sum(axis=-1) > most)[
            :, None
        ]

    cost = (view.price * wanted).sum(axis=-1)
    room = np.maximum(most - view.spent, 0.0)
    cut = (
        wanted
        * np.divide(room, cost, out=np.ones_like(cost), where=cost > room)[:, None]
    )
    whole = in_lots(np.minimum(cut + owed + PART_OF_SAMPLE, places), view.lot)
    whole = np.where(too_dear(whole), in_lots(cut * (1 - 1e-12), view.lot), whole)
    whole = np.where(too_dear(whole), 0.0, whole)
    return whole, np.clip(cut + owed - whole, 0.0, view.lot - PART_OF_SAMPLE)
