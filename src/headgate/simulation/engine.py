"""All runs of an experiment (policies × seeds) in one batch, a round at a time.

Control goes first: no policy looks at the model of its round, but a retention rule may. What clients then hold becomes rows of
the training set, the executor does every client's local steps, and the server averages. With a cohort the server still admits
for all clients, but only the clients drawn for the round train, and only their updates are averaged.

A device of its own works while the host goes on, so there the next round is prepared between the launch of a round
and the reading of its results; not where a policy listens to what samples lose, or a rule looks at what the model says of
them, for then control waits for the round.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.scores import Scores
from headgate.control.types import Floats, Ints, Ledger, Losses, Orders, Report
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.aggregate import aggregation_weights
from headgate.learning.cohort import draw_cohort
from headgate.learning.datasets import Dataset, hold_out
from headgate.learning.judgement import Judgement, judgement, sets_to_judge_by
from headgate.learning.moving import ConceptsSeen, Moving, MovingStream, moving_of, seen_after
from headgate.learning.shift import check_shift, moves
from headgate.learning.streams import Served, Stream
from headgate.learning.uses import UseCounts
from headgate.simulation.executors.gram import one_thread
from headgate.simulation.hearing import heard
from headgate.simulation.learner import RoundSamples, learner_of
from headgate.simulation.rounds import Prepared, Round
from headgate.simulation.scoring import Scoring
from headgate.theory.bound import learning_error
from headgate.theory.reuse import effective_sample_size

MOST_WITHOUT_COHORT = 10_000
"""clients that all train in every round: beyond it, time and memory are better spent on a cohort"""
FEW = 1_000
"""clients of whom each is written down: the images it owns, and in the record what it admits and holds"""
PRICES = 1 << 22
"""prices that are fetched and kept at once: of all rounds, unless every one of many clients has its own"""


def streams_of(
    experiment: Experiment, dataset: Dataset, seeds: Ints, moving: Moving | None = None
) -> Iterator[Stream | MovingStream]:
    """The streams of these seeds, of what `hold_out` has left; refused where the data cannot be dealt to the clients."""
    rule, clients = experiment.data.partition, experiment.system.clients
    owners = rule.split if experiment.training.cohort is None or clients <= FEW else rule.owners
    for seed in map(int, seeds):
        stream = Stream(owners(dataset.train_labels, clients, seed, dataset.columns), seed, experiment.data.stream)
        yield stream if moving is None else moving.stream(stream, experiment.rounds)


class Simulation:
    """The state of all runs after round t; `step` does the next one."""

    def __init__(self, experiment: Experiment, dataset: Dataset, device: str = "cpu", executor: str = "auto") -> None:
        self.experiment = experiment
        dataset = hold_out(dataset, experiment.data.validation)
        given, training, system = experiment, experiment.training, experiment.system
        self.names, self.seeds = list(given.policies), given.seeds
        self.run_seeds = [int(seed) for _ in self.names for seed in self.seeds]
        if training.cohort is None and system.clients > MOST_WITHOUT_COHORT:
            raise SettingError(
                f"system.clients = {system.clients}: at most {MOST_WITHOUT_COHORT} can all train in every round; "
                "set training.cohort, the number of clients drawn to train in a round, as in training.cohort = 1000"
            )
        check_shift(training.shift, *dataset.shape[1:])
        self.moving = moving_of(given.data, dataset, self.seeds, system.clients)
        """how the world changes; None: it stands still"""
        self.learner = learner_of(given, dataset if self.moving is None else self.moving.dataset, device, executor)
        self.streams = list(streams_of(given, dataset, self.seeds, self.moving))
        self._train_labels = self.learner.dataset.train_labels
        self.scoring = Scoring(self.learner)
        self.controllers = {name: self._controller(name) for name in self.names}
        rules = {name: controller.buffers.rule for name, controller in self.controllers.items()}
        for name, rule in rules.items():
            self.learner.check_scores(rule.scores, f"{type(rule).__name__} (policies.{name})")
        self.t = 0
        self.ledgers: Mapping[str, Ledger] = {name: each.open() for name, each in self.controllers.items()}
        self.models = self.learner.start(self.run_seeds)
        self.uses = UseCounts(len(self.run_seeds), max(stream.samples for stream in self.streams))
        self.diverged = np.zeros(len(self.run_seeds), dtype=np.int64)
        """the round in which a run's model stopped being finite; 0: it has not"""
        self.accuracy = np.full(len(self.run_seeds), np.nan)
        """as last evaluated"""
        self.chance = 1.0 / len(dataset.classes)
        last = given.prices.path(self.seeds, given.rounds, given.rounds + 1)  # refused here where prices end too early
        self._block = max(1, PRICES // last.size)
        self._first = 1
        self.prices = self._prices_from(1)
        """of a block of rounds, in which round `_first` comes first, and every seed, (T, S), or every client, too, (T, S, M)"""
        self.listening = [name for name in self.names if given.policies[name].listens]
        asked = [bool(training.losses) or name in self.listening for name in self.names]
        self.heard_runs = np.flatnonzero(np.repeat(asked, len(self.seeds)))
        """of whose samples the losses are asked"""
        self.looks = any(rule.scores for rule in rules.values())
        """whether some rule asks what the model says of samples"""
        self.overlap = device != "cpu" and not self.listening and not self.looks
        """whether the next round is prepared while the device works on this one"""
        self._ahead: Prepared | None = None
        self.seen = None if self.moving is None else ConceptsSeen.nothing(len(self.run_seeds), system.clients)
        self._today: Ints | None = None
        self._before: tuple[Mapping[str, Ledger], ConceptsSeen | None] = self.ledgers, self.seen

    def _controller(self, name: str) -> Controller:
        policy = self.experiment.policies[name]
        asked = self._labels_at, partial(self._scores_at, name)
        return Controller(self.experiment.system, policy, len(self.seeds), self.seeds, *asked)

    # one round

    def step(self) -> Round:
        """Round t + 1: decide, admit, train, average, evaluate."""
        now, self._ahead = self._ahead, None
        if now is None or now.before is not self.ledgers:
            with one_thread() if self.looks else nullcontext():  # rules multiply; bits must not hang on how many threads do
                now = self._prepare(self.t + 1, self.ledgers, self.seen)
        batch = now.batch._replace(weights=np.where(self.diverged[:, None] > 0, 0.0, now.batch.weights))
        shares = self._shares(now)
        sets = sets_to_judge_by(shares, bool(self.experiment.data.validation)) if self._evaluated(now.t) else []
        asked = self.learner.losses(self.models, batch, self.heard_runs) if self.heard_runs.size else None
        models, results = self.learner.launch(now.t, self.models, batch, self.run_seeds, sets)
        ahead = self._look_ahead(now) if self.overlap else None
        self.uses.use(now.runs, now.samples)
        broken, train_loss, *scores = self.learner.read(results)  # waits for the device, once
        found = judgement(sets, scores, np.tile(shares, (len(self.names), 1)))
        self.diverged = np.where((self.diverged == 0) & (broken > 0), now.t, self.diverged)
        for values in (train_loss, *found):
            values[self.diverged > 0] = np.nan
        if self._evaluated(now.t):
            self.accuracy = found.accuracy
        told = {} if asked is None else self._told(now, self.learner.read(asked))
        self.t, self.ledgers, self.models, self.seen, self._ahead = now.t, self._listened(now, told), models, now.seen, ahead
        return Round(now.t, self._metrics(now, train_loss, found), self._clients(now, told))

    def _prepare(self, t: int, before: Mapping[str, Ledger], seen: ConceptsSeen | None = None) -> Prepared:
        """All of round t that does not hang on the models. Changes nothing that shows."""
        self._today = today = None if self.moving is None else self.moving.where.at(t)
        self._before = before, seen
        price, orders = self._price(t), dict[str, Orders]()
        after, paid = dict[str, Ledger](), dict[str, Floats | None]()
        for name, controller in self.controllers.items():
            orders[name] = controller.decide(before[name], price)
            after[name] = controller.post(before[name], orders[name], self._report(before[name], orders[name]))
            paid[name] = orders[name].paid(after[name].admitted - before[name].admitted) if price.ndim == 2 else None
        clients, ledgers = self._training_clients(t), [after[name] for name in self.names]
        first, last = (
            np.concatenate([array if clients is None else np.take_along_axis(array, clients, axis=1) for array in arrays])
            for arrays in ([ledger.dropped for ledger in ledgers], [ledger.admitted for ledger in ledgers])
        )
        everybody = np.arange(self.experiment.system.clients)
        numbers = np.broadcast_to(everybody, first.shape) if clients is None else np.tile(clients, (len(self.names), 1))
        alpha = self.experiment.system.weight
        weights = aggregation_weights(self.experiment.training.aggregation, alpha[numbers], last - first)
        places = [ledger.places for ledger in ledgers]
        if clients is not None:
            places = [held if held is None else np.take_along_axis(held, clients[..., None], axis=1) for held in places]
        if seen is not None and today is not None:
            seen = seen_after(seen, [before[name] for name in self.names], ledgers, today)
        runs, positions, samples, rows, offsets = self._pack(numbers, first, last, places, seen)
        most = self.experiment.training.shift
        moved = moves(most, np.array(self.run_seeds)[runs], t, samples) if most else None
        batch = RoundSamples(rows, moved, offsets, weights)
        return Prepared(t, price, before, orders, after, paid, batch, numbers, runs, samples, positions, today, seen)

    def _price(self, t: int) -> Floats:
        if not 0 <= t - self._first < len(self.prices):
            self._first = t
            self.prices = self._prices_from(t)
        price: Floats = self.prices[t - self._first]
        return price

    def _prices_from(self, t: int) -> Floats:
        stop = min(t + self._block, self.experiment.rounds + 1)
        return np.ascontiguousarray(np.moveaxis(self.experiment.prices.path(self.seeds, t, stop), 1, 0))

    def _training_clients(self, t: int) -> Ints | None:
        """Who trains in round t, for every seed, (S, cohort); None: everybody."""
        clients, cohort = self.experiment.system.clients, self.experiment.training.cohort
        if cohort is None:
            return None
        return np.stack([draw_cohort(int(seed), t, clients, cohort) for seed in self.seeds])

    def _report(self, ledger: Ledger, orders: Orders) -> Report | None:
        """Where streams end, clients admit what is left of them."""
        if self.experiment.data.stream != "stop":
            return None
        ends = np.stack([stream.lengths for stream in self.streams])
        return Report(np.minimum(orders.admitted, np.maximum(ends - ledger.admitted, 0)))

    def _labels_at(self, seeds: Ints, clients: Ints, positions: Ints) -> Ints:
        """Of samples that come by in the round that is being prepared."""
        concepts = None if self._today is None else self._today[seeds, clients]
        return np.asarray(self._train_labels[self._served(seeds, clients, positions, concepts).rows])

    def _scores_at(self, name: str, seeds: Ints, clients: Ints, positions: Ints, asked: tuple[str, ...]) -> Scores:
        """Of samples that a policy's clients hold or that come by, in the round that is being prepared."""
        (ledgers, seen), concepts = self._before, None
        runs = seeds + self.names.index(name) * len(self.seeds)
        if seen is not None and self._today is not None:
            known = positions < ledgers[name].admitted[seeds, clients]
            concepts = seen.at_or(self._today[seeds, clients], known, runs, clients, positions)
        return self.scoring(self.models, asked, runs, self._served(seeds, clients, positions, concepts).rows)

    def _served(self, seeds: Ints, clients: Ints, positions: Ints, concepts: Ints | None) -> Served:
        """What comes at positions of the clients' streams; of the seeds their places among all seeds."""
        samples, rows = np.empty_like(positions), np.empty_like(positions)
        for s, stream in enumerate(self.streams):
            own = np.flatnonzero(seeds == s)
            of_concept = () if concepts is None else (concepts[own],)
            samples[own], rows[own] = stream.at(clients[own], positions[own], *of_concept)
        return Served(samples, rows)

    def _pack(
        self, clients: Ints, first: Ints, last: Ints, places: Sequence[Ints | None], seen: ConceptsSeen | None
    ) -> tuple[Ints, ...]:
        """(run, position, sample number, row of the training set) of all samples that clients train on in all runs, and the
        offsets.

        They are those of the windows, or of a policy's `places` where it has them.
        """
        sizes = (last - first).ravel()
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        segments = np.repeat(np.arange(sizes.size), sizes)
        positions = np.arange(segments.size) + (first.ravel() - offsets[:-1])[segments]
        of_policy = offsets[:: len(self.seeds) * clients.shape[1]]
        for begin, end, held in zip(of_policy[:-1], of_policy[1:], places, strict=True):
            if held is not None:
                positions[begin:end] = held[held >= 0]  # run by run, client by client, as the windows are
        owners, runs = clients.ravel()[segments], segments // clients.shape[1]
        concepts = None if seen is None else seen.at(runs, owners, positions)
        return runs, positions, *self._served(runs % len(self.seeds), owners, positions, concepts), offsets

    # what the server hears

    def _told(self, now: Prepared, losses: NDArray[Any]) -> dict[str, Losses]:
        """What each policy's clients tell, where it was asked."""
        runs, sizes = self.heard_runs, np.diff(now.batch.offsets).reshape(now.batch.weights.shape)
        known = np.concatenate([now.before[name].admitted for name in self.names])[np.arange(len(sizes))[:, None], now.clients]
        new = (now.positions >= np.repeat(known, sizes.ravel()))[np.isin(now.runs, runs)]
        told = heard(losses, new, sizes[runs], now.clients[runs], self.experiment.system.clients)
        names = [self.names[run // len(self.seeds)] for run in runs[:: len(self.seeds)].tolist()]
        cuts = (slice(begin, begin + len(self.seeds)) for begin in range(0, len(runs), len(self.seeds)))
        return {name: Losses(*(each[own] for each in told)) for name, own in zip(names, cuts, strict=True)}

    def _listened(self, now: Prepared, told: Mapping[str, Losses]) -> Mapping[str, Ledger]:
        """The ledgers after the round; those of policies that listen hold what was told."""
        heard_by = {name: replace(now.after[name], losses=told[name]) for name in self.listening}
        return {**now.after, **heard_by} if heard_by else now.after

    def _evaluated(self, t: int) -> bool:
        return t % self.experiment.training.evaluate_every == 0 or t == self.experiment.rounds

    def _look_ahead(self, now: Prepared) -> Prepared | None:
        """The next round, prepared; None where it cannot be: what is wrong with it is said when its turn comes."""
        try:
            return self._prepare(now.t + 1, now.after, now.seen) if now.t < self.experiment.rounds else None
        except Exception:
            return None

    def _shares(self, now: Prepared) -> Floats:
        """Of the clients, by their weights: those who are in each concept today, (S, concepts)."""
        if self.moving is None or now.today is None:
            return np.ones((len(self.seeds), 1))
        return self.moving.where.shares(now.today, self.experiment.system.weight)

    @property
    def theta(self) -> NDArray[Any]:
        """The models of all runs, (R, P)."""
        return self.learner.read(self.models.theta)

    @property
    def guessing(self) -> NDArray[np.bool_]:
        """Runs whose model is finite but, when last evaluated, no better than guessing: learning broke down without a trace."""
        return np.asarray((self.diverged == 0) & (self.accuracy <= 1.2 * self.chance))

    # the record

    def _metrics(self, now: Prepared, train_loss: Floats, found: Judgement) -> list[dict[str, Any]]:
        """One row a run. n is what all clients hold; N, n_eff and the bound are of what was trained on."""
        before, after = ([ledgers[name] for name in self.names] for ledgers in (now.before, now.after))
        N, n_eff = self.uses.distinct, effective_sample_size(self.uses.total, self.uses.squares)
        trained = np.diff(now.batch.offsets[:: now.batch.weights.shape[1]])
        bound = learning_error(trained, N, np.where(N > 0, n_eff / np.maximum(N, 1), 1.0), self.experiment.bound)
        held = np.concatenate([ledger.admitted.sum(axis=-1) - ledger.dropped.sum(axis=-1) for ledger in after])
        ever = [np.concatenate([ledger.admitted.sum(axis=-1) for ledger in ledgers]) for ledgers in (before, after)]
        spent = [np.concatenate([ledger.spent for ledger in ledgers]) for ledgers in (before, after)]
        price = now.price if now.price.ndim == 1 else now.price.mean(axis=-1)
        buffer = self.experiment.system.buffer
        columns = {
            "policy": [name for name in self.names for _ in self.seeds],
            "seed": self.run_seeds,
            "t": [now.t] * len(self.run_seeds),
            "test_accuracy": found.accuracy.tolist(),
            "test_loss": found.loss.tolist(),
            "validation_accuracy": found.validation.tolist()
            if self.experiment.data.validation
            else [None] * len(self.run_seeds),
            "train_loss": train_loss.tolist(),
            "n": held.tolist(),
            "N": N.tolist(),
            "n_eff": n_eff.tolist(),
            "admitted": (ever[1] - ever[0]).tolist(),
            "price": price.tolist() * len(self.names),
            "spend": (spent[1] - spent[0]).tolist(),
            "debt": np.concatenate([ledger.debt for ledger in before]).tolist(),
            "bound": bound.tolist(),
            "excess": np.concatenate([(ledger.occupancy - buffer).max(axis=-1) for ledger in after]).tolist(),
        }
        if self.moving is not None and now.today is not None:
            columns |= self.moving.where.told(now.t, now.today, self.experiment.system.weight, found.by_concept)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _clients(self, now: Prepared, told: Mapping[str, Losses]) -> list[dict[str, Any]]:
        """What each client admitted and holds, was paid where prices differ, and told of its losses where it was asked;
        nothing where there are too many clients."""
        if self.experiment.system.clients > FEW:
            return []
        rows = []
        for name in self.names:
            before, after, paid = now.before[name], now.after[name], now.paid[name]
            admitted, held = after.admitted - before.admitted, after.occupancy
            for r, seed in enumerate(self.seeds):
                row = {
                    "policy": name,
                    "seed": int(seed),
                    "t": now.t,
                    "admitted": admitted[r].tolist(),
                    "held": held[r].tolist(),
                }
                row["paid"] = None if paid is None else paid[r].tolist()
                if name in told:
                    row |= {f"{which}_loss": each[r].tolist() for which, each in told[name]._asdict().items()}
                rows.append(row)
        return rows

    # going on later

    def tensors(self) -> dict[str, NDArray[Any]]:
        """With the ledgers, all that `restore` needs."""
        used, uses = self.uses.table()
        own: dict[str, NDArray[Any]] = {"used": used, "uses": uses, "diverged": self.diverged, "accuracy": self.accuracy}
        if self.seen is not None:
            own |= {"seen.begin": self.seen.begin, "seen.concept": self.seen.concept}
        return {**self.learner.tensors(self.models), **own}

    def restore(self, t: int, tensors: Mapping[str, NDArray[Any]], ledgers: Mapping[str, Ledger]) -> None:
        """Stand where a run stood after round t."""
        self.t, self.ledgers, self._ahead = t, dict(ledgers), None
        self.models = self.learner.restored(tensors, self.models)
        self.uses = UseCounts.restored(len(self.run_seeds), self.uses.samples, tensors["used"], tensors["uses"])
        self.diverged = tensors["diverged"].copy()
        if "accuracy" in tensors:  # older checkpoints lack it
            self.accuracy = tensors["accuracy"].copy()
        if self.seen is not None:
            self.seen = self.seen.restored(tensors["seen.begin"], tensors["seen.concept"])
