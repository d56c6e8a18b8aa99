"""What a client minimises in its local steps: a part, stated by how a sample's loss changes with the model's answers to it.

That slope is all that descent needs of a loss. It is written once here and serves every array library and every executor
that takes objectives. Arrays have the classes first, (K, …), and then the samples.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from headgate.control.checks import positive
from headgate.control.types import Bools, Floats, Ints
from headgate.errors import require
from headgate.registry import Slot


class LocalAnswers(NamedTuple):
    """What a model says to clients' samples, and what the clients know of them. `arrays` is numpy, or torch."""

    logits: Any
    """(K, …) of the client's model"""
    received: Any
    """(K, …) of the model that the server sent"""
    truth: Any
    """(K, …) 1 for a sample's own class, 0 for the others"""
    held: Any
    """(K, …), or what broadcasts to it: how many samples of each class the sample's client holds"""
    arrays: Any


class LocalObjective:
    """What a client minimises: a frozen value whose fields are its settings. As it stands, cross-entropy."""

    by_age: ClassVar[bool] = False
    """whether `factors` are asked for"""

    def slope(self, at: LocalAnswers) -> Any:
        """By how much each sample's loss changes with each of the model's answers, (K, …)."""
        return softmax(at.logits, at.arrays) - at.truth

    def factors(self, new: Bools, offsets: Ints) -> Floats:
        """How much each sample counts in its client's loss, 1 on average over a client; client m's are offsets[m] and on.

        `new` says which samples were admitted in this round, or got their labels in it where these come late.
        """
        return np.ones(len(new))


@dataclass(frozen=True)
class PlainLoss(LocalObjective):
    """Mean cross-entropy, as in the paper."""


@dataclass(frozen=True)
class FreshShare(LocalObjective):
    """Weighted empirical risk between old and fresh samples (Marfoq et al. 2023): fresh ones have `share` of a client's
    weight, old ones the rest, each shared evenly.

    Ours: a sample is fresh in the round in which it is admitted; a client that has only one of the two gives that all
    weight; `share` is a setting, where theirs follows from a bound. In mini-batches a sample has the weight it has in all.
    """

    by_age: ClassVar[bool] = True
    share: float = 0.5

    def __post_init__(self) -> None:
        require(0 <= self.share <= 1, "share", self.share, "0 to 1")

    def factors(self, new: Bools, offsets: Ints) -> Floats:
        sizes = np.diff(offsets)
        client = np.repeat(np.arange(len(sizes)), sizes)
        fresh = np.bincount(client, new, minlength=len(sizes))
        old = sizes - fresh
        both = (fresh > 0) & (old > 0)
        of_fresh = np.where(both, self.share * sizes / np.maximum(fresh, 1), 1.0)
        of_old = np.where(both, (1 - self.share) * sizes / np.maximum(old, 1), 1.0)
        return np.where(new, of_fresh[client], of_old[client])


@dataclass(frozen=True)
class CalibratedLogits(LocalObjective):
    """FedLC (Zhang et al. 2022): cross-entropy of logits less tau·n_y^(−1/4), n_y being how many samples of class y the
    client holds.

    Ours: a class that the client has no sample of counts as `vacant` samples; with 0, as their formula has it, it takes no
    part at all. The true class is part of the sum over classes, as in cross-entropy; their formula leaves it out.
    """

    tau: float = 1.0
    vacant: float = 1.0
    """at most 1: how many samples a class counts as that a client holds none of"""

    def __post_init__(self) -> None:
        positive("tau", self.tau)
        require(0 <= self.vacant <= 1, "vacant", self.vacant, "0 to 1")

    def slope(self, at: LocalAnswers) -> Any:
        held = at.arrays.where(at.held > 0, at.held, self.vacant)
        return softmax(at.logits - self.tau * held**-0.25, at.arrays) - at.truth


def softmax(logits: Any, arrays: Any) -> Any:
    """Over the first axis; a logit of −∞ has no share.

    >>> softmax(np.array([0.0, 0.0, -np.inf]), np).tolist()
    [0.5, 0.5, 0.0]
    """
    powers = arrays.exp(logits - arrays.amax(logits, 0))
    return powers / powers.sum(0)


OBJECTIVE = Slot("objective", LocalObjective, {"plain": PlainLoss, "fresh": FreshShare, "fedlc": CalibratedLogits})
