"""A strategy of Flower that averages like the simulator: with the weights and the
server update of the recipe.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from headgate.books.nouns import Event
from headgate.books.updates import UNKNOWN, NamedArrays, in_type_of, shorten
from headgate.control.types import Floats
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.flower.parameters import numpy_of, record_of
from headgate.flower.roster import ClientGrid
from headgate.flower.rounds import Update
from headgate.learning.server import (
    ServerUpdate,
    State,
    aggregation_weights,
    between,
    draw_cohort,
    newest_share,
)
from headgate.theory.labels import paper


class Averaging(FedAvg):
    """The inner strategy of `AdmissionStrategy`: the cohort, weights, server update and
    mean of models of the recipe.

    `norm_multiple` is that of `Discipline`. If `evaluates` is true, all clients
    evaluate the model after every round.
    """

    memory = ("state", "mean", "medians")

    def __init__(
        self,
        experiment: Experiment,
        norm_multiple: float,
        evaluates: bool = False,
    ) -> None:
        super().__init__(1.0, float(evaluates), 0, 0, 0)
        self.experiment, self.norm_multiple = experiment, norm_multiple
        self.model: NamedArrays = {}
        self.state: State | None = None
        """state of the server update"""
        self.mean: NamedArrays | None = None
        """mean of the models so far, if the recipe has one: the model that is
        evaluated, and the result of the run
        """
        self.medians = [UNKNOWN, UNKNOWN]

    def configure_train(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        """Return the messages that send the model to the clients of the cohort."""
        assert isinstance(grid, ClientGrid)
        self.model = numpy_of(arrays)
        messages = super().configure_train(server_round, arrays, config, grid)
        size, clients = self.experiment.training.cohort, self.experiment.system.clients
        if size is None:
            return messages
        seed, client_of = int(self.experiment.seeds[0]), grid.clients or {}
        cohort = set(draw_cohort(seed, server_round, clients, size).tolist())
        return [
            message
            for message in messages
            if client_of[message.metadata.dst_node_id] in cohort
        ]

    def combined(
        self, t: int, updates: Sequence[Update]
    ) -> tuple[ArrayRecord, list[Event]]:
        """Return the model after the server update, and the events. Without updates,
        the mean is the model itself.
        """
        kept, events = list(updates), list[Event]()
        if self.norm_multiple:
            kept, self.medians, events = capped(
                t, updates, self.model, self.norm_multiple, self.medians
            )
        alpha = self.experiment.system.weight[[update.client for update in updates]]
        n = np.array([[update.n for update in updates]], dtype=np.int64)
        weights = aggregation_weights(
            self.experiment.training.aggregation, alpha[None], n
        )[0]
        mean = average(self.model, [update.model for update in kept], weights)
        rule = self.experiment.server
        state = rule.start(row(self.model)) if self.state is None else self.state
        model, state = server_step(rule, t, self.model, mean, state)
        self.state = state or None
        self.mean = mean_of_models(
            t, self.mean or self.model, model, self.experiment.training.average
        )
        return record_of(model), events

    def summary(self) -> None:
        """Log nothing, because the recipe has all settings."""


@paper("eq:global-aggregation")
def average(
    model: NamedArrays,
    updates: Sequence[NamedArrays],
    weights: Floats,
) -> dict[str, NDArray[Any]]:
    """Return θ + Σ w_m·(θ_m − θ), summed in float64 in the order of the updates. Arrays
    of whole numbers are rounded.
    """
    if not updates:
        return dict(model)
    after: dict[str, NDArray[Any]] = {}
    for name, start in model.items():
        base = start.astype(np.float64)
        total = np.zeros_like(base)
        for update, weight in zip(updates, weights, strict=True):
            total += weight * (update[name].astype(np.float64) - base)
        after[name] = in_type_of(start, base + total)
    return after


def server_step(
    rule: ServerUpdate,
    t: int,
    model: NamedArrays,
    mean: NamedArrays,
    state: State,
) -> tuple[dict[str, NDArray[Any]], State]:
    """Return the model and the state of the rule after round t. Whole numbers are those
    of `mean`, the averaged model.
    """
    start = row(model)
    after, state = rule.step(t, start, row(mean), state)
    if np.shape(after) != start.shape:
        raise SettingError(
            f"server: {type(rule).__name__}.step gave {np.shape(after)} for a model of"
            f" {start.shape}"
        )
    moved, place = dict(mean), 0
    for name in _real(model):
        own = model[name]
        part = np.asarray(after)[0, place : place + own.size]
        moved[name] = part.reshape(own.shape).astype(own.dtype)
        place += own.size
    return moved, {name: np.asarray(array) for name, array in state.items()}


def mean_of_models(
    t: int,
    before: NamedArrays,
    model: NamedArrays,
    eta: float | None,
) -> NamedArrays | None:
    """Return the mean of the models after round t, or None without `eta`. Whole numbers
    are those of the latest model.
    """
    if eta is None:
        return None
    share = newest_share(t, eta)
    means = {name: between(before[name], model[name], share) for name in _real(model)}
    return {**model, **means}


def row(model: NamedArrays) -> NDArray[Any]:
    """Return the model in the form that server updates take: an array with one row for
    the one run.
    """
    arrays = [model[name].ravel() for name in _real(model)]
    return np.concatenate([np.zeros(0, np.float16), *arrays])[None]


def _real(model: NamedArrays) -> list[str]:
    """Return the names of the parameters that a server update moves, sorted because a
    file may have another order.
    """
    return sorted(name for name, array in model.items() if array.dtype.kind == "f")


def capped(
    t: int,
    updates: Sequence[Update],
    model: NamedArrays,
    multiple: float,
    known: Sequence[float],
) -> tuple[list[Update], list[float], list[Event]]:
    """Return the updates of round t, none much longer than the median, the medians, and
    events for the ledger.
    """
    arrays = [update.model for update in updates]
    kept, medians, notes = shorten(arrays, model, multiple, known)
    after = [
        update if own is update.model else replace(update, model=own)
        for update, own in zip(updates, kept, strict=True)
    ]
    events = [
        Event(t, updates[note.place].client, "shortened", note.reason) for note in notes
    ]
    return after, medians, events
