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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.scores import Scores
from headgate.control.types import Bools, Floats, Ints, Ledger, Report, SampleView
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
from headgate.learning.models import Logistic
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
from headgate.records.rows import FEW, PlayedRound
from headgate.simulation.executors.gram import one_thread
from headgate.simulation.learner import Learner, Models, RoundSamples
from headgate.simulation.rounds import (
    Listening,
    Prepared,
    PriceBlocks,
    Purchases,
    Recording,
    Round,
)

MOST_WITHOUT_COHORT = 10_000
"""the largest number of clients of an experiment without a cohort"""
PRICES = 1 << 22
"""the number of prices kept at once, which suffices for all rounds unless many clients
have prices of their own
"""


def _seen(source: StreamSource, known: PurchaseTable | None) -> SampleView:
    """Return what retention rules may know of the samples of a policy's clients."""

    def labels(
        seeds: Ints,
        clients: Ints,
        positions: Ints,
    ) -> Ints:
        return source.labels[source.find(known, seeds, clients, positions).rows]

    def scores(
        seeds: Ints,
        clients: Ints,
        positions: Ints,
        asked: tuple[str, ...],
    ) -> Scores:
        rows = source.find(known, seeds, clients, positions).rows
        return source.score(asked, seeds, rows)

    return SampleView(labels, scores)


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


def learner_of(
    experiment: Experiment,
    dataset: Dataset,
    device: str,
    executor: str,
) -> Learner:
    """Return a numpy learner for logistic regression on the CPU if `gram` supports the
    settings, else a torch learner.
    """
    linear = (
        type(experiment.model) is Logistic and experiment.training.dtype != "bfloat16"
    )
    fits = executor == "gram" or (
        executor == "auto" and experiment.local.batch_size is None
    )
    if linear and device == "cpu" and fits:
        from headgate.simulation.linear import LinearLearner

        return LinearLearner(experiment, dataset)
    try:
        from headgate.simulation.nets import NetLearner
    except ModuleNotFoundError as error:
        raise SettingError(
            f"this needs {error.name}: pip install 'headgate[sim]'"
        ) from None
    return NetLearner(experiment, dataset, device, executor)


def _check_sizes(experiment: Experiment, dataset: Dataset) -> None:
    """Raise SettingError if there are too many clients or images are shifted too
    far.
    """
    clients, training = experiment.system.clients, experiment.training
    if training.cohort is None and clients > MOST_WITHOUT_COHORT:
        raise SettingError(
            f"system.clients = {clients}: at most {MOST_WITHOUT_COHORT} can all train"
            " in every round; set training.cohort, the number of clients drawn to train"
            " in a round, as in training.cohort = 1000"
        )
    _, height, width = dataset.shape
    if not 0 <= training.shift < min(height, width):
        raise SettingError(
            f"training.shift = {training.shift}: must be pixels from 0 on, fewer than"
            f" the image has, {height} x {width}"
        )


