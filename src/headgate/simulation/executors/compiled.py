"""Descent of small nets on the CPU: one thread takes a whole client through all its steps.

A small client's layers are so small that torch spends most time between them. Here a layer is one function compiled by
numba (`kernels`), on arrays that are made once for all clients of a thread (`compiled_net`). It is here because a round of
LeNet takes 62 ms on one thread, and 335 by `flat` (benchmarks/results/executors.json at a7da4c6).
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining, schedule
from headgate.simulation.executors.compiled_layers import Floats
from headgate.simulation.executors.compiled_net import AtWork, read_net
from headgate.simulation.executors.compiled_shapes import SAMPLES
from headgate.simulation.executors.executor import Executor, Ints, Packed, Work
from headgate.simulation.executors.types import Task

CHUNK = 64
"""Images that are looked at together; their numbers stay in the second-level cache."""


Given = TypeVar("Given")
Made = TypeVar("Made")


class _Job(NamedTuple):
    """One client that has samples."""

    run: int
    share: float
    images: NDArray[Any]
    labels: Ints
    """where the logits of the true classes lie"""
    batches: Iterator[slice | Ints]
    """the rows that each of its steps looks at"""


class Compiled(Executor[Task]):
    """For a Sequential of the layers in `compiled_net`, on the CPU.

    A run's numbers depend neither on the runs beside it nor on the number of threads, to the bit.
    """

    name = "compiled"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.net = read_net(task)
        from headgate.simulation.executors import kernel_cache, kernels  # which need numba

        self.kernels, self.note = kernels, kernel_cache.objection()
        if kernel_cache.is_empty():
            self.at_first = "numba compiles the layers before the first round: that takes a while, and only this once"

    def check(self, training: LocalTraining | None) -> None:
        super().check(training)
        task = self.task
        if importlib.util.find_spec("numba") is None:
            raise SettingError("--executor compiled: needs numba, which is not installed")
        if task.device.type != "cpu" or task.dtype not in (torch.float32, torch.float64):
            here = f"{task.dtype} on {task.device}"
            raise SettingError(f"--executor compiled: only for float32 or float64 on the CPU, not {here}")

    def _advance(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, packed, weights, training, seeds, t, _ = work
        labels, models = packed.labels.numpy(), theta.detach().numpy()
        if labels.size and not (labels.min() >= 0 and labels.max() < self.task.classes):
            raise IndexError(f"labels are {labels.min()} to {labels.max()}, must be less than {self.task.classes}")
        jobs = list(_jobs(packed, self.net.order[labels], weights, training, seeds, t))
        models, losses = self.net.own(models), np.zeros(len(models))
        after = models.copy()
        with np.errstate(all="ignore"):  # a run that has broken down is the caller's business
            for job, (loss, move) in zip(jobs, self._trained(jobs, models, training), strict=True):
                losses[job.run] += loss
                if move is not None:
                    move *= after.dtype.type(job.share)
                    after[job.run] += move
            losses /= np.diff(packed.offsets[:: weights.shape[1]])  # 0/0 is nan
        return torch.from_numpy(after[:, self.net.places]), torch.from_numpy(losses.astype(after.dtype))

    def logits(self, theta: Tensor, images: Tensor) -> Tensor:
        """What models (R, P) say to images (S, C, H, W) of bytes: (R, S, classes).

        A model's numbers for an image depend on nothing else, to the bit.
        """
        if theta.ndim != 2 or theta.shape[1] != self.task.flat.size or theta.dtype != self.task.dtype:
            wanted = f"(R, {self.task.flat.size}) {self.task.dtype}"
            raise ValueError(f"theta is {tuple(theta.shape)} {theta.dtype}, must be {wanted}")
        if tuple(images.shape[1:]) != self.task.shape or images.dtype != getattr(torch, self.task.given):
            raise ValueError(
                f"images are {tuple(images.shape)} {images.dtype}, must be (S, {self.task.shape}) {self.task.given}"
            )
        models, bytes_ = self.net.own(theta.detach().numpy()), images.numpy()
        given = np.empty((len(models), len(bytes_), self.task.classes), models.dtype)

        def answer(start: int, desk: AtWork) -> None:
            some = bytes_[start : start + CHUNK]
            self._put(some, desk.samples)
            for model, out in zip(models, given, strict=True):
                desk.model.theta[:] = model
                for step in desk.steps:
                    step.forward(len(some))
                out[start : start + CHUNK] = desk.logits.first(len(some))[:, self.net.order]

        starts = range(0, len(bytes_), CHUNK)
        for _ in _spread(answer, starts, self._desks(len(starts), min(CHUNK, len(bytes_)), models.dtype, learning=False)):
            pass
        return torch.from_numpy(given)

    def _trained(self, jobs: list[_Job], models: Floats, training: LocalTraining) -> Iterator[tuple[float, Floats | None]]:
        """Losses and move of each client, in their order, so that sums do not hang on who is done first."""
        most = max((len(job.labels) for job in jobs), default=0)
        desks = self._desks(len(jobs), min(most, max(training.batch_size or most, SAMPLES)), models.dtype, learning=True)
        return _spread(
            lambda job, desk: self._train(job, models[job.run], training, desk), jobs, desks, lambda job: len(job.labels)
        )

    def _desks(self, works: int, most: int, dtype: Any, learning: bool) -> list[AtWork]:
        """One for each thread that finds work."""
        threads = min(torch.get_num_threads(), works)
        return [self.net.at_work(self.kernels, most, dtype, learning) for _ in range(threads)]

    def _train(self, job: _Job, start: Floats, training: LocalTraining, desk: AtWork) -> tuple[float, Floats | None]:
        """The sum of a client's losses before its local training, and how far that moves it; None if it is worth nothing."""
        with np.errstate(all="ignore"):  # each thread has its own
            desk.model.theta[:] = start
            if job.share == 0:
                return self._losses(desk, job, np.arange(len(job.labels))), None
            return self._descend(desk, job, training), desk.model.theta - start

    def _descend(self, desk: AtWork, job: _Job, training: LocalTraining) -> float:
        """Moves the model by the client's local training; the sum of its losses before that."""
        theta, slope, first = desk.model.theta, desk.model.slope, self.net.first
        velocity = np.zeros(len(theta) if training.momentum else 0, theta.dtype)
        rates = [theta.dtype.type(each) for each in (training.lr, training.momentum, training.weight_decay)]
        before, labels = float("nan"), job.labels
        for number, rows in enumerate(job.batches):
            if number == 0:  # those of the first batch are about to be known
                before = self._losses(desk, job, np.delete(np.arange(len(job.labels)), rows))
            if number == 0 or training.batch_size is not None:
                self._put(job.images[rows], desk.samples)
                labels = job.labels[rows]
            loss = self._forward(desk, labels)
            before += 0 if number else len(labels) * loss
            for place in range(len(desk.steps) - 1, first - 1, -1):
                desk.steps[place].backward(len(labels), place > first)
            self.kernels.descend(theta, velocity, slope, *rates)
        return before

    def _losses(self, desk: AtWork, job: _Job, rows: Ints) -> float:
        """The sum of the losses of some samples."""
        total = 0.0
        for first in range(0, len(rows), desk.model.most):
            some = rows[first : first + desk.model.most]
            self._put(job.images[some], desk.samples)
            total += len(some) * self._forward(desk, job.labels[some])
        return total

    def _forward(self, desk: AtWork, labels: Ints) -> float:
        """The mean loss of the samples on the desk, and the slope of the logits."""
        for step in desk.steps:
            step.forward(len(labels))
        logits = desk.logits
        mean: float = self.kernels.cross_entropy(logits.values, logits.grid.pitch, self.task.classes, labels, logits.slopes)
        return mean

    def _put(self, images: NDArray[Any], samples: Floats) -> None:
        """The normalised images where the first layer looks for them."""
        grid, (scale, shift) = self.net.grid, (each.numpy().reshape(-1) for each in self.task.line)
        self.kernels.normalise(images, scale, shift, grid.start, grid.row, grid.pitch, samples)


