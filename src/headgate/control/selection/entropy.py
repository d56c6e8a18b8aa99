"""Uncertainty sampling by entropy.

Source: Settles, *Active Learning Literature Survey* (2009), section 3.1; entropy is Shannon's. Assumes that the model's
probabilities say something: in the first rounds they do not, and the choice is then as good as any other.
Ours: the samples of a client's window are ranked by the model that the server sent; among equals the first come goes first.
"""

from dataclasses import dataclass

from headgate.control.selection.rule import Bools, Offered, Selection


@dataclass(frozen=True, eq=False)
class ByEntropy(Selection):
    """The samples whose class the model is least sure of, by the entropy of what it predicts."""

    scores = ("entropy",)

    def chooses(self, offered: Offered) -> Bools:
        assert offered.scores is not None
        assert offered.scores.entropy is not None
        return offered.highest(offered.scores.entropy)
