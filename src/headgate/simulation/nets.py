"""Trains and evaluates models that are torch modules, on the CPU or on CUDA."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import pad

from headgate.control.types import Ints
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.learning.formats import Labels, Pixels
from headgate.learning.networks import (
    build_model,
    initial_parameters,
    last_layer,
    with_features,
)
from headgate.simulation.executors import choose
from headgate.simulation.executors.executor import RaggedBatch
from headgate.simulation.executors.types import Task, native_kernels, to_device
from headgate.simulation.learner import EVALUATED, Learner, RoundSamples


class NetLearner(Learner):
    """Trains and evaluates torch models. All images stay on the device as given; on
    CUDA only `read` waits for the device.
    """

    arrays = torch

    def __init__(
        self,
        experiment: Experiment,
        dataset: Dataset,
        device: str,
        executor: str,
    ) -> None:
        super().__init__(experiment, dataset)
        self.device = device
        dtype, where = experiment.training.dtype, torch.device(device)
        if device == "cuda":
            # compute in true float32, with kernels that repeat their results to the bit
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.deterministic = True
        if dtype == "bfloat16" and device != "cuda":
            raise SettingError(
                f"training.dtype = bfloat16: needs CUDA, the device is {device}"
            )
        classes = len(dataset.classes)
        plain = Task(
            model=build_model(experiment.model, dataset.shape, classes),
            shape=dataset.shape,
            classes=classes,
            mean=dataset.mean,
            std=dataset.std,
            unit=dataset.unit,
            dtype=torch.float64 if dtype == "float64" else torch.float32,
            device=where,
        )
        coarse = dtype == "bfloat16" or (dtype == "auto" and device == "cuda")
        first = replace(plain, bfloat16=coarse)
        or_else = plain if dtype == "auto" else None
        self.executor = choose(first, self.training, executor, or_else)
        self.task = self.executor.task

        def there(images: Pixels, labels: Labels) -> tuple[Tensor, Tensor]:
            pixels = torch.from_numpy(np.ascontiguousarray(images))
            return pixels.to(where), torch.from_numpy(labels).to(where)

        self.images, self.labels = there(dataset.train_images, dataset.train_labels)
        self.judges: list[Evaluator] = [
            Evaluator(self.task, *there(*own), executor=self.executor)
            for own in dataset.judged
        ]

    def check_scores(self, asked: tuple[str, ...], whose: str) -> None:
        if "features" in asked and self.judges[0].last is None:
            kind = self.experiment.model.kind
            raise SettingError(
                f"model.kind = {kind}: does not end with a linear layer, of which"
                f" {whose} needs the gradients"
            )

    def read(self, array: Tensor) -> NDArray[Any]:
        values: NDArray[Any] = array.cpu().numpy()
        return values

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def facts(self) -> dict[str, Any]:
        device = torch.cuda.get_device_name() if self.device == "cuda" else "cpu"
        used = str(self.task.arithmetic).removeprefix("torch.")
        return {
            "torch": torch.__version__,
            "executor": self.executor.name,
            "device": device,
            "dtype": used,
        }

    def start(self, seeds: Sequence[int]) -> Tensor:
        task, model = self.task, self.experiment.model
        start = {
            seed: initial_parameters(model, task.shape, task.classes, seed)
            for seed in dict.fromkeys(seeds)
        }
        models = torch.stack([start[seed] for seed in seeds])
        return models.to(task.device, task.dtype)

    def _ragged(self, batch: RoundSamples) -> RaggedBatch:
        rows = to_device(batch.rows, self.task.device)
        images = self.images.index_select(0, rows)
        if batch.moves is not None:
            move = to_device(batch.moves, self.task.device)
            images = shifted(images, move, self.experiment.training.shift)
        return RaggedBatch(images, self.labels.index_select(0, rows), batch.offsets)

    def _losses(self, theta: Tensor, batch: RaggedBatch) -> Tensor:
        logits, _ = self.judges[0].answers(theta, batch.images)
        return -log_chances(logits, batch.labels).view(-1)

    def _answers(
        self,
        theta: Tensor,
        rows: Ints,
        features: bool,
    ) -> tuple[Tensor, Tensor | None]:
        images = self.images.index_select(0, to_device(rows, self.task.device))
        return self.judges[0].answers(theta, images, features)

    def _put(self, values: NDArray[Any]) -> Tensor:
        return to_device(values, self.task.device).to(self.task.dtype)

    def _between(
        self,
        old: Tensor,
        new: Tensor,
        share: float,
    ) -> Tensor:
        return torch.lerp(old, new, share)


def shifted(
    images: Tensor,
    move: Tensor,
    most: int,
) -> Tensor:
    """Shift images by their moves as `learning.local.shifted` does, on the device of
    the images.
    """
    height, width = images.shape[2:]
    windows = pad(images, (most,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    down, right = most - move
    return windows[torch.arange(len(images), device=images.device), :, down, right]


class Evaluator:
    """Evaluates models on a test set, which stays on the device as given, without
    waiting for the device.

    An executor with a method `logits` computes the logits. Otherwise models are called
    one by one, in the task's arithmetic.
    """

    def __init__(
        self,
        task: Task,
        images: Tensor,
        labels: Tensor,
        executor: Any = None,
    ) -> None:
        self.task, self.images, self.labels = task, images, labels
        # functional_call may change a module that shares parameters
        self.model = copy.deepcopy(task.model).to(task.device, task.arithmetic)
        self.judging = executor if hasattr(executor, "logits") else None
        # on CUDA, convolutions are fastest if the channels are the last dimension in
        # memory
        self.format = (
            torch.channels_last if task.device.type == "cuda" else torch.preserve_format
        )

    @native_kernels()
    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the accuracy (R,) and mean cross-entropy (R,) of the models theta (R,
        P).
        """
        samples = len(self.labels)
        hits = torch.zeros(
            len(theta),
            dtype=torch.int64,
            device=theta.device,
        )
        loss = torch.zeros(
            len(theta),
            dtype=torch.float64,
            device=theta.device,
        )
        with torch.no_grad():
            models = self._models(theta)
            for start in range(0, samples, EVALUATED):
                images = self.images[start : start + EVALUATED]
                y = self.labels[start : start + EVALUATED]
                for run, logits in self._logits(theta, models, images):
                    hits[run] += (logits.argmax(dim=-1) == y).sum(dim=-1)
                    rows = log_chances(logits, y).view(-1, len(y))
                    loss[run] -= sum_of_each(rows).view_as(loss[run])
        return hits.double() / samples, loss / samples

    @native_kernels()
    def answers(
        self,
        theta: Tensor,
        images: Tensor,
        features: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the logits of one model (1, P) for images, (S, classes), and, with
        `features`, its last layer's inputs.
        """
        outputs, went_in = [theta.new_empty(0, self.task.classes)], list[Tensor]()
        with torch.no_grad():
            models = self._models(theta)
            for start in range(0, len(images), EVALUATED):
                some = images[start : start + EVALUATED]
                if features and self.last is not None:
                    # call the module, because executors do not return these inputs
                    own = self._model(theta[0])
                    call = partial(functional_call, self.model, own, (self._x(some),))
                    logits, inputs = with_features(self.last, call)
                    went_in.append(inputs.to(theta.dtype))
                else:
                    _, logits = next(self._logits(theta, models, some))
                    logits = logits.reshape(len(some), -1)
                outputs.append(logits.to(theta.dtype))
        return torch.cat(outputs), torch.cat(went_in) if went_in else None

    @cached_property
    def last(self) -> nn.Linear | None:
        """the last layer of the model, None if it is not a linear layer"""
        return last_layer(self.model, self.task.shape)

    def _models(self, theta: Tensor) -> list[dict[str, Tensor]] | None:
        """Return the parameters of each model by name, or None if an executor computes
        the logits.
        """
        return None if self.judging else [self._model(vector) for vector in theta]

    def _logits(
        self,
        theta: Tensor,
        models: list[dict[str, Tensor]] | None,
        images: Tensor,
    ) -> Iterator[tuple[int | slice, Tensor]]:
        """Yield pairs of a run, or a slice of all runs, and the logits of its models
        for the images.
        """
        if self.judging:
            yield slice(None), self.judging.logits(theta, images)
            return
        x = self._x(images)
        for r, parameters in enumerate(models or ()):
            yield r, functional_call(self.model, parameters, (x,)).to(theta.dtype)

    def _x(self, images: Tensor) -> Tensor:
        """Return the images as the model's input."""
        normalised = self.task.normalised(images)
        return normalised.to(self.task.arithmetic, memory_format=self.format)

    def _model(self, vector: Tensor) -> dict[str, Tensor]:
        """Return the parameters of a model as views of its vector, or on CUDA as copies
        in the layout for convolutions.
        """
        views, dtype = self.task.flat.views(vector), self.task.arithmetic
        if self.format is torch.preserve_format:
            return views
        copies = {}
        for name, view in views.items():
            layout = self.format if view.dim() == 4 else torch.preserve_format
            copies[name] = view.to(dtype, memory_format=layout)
        return copies


def sum_of_each(rows: Tensor) -> Tensor:
    """Return the sum of each row in float64, (R,), by adding one half of the row to the
    other until one number is left.

    On a GPU, the order in which torch.sum adds depends on the number of rows and on
    where a row begins in memory. The results of a run must not depend on the other runs
    of its chunk; the order of these additions depends on the row length alone.
    """
    rows = rows.double()
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        both = rows[:, :half] + rows[:, -half:]
        middle = rows[:, half:-half]  # one number if there is an odd number of them
        rows = torch.cat([both, middle], dim=1) if middle.shape[1] else both
    return rows[:, 0] if rows.shape[1] else rows.new_zeros(len(rows))


def log_chances(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability of the true class of each sample, (…, S, 1), from
    logits (…, S, classes).
    """
    own = labels.expand(logits.shape[:-1]).unsqueeze(-1)
    return torch.log_softmax(logits, dim=-1).gather(-1, own)
