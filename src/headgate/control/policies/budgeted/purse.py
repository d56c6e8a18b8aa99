"""What may still be spent, and how many whole samples it buys without ever costing more."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.control.apportion import ROUNDING
from headgate.control.types import Floats, Ints, View


def kept_back(most: float, amounts: ArrayLike, orders: int) -> float:
    """Money to set aside where answers may come late: then sums are formed in another order than the purse forms them.

    `amounts` are all that the sums are made of, money spent and prices; `orders` is how many may be answered apart. An order
    is rounded at most twice while it is checked and four times while it is charged, each time by half a unit in the last
    place of `most`; the sums around it six times. Where all amounts are multiples of one unit that is not too small beside
    `most`, nothing is ever rounded.

    >>> kept_back(5500.0, [1234.5, 0.25], 10), float(kept_back(5500.0, [0.1], 10) / np.spacing(5500.0))
    (0.0, 33.0)
    """
    mantissa, exponent = np.frexp(np.asarray(amounts, dtype=np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    units = np.ldexp((whole & -whole).astype(np.float64), exponent - 53)[whole != 0]
    exact = most <= 2.0**52 * units.min(initial=np.inf)
    return 0.0 if exact else float((3 * orders + 3) * np.spacing(most))


def rounds_left(view: View) -> float:
    """This round included; with an open end as many as there have been, and never fewer than 20."""
    horizon = view.system.horizon
    return float(max(view.t, 20) if horizon is None else max(horizon - view.t + 1, 1))


def pace(view: View, overdraft: float) -> Floats:
    """Money left over rounds left: what an even spend may cost in this round."""
    unspent = np.maximum(view.system.money(view.t, overdraft) - view.spent, 0.0)
    even = 0.0 if view.system.horizon is not None else view.system.budget * (1 - 1 / rounds_left(view))  # it keeps coming in
    return unspent / rounds_left(view) + even


@np.errstate(over="ignore")  # at a price of next to nothing infinitely many fit
def affordable(view: View, wanted: Floats, most: Floats) -> Floats:
    """The most whole samples up to `wanted` after which no more than `most` is spent, in lots where samples come in lots.

    Division rounds, so the sum is checked as the ledger will form it. One lot fewer suffices unless
    the price is lost in rounding beside the money spent, and then nothing is bought.
    """
    price, lot = view.one_price(), view.lot
    fits = np.divide(np.maximum(most - view.spent, 0.0), price, out=np.full_like(price, np.inf), where=price > 0)
    whole = in_lots(np.minimum(wanted + ROUNDING, fits), lot)
    whole = np.where(view.spent + price * whole > most, np.maximum(whole - lot, 0.0), whole)
    return np.where(view.spent + price * whole > most, 0.0, whole)


def in_lots(samples: Floats, lot: int) -> Floats:
    """Whole lots, rounded down, in samples."""
    return np.asarray(lot * np.floor(samples / lot))


def within_purse(view: View, total: Floats) -> Floats:
    """As much of a real total as can be made whole without ever spending more than C·T (open end: C·t)."""
    most = np.full(view.debt.shape, view.system.money(view.t))
    return np.minimum(total, affordable(view, np.ceil(total) + view.lot, most))


def affordable_by_client(view: View, wanted: Floats, owed: Floats, places: Ints, most: Floats) -> tuple[Floats, Floats]:
    """The same for prices per client, (R, M): `wanted`, cut in proportion where money is short, and what rounding `owed`.

    The second is what rounding owes now: less than a lot for each client, and nothing of what was cut.
    """

    def too_dear(samples: Floats) -> NDArray[np.bool_]:
        return np.asarray(view.spent + (view.price * samples).sum(axis=-1) > most)[:, None]

    cost = (view.price * wanted).sum(axis=-1)
    room = np.maximum(most - view.spent, 0.0)
    cut = wanted * np.divide(room, cost, out=np.ones_like(cost), where=cost > room)[:, None]
    whole = in_lots(np.minimum(cut + owed + ROUNDING, places), view.lot)
    whole = np.where(too_dear(whole), in_lots(cut * (1 - 1e-12), view.lot), whole)
    whole = np.where(too_dear(whole), 0.0, whole)
    return whole, np.clip(cut + owed - whole, 0.0, view.lot - ROUNDING)
