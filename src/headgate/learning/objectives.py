"""Objectives that a client can minimise locally, each defined by its slope: the
derivative of a sample's loss by the logits.

Gradient descent needs only this slope. One definition serves every array library and
every executor that accepts objectives. The first axis of the arrays is the classes, (K,
…), and the samples follow.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from headgate.control.checks import positive
from headgate.control.types import Bools, Floats, Ints
from headgate.errors import require
from headgate.registry import Slot


class LocalAnswers(NamedTuple):
    """The model's outputs for the samples of clients, and what an objective may know of
    these. `arrays` is numpy or torch.
    """

    logits: Any
    """logits of the client's model, (K, …)"""
    received: Any
    """logits of the model that the server sent, (K, …)"""
    truth: Any
    """1 for the sample's own class and 0 for the others, (K, …)"""
    held: Any
    """how many samples of each class the sample's client holds, in a shape that
    broadcasts to (K, …)
    """
    arrays: Any


class LocalObjective:
    """Base class of objectives, which itself is cross-entropy. The fields are the
    settings.
    """

    by_age: ClassVar[bool] = False
    """whether samples are weighted by `factors`"""

    def slope(self, at: LocalAnswers) -> Any:
        """Return the derivative of each sample's loss with respect to each of its
        logits, (K, …).
        """
        return softmax(at.logits, at.arrays) - at.truth

    def factors(self, new: Bools, offsets: Ints) -> Floats:
        """Return the weight of each sample in its client's loss, 1 on average; the
        samples of client m begin at offsets[m].

        `new` marks the samples that were admitted in this round or, if labels are late,
        received their labels in it.
        """
        return np.ones(len(new))


@dataclass(frozen=True)
class PlainLoss(LocalObjective):
    """Mean cross-entropy, as in the paper."""


@dataclass(frozen=True)
class FreshShare(LocalObjective):
    """Weighted empirical risk over old and fresh samples (Marfoq et al. 2023): the
    fresh samples of a client share the weight `share` evenly, and the old ones share
    the rest.

    Differences from the reference: a sample is fresh in the round in which it is
    admitted; a client with only one of the two kinds gives it all the weight; `share`
    is a setting instead of following from a bound. Mini-batches use the same weights.
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
    """FedLC (Zhang et al. 2022): cross-entropy after tau·n_y^(−1/4) is subtracted from
    the logit of class y, where n_y is the number of samples of class y that the client
    holds.

    Differences from the reference: a class without samples counts as `vacant` samples;
    0 removes it, as in their formula. The sum over classes includes the true class, as
    in cross-entropy; their formula omits it.
    """

    tau: float = 1.0
    vacant: float = 1.0
    """number n_y, from 0 to 1, for a class of which the client holds no sample"""

    def __post_init__(self) -> None:
        positive("tau", self.tau)
        require(0 <= self.vacant <= 1, "vacant", self.vacant, "0 to 1")

    def slope(self, at: LocalAnswers) -> Any:
        held = at.arrays.where(at.held > 0, at.held, self.vacant)
        return softmax(at.logits - self.tau * held**-0.25, at.arrays) - at.truth


def softmax(logits: Any, arrays: Any) -> Any:
    """Return the softmax over the first axis; a logit of −∞ gets probability 0.

    >>> softmax(np.array([0.0, 0.0, -np.inf]), np).tolist()
    [0.5, 0.5, 0.0]
    """
    powers = arrays.exp(logits - arrays.amax(logits, 0))
    return powers / powers.sum(0)


OBJECTIVE = Slot(
    "objective",
    LocalObjective,
    {"plain": PlainLoss, "fresh": FreshShare, "fedlc": CalibratedLogits},
)
