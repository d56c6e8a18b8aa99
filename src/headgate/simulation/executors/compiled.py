"""Full-batch descent of small convolutional nets on the CPU: one thread takes a whole client through all its steps.

A small client's layers are so small that torch spends most time between them. Here the loops are compiled by numba,
products go to BLAS in one thread, and a client's arrays are made once for all steps (`compiled_layers`).
"""

import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
from torch import Tensor

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.compiled_layers import Client, Floats, read_net
from headgate.simulation.executors.types import Ints, Packed, Task


class _Job(NamedTuple):
    """One client that has samples."""

    run: int
    share: float
    images: NDArray[np.uint8]
    labels: Ints


class Compiled:
    """For a Sequential of the layers in `compiled_layers`, full-batch, on the CPU.

    A run's numbers depend neither on the runs beside it nor on the number of threads, to the bit.
    """

    name = "compiled"

    def __init__(self, task: Task) -> None:
        self.task = task
        self.check(None)
        self.net = read_net(task)
        self.blas = ThreadpoolController().select(user_api="blas")

    def check(self, training: LocalTraining | None) -> None:
        check_compiled_form(self.task, training)

    def advance(
        self,
        theta: Tensor,
        packed: Packed,
        weights: Tensor,
        training: LocalTraining,
        seeds: Sequence[int],
        t: int,
    ) -> tuple[Tensor, Tensor]:
        """See `Executor.advance`."""
        self.check(training)
        self.task.check(theta, packed, weights)
        labels, models = packed.labels.numpy(), theta.detach().numpy()
        if labels.size and not (labels.min() >= 0 and labels.max() < self.task.classes):
            raise IndexError(f"labels are {labels.min()} to {labels.max()}, must be less than {self.task.classes}")
        jobs = list(_jobs(packed, weights))
        after, losses = models.copy(), np.zeros(len(models))
        threads = min(torch.get_num_threads(), len(jobs))  # asked before BLAS is limited, which may limit torch with it
        # A run that has broken down is the caller's business.
        with np.errstate(all="ignore"), self.blas.limit(limits=1):
            for job, (loss, move) in zip(jobs, self._trained(jobs, models, training, threads), strict=True):
                losses[job.run] += len(job.labels) * loss
                if move is not None:
                    after[job.run] += after.dtype.type(job.share) * move
            losses /= np.diff(packed.offsets[:: weights.shape[1]])  # 0/0 is nan
        return torch.from_numpy(after), torch.from_numpy(losses.astype(after.dtype))

    def _trained(
        self, jobs: list[_Job], models: Floats, training: LocalTraining, threads: int
    ) -> Iterator[tuple[float, Floats | None]]:
        """Loss and move of each client, in their order, so that sums do not hang on who is done first."""
        if threads < 2:
            for job in jobs:
                yield self._train(job, models[job.run], training)
            return
        with ThreadPoolExecutor(threads) as pool:
            largest_first = sorted(range(len(jobs)), key=lambda i: -len(jobs[i].labels))  # so that none is left waiting for
            futures = {i: pool.submit(self._train, jobs[i], models[jobs[i].run], training) for i in largest_first}
            for i in range(len(jobs)):
                yield futures.pop(i).result()

    def _train(self, job: _Job, start: Floats, training: LocalTraining) -> tuple[float, Floats | None]:
        """A client's loss before its local training, and how far that moves it; None if it is worth nothing."""
        from headgate.simulation.executors import kernels

        client = Client(len(job.labels), start.copy(), np.empty_like(start))
        layers, samples = self.net.layers(client), self._samples(job.images)
        velocity = np.zeros_like(start) if training.momentum else start[:0].copy()
        rates = [start.dtype.type(each) for each in (training.lr, training.momentum, training.weight_decay)]
        before = float("nan")
        with np.errstate(all="ignore"):  # each thread has its own
            for step in range(training.steps):
                x = samples
                for layer in layers:
                    x = layer.forward(x)
                x = x.copy()  # the last layer may still need what it gave
                loss = kernels.cross_entropy(x, job.labels)
                before = before if step else loss
                if job.share == 0:
                    return before, None
                for place in range(len(layers) - 1, self.net.first - 1, -1):
                    x = layers[place].backward(x, place > self.net.first)
                kernels.descend(client.theta, velocity, client.slope, *rates)
            return before, client.theta - start

    def _samples(self, images: NDArray[np.uint8]) -> Floats:
        """The normalised images of a client, (C, H, W, n)."""
        scale, shift = (each.numpy()[..., None] for each in self.task.line)
        samples = np.ascontiguousarray(images.transpose(1, 2, 3, 0)).astype(scale.dtype)
        samples *= scale
        samples += shift
        return samples


def _jobs(packed: Packed, weights: Tensor) -> Iterator[_Job]:
    images, labels, offsets = packed.images.numpy(), packed.labels.numpy(), packed.offsets.tolist()
    shares = weights.detach().reshape(-1).tolist()
    for segment, share in enumerate(shares):
        own = slice(offsets[segment], offsets[segment + 1])
        if own.stop > own.start:
            yield _Job(segment // weights.shape[1], share, images[own], np.ascontiguousarray(labels[own]))


def check_compiled_form(task: Task, training: LocalTraining | None) -> None:
    """Refuse what is not compiled, or not here."""
    if importlib.util.find_spec("numba") is None:
        raise SettingError("--executor compiled: needs numba, which is not installed")
    if task.device.type != "cpu" or task.dtype not in (torch.float32, torch.float64):
        raise SettingError(f"--executor compiled: only for float32 or float64 on the CPU, not {task.dtype} on {task.device}")
    if training is not None and training.batch_size is not None:
        raise SettingError(f"--executor compiled: full-batch only, training.batch_size = {training.batch_size}")


def is_compiled(task: Task, training: LocalTraining) -> bool:
    """Whether all of it has a compiled form: the layers are looked at, not a name."""
    try:
        check_compiled_form(task, training)
        read_net(task)
    except SettingError:
        return False
    return True
