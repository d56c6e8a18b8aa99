"""How good models are today: by the test set of every concept that a client is in, averaged over clients by their weights.

Where the world stands still there is one concept and everybody is in it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headgate.control.types import Floats


class Judgement(NamedTuple):
    """Of the models of all runs; NaN where nobody looked."""

    accuracy: Floats
    """on the test set, (R,)"""
    loss: Floats
    """mean cross-entropy on it, (R,)"""
    validation: Floats
    """accuracy on what was held out of the training images, (R,)"""
    by_concept: Floats
    """accuracy on the test set of each concept, (R, concepts); NaN where nobody is in it"""


def sets_to_judge_by(shares: Floats, validation: bool) -> list[int]:
    """Places in `Dataset.judged` of what is needed today: test sets, then what was held out. `shares` is (S, concepts)."""
    concepts = np.flatnonzero(shares.any(axis=0)).tolist()
    return [*concepts, *(shares.shape[1] + concept for concept in concepts if validation)]


def judgement(places: Sequence[int], scores: Sequence[Floats], shares: Floats) -> Judgement:
    """From accuracy and loss, (R,) each, on the sets at these places, one after the other; `shares` is (R, concepts)."""
    runs, concepts = shares.shape
    if concepts == 1:
        known = [*scores[:3], *(np.full(runs, np.nan) for _ in range(3 - len(scores)))]
        return Judgement(known[0], known[1], known[2], known[0][:, None])
    found = np.full((2, 2, concepts, runs), np.nan)  # test sets and held out; accuracy and loss
    for nth, place in enumerate(places):
        found[place // concepts, :, place % concepts] = scores[2 * nth : 2 * nth + 2]
    there = shares.T > 0
    (accuracy, loss), (validation, _) = np.where(there, shares.T * found, 0.0).sum(axis=2)
    return Judgement(accuracy, loss, validation, np.where(there, found[0, 0], np.nan).T)