class Simulation:
    """The state of all runs after round t; `step` simulates the next round.

    The runs of the first policy come first.

    Parameters
    ----------
    experiment : Experiment
        What is simulated.
    dataset : Dataset
        The data, with the images that are held out for validation.
    device : str
        `cpu` or `cuda`.
    executor : str
        The name of the executor, or `auto`.
    """

    def __init__(
        self,
        experiment: Experiment,
        dataset: Dataset,
        device: str = "cpu",
        executor: str = "auto",
    ) -> None:
        self.experiment = experiment
        self.names, self.seeds = list(experiment.policies), experiment.seeds
        self.run_seeds = [int(seed) for _ in self.names for seed in self.seeds]
        dataset = hold_out(dataset, experiment.data.validation)
        _check_sizes(experiment, dataset)
        clients = experiment.system.clients
        if experiment.data.changes is None:
            self.world = World(dataset, self.seeds, clients)
        else:
            self.world = DriftingData(experiment.data, dataset, self.seeds, clients)
        self.learner = learner_of(experiment, self.world.dataset, device, executor)
        self.streams = list(streams_of(experiment, dataset, self.seeds, self.world))
        self.sources = {name: self._source(name) for name in self.names}
        self.controllers = {name: self._controller(name) for name in self.names}
        self.needs_scores = self._uses_scores()
        """whether clients look before they buy, or a retention rule uses the model's
        scores of samples
        """
        self.listening = Listening(experiment)
        self.overlap = not (
            device == "cpu" or self.listening.policies or self.needs_scores
        )
        """whether the host prepares the next round while the device computes this one
        """
        self.recording = Recording(experiment, self.world, self.sources)
        self.prices = PriceBlocks(experiment, PRICES)

        # the state
        self.t = 0
        self.ledgers: Mapping[str, Ledger] = {
            name: each.open() for name, each in self.controllers.items()
        }
        self.purchases: Purchases = {
            name: source.open() for name, source in self.sources.items()
        }
        theta = self.learner.start(self.run_seeds)
        self.models = Models(theta, theta, experiment.server.start(theta))
        runs = len(theta)
        self.uses = UseCounts(runs, max(stream.samples for stream in self.streams))
        self.diverged = np.zeros(runs, dtype=np.int64)
        """the round in which each run's model became infinite or NaN, 0 if it has not,
        (R,)
        """
        self.accuracy = np.full(runs, np.nan)
        """the test accuracy of each run at its last evaluation, (R,)"""
        self.chance = 1.0 / len(dataset.classes)
        self._ahead: Prepared | None = None

    def _controller(self, name: str) -> Controller:
        policy = self.experiment.policies[name]
        return Controller(
            self.experiment.system,
            policy,
            len(self.seeds),
            self.seeds,
            looks=self.experiment.data.price_of_looks(policy.selection),
            delays=self.experiment.data.delays,
        )

    def _source(self, name: str) -> StreamSource:
        """Return the source of the samples of a policy's clients; it stores the places
        of samples only if this is necessary.
        """
        data = self.experiment.data
        first = self.names.index(name) * len(self.seeds)
        ends = None
        if data.stream.ends:
            ends = np.stack([stream.lengths for stream in self.streams])

        def score(
            asked: tuple[str, ...],
            seeds: Ints,
            rows: Ints,
        ) -> Scores:
            return self.learner.scores(self.models, asked, seeds + first, rows)

        labels = self.learner.dataset.train_labels
        clients = self.experiment.system.clients
        shared = (self.streams, ends, labels, score, clients, self.seeds)
        rule = self.experiment.policies[name].selection
        if rule is not None and data.chooses(rule):
            return ChoosingSource(*shared, self.world, data, rule)
        late = data.late or data.delays is not None
        if data.changes is None and not late and not data.stream.passing:
            return StreamSource(*shared)
        return PurchaseSource(*shared, self.world, data)

    def _uses_scores(self) -> bool:
        """Return whether the model's scores of samples are used before a round; raise
        SettingError if this model cannot compute them.
        """
        policies, data = self.experiment.policies, self.experiment.data
        kept_by = {name: each.buffers.rule for name, each in self.controllers.items()}
        rules: list[tuple[str, Any]] = list(kept_by.items())
        rules += [
            (name, policy.selection)
            for name, policy in policies.items()
            if data.chooses(policy.selection)
        ]
        for name, rule in rules:
            if rule is not None and rule.scores:
                whose = f"{type(rule).__name__} (policies.{name})"
                self.learner.check_scores(rule.scores, whose)
        looks = any(source.looks for source in self.sources.values())
        return looks or any(rule.scores for rule in kept_by.values())

    # one round

    def step(self) -> Round:
        """Simulate round t + 1: decide, admit, train, average, evaluate."""
        now = self._next()
        diverged = self.diverged[:, None] > 0
        weights = np.where(diverged, 0.0, now.batch.weights)
        batch = now.batch._replace(weights=weights)
        shares = self.world.shares(now.t, self.experiment.system.weight)
        sets = self._sets_to_judge_by(now.t, shares)

        asked = self.listening.ask(self.learner, self.models, batch)
        models, results = self.learner.launch(
            now.t, self.models, batch, self.run_seeds, sets
        )
        ahead = self._look_ahead(now)
        self.uses.use(now.runs, now.samples)
        # waits for the device, once
        broken, train_loss, *scores = self.learner.read(results)

        found = judgement(sets, scores, np.tile(shares, (len(self.names), 1)))
        breaks = (self.diverged == 0) & (broken > 0)
        self.diverged = np.where(breaks, now.t, self.diverged)
        for values in (train_loss, *found):
            values[self.diverged > 0] = np.nan
        if sets:
            self.accuracy = found.accuracy
        losses = self.listening.answers(self.learner, asked, now)
        self.t, self.models, self._ahead = now.t, models, ahead
        self.ledgers = self.listening.told(now.after, losses, self.controllers)
        self.purchases = now.purchases
        return Round(
            now.t,
            self.recording.metrics(now, self.uses, train_loss, found),
            self.recording.clients(now, losses),
        )

    def _next(self) -> Prepared:
        """Return the next round, prepared ahead or now."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.before is self.ledgers:
            return ahead
        # rules multiply; bits must not depend on threads
        with one_thread() if self.needs_scores else nullcontext():
            return self._prepare(self.t + 1, self.ledgers, self.purchases)

    def _sets_to_judge_by(self, t: int, shares: Floats) -> list[int]:
        """Return the sets on which the models are evaluated in round t, none in most
        rounds if `training.evaluate_every` is large.
        """
        given = self.experiment
        if t % given.training.evaluate_every != 0 and t != given.rounds:
            return []
        return sets_to_judge_by(shares, bool(given.data.validation))

    def _prepare(
        self,
        t: int,
        before: Mapping[str, Ledger],
        known: Purchases,
    ) -> Prepared:
        """Do the part of round t that does not depend on the models after it, without
        changing the results of this round.
        """
        price, numbers = self.prices.at(t), self._clients_that_train(t)
        played = list[PlayedRound]()
        bought = dict[str, PurchaseTable | None]()
        held: list[tuple[StreamSource, PurchaseTable | None, TrainingSamples]] = []
        owners = list[Ints]()
        for number, (name, source) in enumerate(self.sources.items()):
            now, table = self._admit(t, name, price, before[name], known[name])
            own = source.trainable(t, table, now.before, now.after, numbers)
            played.append(now)
            bought[name] = table
            held.append((source, table, own))
            owners.append(own.owner + number * numbers.size)

        clients = np.tile(numbers, (len(self.names), 1))
        owner = np.concatenate(owners)
        samples, rows = find_all(held)
        return Prepared(
            t=t,
            before=before,
            after={now.policy: now.after for now in played},
            played=played,
            batch=self._batch(t, clients, owner, samples, rows),
            clients=clients,
            runs=owner // clients.shape[1],
            samples=samples,
            new=np.concatenate([own.new for *_, own in held]),
            known=known,
            purchases=bought,
        )

    def _clients_that_train(self, t: int) -> Ints:
        """Return the numbers of the clients that train, for each seed, (S, clients)."""
        clients, cohort = (
            self.experiment.system.clients,
            self.experiment.training.cohort,
        )
        if cohort is None:
            return np.broadcast_to(np.arange(clients), (len(self.seeds), clients))
        drawn = [draw_cohort(int(seed), t, clients, cohort) for seed in self.seeds]
        return np.stack(drawn)

    def _admit(
        self,
        t: int,
        name: str,
        price: Floats,
        before: Ledger,
        known: PurchaseTable | None,
    ) -> tuple[PlayedRound, PurchaseTable | None]:
        """Decide round t of a policy, and let its clients admit; return also the origin
        of the samples that they then hold.
        """
        controller, source = self.controllers[name], self.sources[name]
        if controller.looks:
            price = price + controller.looks
        orders = controller.decide(before, price)
        admitted = source.available(known, before, orders.admitted)
        report = None if source.ends is None else Report(admitted)
        purchases = source.after_purchase(t, known, before, admitted)
        after = controller.post(before, orders, report, _seen(source, purchases))
        seeds = self.run_seeds[: len(self.seeds)]
        now = PlayedRound(name, seeds, orders, before, after)
        return now, source.after_round(purchases, after)

    def _batch(
        self,
        t: int,
        clients: Ints,
        owner: Ints,
        samples: Ints,
        rows: Ints,
    ) -> RoundSamples:
        """Return the samples of all clients (R, clients that train); `owner` is the
        place of the client of each sample among these.
        """
        training, weight = self.experiment.training, self.experiment.system.weight
        sizes = np.bincount(owner, minlength=clients.size)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        weights = aggregation_weights(
            training.aggregation, weight[clients], sizes.reshape(clients.shape)
        )
        moved = None
        if training.shift:
            seeds = np.array(self.run_seeds)[owner // clients.shape[1]]
            moved = moves(training.shift, seeds, t, samples)
        return RoundSamples(rows, moved, offsets, weights)

    def _look_ahead(self, now: Prepared) -> Prepared | None:
        """Prepare the next round while the device computes; return None after the last
        one or on an error, which is raised when the round begins.
        """
        if not self.overlap or now.t == self.experiment.rounds:
            return None
        try:
            return self._prepare(now.t + 1, now.after, now.purchases)
        except Exception:
            return None

    @property
    def theta(self) -> NDArray[Any]:
        """the models of all runs, (R, P)"""
        return self.learner.read(self.models.theta)

    @property
    def guessing(self) -> Bools:
        """whether each run's model is finite but at its last evaluation was no better
        than guessing, (R,)
        """
        return np.asarray((self.diverged == 0) & (self.accuracy <= 1.2 * self.chance))

    # save and restore

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `restore` needs in addition to the ledgers."""
        used, uses = self.uses.table()
        tensors = {
            **self.learner.tensors(self.models),
            "used": used,
            "uses": uses,
            "diverged": self.diverged,
            "accuracy": self.accuracy,
        }
        for n, table in enumerate(self.purchases.values()):
            if table is not None:
                for name, array in table.tensors().items():
                    tensors[f"purchases.{n}.{name}"] = array
        return tensors

    def restore(
        self,
        t: int,
        tensors: Mapping[str, NDArray[Any]],
        ledgers: Mapping[str, Ledger],
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
