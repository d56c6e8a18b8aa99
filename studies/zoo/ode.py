"""ODE: of each class the samples that pull the way all samples pull together, and clients that share the classes out.

Source: Gong et al., *To store or not? Online data selection for federated learning with limited storage* (WWW 2023), and
gongchenooo/WWW23-ODE (facts only, no licence). A sample is worth ⟨∇ℓ, ĝ⟩, how far a step along it takes the mean loss down;
each class has a queue that the least worth leaves. Assumes that ĝ is like the gradient of all clients' data.

What is simpler here: ĝ is the mean gradient of the client's own samples, held and new, by the last layer and by the model of
this round. There it is the mean over all that came since the client last took part, put together by the server; so where
clients have different classes, ours points towards their own. Samples held are valued again in every round. Their weights in
training, which give back the shares that the classes have in the stream, are left out. Who stores which class is settled
before the run (`coordinated`); there it follows what clients report of their streams.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headgate.control.checks import whole_numbers
from headgate.control.ranking import Candidates, ordered, rank_within
from headgate.control.retention import Capacity, Retention
from headgate.control.types import Bools, Floats, Ints, System
from headgate.errors import SettingError
from studies.zoo.gradients import gradient_values

MOST_CLASSES = 10_000


@dataclass(frozen=True, eq=False)
class ODE(Retention):
    """Places are split evenly over the classes that a client stores; of each class those stay whose gradients point most
    along the mean gradient of all that the client has.

    `stores` lists the classes of each client (`coordinated` finds them); without it each stores what comes. Other classes
    have the places that are left. Without a model lots decide, as in `reservoir`.
    """

    capacity: Capacity = "buffer"
    stores: tuple[tuple[int, ...], ...] | None = None
    by_class = True
    scores: ClassVar[tuple[str, ...]] = ("error", "features")

    def __post_init__(self) -> None:
        super().__post_init__()
        for m, classes in enumerate(self.stores or ()):
            number = whole_numbers(f"stores[{m}]", list(classes), MOST_CLASSES)
            if np.any(number < 0):
                raise SettingError(f"stores[{m}] = {list(classes)}: must be numbers of classes, from 0 on")

    def limit(self, system: System) -> Ints | None:
        if self.stores is not None and len(self.stores) != system.clients:
            raise SettingError(f"stores has {len(self.stores)} entries for {system.clients} clients")
        return super().limit(system)

    def rank(self, candidates: Candidates) -> Ints | Floats:
        if candidates.scores is None:
            return candidates.draw()
        value = gradient_values(candidates.scores)  # along their mean it is an n-th of that
        turn = ordered(-value, -candidates.position)  # by worth; of equal ones the newer first
        rank = rank_within(candidates.group, turn, turn)
        if self.stores is not None:
            rank = np.where(self._stored(candidates.client, candidates.group), rank, rank + candidates.position.shape[1])
        return ordered(rank, turn)

    def _stored(self, client: Ints, label: Ints) -> Bools:
        """Whether the client stores the class."""
        assert self.stores is not None
        classes = 1 + max((max(own, default=0) for own in self.stores), default=0)
        table = np.zeros((len(self.stores), classes + 1), dtype=bool)
        for m, own in enumerate(self.stores):
            table[m, list(own)] = True
        return np.asarray(table[client, np.clip(label, 0, classes)])


def coordinated(counts: Sequence[Sequence[int]] | Ints, least: int = 5) -> tuple[tuple[int, ...], ...]:
    """Which classes each client stores, from how many samples of each class it sees, (clients, classes).

    The rarest class first: it goes to the `least` clients who see most of it and have room for another class; a client has
    room for as many as make it come out even. Where fewer than `least` have room, others who see it take it as well. One who
    is given none stores what it sees. From ODE we have the order, the clients and the `least`; the rest is ours.

    >>> coordinated([[9, 1, 0], [8, 2, 5], [1, 7, 0]], least=1)
    ((0,), (2,), (1,))
    """
    seen = whole_numbers("counts", np.asarray(counts))
    if seen.ndim != 2 or np.any(seen < 0) or least < 1:
        raise SettingError("coordinated: needs counts of each class for each client, and at least one client a class")
    clients, classes = seen.shape
    room = -(-classes * least // clients)
    given = np.zeros(seen.shape, dtype=bool)
    for y in np.argsort(seen.sum(axis=0), kind="stable"):
        full = given.sum(axis=1) >= room
        order = np.lexsort((np.arange(clients), -seen[:, y], full))
        takers = order[seen[order, y] > 0][:least]
        given[takers, y] = True
    given |= ~given.any(axis=1, keepdims=True) & (seen > 0)
    return tuple(tuple(np.flatnonzero(own).tolist()) for own in given)
