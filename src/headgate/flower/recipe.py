"""Both sides of a run on Flower, ready-made from a recipe: the simulator's data, streams, models and training.

Everything is drawn as the simulator draws it, so that the same recipe and seed admit the same samples and learn the same
model there and here.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from headgate.books.messages import Order
from headgate.control.retention import Retention
from headgate.control.scores import Scores, scores_of
from headgate.control.selection import Selection
from headgate.control.types import Ints
from headgate.errors import SettingError
from headgate.experiment import Experiment, load
from headgate.flower.client import HeldSamples, headgate_client
from headgate.flower.rounds import Discipline
from headgate.flower.sources import Batch, Label, Sample, Source, Taken, pack
from headgate.flower.strategy import AdmissionStrategy
from headgate.learning.datasets import Dataset, hold_out
from headgate.learning.drift import DriftingStream, World, judgement, sets_to_judge_by, world_of
from headgate.learning.objectives import OBJECTIVE
from headgate.learning.server import draw_cohort
from headgate.learning.streams import Stream
from headgate.records.trackers import tracker_names
from headgate.registry import shown_kind
from headgate.simulation.executors.executor import RaggedBatch
from headgate.simulation.nets import NetLearner


@dataclass(frozen=True, eq=False)
class RecipeTask:
    """What a recipe says about learning."""

    experiment: Experiment
    dataset: Dataset

    def __post_init__(self) -> None:
        if shift := self.experiment.training.shift:
            raise SettingError(f"training.shift = {shift}: the simulator alone does that; leave it out on Flower")
        if self.experiment.objective.controls:
            kind = shown_kind(OBJECTIVE, self.experiment.objective)
            raise SettingError(f"objective.kind = {kind}: the simulator alone does that; leave it out on Flower")

    @property
    def seed(self) -> int:
        return int(self.experiment.seeds[0])

    @cached_property
    def world(self) -> World:
        """The data set in every concept, and who is in which when."""
        given = self.experiment
        return world_of(given.data, self.dataset, given.seeds[:1], given.system.clients)

    @cached_property
    def stream(self) -> Stream:
        """Where the world stands still."""
        data, clients = self.experiment.data, self.experiment.system.clients
        owners = data.partition.split(self.dataset.train_labels, clients, self.seed, self.dataset.columns)
        return Stream(owners, self.seed, data.stream, self.dataset.train_labels)

    @cached_property
    def stream_in_rounds(self) -> Stream | DriftingStream:
        """The stream in every concept."""
        return self.world.stream(self.stream, self.experiment.rounds)

    @cached_property
    def learner(self) -> NetLearner:
        """Trains and judges as the simulator does, by plain torch: other executors compile, and a client is a new process."""
        return NetLearner(self.experiment, self.world.dataset, "cpu", "flat")

    def start(self) -> ArrayRecord:
        """The model before round 1."""
        return self._record(self.learner.start([self.seed]).theta)

    def train(self, arrays: ArrayRecord, held: HeldSamples, order: Order) -> tuple[ArrayRecord, dict[str, float]]:
        """The model after local training, and the loss of what is held before it; by parts where the server asks."""
        theta, objective = self._theta(arrays), self.experiment.objective
        images, labels = (torch.from_numpy(each) for each in held.arrays())
        factors = objective.factors(held.new, np.array([0, len(held)])) if objective.by_age else None
        before = self._place(order)  # clients that train beside it, here without samples
        offsets, weights = np.array([0] * (before + 1) + [len(held)]), torch.zeros(1, before + 1, dtype=theta.dtype)
        weights[0, before] = 1
        batch = RaggedBatch(images, labels, offsets, None if factors is None else torch.from_numpy(factors).to(theta.dtype))
        after, loss = self.learner.executor.advance(theta, batch, weights, self.experiment.local, [self.seed], order.round)
        told = {"train_loss": float(loss[0])}
        if order.losses:
            told |= held.loss_metrics(self.learner._losses(theta, batch).numpy())
        return self._record(after), told

    def scores(self, arrays: ArrayRecord, held: HeldSamples, asked: tuple[str, ...]) -> Scores:
        """What the model that came says of samples, as the simulator's learners do."""
        images = torch.from_numpy(np.stack(held.items()))
        logits, features = self.learner.evaluators[0].answers(self._theta(arrays), images, "features" in asked)
        labels = np.array(held.labels, dtype=np.int64) if len(held.labels) == len(held) else None
        return scores_of(asked, logits.numpy(), labels, None if features is None else features.numpy())

    def _place(self, order: Order) -> int:
        """The client's place among those that train, by which its mini-batches are drawn."""
        cohort = self.experiment.training.cohort
        if cohort is None:
            return order.client
        drawn = draw_cohort(self.seed, order.round, self.experiment.system.clients, cohort)
        return int(np.searchsorted(drawn, order.client))

    def evaluate(self, t: int, arrays: ArrayRecord) -> MetricRecord:
        """Accuracy and mean loss on the test set, and accuracy on what was held out of the training images."""
        theta, validation = self._theta(arrays), bool(self.experiment.data.validation)
        shares = self.world.shares(t, self.experiment.system.weight)
        sets = sets_to_judge_by(shares, validation)
        scores = [values.double().numpy() for place in sets for values in self.learner.judge(theta, place)]
        of_all = judgement(sets, scores, shares)
        found = MetricRecord({"test_accuracy": float(of_all.accuracy[0]), "test_loss": float(of_all.loss[0])})
        if validation:
            found["validation_accuracy"] = float(of_all.validation[0])
        if self.experiment.data.changes is not None:
            for concept, accuracy in enumerate(of_all.by_concept[0].tolist()):
                found[f"accuracy_{concept}"] = accuracy
        return found

    def _theta(self, arrays: ArrayRecord) -> Tensor:
        """The model as one row."""
        task = self.learner.task
        own: Tensor = task.flat.vector({name: torch.from_numpy(array.numpy().copy()) for name, array in arrays.items()})
        return own.to(task.dtype)[None]

    def _record(self, theta: Tensor) -> ArrayRecord:
        views = self.learner.task.flat.views(theta[0])
        return ArrayRecord({name: Array(view.numpy().copy()) for name, view in views.items()})


