"""Averaging as the simulator does it, for a strategy of Flower: the recipe's weights and server update."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from headgate.books.ledger_store import Event
from headgate.control.types import Floats
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.flower.parameters import numpy_of, record_of
from headgate.flower.roster import ClientGrid
from headgate.flower.rounds import NamedArrays, Update, distance
from headgate.learning.server import ServerUpdate, State, aggregation_weights, between, draw_cohort, newest_share
from headgate.theory.labels import paper

UNKNOWN = -1.0
"""a median that is not known yet"""
KINDS = {"f": "its update", "iu": "its update of whole numbers"}
"""arrays that are measured together: numbers of steps are much larger than changes of parameters"""
FEWEST = 3
"""updates of a round whose median no client decides alone"""


class Averaging(FedAvg):
    """The recipe's cohort, weights, server update and mean of models, in an `AdmissionStrategy`.

    `norm_multiple` is that of `Discipline`; with `evaluates` all clients evaluate the model after every round.
    """

    memory = ("state", "mean", "medians")

    def __init__(self, experiment: Experiment, norm_multiple: float, evaluates: bool = False) -> None:
        super().__init__(1.0, float(evaluates), 0, 0, 0)
        self.experiment, self.norm_multiple = experiment, norm_multiple
        self.model: NamedArrays = {}
        self.state: State | None = None
        """of the server update"""
        self.mean: NamedArrays | None = None
        """of the models so far, where the recipe asks for it: what is evaluated, and what a run ends with"""
        self.medians = [UNKNOWN, UNKNOWN]

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """The model to the cohort."""
        assert isinstance(grid, ClientGrid)
        self.model = numpy_of(arrays)
        size, clients = self.experiment.training.cohort, self.experiment.system.clients
        seed = int(self.experiment.seeds[0])
        cohort = set(range(clients) if size is None else draw_cohort(seed, server_round, clients, size).tolist())
        messages = super().configure_train(server_round, arrays, config, grid)
        return [message for message in messages if (grid.clients or {})[message.metadata.dst_node_id] in cohort]

    def combined(self, t: int, updates: Sequence[Update]) -> tuple[ArrayRecord, list[Event]]:
        """What the server update makes of the mean, which is the model itself where nobody trained; and what is to be told."""
        kept, events = list(updates), list[Event]()
        if self.norm_multiple:
            kept, self.medians, events = capped(t, updates, self.model, self.norm_multiple, self.medians)
        alpha = self.experiment.system.weight[[update.client for update in updates]]
        n = np.array([[update.n for update in updates]], dtype=np.int64)
        weights = aggregation_weights(self.experiment.training.aggregation, alpha[None], n)[0]
        mean = average(self.model, [update.model for update in kept], weights)
        rule = self.experiment.server
        state = rule.start(row(self.model)) if self.state is None else self.state
        model, state = server_step(rule, t, self.model, mean, state)
        self.state = state or None
        self.mean = mean_of_models(t, self.mean or self.model, model, self.experiment.training.average)
        return record_of(model), events

    def summary(self) -> None:
        """All there is to say is in the recipe."""


@paper("eq:global-aggregation")
def average(model: NamedArrays, updates: Sequence[NamedArrays], weights: Floats) -> dict[str, NDArray[Any]]:
    """θ + Σ w_m·(θ_m − θ), summed in float64 in the order of the updates. Whole numbers are rounded to whole numbers."""
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


def in_type_of(start: NDArray[Any], moved: NDArray[Any]) -> NDArray[Any]:
    """The numbers in the type that they had; whole numbers are rounded."""
    whole = start.dtype.kind in "iu" and moved.dtype.kind == "f"
    return (np.rint(moved) if whole else moved).astype(start.dtype, copy=False)


def server_step(
    rule: ServerUpdate, t: int, model: NamedArrays, mean: NamedArrays, state: State
) -> tuple[dict[str, NDArray[Any]], State]:
    """The model and the rule's state after round t, where `mean` is what averaging gives. Whole numbers are the mean's."""
    start = row(model)
    after, state = rule.step(t, start, row(mean), state)
    if np.shape(after) != start.shape:
        raise SettingError(f"server: {type(rule).__name__}.step gave {np.shape(after)} for a model of {start.shape}")
    moved, place = dict(mean), 0
    for name in _real(model):
        own = model[name]
        moved[name] = np.asarray(after)[0, place : place + own.size].reshape(own.shape).astype(own.dtype)
        place += own.size
    return moved, {name: np.asarray(array) for name, array in state.items()}


def mean_of_models(t: int, before: NamedArrays, model: NamedArrays, eta: float | None) -> NamedArrays | None:
    """The mean of the models after round t; None where it is not asked for. Whole numbers are the latest model's."""
    if eta is None:
        return None
    share = newest_share(t, eta)
    return {**model, **{name: between(before[name], model[name], share) for name in _real(model)}}


def row(model: NamedArrays) -> NDArray[Any]:
    """The model as server updates see it: one run, one row."""
    return np.concatenate([np.zeros(0, np.float16), *(model[name].ravel() for name in _real(model))])[None]


def _real(model: NamedArrays) -> list[str]:
    """The parameters that a server update moves, in one order for all rounds: a file may have another."""
    return sorted(name for name, array in model.items() if array.dtype.kind == "f")


def capped(
    t: int, updates: Sequence[Update], model: NamedArrays, multiple: float, known: Sequence[float]
) -> tuple[list[Update], list[float], list[Event]]:
    """The updates of round t, the largest medians so far, and what is to be told.

    An update longer than `multiple` times the median gets the length of the median, so that no client moves the model much
    farther than others. The measure is the largest median of a round so far (`known`, of real and of whole numbers): once most
    clients have learned what they hold, one that has bought new samples moves much farther than they do. Where nobody's real
    numbers have moved yet, an update may have any length; where nobody's whole numbers have, they stay.
    """
    after, medians, events = list(updates), list[float](), list[Event]()
    for (kinds, what), median in zip(KINDS.items(), known, strict=True):
        lengths = [distance(update.model, model, kinds) for update in updates]
        if len(lengths) >= FEWEST:
            median = max(median, float(np.median(lengths)))
        medians.append(median)
        if median == UNKNOWN or (median == 0 and kinds == "f"):
            continue
        for place, length in enumerate(lengths):
            if length > multiple * median:
                after[place] = _shortened(after[place], model, kinds, median / length)
                why = f"has length {length:.6g}, more than {multiple:g} times the median {median:.6g}, and gets the median's"
                events.append(Event(t, after[place].client, "shortened", f"{what} {why}"))
    return after, medians, events


def _shortened(update: Update, model: NamedArrays, kinds: str, share: float) -> Update:
    """With this share of the way from the model, in the arrays of these kinds."""
    arrays = dict(update.model)
    for name, base in model.items():
        if base.dtype.kind in kinds:
            start = base.astype(np.float64)
            arrays[name] = in_type_of(base, start + share * (arrays[name].astype(np.float64) - start))
    return replace(update, model=arrays)
