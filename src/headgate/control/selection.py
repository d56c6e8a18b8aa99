"""Which samples clients buy: of the unlabelled ones in a window of their streams, as many as were ordered.

A rule that asks for `scores` looks at samples, and looks may have a price; one that asks for none knows only their places,
and pays for labels alone. Labels of what a rule chooses from are not known.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import a_share
from headgate.control.ranking import Candidates, RankingRule
from headgate.control.scores import WITHOUT_LABELS
from headgate.control.types import Arrays, Bools, Ledger
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False)
class Selection(RankingRule):
    """Ranks the unlabelled samples that a client has before it; the lowest ranks are bought."""

    known_scores: ClassVar[tuple[str, ...]] = WITHOUT_LABELS
    beside_held: ClassVar[bool] = False
    """whether the rule also needs the features of what the client holds"""
    listens: ClassVar[bool] = False
    """whether the rule is told how many new samples the model got right in the round before, `Losses.right`"""

    @property
    def looks(self) -> bool:
        """Whether the rule looks at samples, which may have a price."""
        return bool(self.scores)

    def start(self, runs: int) -> Arrays:
        """Return what the rule remembers before round 1; names begin with "selection."."""
        return {}

    def heard(self, ledger: Ledger) -> Arrays:
        """Return what it remembers after the ledger's last round."""
        return {}

    def looking(self, ledger: Ledger) -> Bools:
        """Return which clients look in the next round, (R, M)."""
        return np.full(ledger.admitted.shape, self.looks)

    def now(self, looking: bool) -> "Selection":
        """Return the rule by which clients choose in a round in which they look, or do not."""
        return self

    def check(self) -> None:
        """Refuse a rule that asks for what is not known before a label is bought."""
        super().check()
        if self.beside_held and "features" not in self.scores:
            raise SettingError(f'{type(self).__name__}.beside_held: needs "features" among its scores')


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


TRIAL, LOTS, MARGINS = 0, 1, 2
CONTROL, FOR, AGAINST, LATEST = 4, 10, 100, 30
"""one client in so many draws lots in the trial; samples of theirs that end it where looking pays, and where it does not;
samples that a share is smoothed over"""


@dataclass(frozen=True, eq=False)
class Adaptive(ByMargin):
    """By margin where that pays: once the model is right about most of a random choice; at random before that.

    A model that is mostly wrong is unsure of samples from which it cannot learn yet. Nobody looks in round 1, in which the
    model knows nothing. Then there is a trial: three clients in four look, and the others choose at random. It ends when
    the share of the others' new samples to whose class the model gave more than ½, before it was trained on them, is at
    least `level`: from then on all clients look. After 100 such samples it ends in any case, and nobody looks before that
    share is at least `level`. Clients stop looking when the share falls below `stop`: what margins choose is hard on
    purpose, so `stop` is low. Without reports, as in a plan, the trial continues.
    """

    level: float = 0.65
    """share of a random choice that the model must get right"""
    stop: float = 0.2
    """share of what margins choose that it must continue to get right"""
    listens = True

    def __post_init__(self) -> None:
        a_share("level", self.level)
        a_share("stop", self.stop)

    def start(self, runs: int) -> Arrays:
        whole = np.zeros(runs, dtype=np.int64)
        return {"selection.state": whole, "selection.right": np.zeros(runs), "selection.heard": whole, "selection.ever": whole}

    def heard(self, ledger: Ledger) -> Arrays:
        state, right, heard, ever = (ledger.memory[name] for name in self.start(1))
        if ledger.losses is not None and ledger.losses.right is not None and ledger.t > 1:
            told = np.isfinite(ledger.losses.right)
            judged = told & ~((state == TRIAL)[:, None] & self._tried(ledger))
            many = judged.sum(axis=-1)
            share = np.where(judged, ledger.losses.right, 0.0).sum(axis=-1) / np.maximum(many, 1)
            bought = np.rint((ledger.ever - ever) * many / np.maximum(told.sum(axis=-1), 1)).astype(np.int64)
            new = np.maximum(bought, many)  # where labels come late, reports include those of other rounds
            right = right + new / np.maximum(new + np.minimum(heard, LATEST), 1) * (share - right)
            heard = heard + new
            pays = right >= np.where(state == MARGINS, self.stop, self.level)
            over = heard >= np.where(state == TRIAL, np.where(pays, FOR, AGAINST), 0)
            state = np.where(over, np.where(pays, MARGINS, LOTS), state)
        return dict(zip(self.start(1), (state, right, heard, ledger.ever), strict=True))

    def looking(self, ledger: Ledger) -> Bools:
        state = self.heard(ledger)["selection.state"][:, None]
        return np.asarray(((state == MARGINS) | ((state == TRIAL) & self._tried(ledger))) & (ledger.t > 0))

    def _tried(self, ledger: Ledger) -> Bools:
        """Which clients look in the trial, (M,)."""
        return np.arange(ledger.admitted.shape[1]) % CONTROL > 0

    def now(self, looking: bool) -> Selection:
        return ByMargin() if looking else ByLot()


KINDS: dict[str, type[Selection]] = {"random": ByLot, "entropy": ByEntropy, "margin": ByMargin, "adaptive": Adaptive}
"""by their names in recipes"""
