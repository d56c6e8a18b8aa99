"""FedBalancer's mix: so many samples that the model finds hard, the rest from those it
finds easy.

Source: Shin, Li, Liu and Lee, *FedBalancer: data and pace control for efficient
federated learning on heterogeneous clients* (MobiSys 2022), and jaemin-shin/FedBalancer
(BSD-2), `models/fedbalancer.py`, Algorithms 1 and 2. Assumes that hard samples teach
more, and that some easy ones guard against those that are merely wrong.

There the choice is what to train on in a round; here it is what to keep, so what is not
chosen is gone. What is ours: the lowest and the highest loss are those of the client's
own samples, not of all clients', so the server hears of no losses; and the threshold
stands still. There it begins at 0 and moves by .05 in 20 rounds while the loss falls,
which is memory; 0.2 is where it would be after a hundred. Deadlines and the pace have
no meaning here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import a_share
from headgate.control.ranking import Candidates, ordered, rank_within
from headgate.control.retention import Retention


@dataclass(frozen=True, eq=False)
class FedBalancer(Retention):
    """The share `easy` of the places is for samples below a threshold of the loss, the
    others are for those above; by lot.

    The threshold lies at the share `threshold` of the way from the client's lowest loss
    to its highest. Where there are too few of one sort, the other has the places.
    Without a model lots decide, as in `reservoir`.
    """

    easy: float = 0.5
    threshold: float = 0.2
    scores = ("loss",)

    def __post_init__(self) -> None:
        super().__post_init__()
        a_share("easy", self.easy)
        a_share("threshold", self.threshold)

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        if candidates.scores is None or candidates.scores.loss is None:
            return candidates.draw()
        loss, there = candidates.scores.loss, candidates.there
        low = np.where(there, loss, np.inf).min(axis=1, keepdims=True)
        high = np.where(there, loss, -np.inf).max(axis=1, keepdims=True)
        hard = loss >= low + (high - low) * self.threshold
        draw = candidates.draw(again=candidates.end)
        group = np.where(there, hard, 2)
        place = rank_within(group, np.zeros_like(group), draw)
        of_easy = np.floor(candidates.room * self.easy).astype(np.int64)
        beyond = place >= np.where(
            hard, candidates.room - of_easy, of_easy
        )  # they stay only where places are free
        return ordered(beyond, draw)
