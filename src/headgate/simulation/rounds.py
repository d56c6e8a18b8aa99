"""A round: as far as it is known before the models are, and what it did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Floats, Ints, Ledger, Orders
from headgate.learning.bought import Bought
from headgate.learning.moving import ConceptsSeen
from headgate.simulation.learner import RoundSamples


@dataclass(frozen=True)
class Round:
    """What a round did, as rows for the record."""

    t: int
    metrics: list[dict[str, Any]]
    clients: list[dict[str, Any]]


class Admissions(NamedTuple):
    """What is known of admissions beyond the ledgers."""

    bought: Mapping[str, Bought]
    """by policy, where clients choose what they buy"""
    recent: tuple[Ints, ...] = ()
    """samples ever admitted, (R, M), after round t − late, …, t, where labels come late"""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All that `restored` needs."""
        each = enumerate(bought.tensors() for bought in self.bought.values())
        own = {f"bought.{n}.{name}": array for n, tensors in each for name, array in tensors.items()}
        return own | ({"recent": np.stack(self.recent)} if self.recent else {})

    def restored(self, tensors: Mapping[str, NDArray[Any]]) -> "Admissions":
        """Refused where they are not shaped like those that are here."""
        bought = {}
        for n, (policy, like) in enumerate(self.bought.items()):
            bought[policy] = like.restored({name: tensors[f"bought.{n}.{name}"] for name in like.tensors()})
        if not self.recent:
            return Admissions(bought)
        recent = tensors["recent"].astype(np.int64)
        if recent.shape != (like_it := (len(self.recent), *self.recent[0].shape)):
            raise ValueError(f"recent is {recent.shape}, must be {like_it}")
        return Admissions(bought, tuple(recent))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A round as far as it is known before the models are: what is admitted, and who trains on what."""

    t: int
    price: Floats
    before: Mapping[str, Ledger]
    orders: Mapping[str, Orders]
    after: Mapping[str, Ledger]
    paid: Mapping[str, Floats | None]
    """to each client, (S, M), where prices differ between clients"""
    batch: RoundSamples
    clients: Ints
    """who trains, (R, clients that train)"""
    runs: Ints
    """of every sample that is trained on: its run;"""
    samples: Ints
    """its number in the stream of the run's seed;"""
    positions: Ints
    """its position in the stream of its client"""
    today: Ints | None
    """the concept of every client, (S, M), where the world changes;"""
    seen: ConceptsSeen | None
    """then also what is known after the round"""
    known: Ints
    """how many of its admissions each client had labels of before the round, (R, M)"""
    admissions: Admissions
    """after the round"""


def came_now(known: Ints, clients: Ints, positions: Ints, offsets: Ints) -> NDArray[np.bool_]:
    """Which samples, client by client, came in this round, or got their labels in it where these come late.

    `known` (R, M) is how many of its admissions each client had labels of before, `clients` (R, C) who trains, `offsets` where
    the samples of each begin.
    """
    before = known[np.arange(len(clients))[:, None], clients]
    return positions >= np.repeat(before.ravel(), np.diff(offsets))


def trainable(ledger: Ledger, ripe: Ints | None) -> tuple[Ints, Ints, Ints | None]:
    """What clients train on of what they hold: from which admission, up to which, and at which places where it is no window.

    `ripe` is how many of its admissions each client has the labels of, (S, M); None: of all. Where places are told, only how
    many there are counts of the first two.
    """
    if ripe is None:
        return ledger.dropped, ledger.admitted, ledger.places
    if ledger.places is None:
        return ledger.dropped, np.maximum(np.minimum(ledger.admitted, ripe), ledger.dropped), None
    places = np.where(ledger.places < ripe[..., None], ledger.places, -1)
    return ledger.dropped, ledger.dropped + (places >= 0).sum(axis=-1), places
