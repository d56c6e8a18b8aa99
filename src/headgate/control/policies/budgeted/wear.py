"""The worth of renewing a place.

It rises with the use of its sample and falls with the number of places a round renews.
The felt price is the price divided by this worth; places with a low felt price are
renewed (contributing/headgate.md, smooth renewal). With a price per client, clients
are renewed at different times, so only a client's mean age counts.
"""

import numpy as np

from headgate.control.types import Arrays, Floats, Ints, View

PARTS = 10
"""number of parts into which the places are divided, from the oldest to the newest"""
NEWER = 1.0 - (np.arange(PARTS) + 0.5) / PARTS
"""share of the places that are newer than the middle of each part"""
LONGEST = 64
"""number of rounds of use that are distinguished; a place in use for longer counts as
one round more
"""


def unused(runs: int, clients: int) -> Arrays:
    """Return the memory before round 1.

    With a price per client only `used` and `bought_before` are needed, else the others.
    """
    return {
        "renewed": np.zeros((runs, LONGEST)),
        "admitted_before": np.zeros(runs, dtype=np.int64),
        "used": np.ones((runs, clients)),
        "bought_before": np.zeros((runs, clients), dtype=np.int64),
    }


def observe(
    memory: Arrays,
    view: View,
    places: Ints,
) -> Arrays:
    """Return the memory after the last purchases, which replace the oldest samples.

    With a price per client it holds their mean ages.
    """
    if view.price.ndim == 1:
        share = (view.admitted - memory["admitted_before"]) / places.sum()
        earlier = memory["renewed"][:, :-1]
        renewed = np.concatenate([share[:, None], earlier], axis=-1)
        return {**memory, "renewed": renewed, "admitted_before": view.admitted}
    bought = memory["bought"] - memory["bought_before"]
    share = np.minimum(bought / np.maximum(places, 1), 1.0)
    used = (1.0 - share) ** 2 * memory["used"] + 1.0
    return {**memory, "used": used, "bought_before": memory["bought"]}


def ages(renewed: Floats, t: int) -> Ints:
    """Return the rounds of use of each part of the places, oldest first, (R, PARTS).

    They follow from the shares renewed per round. In round t no place counts as used
    for longer than t rounds, not even an empty one.
    """
    newer = renewed.cumsum(axis=-1)[:, None] < NEWER[:, None]
    return np.asarray(np.minimum(1 + newer.sum(axis=-1), t))


def felt(
    memory: Arrays,
    price: Floats,
    t: int,
    smooth: float,
) -> Floats:
    """Return the felt price of each part of the places, (R, PARTS).

    With a price per client it is that of each client, (R, M).
    """
    if price.ndim == 2:
        return price / memory["used"] ** smooth
    worth = (ages(memory["renewed"], t) * NEWER) ** smooth
    return price[:, None] / worth
