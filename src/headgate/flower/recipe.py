"""The server and the clients of a run on Flower, made from a recipe: with the
simulator's data, streams, models and training.

All random numbers are drawn as in the simulator, so that the same recipe and seed admit
the same samples and learn the same model in both.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.control.checks import path
from headgate.control.retention import Retention
from headgate.control.scores import Scores, scores_of
from headgate.control.selection import Selection
from headgate.control.types import Ints
from headgate.errors import SettingError
from headgate.experiment import Experiment, load
from headgate.flower.border import function, writable_texts
from headgate.flower.client import HeldSamples, headgate_client
from headgate.flower.messages import Order
from headgate.flower.rounds import Discipline
from headgate.flower.sources import Batch, Sample, Source, pack, unpack
from headgate.flower.strategy import AdmissionStrategy
from headgate.learning.datasets import Dataset, hold_out
from headgate.learning.formats import Labels, Pixels
from headgate.learning.local import schedule
from headgate.learning.networks import (
    Flat,
    build_model,
    descend,
    initial_parameters,
    last_layer,
    with_features,
)
from headgate.learning.server import draw_cohort
from headgate.learning.streams import Stream

DTYPES = {"auto": torch.float32, "float32": torch.float32, "float64": torch.float64}
EVALUATED = 2_000
"""number of test images in a batch"""


@dataclass(
    frozen=True,
    eq=False,
)
class RecipeTask:
    """The learning task of a recipe."""

    experiment: Experiment
    dataset: Dataset

    def __post_init__(self) -> None:
        """Refuse settings that only the simulator supports."""
        data, training = self.experiment.data, self.experiment.training
        asked = {
            "training.shift": training.shift,
            "data.changes": data.changes,
            "data.stream.passing": data.stream.passing,
        }
        for name, value in asked.items():
            if value:
                raise SettingError(
                    f"{name}: the simulator alone does that; leave it out on Flower"
                )

    @property
    def seed(self) -> int:
        return int(self.experiment.seeds[0])

    @cached_property
    def dtype(self) -> torch.dtype:
        name = self.experiment.training.dtype
        if name not in DTYPES:
            raise SettingError(
                f"training.dtype = {name}: clients on Flower compute in float32 or"
                " float64"
            )
        return DTYPES[name]

    @cached_property
    def stream(self) -> Stream:
        data, clients = self.experiment.data, self.experiment.system.clients
        owners = data.partition.split(
            self.dataset.train_labels, clients, self.seed, self.dataset.columns
        )
        return Stream(owners, self.seed, data.stream, self.dataset.train_labels)

    def model(self) -> nn.Module:
        return build_model(
            self.experiment.model, self.dataset.shape, len(self.dataset.classes)
        ).to(self.dtype)

    def start(self) -> ArrayRecord:
        """Return the model before round 1."""
        flat = Flat(self.model())
        shape, classes = self.dataset.shape, len(self.dataset.classes)
        vector = initial_parameters(
            self.experiment.model, shape, classes, self.seed
        ).to(self.dtype)
        return _record(flat.views(vector))

    def normalised(self, images: np.ndarray[Any, Any]) -> Tensor:
        mean = torch.tensor(self.dataset.mean, dtype=self.dtype).view(-1, 1, 1)
        std = torch.tensor(self.dataset.std, dtype=self.dtype).view(-1, 1, 1)
        scaled = torch.from_numpy(images).to(self.dtype) / self.dataset.unit
        return (scaled - mean) / std

    def train(
        self,
        arrays: ArrayRecord,
        held: HeldSamples,
        order: Order,
    ) -> tuple[ArrayRecord, dict[str, float]]:
        """Return the model after local training, and the loss of the samples before it,
        in parts if the order requests it.
        """
        model = self._loaded(arrays)
        images, labels = held.arrays()
        x, y = self.normalised(images), torch.from_numpy(labels.astype(np.int64))
        with torch.no_grad():
            logits = model(x)
            metrics = {"train_loss": float(cross_entropy(logits, y))}
            if order.losses:
                metrics |= held.loss_metrics(
                    cross_entropy(logits, y, reduction="none").numpy()
                )
        own = self.experiment.local
        parameters = list[Tensor](model.parameters())
        velocity = [torch.zeros_like(each) for each in parameters]
        for rows in schedule(own, self.seed, self._place(order), order.round, len(y)):
            loss = cross_entropy(model(x[rows]), y[rows])
            change = torch.autograd.grad(loss, parameters, materialize_grads=True)
            with torch.no_grad():
                descend(parameters, velocity, change, own)
        return _record(dict(model.named_parameters())), metrics

    def scores(
        self,
        arrays: ArrayRecord,
        held: HeldSamples,
        asked: tuple[str, ...],
    ) -> Scores:
        """Return the scores of samples under the received model, as the simulator
        computes them.
        """
        model = self._loaded(arrays)
        images = np.stack([unpack(payload) for payload in held.payloads])
        features, layer = None, self.last(model, asked)
        with torch.no_grad():
            if layer is None:
                logits: Tensor = model(self.normalised(images))
            else:
                logits, inputs = with_features(
                    layer, lambda: model(self.normalised(images))
                )
                features = inputs.numpy()
        labels = None
        if len(held.labels) == len(held):
            labels = np.array(held.labels, dtype=np.int64)
        return scores_of(asked, logits.numpy(), labels, features)

    def last(self, model: nn.Module, asked: tuple[str, ...]) -> nn.Linear | None:
        """Return the last layer, if gradients are requested, or else None. A last layer
        that is not linear is refused.
        """
        if "features" not in asked:
            return None
        layer = last_layer(model, self.dataset.shape)
        if layer is None:
            kind = self.experiment.model.kind
            raise SettingError(
                f"model.kind = {kind}: does not end with a linear layer, of which a"
                " rule needs the gradients"
            )
        return layer

    def _place(self, order: Order) -> int:
        """Return the client's place in the cohort of the round, which determines its
        mini-batches.
        """
        cohort = self.experiment.training.cohort
        if cohort is None:
            return order.client
        drawn = draw_cohort(
            self.seed, order.round, self.experiment.system.clients, cohort
        )
        return int(np.searchsorted(drawn, order.client))

    def evaluate(self, t: int, arrays: ArrayRecord) -> MetricRecord:
        """Return accuracy and mean loss on the test set and, if the recipe has a
        validation set, the accuracy on it.
        """
        model, (test, *held_out) = self._loaded(arrays), self.dataset.judged
        accuracy, loss = self._score(model, *test)
        found = MetricRecord({"test_accuracy": accuracy, "test_loss": loss})
        if self.experiment.data.validation:
            found["validation_accuracy"] = self._score(model, *held_out[0])[0]
        return found

    def _score(
        self,
        model: nn.Module,
        images: Pixels,
        labels: Labels,
    ) -> tuple[float, float]:
        hits, loss = 0, 0.0
        with torch.no_grad():
            for first in range(0, len(labels), EVALUATED):
                y = torch.from_numpy(labels[first : first + EVALUATED])
                logits = model(self.normalised(images[first : first + EVALUATED]))
                hits += int((logits.argmax(dim=1) == y).sum())
                loss += float(cross_entropy(logits, y, reduction="sum"))
        return hits / len(labels), loss / len(labels)

    def _loaded(self, arrays: ArrayRecord) -> nn.Module:
        model = self.model()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(torch.from_numpy(arrays[name].numpy().copy()))
        return model


@dataclass(
    frozen=True,
    eq=False,
)
class RecipeSource(Source):
    """The stream of one client, as in the simulator."""

    task: RecipeTask
    client: int

    def read(self, cursor: int, count: int) -> Batch:
        stream, data, last = self.task.stream, self.task.dataset, cursor + count
        if stream.rule.ends:
            last = max(min(last, int(stream.lengths[self.client])), cursor)
        positions: Ints = np.arange(cursor, last)
        numbers, rows = stream.at(np.full_like(positions, self.client), positions)
        samples = [
            Sample(
                str(number), pack(data.train_images[row]), int(data.train_labels[row])
            )
            for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)
        ]
        return Batch(samples, last)


@cache
def task_of(recipe: str, overrides: tuple[str, ...] = ()) -> RecipeTask:
    """Return the task of a recipe, made once per process: it reads the data, and its
    streams cache the sequences of samples.
    """
    experiment = load(recipe, overrides)
    return RecipeTask(
        experiment, hold_out(experiment.data.load(), experiment.data.validation)
    )


def recipe_client(
    recipe: str,
    overrides: Sequence[str] = (),
    store: Path | str | None = None,
) -> ClientApp:
    """Return a ClientApp that admits samples and trains as the recipe specifies.

    Parameters
    ----------
    recipe : str
        Name or file of the recipe.
    overrides : sequence of str, optional
        Settings that replace those of the recipe, as in `run.rounds=20`.
    store : str or pathlib.Path, optional
        The folder of the clients' stores, as for `headgate_client`.

    Returns
    -------
    flwr.clientapp.ClientApp
        The app.

    Examples
    --------
    >>> type(recipe_client("digits", ["run.rounds=20"])).__name__
    'ClientApp'
    """
    path("recipe_client: recipe", recipe)
    given = tuple(writable_texts("recipe_client: overrides", overrides))
    if store is not None:
        path("recipe_client: store", store)
    app = ClientApp()

    def own_task() -> RecipeTask:
        return task_of(recipe, given)

    def own_source(context: Context) -> Source:
        return RecipeSource(own_task(), int(context.node_config["partition-id"]))

    def own_rules(context: Context) -> list[type[Retention | Selection]]:
        experiment, known = own_task().experiment, list[type[Retention | Selection]]()
        for policy in experiment.policies.values():
            known.append(type(policy.retention(experiment.system)))
            if policy.selection is not None:
                known.append(type(policy.selection))
        return known

    def own_scores(
        message: Message,
        context: Context,
        held: HeldSamples,
        asked: tuple[str, ...],
    ) -> Scores:
        return own_task().scores(message.content.array_records["arrays"], held, asked)

    @headgate_client(
        app,
        source=own_source,
        store=store,
        rules=own_rules,
        scores=own_scores,
    )
    def train(
        message: Message,
        context: Context,
        held: HeldSamples,
    ) -> Message:
        received = message.content.array_records["arrays"]
        arrays, measured = own_task().train(received, held, held.order)
        metrics = MetricRecord({**measured, "num-examples": len(held)})
        content = RecordDict({"arrays": arrays, "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def recipe_server(
    recipe: str,
    overrides: Sequence[str] = (),
    folder: Path | str | None = None,
    finished: Callable[[Path], object] | None = None,
) -> ServerApp:
    """Return a ServerApp that runs the recipe and records it in a run folder.

    The run config may have the fields of `Discipline`, and `track`, names of trackers
    as for `headgate run --track`.

    Parameters
    ----------
    recipe : str
        Name or file of the recipe.
    overrides : sequence of str, optional
        Settings that replace those of the recipe, as in `run.rounds=20`.
    folder : str or pathlib.Path, optional
        The run folder; by default `out` in the run config.
    finished : callable, optional
        Function that is called with the run folder after the last round.

    Returns
    -------
    flwr.serverapp.ServerApp
        The app.

    Raises
    ------
    SettingError
        If an argument is not what it must be, or later, as the app runs, if neither
        `folder` nor the run config names the run folder.

    Examples
    --------
    >>> type(recipe_server("digits", ["run.rounds=20"], folder="runs/first")).__name__
    'ServerApp'
    """
    path("recipe_server: recipe", recipe)
    given = tuple(writable_texts("recipe_server: overrides", overrides))
    own_folder = None if folder is None else path("recipe_server: folder", folder)
    if finished is not None:
        function("recipe_server: finished", finished, "a function of the run folder")
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        task, config = task_of(recipe, given), context.run_config
        stated = own_folder or config.get("out")
        if not stated:
            raise SettingError("run config out: must name the run folder")
        into = path("run config out", stated)
        for policy in task.experiment.policies.values():
            for rule in (policy.retention(task.experiment.system), policy.selection):
                task.last(task.model(), () if rule is None else rule.scores)
        names = {own.name: own.name.replace("_", "-") for own in fields(Discipline)}
        stated_rules: dict[str, Any] = {
            name: config[key] for name, key in names.items() if key in config
        }
        rules = Discipline(**stated_rules)
        track = re.findall(r"[^\s,]+", str(config.get("track") or ""))
        strategy = AdmissionStrategy(
            task.experiment,
            into,
            discipline=rules,
            track=track,
        )
        with closing(strategy):
            strategy.start(grid, task.start(), evaluate_fn=task.evaluate)
        if finished is not None:
            finished(into)

    return app


def _record(tensors: Mapping[str, Tensor]) -> ArrayRecord:
    arrays = {name: each.detach().numpy().copy() for name, each in tensors.items()}
    return ArrayRecord({name: Array(each) for name, each in arrays.items()})
