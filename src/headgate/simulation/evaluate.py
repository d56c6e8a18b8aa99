"""Accuracy and loss of many models on one test set."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.func import functional_call

from headgate.simulation.executors.gram import is_linear
from headgate.simulation.executors.types import Task, native_kernels

CHUNK = 2_000
"""test images at once: bounds memory, and is normalised once for all models"""


class Evaluator:
    """The test set of a task; images stay uint8 on the device."""

    def __init__(self, task: Task, images: Tensor, labels: Tensor) -> None:
        self.task, self.images, self.labels = task, images, labels
        self.model = copy.deepcopy(task.model)  # functional_call may leave traces in a module that shares parts
        self.linear = is_linear(task.model)

    def __call__(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """(accuracy (R,), mean cross-entropy (R,)) of the models theta (R, P)."""
        hits = torch.zeros(len(theta), dtype=torch.int64, device=theta.device)
        loss = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        with torch.no_grad(), native_kernels():
            for start in range(0, len(self.labels), CHUNK):
                x, y = self.task.normalised(self.images[start : start + CHUNK]), self.labels[start : start + CHUNK]
                for run, logits in self._logits(theta, x):
                    hits[run] += (logits.argmax(dim=-1) == y).sum(dim=-1)
                    chosen = logits.gather(-1, y.expand(logits.shape[:-1]).unsqueeze(-1)).squeeze(-1)
                    loss[run] += (torch.logsumexp(logits, dim=-1) - chosen).sum(dim=-1).double()
        return hits.double() / len(self.labels), loss / len(self.labels)

    def _logits(self, theta: Tensor, x: Tensor) -> Iterator[tuple[int | slice, Tensor]]:
        """(which runs, their logits); all linear models together are one matrix product."""
        views = self.task.flat.views
        if self.linear:
            weight, *bias = views(theta).values()
            features = x.flatten(1)
            together = features @ weight.reshape(-1, features.shape[1]).T
            if bias:
                together += bias[0].reshape(-1)
            yield slice(None), together.reshape(len(x), len(theta), -1).transpose(0, 1)
        else:
            for r in range(len(theta)):
                yield r, functional_call(self.model, views(theta[r]), (x,))
