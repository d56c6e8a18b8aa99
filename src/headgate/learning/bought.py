"""What clients bought that choose among samples of their streams: where in the stream each of their samples lies.

Control counts what a client has admitted: first, second, … Without a choice the i-th admission is the i-th sample of the
stream. With one it is a sample that the client had before it: its place in the stream, and the concept that the world was in
when it came by, are one number here, a sight.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose
from headgate.control.ranking import Candidates, chosen
from headgate.control.selection import Selection
from headgate.control.types import Floats, Ints
from headgate.learning.remembered import Remembered
from headgate.limits import CONCEPTS

Bools = NDArray[np.bool_]


def sight(positions: Ints, concepts: Ints | int = 0) -> Ints:
    """A place in the stream and a concept as one number; −1, no place, stays what it is.

    >>> [each.tolist() for each in seen_at(sight(np.array([7, 0, -1]), np.array([2, 0, 5])))]
    [[7, 0, -1], [2, 0, 0]]
    """
    return np.asarray(np.where(positions < 0, -1, positions * CONCEPTS + concepts))


def seen_at(sights: Ints) -> tuple[Ints, Ints]:
    """(place in the stream, concept) of each sight."""
    return np.asarray(np.where(sights < 0, -1, sights // CONCEPTS)), np.asarray(np.where(sights < 0, 0, sights % CONCEPTS))


class Sights(Remembered):
    """Of the samples that clients bought."""

    what = "data.window: the place"


class Choice(NamedTuple):
    """What some clients of one run have before them, and how many of it they buy."""

    clients: Ints
    """(C,)"""
    sights: Ints
    """(C, W), ascending but for empty places, which are −1"""
    ordered: Ints
    """(C,)"""

    @property
    def there(self) -> Bools:
        return np.asarray(self.sights >= 0)


@dataclass(frozen=True, eq=False)
class Bought:
    """Of one policy's runs, S of them; it is replaced, not changed."""

    looked: Ints
    """samples of its stream that each client has had before it, (S, M)"""
    sights: Sights
    spare: Ints
    """sights of unlabelled samples that it keeps, ascending, then −1, (S, M, most that it may keep)"""

    @classmethod
    def nothing(cls, runs: int, clients: int, keep: int) -> "Bought":
        none = np.zeros((runs, clients), np.int64)
        return cls(none, Sights.nothing(runs, clients), np.full((runs, clients, keep), -1, np.int64))

    def available(self, window: int, ordered: Ints, ends: Ints | None) -> Ints:
        """How many each client can buy of what it would have before it, (S, M); `ends` is where its stream does."""
        fresh = window * ordered if ends is None else np.minimum(window * ordered, np.maximum(ends - self.looked, 0))
        return np.asarray(np.minimum(ordered, fresh + (self.spare >= 0).sum(axis=-1)))

    def choice(self, run: int, window: int, ordered: Ints, ends: Ints | None, today: Ints | None) -> Choice:
        """What clients of a run with orders have before them: what they kept, and for each label a window of new samples.
        Those with nothing before them are left out.

        `ordered`, `ends` and the concepts of `today` are of this run, (M,).
        """
        fresh = self.fresh(run, window, ordered, ends)
        clients = np.flatnonzero((ordered > 0) & (fresh + (self.spare[run] >= 0).sum(axis=-1) > 0))
        looked, fresh = self.looked[run, clients], fresh[clients]
        nth = np.arange(int(fresh.max(initial=0)))
        new = np.where(nth < fresh[:, None], looked[:, None] + nth, -1)
        concepts = 0 if today is None else today[clients, None]
        sights = np.concatenate([self.spare[run, clients], sight(new, concepts)], axis=1)
        return Choice(clients, sights, np.minimum(ordered[clients], (sights >= 0).sum(axis=1)))

    def fresh(self, run: int, window: int, ordered: Ints, ends: Ints | None) -> Ints:
        """How many new samples of their streams the clients of a run have before them, (M,)."""
        asked = window * ordered
        return asked if ends is None else np.minimum(asked, np.maximum(ends - self.looked[run], 0))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All that `restored` needs."""
        return {"looked": self.looked, "begin": self.sights.begin, "sights": self.sights.value, "spare": self.spare}

    def restored(self, saved: Mapping[str, NDArray[Any]]) -> "Bought":
        """From what was saved; refused where it is not of as many runs, clients and places."""
        for name, like in (("looked", self.looked), ("spare", self.spare)):
            if saved[name].shape != like.shape:
                raise ValueError(f"{name} is {saved[name].shape}, must be {like.shape}")
        looked, spare = saved["looked"].astype(np.int64), saved["spare"].astype(np.int64)
        return replace(self, looked=looked, spare=spare, sights=self.sights.restored(saved["begin"], saved["sights"]))


def offered(
    choice: Choice, seed: int, scores: Any = None, held: Floats | None = None, there: Bools | None = None
) -> Candidates:
    """A choice as a rule sees it."""
    positions, _ = seen_at(choice.sights)
    own = np.full((len(choice.clients), 1), seed, np.int64)
    room, client = choice.ordered[:, None], choice.clients[:, None]
    found = Candidates(positions, room, own, client, scores=scores, purpose=Purpose.SELECTION)
    return found._replace(held=held, held_there=there)


def split(rule: Selection, choice: Choice, given: Candidates, keep: int) -> tuple[Ints, Ints]:
    """(sights of what is bought, client by client, one after the other; those kept of what is not, (C, keep), as in
    `Bought.spare`): the newest are kept."""
    takes = chosen(rule, given)
    left = np.where(choice.there & ~takes, choice.sights, -1)
    newest = np.sort(left, axis=1)[:, max(left.shape[1] - keep, 0) :] if keep else left[:, :0]
    kept = np.full((len(left), keep), -1, np.int64)
    order = np.argsort(newest < 0, axis=1, kind="stable")
    kept[:, : newest.shape[1]] = np.take_along_axis(newest, order, axis=1)
    return choice.sights[takes], kept