def _spread(
    do: Callable[[Given, AtWork], Made], given: Sequence[Given], desks: list[AtWork], size: Callable[[Given], int] = lambda _: 0
) -> Iterator[Made]:
    """What `do` makes of each, in their order, by a thread for each desk; by this one if there is only one."""
    if len(desks) < 2:
        yield from (do(each, desks[0]) for each in given)
        return
    free = list(desks)

    def work(each: Given) -> Made:
        desk = free.pop()
        try:
            return do(each, desk)
        finally:
            free.append(desk)

    with ThreadPoolExecutor(len(desks)) as pool:
        largest_first = sorted(range(len(given)), key=lambda i: -size(given[i]))  # so that none is left waiting for
        futures = {i: pool.submit(work, given[i]) for i in largest_first}
        for i in range(len(given)):
            yield futures.pop(i).result()


def _jobs(
    packed: Packed, labels: Ints, weights: Tensor, training: LocalTraining, seeds: Sequence[int], t: int
) -> Iterator[_Job]:
    images, offsets = packed.images.numpy(), packed.offsets.tolist()
    shares = weights.detach().reshape(-1).tolist()
    for segment, share in enumerate(shares):
        own = slice(offsets[segment], offsets[segment + 1])
        if own.stop > own.start:
            run, client = divmod(segment, weights.shape[1])
            batches = schedule(training, seeds[run], client, t, own.stop - own.start)
            yield _Job(run, share, images[own], labels[own], batches)
