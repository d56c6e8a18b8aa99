"""All runs of an experiment (policies × seeds) in one batch, a round at a time.

Control goes first: no policy looks at the model of its round, but rules of what to buy and what to keep may. What clients then
hold becomes rows of the training set, the executor does every client's local steps, and the server averages. With a cohort the
server still admits for all clients, but only the clients drawn for the round train, and only their updates are averaged.

A device of its own works while the host goes on, so there the next round is prepared between the launch of a round
and the reading of its results; not where a policy listens to what samples lose, or a rule looks at what the model says of
them, for then control waits for the round.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.controller import Controller
from headgate.control.retention import Retention
from headgate.control.scores import Scores
from headgate.control.selection import Selection
from headgate.control.types import Floats, Ints, Ledger, Losses, Orders, Report
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.aggregate import aggregation_weights
from headgate.learning.bought import seen_at
from headgate.learning.cohort import draw_cohort
from headgate.learning.datasets import Dataset, hold_out
from headgate.learning.judgement import judgement, sets_to_judge_by
from headgate.learning.moving import ConceptsSeen, Moving, MovingStream, moving_of, seen_after
from headgate.learning.shift import check_shift, moves
from headgate.learning.streams import Served, Stream
from headgate.learning.uses import UseCounts
from headgate.limits import check_memory
from headgate.simulation.buying import Buying
from headgate.simulation.executors.gram import one_thread
from headgate.simulation.hearing import heard
from headgate.simulation.learner import RoundSamples, learner_of
from headgate.simulation.round_rows import FEW, client_rows, metric_rows
from headgate.simulation.rounds import Admissions, Prepared, Round, came_now, trainable
from headgate.simulation.scoring import Scoring

MOST_WITHOUT_COHORT = 10_000
"""clients that all train in every round: beyond it, time and memory are better spent on a cohort"""
PRICES = 1 << 22
"""prices that are fetched and kept at once: of all rounds, unless every one of many clients has its own"""


def streams_of(
    experiment: Experiment, dataset: Dataset, seeds: Ints, moving: Moving | None = None, tried: bool = False
) -> Iterator[Stream | MovingStream]:
    """The streams of these seeds, of what `hold_out` has left; refused where the data cannot be dealt to the clients.

    `tried`: nobody will read them, so who owns what need not be written down.
    """
    rule, clients = experiment.data.partition, experiment.system.clients
    all_of_them = not tried and (experiment.training.cohort is None or clients <= FEW)
    owners = rule.split if all_of_them else rule.owners
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
        self.buying = {name: self._buying(name) for name in self.names if given.data.chooses(given.policies[name].selection)}
        """where clients choose what they buy"""
        asking: list[tuple[str, Retention | Selection]] = [
            *rules.items(),
            *((name, own.rule) for name, own in self.buying.items()),
        ]
        for name, one in asking:
            self.learner.check_scores(one.scores, f"{type(one).__name__} (policies.{name})")
        self.looking = any(own.rule.looks for own in self.buying.values())
        """whether some clients look before they buy"""
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
        self.looks = self.looking or any(rule.scores for rule in rules.values())
        """whether some rule asks what the model says of samples"""
        self.overlap = device != "cpu" and not self.listening and not self.looks
        """whether the next round is prepared while the device works on this one"""
        self._ahead: Prepared | None = None
        self.seen = None if self.moving is None else ConceptsSeen.nothing(len(self.run_seeds), system.clients)
        self._today: Ints | None = None
        self._before: tuple[Mapping[str, Ledger], ConceptsSeen | None] = self.ledgers, self.seen
        late, nobody = given.data.late, np.zeros((len(self.run_seeds), system.clients), np.int64)
        check_memory(f"data.late = {late}: what was admitted in so many rounds takes", late * nobody.nbytes)
        recent = (nobody,) * (late + 1 if late else 0)
        self.admissions = Admissions({name: own.open(system.clients) for name, own in self.buying.items()}, recent)
        self._bought = self.admissions.bought

    def _controller(self, name: str) -> Controller:
        policy = self.experiment.policies[name]
        asked = partial(self._labels_at, name), partial(self._scores_at, name), self.experiment.price_of_looks(policy)
        system = self.experiment.system
        return Controller(system, policy, len(self.seeds), self.seeds, *asked)

    def _buying(self, name: str) -> Buying:
        given, first = self.experiment, self.names.index(name) * len(self.seeds)
        rule = given.policies[name].selection
        assert rule is not None

        def look(asked: tuple[str, ...], run: int, clients: Ints, positions: Ints, concepts: Ints) -> Scores:
            seeds = np.full_like(clients, run)
            served = self._served(seeds, clients, positions, None if self.moving is None else concepts)
            return self.scoring(self.models, asked, seeds + first, served.rows)

        return Buying(rule, given.data, self.seeds, self._ends, look)

    # one round

    def step(self) -> Round:
        """Round t + 1: decide, admit, train, average, evaluate."""
        now, self._ahead = self._ahead, None
        if now is None or now.before is not self.ledgers:
            with one_thread() if self.looks else nullcontext():  # rules multiply; bits must not hang on how many threads do
                now = self._prepare(self.t + 1, self.ledgers, self.seen, self.admissions)
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
        before, self.admissions = self.admissions, now.admissions
        return Round(now.t, metric_rows(self, now, train_loss, found, before), client_rows(self, now, told))

    def _prepare(
        self, t: int, before: Mapping[str, Ledger], seen: ConceptsSeen | None = None, known: Admissions | None = None
    ) -> Prepared:
        """All of round t that does not hang on how the models turn out. Changes nothing that shows."""
        self._today = today = None if self.moving is None else self.moving.where.at(t)
        self._before = before, seen
        price, orders = self._price(t), dict[str, Orders]()
        after, paid = dict[str, Ledger](), dict[str, Floats | None]()
        known = self.admissions if known is None else known
        self._bought = bought = dict(known.bought)
        for name, controller in self.controllers.items():
            orders[name] = controller.decide(before[name], price + controller.looks if controller.looks else price)
            if name in self.buying:
                bought[name] = self.buying[name].after(known.bought[name], before[name], orders[name].admitted, today)
            after[name] = controller.post(before[name], orders[name], self._report(name, before[name], orders[name], known))
            paid[name] = orders[name].paid(after[name].admitted - before[name].admitted) if price.ndim == 2 else None
        clients, ledgers = self._training_clients(t), [after[name] for name in self.names]
        labelled = np.concatenate([before[name].admitted for name in self.names]) if not known.recent else known.recent[0]
        ripe = [None] * len(ledgers) if not known.recent else np.split(known.recent[1], len(ledgers))
        starts, ends, held_at = zip(*map(trainable, ledgers, ripe), strict=True)
        first, last = (
            np.concatenate([array if clients is None else np.take_along_axis(array, clients, axis=1) for array in arrays])
            for arrays in (starts, ends)
        )
        everybody = np.arange(self.experiment.system.clients)
        numbers = np.broadcast_to(everybody, first.shape) if clients is None else np.tile(clients, (len(self.names), 1))
        alpha = self.experiment.system.weight
        weights = aggregation_weights(self.experiment.training.aggregation, alpha[numbers], last - first)
        places = list(held_at)
        if clients is not None:
            places = [held if held is None else np.take_along_axis(held, clients[..., None], axis=1) for held in places]
        if seen is not None and today is not None:
            seen = seen_after(seen, [before[name] for name in self.names], ledgers, today)
        runs, positions, samples, rows, offsets = self._pack(numbers, first, last, places, seen)
        most = self.experiment.training.shift
        moved = moves(most, np.array(self.run_seeds)[runs], t, samples) if most else None
        by_age = self.experiment.objective.by_age
        new = came_now(labelled, numbers, positions, offsets) if by_age else None
        batch = RoundSamples(rows, moved, offsets, weights, new)
        if known.recent:
            known = known._replace(recent=(*known.recent[1:], np.concatenate([ledger.admitted for ledger in ledgers])))
        own = batch, numbers, runs, samples, positions, today, seen, labelled, known._replace(bought=bought)
        return Prepared(t, price, before, orders, after, paid, *own)

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

    def _report(self, name: str, ledger: Ledger, orders: Orders, known: Admissions) -> Report | None:
        """Where streams end, clients admit what is left of them."""
        if self._ends is None:
            return None
        if name in self.buying:
            return Report(known.bought[name].available(self.experiment.data.window, orders.admitted, self._ends))
        return Report(np.minimum(orders.admitted, np.maximum(self._ends - ledger.admitted, 0)))

    @cached_property
    def _ends(self) -> Ints | None:
        """Where streams end, (S, M); None: nowhere."""
        return np.stack([stream.lengths for stream in self.streams]) if self.experiment.data.stream == "stop" else None

    def _came_by(
        self, name: str, seeds: Ints, clients: Ints, admissions: Ints, concepts: Ints | None
    ) -> tuple[Ints, Ints | None]:
        """Where in their streams these admissions of a policy's clients lie, and the concepts in which they came by, which
        are `concepts` where clients have no choice."""
        if name not in self.buying:
            return admissions, concepts
        positions, came = seen_at(self._bought[name].sights.at(seeds, clients, admissions))
        return positions, None if concepts is None else came

    def _labels_at(self, name: str, seeds: Ints, clients: Ints, positions: Ints) -> Ints:
        """Of samples that come by in the round that is being prepared."""
        concepts = None if self._today is None else self._today[seeds, clients]
        positions, concepts = self._came_by(name, seeds, clients, positions, concepts)
        return np.asarray(self._train_labels[self._served(seeds, clients, positions, concepts).rows])

    def _scores_at(self, name: str, seeds: Ints, clients: Ints, positions: Ints, asked: tuple[str, ...]) -> Scores:
        """Of samples that a policy's clients hold or that come by, in the round that is being prepared."""
        (ledgers, seen), concepts = self._before, None
        runs = seeds + self.names.index(name) * len(self.seeds)
        if seen is not None and self._today is not None:
            known = positions < ledgers[name].admitted[seeds, clients]
            concepts = seen.at_or(self._today[seeds, clients], known, runs, clients, positions)
        positions, concepts = self._came_by(name, seeds, clients, positions, concepts)
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
        concepts, seeds = None if seen is None else seen.at(runs, owners, positions), runs % len(self.seeds)
        came = positions.copy() if self.buying else positions
        for name, begin, end in zip(self.names, of_policy[:-1], of_policy[1:], strict=True):
            if name in self.buying:
                own = slice(begin, end)
                came[own], when = self._came_by(name, seeds[own], owners[own], positions[own], concepts)
                if concepts is not None and when is not None:
                    concepts[own] = when
        return runs, positions, *self._served(seeds, owners, came, concepts), offsets

    # what the server hears

    def _told(self, now: Prepared, losses: NDArray[Any]) -> dict[str, Losses]:
        """What each policy's clients tell, where it was asked."""
        runs, sizes = self.heard_runs, np.diff(now.batch.offsets).reshape(now.batch.weights.shape)
        new = came_now(now.known, now.clients, now.positions, now.batch.offsets)[np.isin(now.runs, runs)]
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
            return self._prepare(now.t + 1, now.after, now.seen, now.admissions) if now.t < self.experiment.rounds else None
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

    # going on later

    def tensors(self) -> dict[str, NDArray[Any]]:
        """With the ledgers, all that `restore` needs."""
        used, uses = self.uses.table()
        own: dict[str, NDArray[Any]] = {"used": used, "uses": uses, "diverged": self.diverged, "accuracy": self.accuracy}
        own |= self.admissions.tensors()
        if self.seen is not None:
            own |= {"seen.begin": self.seen.begin, "seen.concept": self.seen.concept}
        return {**self.learner.tensors(self.models), **own}

    def restore(self, t: int, tensors: Mapping[str, NDArray[Any]], ledgers: Mapping[str, Ledger]) -> None:
        """Stand where a run stood after round t."""
        self.t, self.ledgers, self._ahead = t, dict(ledgers), None
        self.models = self.learner.restored(tensors, self.models)
        self.uses = UseCounts.restored(len(self.run_seeds), self.uses.samples, tensors["used"], tensors["uses"])
        self.diverged = tensors["diverged"].copy()
        self.accuracy = tensors["accuracy"].copy()
        self.admissions = self.admissions.restored(tensors)
        if self.seen is not None:
            self.seen = self.seen.restored(tensors["seen.begin"], tensors["seen.concept"])
