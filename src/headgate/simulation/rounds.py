"""A round: as far as it is known before the models are, and what it did."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.types import Bools, Floats, Ints, Ledger, Orders
from headgate.learning.purchases import PurchaseTable
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
    """run of every sample that is trained on"""
    samples: Ints
    """number of every such sample among those of the run's seed"""
    new: Bools
    """whether it, or its label where labels come late, came in this round"""
    known: Mapping[str, PurchaseTable | None]
    """where the samples held came from, before the round, by policy"""
    purchases: Mapping[str, PurchaseTable | None]
    """and after it"""
