"""Which samples clients buy: of the unlabelled ones in a window of their streams, as many as were ordered.

A rule that asks for `scores` looks at samples, and looks may have a price; one that asks for none knows only their places,
and pays for labels alone. Labels of what a rule chooses from are not known.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headgate.control.ranking import Candidates, RankingRule
from headgate.control.scores import WITHOUT_LABELS
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False)
class Selection(RankingRule):
    """Ranks the unlabelled samples that a client has before it; the lowest ranks are bought."""

    known_scores: ClassVar[tuple[str, ...]] = WITHOUT_LABELS
    beside_held: ClassVar[bool] = False
    """whether the rule needs the features of what the client holds, too"""

    @property
    def looks(self) -> bool:
        """Whether the rule looks at samples, which may have a price."""
        return bool(self.scores)

    def check(self) -> None:
        """Refuse a rule that asks for what is not known before a label is bought."""
        super().check()
        if self.beside_held and "features" not in self.scores:
            raise SettingError(f'{type(self).__name__}.beside_held: needs "features" among its scores')


@dataclass(frozen=True, eq=False)
class FirstCome(Selection):
    """The next samples of the stream: what every client buys without a rule.

    It needs no window and passes over nothing, so a run with it is the run without any rule.
    """

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        return np.zeros(candidates.position.shape)


@dataclass(frozen=True, eq=False)
class ByLot(Selection):
    """Each choice among the samples of the window is equally likely. It looks at none of them, so it pays for labels alone.

    The draw is addressed by the run's seed, the client and the sample's place in the stream.
    """

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        return -candidates.draw()


@dataclass(frozen=True, eq=False)
class ByEntropy(Selection):
    """The samples whose class the model is least sure of, by the entropy of what it predicts.

    Settles, *Active Learning Literature Survey* (2009), section 3.1. It assumes that the model's probabilities mean
    something: in the first rounds they do not, and the choice is then as good as any other.
    """

    scores = ("entropy",)

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        assert candidates.scores is not None
        assert candidates.scores.entropy is not None
        return -candidates.scores.entropy


@dataclass(frozen=True, eq=False)
class ByMargin(Selection):
    """The samples whose two likeliest classes are closest together.

    Scheffer, Decomain and Wrobel, *Active hidden Markov models for information extraction* (2001); Settles (2009), section
    3.1. Like `ByEntropy` it assumes that the model's probabilities mean something; it ignores all but two classes.
    """

    scores = ("margin",)

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        assert candidates.scores is not None
        assert candidates.scores.margin is not None
        return candidates.scores.margin


KINDS: dict[str, type[Selection]] = {"first": FirstCome, "random": ByLot, "entropy": ByEntropy, "margin": ByMargin}
"""by their names in recipes"""
