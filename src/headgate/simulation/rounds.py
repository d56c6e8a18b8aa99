"""A round: as far as it is known before the models are, and what it did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.types import Floats, Ints, Ledger, Orders
from headgate.learning.moving import ConceptsSeen
from headgate.simulation.learner import RoundSamples


@dataclass(frozen=True)
class Round:
    """What a round did, as rows for the record."""

    t: int
    metrics: list[dict[str, Any]]
    clients: list[dict[str, Any]]


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
