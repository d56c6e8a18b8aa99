"""What a buying rule is: it says which of the unlabelled samples that a client has before it get a label.

How many, the order says. A rule that asks for `scores` looks at samples, and looks may have a price; one that asks for none
knows only their places, and pays for labels alone.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.control.scores import WITHOUT_LABELS, Scores, check_asked
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError

Bools = NDArray[np.bool_]


class Offered(NamedTuple):
    """Unlabelled samples from which some clients choose, a client a row, (C, W)."""

    position: Ints
    """in the client's stream; ascending but for empty places, which are −1"""
    ordered: Ints
    """how many to choose, at most as many as there are, (C, 1)"""
    seed: Ints
    """(C, 1), like the next"""
    client: Ints
    scores: Scores | None = None
    """what the rule asks for, of each sample, under the model that the server sent in this round; 0 at empty places"""
    held: Floats | None = None
    """features of the samples that the client holds, (C, B, H), where the rule is `beside_held`;"""
    held_there: Bools | None = None
    """which of them there are, (C, B)"""

    @property
    def there(self) -> Bools:
        return np.asarray(self.position >= 0)

    def draw(self) -> Floats:
        """One number in [0, 1) for each position of each client's stream."""
        return uniform(self.seed, Purpose.SELECTION, np.maximum(self.position, 0), self.client)

    def highest(self, value: Floats) -> Bools:
        """Of each client the samples of the highest value, as many as are to be chosen; among equals those that came first."""
        order = np.lexsort((self.position, -value, ~self.there), axis=-1)
        chosen = np.zeros(self.position.shape, dtype=bool)
        np.put_along_axis(chosen, order, np.arange(order.shape[-1]) < self.ordered, axis=-1)
        return chosen


@dataclass(frozen=True, eq=False)
class Selection(ABC):
    """A rule: a frozen value whose fields are its settings.

    It chooses which, never how many. It remembers nothing, so a client alone, a batch of runs and a run that was resumed
    choose the same. Nobody knows the labels of what it chooses from.
    """

    scores: ClassVar[tuple[str, ...]] = ()
    """what it wants to know of each sample: of `Scores` what needs no label; a rule that asks for something looks"""
    beside_held: ClassVar[bool] = False
    """whether it wants the features of what the client holds, too"""

    @property
    def looks(self) -> bool:
        """Whether it looks at samples, which may have a price."""
        return bool(self.scores)

    @abstractmethod
    def chooses(self, offered: Offered) -> Bools:
        """Which are bought, (C, W): exactly `ordered` of those that are there."""


def check_selection_asks(rule: Selection) -> None:
    """Refuses a rule that asks for what cannot be known before a label is bought."""
    check_asked(rule, rule.scores, WITHOUT_LABELS)
    if rule.beside_held and "features" not in rule.scores:
        raise SettingError(f'{type(rule).__name__}.beside_held: needs "features" among its scores')


def chosen(rule: Selection, offered: Offered) -> Bools:
    """What the rule says, refused where it chooses others or more or fewer than it may."""
    name, takes = type(rule).__name__, np.asarray(rule.chooses(offered))
    if takes.shape != offered.position.shape or takes.dtype != np.bool_:
        raise SettingError(
            f"{name}.chooses: must return true or false for each of {offered.position.shape}, "
            f"returned {takes.dtype}{takes.shape}"
        )
    wrong = np.flatnonzero((takes & ~offered.there).any(axis=1) | (takes.sum(axis=1) != offered.ordered[:, 0]))
    if wrong.size:
        row = int(wrong[0])
        raise SettingError(
            f"{name}.chooses: chooses {takes[row].sum()} of {offered.there[row].sum()} samples "
            f"where {offered.ordered[row, 0]} are ordered; it chooses which, not how many, and no empty place"
        )
    return takes
