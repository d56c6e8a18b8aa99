"""Models that are torch modules, learnt and judged by torch on the CPU or on CUDA."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from headgate.control.types import Ints
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.learning.formats import Labels, Pixels
from headgate.learning.networks import build_model, initial_parameters
from headgate.simulation.evaluate import Evaluator
from headgate.simulation.executors import choose
from headgate.simulation.executors.executor import RaggedBatch
from headgate.simulation.executors.types import Task, to_device
from headgate.simulation.learner import Learner, RoundSamples


class NetLearner(Learner):
    """All images stay on the device as bytes. On CUDA nothing waits but `read`."""

    arrays = torch

    def __init__(self, experiment: Experiment, dataset: Dataset, device: str, executor: str) -> None:
        super().__init__(experiment, dataset)
        self.device = device
        dtype, where = experiment.training.dtype, torch.device(device)
        if device == "cuda":  # float32 means float32, by kernels that repeat their bits
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.deterministic = True
        if dtype == "bfloat16" and device != "cuda":
            raise SettingError(f"training.dtype = bfloat16: needs CUDA, the device is {device}")
        plain = Task(
            model=build_model(experiment.model, dataset.shape, len(dataset.classes)),
            shape=dataset.shape,
            classes=len(dataset.classes),
            mean=dataset.mean,
            std=dataset.std,
            unit=dataset.unit,
            dtype=torch.float64 if dtype == "float64" else torch.float32,
            device=where,
        )
        coarse = replace(plain, bfloat16=True)
        first = coarse if dtype == "bfloat16" or (dtype == "auto" and device == "cuda") else plain
        self.executor = choose(first, self.training, executor, or_else=plain if dtype == "auto" else None)
        self.task = task = self.executor.task

        def there(images: Pixels, labels: Labels) -> tuple[Tensor, Tensor]:
            return torch.from_numpy(np.ascontiguousarray(images)).to(where), torch.from_numpy(labels).to(where)

        self.images, self.labels = there(dataset.train_images, dataset.train_labels)
        self.evaluators = [Evaluator(task, *there(*own), executor=self.executor) for own in dataset.judged]

    def judge(self, theta: Tensor, place: int = 0) -> tuple[Tensor, Tensor]:
        return self.evaluators[place](theta)

    def check_scores(self, asked: tuple[str, ...], whose: str) -> None:
        if "features" in asked and self.evaluators[0].last is None:
            kind = self.experiment.model.kind
            raise SettingError(f"model.kind = {kind}: does not end with a linear layer, of which {whose} needs the gradients")

    def read(self, array: Tensor) -> NDArray[Any]:
        values: NDArray[Any] = array.cpu().numpy()
        return values

    @contextmanager
    def threads(self, number: int) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def facts(self) -> dict[str, Any]:
        device = torch.cuda.get_device_name() if self.device == "cuda" else "cpu"
        used = str(self.task.arithmetic).removeprefix("torch.")
        return {"torch": torch.__version__, "executor": self.executor.name, "device": device, "dtype": used}

    def _beginning(self, seeds: Sequence[int]) -> Tensor:
        model, shape, classes = self.experiment.model, self.dataset.shape, self.task.classes
        start = {seed: initial_parameters(model, shape, classes, seed) for seed in dict.fromkeys(seeds)}
        return torch.stack([start[seed] for seed in seeds]).to(self.task.device, self.task.dtype)

    def _ragged(self, batch: RoundSamples) -> RaggedBatch:
        rows = to_device(batch.rows, self.task.device)
        images = self.images.index_select(0, rows)
        if batch.moves is not None:
            images = shifted(images, to_device(batch.moves, self.task.device), self.experiment.training.shift)
        return RaggedBatch(images, self.labels.index_select(0, rows), batch.offsets, self._factors(batch))

    def _losses(self, theta: Tensor, batch: RaggedBatch) -> Tensor:
        return self.evaluators[0].losses(theta, batch.images, batch.labels)

    def _answers(self, theta: Tensor, rows: Ints, features: bool) -> tuple[Tensor, Tensor | None]:
        images = self.images.index_select(0, to_device(rows, self.task.device))
        return self.evaluators[0].answers(theta, images, features)

    def _put(self, values: NDArray[Any]) -> Tensor:
        return to_device(values, self.task.device).to(self.task.dtype)

    def _between(self, old: Tensor, new: Tensor, share: float) -> Tensor:
        return torch.lerp(old, new, share)

    def _together(self, *values: Tensor) -> Tensor:
        return torch.stack([each.double() for each in values])


def shifted(images: Tensor, move: Tensor, most: int) -> Tensor:
    """What `learning.local.shifted` does, where the images are."""
    height, width = images.shape[2:]
    windows = pad(images, (most,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    down, right = most - move
    return windows[torch.arange(len(images), device=images.device), :, down, right]
