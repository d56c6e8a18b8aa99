"""Simulates all runs of an experiment (policies × seeds) together, one round at a time.

A round begins with control. No policy uses the model of its round, but rules that
select samples to buy or to keep may. The samples that clients then hold become rows of
the training set, the executor does the local steps of each client, and the server
averages their updates. With a cohort the server admits samples for all clients, but
only the clients drawn for the round train.

A GPU computes while the host continues, so the host prepares the next round after it
launches a round and before it reads the results. It does not if a policy uses the
losses of samples, or a rule uses the model's scores of them: then control has to wait
for the round.
"""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.scores import Scores
from headgate.control.types import Floats, Ints, Ledger, Orders, Report
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset, hold_out
from headgate.learning.drift import (
    DriftingData,
    DriftingStream,
    World,
    judgement,
    sets_to_judge_by,
)
from headgate.learning.local import moves
from headgate.learning.purchases import (
    ChoosingSource,
    PurchaseSource,
    PurchaseTable,
    StreamSource,
    TrainingSamples,
    UseCounts,
    find_all,
)
from headgate.learning.server import aggregation_weights, draw_cohort
from headgate.learning.streams import Stream
from headgate.simulation.executors.gram import one_thread
from headgate.simulation.learner import Models, RoundSamples, learner_of
from headgate.simulation.rounds import (
    FEW,
    Prepared,
    Round,
    client_rows,
    heard_losses,
    metric_rows,
)

MOST_WITHOUT_COHORT = 10_000
"""the largest number of clients of an experiment without a cohort"""
PRICES = 1 << 22
"""the number of prices kept at once, which suffices for all rounds unless many clients
have prices of their own
"""


def streams_of(
    experiment: Experiment,
    dataset: Dataset,
    seeds: Ints,
    world: World,
    tried: bool = False,
) -> Iterator[Stream | DriftingStream]:
    """Yield the stream of each seed from the data that `hold_out` left; raise an error
    if they do not suffice for all clients.

    If `tried`, the streams are made for this check only, without a table of owners.
    """
    rule, clients = experiment.data.partition, experiment.system.clients
    all_of_them = not tried and (experiment.training.cohort is None or clients <= FEW)
    owners = rule.split if all_of_them else rule.owners
    for seed in map(int, seeds):
        owned = owners(dataset.train_labels, clients, seed, dataset.columns)
        stream = Stream(owned, seed, experiment.data.stream, dataset.train_labels)
        yield world.stream(stream, experiment.rounds)


