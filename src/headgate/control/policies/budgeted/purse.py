"""The money that may still be spent, and the most whole samples that it buys.

`BudgetedPolicy.admit` asks it at the end of every decision, and so do `Held.admit` and
the policies with `purse`, by `within_purse`. `Controller` enforces no money itself.
"""

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.apportion import PART_OF_SAMPLE
from headgate.control.types import Bools, Floats, Ints, View
from headgate.theory.reuse import quotient

LEAST_ROUNDS = 20
"""the least number of rounds over which money is spread with an open end"""
JUST_BELOW = 1 - 1e-12
"""factor on numbers that rounding must not raise"""


def kept_back(
    most: float,
    amounts: ArrayLike,
    orders: int,
) -> float:
    """Return the money to set aside if answers may come late.

    The ledger then sums amounts in another order. A check of an order rounds at most
    twice and its charge four times, each time by half a unit in the last place of
    `most`; the sums around it round six times. If all amounts are multiples of a unit
    that is large enough for `most`, nothing is rounded.

    Parameters
    ----------
    most : float
        The most money that may be spent.
    amounts : array_like of float
        The terms of the sums: money spent and prices.
    orders : int
        The number of orders with separate answers.

    Returns
    -------
    float
        The money.

    Examples
    --------
    >>> kept_back(5500.0, [1234.5, 0.25], 10)
    0.0
    >>> float(kept_back(5500.0, [0.1], 10) / np.spacing(5500.0))
    33.0
    """
    mantissa, exponent = np.frexp(np.asarray(amounts, dtype=np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest_bit = (whole & -whole).astype(np.float64)
    units = np.ldexp(lowest_bit, exponent - 53)[whole != 0]
    if most <= 2.0**52 * units.min(initial=np.inf):
        return 0.0
    return float((3 * orders + 3) * np.spacing(most))


def rounds_left(view: View) -> float:
    """Return the number of rounds left, including this one.

    With an open end this is t, but at least `LEAST_ROUNDS`.
    """
    horizon = view.system.horizon
    if horizon is None:
        return float(max(view.t, LEAST_ROUNDS))
    return float(max(horizon - view.t + 1, 1))


def money_left(view: View, overdraft: float) -> Floats:
    """Return the money that may still be spent, (R,)."""
    left = view.system.money(view.t, overdraft) - view.spent
    return np.maximum(left, 0.0)


def pace(view: View, overdraft: float) -> Floats:
    """Return the money that an even spend allows in this round, (R,).

    It is the money left, divided by the rounds left; with an open end, the budgets of
    later rounds count too.
    """
    rounds = rounds_left(view)
    later = 0.0
    if view.system.horizon is None:
        later = view.system.budget * (1 - 1 / rounds)
    return money_left(view, overdraft) / rounds + later


@np.errstate(over="ignore")  # at a price near zero infinitely many fit
def affordable(
    view: View,
    wanted: Floats,
    most: Floats,
) -> Floats:
    """Return the most whole lots of samples that may be bought, up to `wanted`, (R,).

    No more than `most` is then spent. Division rounds, so the function checks the sum
    as the ledger will form it. If the sum is too large, one lot less is enough, unless
    rounding removes the price from the sum; then nothing is bought.
    """
    price, lot = view.one_price(), view.lot
    left = np.maximum(most - view.spent, 0.0)
    fits = quotient(left, price, price > 0, np.inf)
    whole = in_lots(np.minimum(wanted + PART_OF_SAMPLE, fits), lot)

    fewer = np.maximum(whole - lot, 0.0)
    whole = np.where(view.spent + price * whole > most, fewer, whole)
    return np.where(view.spent + price * whole > most, 0.0, whole)


def in_lots(samples: Floats, lot: int) -> Floats:
    """Return the number of samples, rounded down to whole lots."""
    return lot * np.floor(samples / lot)


def within_purse(view: View, total: Floats) -> Floats:
    """Return a real total that is reduced to what C·T pays for, (R,).

    Its whole samples never cost more than C·T in all; with an open end, C·t.
    """
    most = np.full(view.debt.shape, view.system.money(view.t))
    return np.minimum(total, affordable(view, np.ceil(total) + view.lot, most))


def affordable_by_client(
    view: View,
    wanted: Floats,
    owed: Floats,
    places: Ints,
    most: Floats,
) -> tuple[Floats, Floats]:
    """Return whole samples and remainders of rounding, (R, M), for prices per client.

    The samples are `wanted` plus the old `owed`. If the money does not suffice,
    `wanted` is reduced in proportion. The remainders are below one lot for each client
    and contain nothing of the reduction.
    """

    def too_dear(samples: Floats) -> Bools:
        after = view.spent + (view.price * samples).sum(axis=-1)
        return np.asarray(after > most)[:, None]

    cost = (view.price * wanted).sum(axis=-1)
    left = np.maximum(most - view.spent, 0.0)
    part = quotient(left, cost, cost > left, 1.0)
    cut = wanted * part[:, None]
    whole = in_lots(np.minimum(cut + owed + PART_OF_SAMPLE, places), view.lot)
    whole = np.where(too_dear(whole), in_lots(cut * JUST_BELOW, view.lot), whole)
    whole = np.where(too_dear(whole), 0.0, whole)
    return whole, np.clip(cut + owed - whole, 0.0, view.lot - PART_OF_SAMPLE)
