"""What renewing a place is worth: more the longer its sample has been used, less the more places a round renews.

A price divided by that is the price as it is felt; what feels cheap is bought (docs/understand/headgate.md, smooth renewal).
Clients with prices of their own are not renewed together anyway: there only a client's mean age counts.
"""

import numpy as np

from headgate.control.types import Arrays, Floats, Ints, View

PARTS = 10
"""of the places, from the oldest to the newest, that are distinguished"""
NEWER = 1.0 - (np.arange(PARTS) + 0.5) / PARTS
"""share of the places that are newer than the middle of each part"""
LONGEST = 64
"""rounds of use; a place that is older counts as one more"""


def unused(runs: int, clients: int) -> Arrays:
    """Nothing is in the places yet. Where clients have prices of their own, `used` alone is needed, else the others."""
    renewed = {"renewed": np.zeros((runs, LONGEST)), "admitted_before": np.zeros(runs, dtype=np.int64)}
    return {**renewed, "used": np.ones((runs, clients)), "bought_before": np.zeros((runs, clients), dtype=np.int64)}


def observe(memory: Arrays, view: View, places: Ints) -> Arrays:
    """With what the last round brought: the oldest left. Of a client only the mean age is kept, as if spread evenly."""
    if view.price.ndim == 1:
        share = (view.admitted - memory["admitted_before"]) / places.sum()
        renewed = np.concatenate([share[:, None], memory["renewed"][:, :-1]], axis=-1)
        return {**memory, "renewed": renewed, "admitted_before": view.admitted}
    share = np.minimum((memory["bought"] - memory["bought_before"]) / np.maximum(places, 1), 1.0)
    return {**memory, "used": (1.0 - share) ** 2 * memory["used"] + 1.0, "bought_before": memory["bought"]}


def ages(renewed: Floats, t: int) -> Ints:
    """Rounds of use in each part of the places, the oldest first, (R, PARTS), from the shares of the latest rounds.

    Before round t no place has been used for longer than t rounds, not even an empty one.
    """
    return np.asarray(np.minimum(1 + (renewed.cumsum(axis=-1)[:, None] < NEWER[:, None]).sum(axis=-1), t))


def felt(memory: Arrays, price: Floats, t: int, smooth: float) -> Floats:
    """Today's price as it is felt in each part of the places, (R, PARTS), or at each client, (R, M)."""
    if price.ndim == 2:
        return np.asarray(price / memory["used"] ** smooth)
    return np.asarray(price[:, None] / (ages(memory["renewed"], t) * NEWER) ** smooth)
