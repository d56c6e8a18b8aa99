"""Selection rules choose which unlabelled samples clients buy, as many as were ordered.

The samples are those in a window of the clients' streams. A rule that names `scores`
looks at samples, and looks may have a price. A rule without scores knows only the
positions of the samples and pays for labels alone. The labels of the candidates are not
known.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import a_share
from headgate.control.ranking import Candidates, RankingRule
from headgate.control.scores import WITHOUT_LABELS
from headgate.control.types import Arrays, Bools, Floats, Ints, Ledger
from headgate.errors import SettingError


@dataclass(
    frozen=True,
    eq=False,
)
class Selection(RankingRule):
    """Rank the unlabelled samples in a client's window; the lowest ranks are bought.

    Examples
    --------
    >>> from headgate.testing import check_selection
    >>> class Newest(Selection):
    ...     def rank(self, candidates):
    ...         return -candidates.position
    >>> check_selection(Newest())  # silent where nothing is wrong
    """

    known_scores: ClassVar[tuple[str, ...]] = WITHOUT_LABELS
    beside_held: ClassVar[bool] = False
    """whether the rule also needs the features of the samples that the client holds"""
    listens: ClassVar[bool] = False
    """whether the rule needs the share of new samples that the model got right in the
    previous round, `Losses.right`
    """

    @property
    def looks(self) -> bool:
        """Whether the rule looks at samples, which may have a price."""
        return bool(self.scores)

    def start(self, runs: int) -> Arrays:
        """Return the rule's memory before round 1.

        Parameters
        ----------
        runs : int
            R, the length of every array's first axis.

        Returns
        -------
        dict of str to array
            The memory; its names begin with "selection.".
        """
        return {}

    def heard(self, ledger: Ledger) -> Arrays:
        """Return the rule's memory after the ledger's last round.

        Parameters
        ----------
        ledger : Ledger
            The ledger.

        Returns
        -------
        dict of str to array
            The memory.
        """
        return {}

    def looking(self, ledger: Ledger) -> Bools:
        """Return which clients look in the next round.

        Parameters
        ----------
        ledger : Ledger
            The ledger after the last round.

        Returns
        -------
        array of bool
            Whether each client looks, (R, M).
        """
        return np.full(ledger.admitted.shape, self.looks)

    def now(self, looking: bool) -> "Selection":
        """Return the rule by which clients choose in a round.

        Parameters
        ----------
        looking : bool
            Whether they look in the round.

        Returns
        -------
        Selection
            The rule.
        """
        return self

    def check(self) -> None:
        """Check the names of the scores.

        Raises
        ------
        SettingError
            If the rule needs scores that are not known before a label is bought.
        """
        super().check()
        if self.beside_held and "features" not in self.scores:
            raise SettingError(
                f'{type(self).__name__}.beside_held: needs "features" among its scores'
            )


@dataclass(
    frozen=True,
    eq=False,
)
class ByLot(Selection):
    """Choose samples of the window at random, all choices equally likely.

    The rule does not look, so it pays for labels alone. Each draw depends on the run's
    seed, the client and the position of the sample in the stream.

    Examples
    --------
    >>> ByLot().scores  # it asks the model nothing
    ()
    """

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        return -candidates.draw()


@dataclass(
    frozen=True,
    eq=False,
)
class ByEntropy(Selection):
    """Choose the samples whose class the model is least sure of.

    Its measure is the entropy of the predicted probabilities. See Settles, *Active
    Learning Literature Survey* (2009), section 3.1. The model's probabilities must be
    meaningful. In the first rounds they are not, and the choice is then no better than
    a random one.

    Examples
    --------
    >>> ByEntropy().scores  # what it asks the model about each sample
    ('entropy',)
    """

    scores = ("entropy",)

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        assert candidates.scores is not None
        assert candidates.scores.entropy is not None
        return -candidates.scores.entropy


@dataclass(
    frozen=True,
    eq=False,
)
class ByMargin(Selection):
    """Choose the samples whose two likeliest classes have the closest probabilities.

    See Scheffer, Decomain and Wrobel, *Active hidden Markov models for information
    extraction* (2001); Settles (2009), section 3.1. As for `ByEntropy`, the model's
    probabilities must be meaningful. The rule ignores all but two classes.

    Examples
    --------
    >>> ByMargin().scores  # what it asks the model about each sample
    ('margin',)
    """

    scores = ("margin",)

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        assert candidates.scores is not None
        assert candidates.scores.margin is not None
        return candidates.scores.margin


MEMORY = ("selection.state", "selection.right", "selection.heard", "selection.ever")
"""names of the arrays that `Adaptive` remembers"""
TRIAL, LOTS, MARGINS = 0, 1, 2
CONTROL, FOR, AGAINST, LATEST = 4, 10, 100, 30
"""in the trial, one client in `CONTROL` chooses at random; the trial ends after `FOR`
samples of these clients if looking pays, and after `AGAINST` if not; the share is
smoothed over `LATEST` samples"""


@dataclass(
    frozen=True,
    eq=False,
)
class Adaptive(ByMargin):
    """Choose by margin, or at random while the model is still wrong nearly always.

    A model that is wrong about nearly all randomly chosen samples is unsure about
    samples from which it cannot learn yet. No client looks in round 1, because the
    model is untrained. In the trial that follows, three clients in four look and the
    others choose at random. The share that counts is that of the random clients' new
    samples whose class had a predicted probability above ½ before training. When it is
    at least `level` after 10 such samples or more, the trial ends and all clients look
    in all rounds from then on. After 100 such samples the trial ends in any case, and
    no client looks until the share reaches `again`. Without reports, as in a plan, the
    trial continues.

    Parameters
    ----------
    level : float, default 0.05
        Share of randomly chosen samples that the model must get right in the trial for
        all clients to look.
    again : float, default 0.5
        Share that it must get right for clients to look if it did not get `level` right
        in the trial.

    Examples
    --------
    >>> from headgate.control.policies import Headgate
    >>> Headgate(selection=Adaptive(level=0.1)).hears  # it needs what clients report
    True
    """

    level: float = 0.05
    again: float = 0.5
    listens = True

    def __post_init__(self) -> None:
        a_share("level", self.level)
        a_share("again", self.again)

    def start(self, runs: int) -> Arrays:
        count = np.zeros(runs, dtype=np.int64)
        return dict(zip(MEMORY, (count, np.zeros(runs), count, count), strict=True))

    def heard(self, ledger: Ledger) -> Arrays:
        state, right, heard, ever = (ledger.memory[name] for name in MEMORY)
        reported = None if ledger.losses is None else ledger.losses.right
        if reported is not None and ledger.t > 1:
            known = np.isfinite(reported)
            judged = known & ~((state == TRIAL)[:, None] & self._tried(ledger))
            many = judged.sum(axis=-1)
            share = np.where(judged, reported, 0.0).sum(axis=-1) / np.maximum(many, 1)

            bought = (ledger.ever - ever) * many / np.maximum(known.sum(axis=-1), 1)
            # If labels come late, reports include those of other rounds.
            new = np.maximum(np.rint(bought).astype(np.int64), many)
            weight = new / np.maximum(new + np.minimum(heard, LATEST), 1)
            right = right + weight * (share - right)
            heard = heard + new
            state = self._state(state, right, heard)
        after = (state, right, heard, ledger.ever)
        return dict(zip(MEMORY, after, strict=True))

    def _state(
        self,
        state: Ints,
        right: Floats,
        heard: Ints,
    ) -> Ints:
        """Return whether each run is in the trial, or by what it chooses after it."""
        trial = state == TRIAL
        level = np.where(trial, self.level, self.again)
        pays = (state == MARGINS) | (right >= level)
        needed = np.where(trial, np.where(pays, FOR, AGAINST), 0)
        then = np.where(pays, MARGINS, LOTS)
        return np.where(heard >= needed, then, state)

    def looking(self, ledger: Ledger) -> Bools:
        state = self.heard(ledger)["selection.state"][:, None]
        looking = (state == MARGINS) | ((state == TRIAL) & self._tried(ledger))
        return np.asarray(looking & (ledger.t > 0))

    def _tried(self, ledger: Ledger) -> Bools:
        """Return which clients look in the trial, (M,)."""
        return np.arange(ledger.admitted.shape[1]) % CONTROL > 0

    def now(self, looking: bool) -> Selection:
        return ByMargin() if looking else ByLot()


KINDS: dict[str, type[Selection]] = {
    "random": ByLot,
    "entropy": ByEntropy,
    "margin": ByMargin,
    "adaptive": Adaptive,
}
"""selection rules by their names in recipes"""
