"""Accuracy and loss of many models on one test set."""

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from headgate.learning.torch_client import last_layer, with_features
from headgate.simulation.executors.layers import is_linear
from headgate.simulation.executors.types import Task, native_kernels
from headgate.simulation.learner import EVALUATED


class Evaluator:
    """The test set of a task; images stay uint8 on the device. Nothing here waits for the device.

    An executor that offers `logits` is asked for them. Otherwise models are called one by one, in the task's
    arithmetic.
    """

    def __init__(self, task: Task, images: Tensor, labels: Tensor, executor: Any = None) -> None:
        self.task, self.images, self.labels = task, images, labels
        # functional_call may leave traces in a module that shares parts
        self.model = copy.deepcopy(task.model).to(task.device, task.arithmetic)
        self.linear = is_linear(task.model)
        self.judging = executor if hasattr(executor, "logits") else None
        # on CUDA convolutions are fastest on images with channels last
        self.format = torch.channels_last if task.device.type == "cuda" else torch.preserve_format

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """(accuracy (R,), mean cross-entropy (R,)) of the models theta (R, P)."""
        hits = torch.zeros(len(theta), dtype=torch.int64, device=theta.device)
        loss = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        with torch.no_grad(), native_kernels():
            models = self._models(theta)
            for start in range(0, len(self.labels), EVALUATED):
                y = self.labels[start : start + EVALUATED]
                for run, logits in self._logits(theta, models, self.images[start : start + EVALUATED]):
                    hits[run] += (logits.argmax(dim=-1) == y).sum(dim=-1)
                    rows = log_chances(logits, y).view(-1, len(y))
                    loss[run] -= sum_of_each(rows).view_as(loss[run])
        return hits.double() / len(self.labels), loss / len(self.labels)

    def losses(self, theta: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """Those of other images (S, C, H, W) under one model (1, P), (S,)."""
        if not len(labels):
            return theta.new_empty(0)
        found = []
        with torch.no_grad(), native_kernels():
            models = self._models(theta)
            for start in range(0, len(labels), EVALUATED):
                own = slice(start, start + EVALUATED)
                each = self._logits(theta, models, images[own])
                found += [-log_chances(logits, labels[own]).view(-1) for _, logits in each]
        return torch.cat(found)

    def answers(self, theta: Tensor, images: Tensor, features: bool) -> tuple[Tensor, Tensor | None]:
        """What one model (1, P) says to images (S, C, H, W), (S, classes), and, if asked for, what goes into its last layer."""
        said, went_in = [theta.new_empty(0, self.task.classes)], list[Tensor]()
        with torch.no_grad(), native_kernels():
            models = self._models(theta)
            for start in range(0, len(images), EVALUATED):
                some = images[start : start + EVALUATED]
                if features:
                    logits, inputs = self._with_features(theta, some)
                    went_in.append(inputs)
                else:
                    logits = next(self._logits(theta, models, some))[1].reshape(len(some), -1)
                said.append(logits)
        return torch.cat(said), torch.cat(went_in) if went_in else None

    def _with_features(self, theta: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """By the module itself: what goes into its last layer no executor tells."""
        layer = self.last
        assert layer is not None
        x = self.task.normalised(images).to(self.task.arithmetic, memory_format=self.format)
        said, went_in = with_features(layer, lambda: functional_call(self.model, self._model(theta[0]), (x,)))
        return said.to(theta.dtype), went_in.to(theta.dtype)

    @cached_property
    def last(self) -> nn.Linear | None:
        """The linear layer that the model ends with, if it does."""
        return last_layer(self.model, self.task.shape)

    def _models(self, theta: Tensor) -> list[dict[str, Tensor]] | None:
        """Where they are called one by one."""
        return None if self.judging or self.linear else [self._model(vector) for vector in theta]

    def _logits(
        self, theta: Tensor, models: list[dict[str, Tensor]] | None, images: Tensor
    ) -> Iterator[tuple[int | slice, Tensor]]:
        """(which runs, their logits); all linear models together are one matrix product."""
        if self.judging:
            yield slice(None), self.judging.logits(theta, images)
            return
        x = self.task.normalised(images)
        if self.linear:
            weight, *bias = self.task.flat.views(theta).values()
            features = x.flatten(1)
            together = features @ weight.reshape(-1, features.shape[1]).T
            if bias:
                together += bias[0].reshape(-1)
            yield slice(None), together.reshape(len(x), len(theta), -1).transpose(0, 1)
            return
        x = x.to(self.task.arithmetic, memory_format=self.format)
        for r, parameters in enumerate(models or ()):
            yield r, functional_call(self.model, parameters, (x,)).to(theta.dtype)

    def _model(self, vector: Tensor) -> dict[str, Tensor]:
        """Views of the vector, or on CUDA copies as convolutions want them."""
        views = self.task.flat.views(vector)
        if self.format is torch.preserve_format:
            return views
        return {
            name: view.to(self.task.arithmetic, memory_format=self.format if view.dim() == 4 else torch.preserve_format)
            for name, view in views.items()
        }


def sum_of_each(rows: Tensor) -> Tensor:
    """The sum of each row, (R,), in float64: one half is added to the other until one number is left.

    In which order torch.sum adds up hangs, on a GPU, on how many rows there are and where one begins. A run's numbers must
    not depend on who else is in its chunk; here each is the sum of the same two.
    """
    rows = rows.double()
    while (many := rows.shape[1]) > 1:
        half = (many + 1) // 2
        both = rows[:, : many - half] + rows[:, half:]
        rows = both if many % 2 == 0 else torch.cat([both, rows[:, many - half : half]], dim=1)
    return rows[:, 0] if many else rows.new_zeros(len(rows))


def log_chances(logits: Tensor, labels: Tensor) -> Tensor:
    """What models say to the true class of each sample, (…, S, 1), from their answers, (…, S, classes)."""
    return torch.log_softmax(logits, dim=-1).gather(-1, labels.expand(logits.shape[:-1]).unsqueeze(-1))
