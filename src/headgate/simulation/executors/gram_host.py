"""The Gram form of `gram` for torch modules on the CPU."""

import math

import numpy as np
import torch
from torch import Tensor

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Packed, Work
from headgate.simulation.executors.gram import Gram, GramForm, LinearTask, one_thread
from headgate.simulation.executors.layers import is_linear
from headgate.simulation.executors.types import Task


class GramHost(GramForm[Task]):
    """For a module that is a Flatten and a Linear."""

    objectives = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        dtype = np.dtype("float64" if task.dtype == torch.float64 else "float32")
        bias = task.size > task.classes * math.prod(task.shape)
        self.gram = Gram(LinearTask(task.shape, task.classes, task.mean, task.std, dtype, bias, task.unit))

    def check(self, training: LocalTraining | None) -> None:
        if training is None and not is_linear(self.task.model):  # looked at once: the task stays what it is
            raise SettingError("--executor gram: the model must be exactly a Flatten and a Linear")
        if self.task.device.type != "cpu":
            raise SettingError(f"--executor gram: only on the CPU, the device is {self.task.device.type}")
        super().check(training)

    def _advance(self, work: Work) -> tuple[Tensor, Tensor]:
        images, labels, offsets, factors = work.packed
        packed = Packed(images.numpy(), labels.numpy(), offsets, None if factors is None else factors.numpy())
        theta, weights = (each.detach().numpy() for each in (work.theta, work.weights))
        tilt = None if work.tilt is None else work.tilt.numpy()
        with one_thread():
            done = self.gram._advance(work._replace(theta=theta, packed=packed, weights=weights, tilt=tilt))
        after, losses = map(torch.from_numpy, done)
        return after, losses
