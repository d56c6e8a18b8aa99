"""The parts of a round: what is prepared before the models are trained, the losses that
clients report, and its table rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.types import HALF, Bools, Floats, Ints, Ledger, Losses
from headgate.experiment import Experiment
from headgate.learning.drift import Judgement, World
from headgate.learning.purchases import PurchaseTable, StreamSource, UseCounts
from headgate.records.rows import (
    Column,
    PlayedRound,
    Row,
    Usage,
    client_rows,
    metric_rows,
)
from headgate.simulation.learner import Learner, Models, RoundSamples

Purchases = Mapping[str, PurchaseTable | None]
"""the origin of the samples that are held, by policy; None if it follows from their
order
"""


@dataclass(frozen=True)
class Round:
    """The results of a round, as rows of the tables."""

    t: int
    metrics: list[Row]
    clients: list[Row]


@dataclass(
    frozen=True,
    eq=False,
)
class Prepared:
    """The part of a round that does not depend on its models: what is admitted, and
    which clients train on which samples.
    """

    t: int
    before: Mapping[str, Ledger]
    after: Mapping[str, Ledger]
    played: Sequence[PlayedRound]
    """the round of each policy"""
    batch: RoundSamples
    clients: Ints
    """the numbers of the clients that train, (R, clients that train)"""
    runs: Ints
    """the run of each sample that is trained on, (samples,)"""
    samples: Ints
    """the number of each sample that is trained on, among the samples of the run's
    seed, (samples,)
    """
    new: Bools
    """whether each sample, or its label if labels arrive late, arrived in this round,
    (samples,)
    """
    known: Purchases
    """of the samples held before the round"""
    purchases: Purchases
    """of the samples held after the round"""


class PriceBlocks:
    """The prices of an experiment, computed for a block of rounds at a time."""

    def __init__(self, experiment: Experiment, numbers: int) -> None:
        self._prices, self._seeds = experiment.prices, experiment.seeds
        self._end = experiment.rounds + 1
        # raises an error if the prices end too early
        last = self._prices.path(self._seeds, experiment.rounds, self._end)
        self._length = max(1, numbers // last.size)
        self._first, self.block = 1, last[:0]
        """the prices from round `_first` on, (T, S), or (T, S, M) if clients have
        prices of their own
        """
        self.at(1)

    def at(self, t: int) -> Floats:
        """Return the price of round t for each seed."""
        if not 0 <= t - self._first < len(self.block):
            end = min(t + self._length, self._end)
            path = self._prices.path(self._seeds, t, end)
            self._first = t
            self.block = np.ascontiguousarray(np.moveaxis(path, 1, 0))
        price: Floats = self.block[t - self._first]
        return price


class Listening:
    """The runs for which the losses of samples are computed, and the policies that use
    them.
    """

    def __init__(self, experiment: Experiment) -> None:
        policies, self._seeds = experiment.policies, len(experiment.seeds)
        self.policies = [name for name in policies if policies[name].hears]
        """the policies that use the losses"""
        everyone = bool(experiment.training.losses)
        self._asked = [name for name in policies if everyone or name in self.policies]
        asked = [name in self._asked for name in policies]
        self.runs = np.flatnonzero(np.repeat(asked, self._seeds))
        self._clients = experiment.system.clients

    def ask(
        self,
        learner: Learner,
        models: Models,
        batch: RoundSamples,
    ) -> Any:
        """Start to compute the losses of samples under the models before the round."""
        return learner.losses(models, batch, self.runs) if self.runs.size else None

    def answers(
        self,
        learner: Learner,
        asked: Any,
        now: Prepared,
    ) -> Mapping[str, Losses]:
        """Return the losses by policy; `asked` is the result of `ask`."""
        if not self.runs.size:
            return {}
        sizes = np.diff(now.batch.offsets).reshape(now.clients.shape)
        computed = np.isin(np.arange(len(sizes)), self.runs)
        new = now.new[np.repeat(computed, sizes.sum(axis=1))]
        losses, own = learner.read(asked), self.runs
        heard = mean_losses(losses, new, sizes[own], now.clients[own], self._clients)
        return {
            name: heard.of_runs(slice(n * self._seeds, (n + 1) * self._seeds))
            for n, name in enumerate(self._asked)
        }

    def told(
        self,
        ledgers: Mapping[str, Ledger],
        losses: Mapping[str, Losses],
        controllers: Mapping[str, Controller],
    ) -> Mapping[str, Ledger]:
        """Return the ledgers with the losses that their policies use."""
        if not self.policies:
            return ledgers
        with_losses = {
            name: replace(ledgers[name], losses=controllers[name].kept(losses[name]))
            for name in self.policies
        }
        return {**ledgers, **with_losses}


def mean_losses(
    losses: Floats,
    new: Bools,
    sizes: Ints,
    clients: Ints,
    many: int,
) -> Losses:
    """Return mean losses per client, (R, many), of samples that are sorted by client:
    `sizes` (R, C) for `clients` (R, C).

    Sums are in float64 and in the order of the samples. A mean that is not finite, for
    example after divergence, becomes NaN.

    >>> new = np.array([True, False, False])
    >>> sizes, clients = np.array([[1, 2]]), np.array([[0, 2]])
    >>> heard = mean_losses(np.array([1.0, 3.0, 5.0]), new, sizes, clients, 3)
    >>> heard.new.tolist(), heard.held.tolist()
    ([[1.0, nan, nan]], [[nan, nan, 4.0]])
    """
    segments = np.repeat(np.arange(sizes.size), sizes.ravel())
    runs = np.arange(len(sizes))[:, None]

    def mean(values: NDArray[Any], chosen: Bools) -> Floats:
        own = segments[chosen]
        total = np.bincount(own, values[chosen], sizes.size)
        count = np.bincount(own, minlength=sizes.size)
        with np.errstate(invalid="ignore"):  # 0/0 where there are no samples
            means = total / count
        # rounding may make a mean slightly negative
        known = np.where(np.isfinite(means), np.maximum(means, 0.0), np.nan)
        found = np.full((len(sizes), many), np.nan)
        found[runs, clients] = known.reshape(sizes.shape)
        return found

    right = np.where(np.isfinite(losses), losses < HALF, np.nan)
    return Losses(mean(losses, new), mean(losses, ~new), mean(right, new))


@dataclass(
    frozen=True,
    eq=False,
)
class Recording:
    """The facts about an experiment that the rows of its rounds need."""

    experiment: Experiment
    world: World
    sources: Mapping[str, StreamSource]

    def metrics(
        self,
        now: Prepared,
        uses: UseCounts,
        train_loss: Floats,
        found: Judgement,
    ) -> list[Row]:
        """Return one row per run. n counts the samples that all clients hold; N, n_eff
        and the bound use those trained on.
        """
        given, weight = self.experiment, self.experiment.system.weight
        trained = np.diff(now.batch.offsets[:: now.batch.weights.shape[1]])
        validation: Column = [None] * len(trained)
        if given.data.validation:
            validation = found.validation.tolist()
        measured = {
            "test_accuracy": found.accuracy.tolist(),
            "test_loss": found.loss.tolist(),
            "validation_accuracy": validation,
            "train_loss": train_loss.tolist(),
        }
        by_concept = self.world.columns(now.t, weight, found.by_concept)
        return metric_rows(
            now.played,
            measured,
            Usage(trained, uses.distinct, uses.total, uses.squares),
            given.system.buffer,
            given.bound,
            more={**by_concept, **self._looks(now), **_under_way(now)},
        )

    def _looks(self, now: Prepared) -> dict[str, Column]:
        """Return, for each run, how many samples clients looked at in the round and
        what this cost; no columns if no policy looks, None for a policy that does not.
        """
        if not any(source.looks for source in self.sources.values()):
            return {}
        looked, paid = list[int | None](), list[float | None]()
        for played in now.played:
            source = self.sources[played.policy]
            before, after = now.known[played.policy], now.purchases[played.policy]
            if source.looks and before is not None and after is not None:
                looks = source.looking(played.before) * (after.looked - before.looked)
                looked += looks.sum(axis=-1).tolist()
                paid += played.paid_for_looks
            else:
                looked += [None] * len(played.seeds)
                paid += [None] * len(played.seeds)
        return {"looked": looked, "looks": paid}

    def clients(self, now: Prepared, heard: Mapping[str, Losses]) -> list[Row]:
        """Return one row per run with what each client admitted and holds, was paid if
        prices differ between clients, and reported of its losses if they were computed.
        """
        rows = list[Row]()
        for played in now.played:
            rows += client_rows(played, losses=heard.get(played.policy))
        return rows


def _under_way(now: Prepared) -> dict[str, Column]:
    """Return, for each run, the samples under way after the round and the money that is
    reserved for them; no columns if what is ordered is there at once.
    """
    waiting, reserved = list[int](), list[float]()
    for ledger in now.after.values():
        if ledger.pipeline is None:
            return {}
        waiting += ledger.pipeline.under_way.tolist()
        reserved += (ledger.committed - ledger.spent).tolist()
    return {"under_way": waiting, "reserved": reserved}
