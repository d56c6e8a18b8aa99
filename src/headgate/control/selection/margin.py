"""Uncertainty sampling by margin.

Source: Scheffer, Decomain and Wrobel, *Active hidden Markov models for information extraction* (2001); Settles (2009),
section 3.1. Assumes, as `entropy` does, that the model's probabilities say something. It asks between which two classes the
model hesitates and does not mind the others.
Ours: the samples of a client's window are ranked by the model that the server sent; among equals the first come goes first.
"""

from dataclasses import dataclass

from headgate.control.selection.rule import Bools, Offered, Selection


@dataclass(frozen=True, eq=False)
class ByMargin(Selection):
    """The samples whose two likeliest classes are closest together."""

    scores = ("margin",)

    def chooses(self, offered: Offered) -> Bools:
        assert offered.scores is not None
        assert offered.scores.margin is not None
        return offered.highest(-offered.scores.margin)