@dataclass(frozen=True, eq=False)
class RecipeSource:
    """The stream of one client as the recipe deals it."""

    task: RecipeTask
    client: int
    t: int = 1
    """the round in which it is read, which matters where the world changes"""

    def in_round(self, t: int) -> "RecipeSource":
        return replace(self, t=t)

    def read(self, cursor: int, count: int, taken: Taken) -> Batch:
        stream, data = self.task.stream, self.task.world.dataset
        first = max(cursor, stream.rule.passing * (self.t - 1))
        last = first + count
        if stream.rule.ends:
            last = max(min(last, int(stream.lengths[self.client])), first)
        positions: Ints = np.arange(first, last)
        clients = np.full_like(positions, self.client)
        numbers, rows = self.task.stream_in_rounds.at(clients, positions, self.task.world.at(self.t)[0, clients])
        samples = [
            Sample(str(number), pack(data.train_images[row]), int(data.train_labels[row]))
            for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)
        ]
        return Batch(samples, last)

    def labels(self, keys: Sequence[str]) -> Mapping[str, Label]:
        return {}


@cache
def task_of(recipe: str, overrides: tuple[str, ...] = ()) -> RecipeTask:
    """Made once in a process: the data are read, and streams keep their orders."""
    experiment = load(recipe, overrides)
    return RecipeTask(experiment, hold_out(experiment.data.load(), experiment.data.validation))


def recipe_client(recipe: str, overrides: Sequence[str] = (), store: Path | str | None = None) -> ClientApp:
    """A ClientApp that admits and trains as the recipe says."""
    app = ClientApp()

    def own_task() -> RecipeTask:
        return task_of(recipe, tuple(overrides))

    def own_source(context: Context) -> Source:
        return RecipeSource(own_task(), int(context.node_config["partition-id"]))

    def own_rules(context: Context) -> list[type[Retention | Selection]]:
        given = own_task().experiment
        buying = [type(policy.selection) for policy in given.policies.values() if policy.selection is not None]
        return [*(type(policy.retention(given.system)) for policy in given.policies.values()), *buying]

    def own_scores(message: Message, context: Context, held: HeldSamples, asked: tuple[str, ...]) -> Scores:
        return own_task().scores(message.content.array_records["arrays"], held, asked)

    @headgate_client(app, source=own_source, store=store, rules=own_rules, scores=own_scores)
    def train(message: Message, context: Context, held: HeldSamples) -> Message:
        arrays, told = own_task().train(message.content.array_records["arrays"], held, held.order)
        metrics = MetricRecord({**told, "num-examples": len(held)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


def recipe_server(recipe: str, overrides: Sequence[str] = (), folder: Path | str | None = None) -> ServerApp:
    """A ServerApp that plays the recipe into a run folder, or into the one that the run's config names as `out`.

    That config may have the fields of `Discipline`, too. In the end there are a summary and a report, as of `headgate run`.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        from headgate.analysis.conclude import conclude  # which clients do not need

        task, told = task_of(recipe, tuple(overrides)), context.run_config
        into = Path(str(folder or told.get("out") or ""))
        if into == Path():
            raise SettingError("run config out: must name the run folder")
        for policy in task.experiment.policies.values():
            for rule in (policy.retention(task.experiment.system), policy.selection):
                task.learner.check_scores(() if rule is None else rule.scores, type(rule).__name__)
        names = {own.name: own.name.replace("_", "-") for own in fields(Discipline)}
        rules = Discipline(**{name: told[key] for name, key in names.items() if key in told})  # type: ignore[arg-type]
        track = tracker_names(str(told.get("track") or ""))
        strategy = AdmissionStrategy(task.experiment, into, discipline=rules, track=track)
        with closing(strategy):
            strategy.start(grid, task.start(), evaluate_fn=task.evaluate)
        conclude([into], into)

    return app
