"""Headgate that listens: where clients' new samples still tell the model something, a
price may be higher.

Each price is divided by what samples are worth, relative to the others', and then held
against headgate's one limit. So at the same price clients that gain much buy and the
others wait, as with a price per client, and as far as `fairness` allows.
studies/results/better/listening.json has the numbers: it is worth little.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headgate.control.checks import positive
from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import SettingError

LOUDEST = 1e6
"""a loss above it counts as this much: clients may be strangers"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Listening(Headgate):
    """Where nothing is heard, as in round 1 and in a rehearsal, it is headgate to the
    bit.
    """

    listens: ClassVar[bool] = True
    by: Literal["new", "surprise", "oort", "gap"] = "new"
    """what samples are worth to a client: the loss of its new ones, that minus the loss
    of those it holds, or Oort's utility; "gap": to all alike, by how much more new ones
    lose than those held, beside how it was so far"""
    most: float = 1.4
    """a worth lies between 1/most and most, relative to the clients' median"""
    smoothing: float = 0.3
    """of the loss of new samples: the part that the latest has"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.most <= LOUDEST:
            raise SettingError(f"most = {self.most}: must be from 1 to {LOUDEST:g}")
        positive("smoothing", self.smoothing, most=1.0)

    def start(self, system: System, runs: int) -> Arrays:
        by_client, never = (
            np.zeros((runs, system.clients)),
            np.zeros((runs, system.clients), dtype=np.int64),
        )
        own = {
            "new_loss": by_client,
            "held_loss": by_client,
            "last_heard": never,
            "gaps": np.zeros(runs),
        }
        return {**super().start(system, runs), **own}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        if view.losses is None:
            return super().wanted(view, memory)
        memory = self._hear(view, memory)
        price = view.price if view.price.ndim == 2 else view.price[:, None]
        return super().wanted(
            view._replace(price=price / self._worth(view, memory)), memory
        )

    def _hear(self, view: View, memory: Arrays) -> Arrays:
        """Losses of rounds in which a client has no new samples, or does not tell, are
        those of the last one.
        """
        assert view.losses is not None
        new, held = (np.minimum(each, LOUDEST) for each in view.losses[:2])
        told, before = ~np.isnan(new), memory["new_loss"]
        moved = before + np.where(memory["last_heard"] > 0, self.smoothing, 1.0) * (
            np.where(told, new, before) - before
        )
        held = np.where(np.isnan(held), memory["held_loss"], held)
        gaps = memory["gaps"] + _gap(moved, held)
        last = np.where(told, view.t - 1, memory["last_heard"])
        return {
            **memory,
            "new_loss": moved,
            "held_loss": held,
            "last_heard": last,
            "gaps": gaps,
        }

    def _worth(self, view: View, memory: Arrays) -> Floats:
        """Of a sample of each client, (R, M), around 1: at the clients' worths all
        places together cost what they cost.
        """
        new, held, places = (
            memory["new_loss"],
            memory["held_loss"],
            self.places(view.system),
        )
        if self.by == "gap":
            usual = memory["gaps"] / (view.t - 1)
            now = np.divide(
                _gap(new, held), usual, out=np.ones_like(usual), where=usual > 0
            )
            return np.broadcast_to(
                np.clip(now, 1 / self.most, self.most)[:, None], new.shape
            )
        if self.by == "oort":
            worth = _utility(new * places, memory["last_heard"], view.t)
        else:
            worth = new if self.by == "new" else np.maximum(new - held, 0.0)
        known = memory["last_heard"] > 0
        usual = np.array(
            [
                [np.median(row[own]) if own.any() else 0.0]
                for row, own in zip(worth, known, strict=True)
            ]
        )
        worth = np.divide(
            worth, usual, out=np.ones_like(worth), where=known & (usual > 0)
        )
        worth = np.clip(worth, 1 / self.most, self.most)
        return np.asarray(
            worth * (places / worth).sum(axis=-1, keepdims=True) / places.sum()
        )


def _gap(new: Floats, held: Floats) -> Floats:
    """How much less the samples held lose than new ones, as a part of what new ones
    lose, (R,): from 0 to 1.
    """
    fresh = new.mean(axis=-1)
    return np.asarray(
        np.clip(
            1
            - np.divide(
                held.mean(axis=-1), fresh, out=np.ones_like(fresh), where=fresh > 0
            ),
            0.0,
            1.0,
        )
    )


def _utility(losses: Floats, last: Floats, t: int) -> Floats:
    """Oort's: samples times their loss, scaled to 0..1, and more for who was not heard
    for long (Lai et al. 2021, OSDI).

    There the loss is the root of the mean square; here only the mean is known.
    """
    least, most = losses.min(axis=-1, keepdims=True), losses.max(axis=-1, keepdims=True)
    scaled = np.divide(
        losses - least, most - least, out=np.zeros_like(losses), where=most > least
    )
    return np.asarray(scaled + np.sqrt(0.1 * np.log(t) / np.maximum(last, 1)))