class Simulation:
    """The state of all runs after round t; `step` simulates the next round."""

    def __init__(
        self,
        experiment: Experiment,
        dataset: Dataset,
        device: str = "cpu",
        executor: str = "auto",
    ) -> None:
        self.experiment = experiment
        dataset = hold_out(dataset, experiment.data.validation)
        given, training, system = experiment, experiment.training, experiment.system
        self.names, self.seeds = list(given.policies), given.seeds
        self.run_seeds = [int(seed) for _ in self.names for seed in self.seeds]
        if training.cohort is None and system.clients > MOST_WITHOUT_COHORT:
            raise SettingError(
                f"system.clients = {system.clients}: at most {MOST_WITHOUT_COHORT} can"
                " all train in every round; set training.cohort, the number of clients"
                " drawn to train in a round, as in training.cohort = 1000"
            )
        _, height, width = dataset.shape
        if not 0 <= training.shift < min(height, width):
            fewer = (
                f"must be pixels from 0 on, fewer than the image has, {height} x"
                f" {width}"
            )
            raise SettingError(f"training.shift = {training.shift}: {fewer}")
        held = dataset, self.seeds, system.clients
        self.world = (
            World(*held)
            if given.data.changes is None
            else DriftingData(given.data, *held)
        )
        self.learner = learner_of(given, self.world.dataset, device, executor)
        self.streams = list(streams_of(given, dataset, self.seeds, self.world))
        self.sources = {name: self._source(name) for name in self.names}
        self._known: PurchaseTable | None = None
        self.controllers = {name: self._controller(name) for name in self.names}
        rules = {
            name: controller.buffers.rule
            for name, controller in self.controllers.items()
        }
        buying = {
            name: policy.selection
            for name, policy in given.policies.items()
            if given.data.chooses(policy.selection)
        }
        for name, rule in (*rules.items(), *buying.items()):
            if rule is not None and rule.scores:
                self.learner.check_scores(
                    rule.scores, f"{type(rule).__name__} (policies.{name})"
                )
        self.looking = any(source.looks for source in self.sources.values())
        """whether the clients of any policy look at samples before they buy"""
        self.t = 0
        self.ledgers: Mapping[str, Ledger] = {
            name: each.open() for name, each in self.controllers.items()
        }
        theta = self.learner.start(self.run_seeds)
        self.models = Models(theta, theta, given.server.start(theta))
        self.uses = UseCounts(
            len(self.run_seeds), max(stream.samples for stream in self.streams)
        )
        self.diverged = np.zeros(len(self.run_seeds), dtype=np.int64)
        """the round in which each run's model became infinite or NaN, 0 if it has not,
        (R,)
        """
        self.accuracy = np.full(len(self.run_seeds), np.nan)
        """the test accuracy of each run at its last evaluation, (R,)"""
        self.chance = 1.0 / len(dataset.classes)
        last = given.prices.path(
            self.seeds, given.rounds, given.rounds + 1
        )  # raises an error if the prices end too early
        self._block = max(1, PRICES // last.size)
        self._first, self.prices = 1, last[:0]
        """the prices of a block of rounds from round `_first` on, (T, S), or (T, S, M)
        if clients have prices of their own
        """
        self._price(1)
        self.listening = [name for name in self.names if given.policies[name].hears]
        asked = [bool(training.losses) or name in self.listening for name in self.names]
        self.heard = np.flatnonzero(np.repeat(asked, len(self.seeds)))
        """the numbers of the runs for which the losses of samples are computed"""
        self.needs_scores = self.looking or any(rule.scores for rule in rules.values())
        """whether clients look before they buy, or a retention rule uses the model's
        scores of samples
        """
        self.overlap = device != "cpu" and not self.listening and not self.needs_scores
        """whether the host prepares the next round while the device computes this one
        """
        self._ahead: Prepared | None = None
        self.purchases: Mapping[str, PurchaseTable | None] = {
            name: source.open() for name, source in self.sources.items()
        }

    def _controller(self, name: str) -> Controller:
        policy, source = self.experiment.policies[name], self.sources[name]
        return Controller(
            self.experiment.system,
            policy,
            len(self.seeds),
            self.seeds,
            lambda seeds, clients, at: source.labels[
                source.find(self._known, seeds, clients, at).rows
            ],
            lambda seeds, clients, at, asked: source.score(
                asked, seeds, source.find(self._known, seeds, clients, at).rows
            ),
            self.experiment.data.price_of_looks(policy.selection),
        )

    def _source(self, name: str) -> StreamSource:
        """Return the source of the samples of a policy's clients; it stores the places
        of samples only if this is necessary.
        """
        data, first = self.experiment.data, self.names.index(name) * len(self.seeds)
        ends = (
            np.stack([stream.lengths for stream in self.streams])
            if data.stream.ends
            else None
        )

        def score(asked: tuple[str, ...], seeds: Ints, rows: Ints) -> Scores:
            return self.learner.scores(self.models, asked, seeds + first, rows)

        shared = (
            self.streams,
            ends,
            self.learner.dataset.train_labels,
            score,
            self.experiment.system.clients,
        )
        rule = self.experiment.policies[name].selection
        if rule is not None and data.chooses(rule):
            return ChoosingSource(*shared, self.world, data, rule, self.seeds)
        in_order = data.changes is None and not data.late and not data.stream.passing
        return (
            StreamSource(*shared)
            if in_order
            else PurchaseSource(*shared, self.world, data)
        )

    # one round

    def step(self) -> Round:
        """Simulate round t + 1: decide, admit, train, average, evaluate."""
        now, self._ahead = self._ahead, None
        if now is None or now.before is not self.ledgers:
            with (
                one_thread() if self.needs_scores else nullcontext()
            ):  # rules multiply; bits must not depend on threads
                now = self._prepare(self.t + 1, self.ledgers, self.purchases)
        batch = now.batch._replace(
            weights=np.where(self.diverged[:, None] > 0, 0.0, now.batch.weights)
        )
        shares = self.world.shares(now.t, self.experiment.system.weight)
        evaluated = (
            now.t % self.experiment.training.evaluate_every == 0
            or now.t == self.experiment.rounds
        )
        sets = (
            sets_to_judge_by(shares, bool(self.experiment.data.validation))
            if evaluated
            else []
        )
        asked = (
            self.learner.losses(self.models, batch, self.heard)
            if self.heard.size
            else None
        )
        models, results = self.learner.launch(
            now.t, self.models, batch, self.run_seeds, sets
        )
        ahead = self._look_ahead(now) if self.overlap else None
        self.uses.use(now.runs, now.samples)
        broken, train_loss, *scores = self.learner.read(
            results
        )  # waits for the device, once
        found = judgement(sets, scores, np.tile(shares, (len(self.names), 1)))
        self.diverged = np.where(
            (self.diverged == 0) & (broken > 0), now.t, self.diverged
        )
        for values in (train_loss, *found):
            values[self.diverged > 0] = np.nan
        if evaluated:
            self.accuracy = found.accuracy
        losses = heard_losses(self, now, asked) if self.heard.size else {}
        heard_by = {
            name: replace(
                now.after[name], losses=self.controllers[name].kept(losses[name])
            )
            for name in self.listening
        }
        self.t, self.models, self._ahead = now.t, models, ahead
        self.ledgers = {**now.after, **heard_by} if heard_by else now.after
        self.purchases = now.purchases
        return Round(
            now.t,
            metric_rows(self, now, train_loss, found),
            client_rows(self, now, losses),
        )

    def _prepare(
        self,
        t: int,
        before: Mapping[str, Ledger],
        known: Mapping[str, PurchaseTable | None],
    ) -> Prepared:
        """Do the part of round t that does not depend on the models after it, without
        changing the results of this round.
        """
        price, orders = self._price(t), dict[str, Orders]()
        system, training = self.experiment.system, self.experiment.training
        numbers = np.broadcast_to(
            np.arange(system.clients), (len(self.seeds), system.clients)
        )
        """the clients that train, for each seed, (S, clients that train)"""
        if training.cohort is not None:
            numbers = np.stack(
                [
                    draw_cohort(int(seed), t, system.clients, training.cohort)
                    for seed in self.seeds
                ]
            )
        after, bought = dict[str, Ledger](), dict[str, PurchaseTable | None]()
        held: list[tuple[StreamSource, PurchaseTable | None, TrainingSamples]] = []
        for name, controller in self.controllers.items():
            source, ledger = self.sources[name], before[name]
            orders[name] = controller.decide(
                ledger, price + controller.looks if controller.looks else price
            )
            admitted = source.available(known[name], ledger, orders[name].admitted)
            self._known = source.after_purchase(t, known[name], ledger, admitted)
            after[name] = controller.post(
                ledger, orders[name], None if source.ends is None else Report(admitted)
            )
            bought[name] = source.after_round(self._known, after[name])
            held.append(
                (
                    source,
                    bought[name],
                    source.trainable(t, bought[name], ledger, after[name], numbers),
                )
            )
        clients = np.tile(numbers, (len(self.names), 1))
        owner = np.concatenate(
            [own.owner + number * numbers.size for number, (*_, own) in enumerate(held)]
        )
        new = np.concatenate([own.new for *_, own in held])
        samples, rows = find_all(held)
        sizes = np.bincount(owner, minlength=clients.size)
        weights = aggregation_weights(
            training.aggregation, system.weight[clients], sizes.reshape(clients.shape)
        )
        runs = owner // clients.shape[1]
        moved = (
            moves(training.shift, np.array(self.run_seeds)[runs], t, samples)
            if training.shift
            else None
        )
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        batch = RoundSamples(rows, moved, offsets, weights)
        return Prepared(
            t,
            price,
            before,
            orders,
            after,
            batch,
            clients,
            runs,
            samples,
            new,
            known,
            bought,
        )

    def _price(self, t: int) -> Floats:
        if not 0 <= t - self._first < len(self.prices):
            path = self.experiment.prices.path(
                self.seeds, t, min(t + self._block, self.experiment.rounds + 1)
            )
            self._first, self.prices = t, np.ascontiguousarray(np.moveaxis(path, 1, 0))
        price: Floats = self.prices[t - self._first]
        return price

    def _look_ahead(self, now: Prepared) -> Prepared | None:
        """Prepare the next round; return None after the last one or on an error, which
        is raised when the round begins.
        """
        try:
            return (
                self._prepare(now.t + 1, now.after, now.purchases)
                if now.t < self.experiment.rounds
                else None
            )
        except Exception:
            return None

    @property
    def theta(self) -> NDArray[Any]:
        """the models of all runs, (R, P)"""
        return self.learner.read(self.models.theta)

    @property
    def guessing(self) -> NDArray[np.bool_]:
        """whether each run's model is finite but at its last evaluation was no better
        than guessing, (R,)
        """
        return np.asarray((self.diverged == 0) & (self.accuracy <= 1.2 * self.chance))

    # save and restore

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `restore` needs in addition to the ledgers."""
        used, uses = self.uses.table()
        own: dict[str, NDArray[Any]] = {
            "used": used,
            "uses": uses,
            "diverged": self.diverged,
            "accuracy": self.accuracy,
        }
        for n, table in enumerate(self.purchases.values()):
            own |= {
                f"purchases.{n}.{name}": array
                for name, array in ({} if table is None else table.tensors()).items()
            }
        return {**self.learner.tensors(self.models), **own}

    def restore(
        self, t: int, tensors: Mapping[str, NDArray[Any]], ledgers: Mapping[str, Ledger]
    ) -> None:
        """Restore the state after round t."""
        self.t, self.ledgers, self._ahead = t, dict(ledgers), None
        self.models = self.learner.restored(tensors, self.models)
        self.uses = UseCounts.restored(
            len(self.run_seeds), self.uses.samples, tensors["used"], tensors["uses"]
        )
        self.diverged = tensors["diverged"].copy()
        self.accuracy = tensors["accuracy"].copy()
        for n, (policy, table) in enumerate(self.purchases.items()):
            if table is not None:
                saved = {
                    name: tensors[f"purchases.{n}.{name}"] for name in table.tensors()
                }
                self.purchases = {**self.purchases, policy: table.restored(saved)}
