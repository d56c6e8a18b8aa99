"""Descent of small nets on the CPU: one thread takes a whole client through all its steps.

A small client's layers are so small that torch spends most time between them. Here a client's local training is one call
(`client_kernel`) of what numba compiled (`kernels`), in memory that is made once for all clients of a thread
(`compiled_room`), without Python's lock. It is here because a round of LeNet takes 62 ms on one thread, and 335 by `flat`
(benchmarks/results/executors.json at a7da4c6).
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headgate.kernels.compiled_net import AtWork, read_net
from headgate.kernels.compiled_room import Batches, ClientRoom, Floats
from headgate.kernels.compiled_shapes import SAMPLES
from headgate.learning.local import LocalTraining, schedule
from headgate.simulation.executors.executor import Executor, Ints, RaggedBatch, Work
from headgate.simulation.executors.types import Task

CHUNK = 64
"""Images that are looked at together; their numbers stay in the second-level cache."""


Input = TypeVar("Input")
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
        from headgate.kernels import client_kernel, kernel_calls, kernels  # which need numba

        self._kept: dict[bool, tuple[AtWork, list[ClientRoom]]] = {}
        self.kernels, self.client, self.note = kernels, client_kernel, kernel_calls.objection()
        if kernel_calls.is_empty():
            self.at_first = "numba compiles the layers before the first round: that takes a while, and only this once"

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        cls.need_plain_loss(training)
        if importlib.util.find_spec("numba") is None:
            raise cls.refused("needs numba, which is not installed")
        if task.device.type != "cpu" or task.dtype not in (torch.float32, torch.float64):
            raise cls.refused(f"only for float32 or float64 on the CPU, not {task.dtype} on {task.device}")
        read_net(task)
        return 0.1

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, batch, weights, training, seeds, t, _ = work
        labels, models = batch.labels.numpy(), theta.detach().numpy()
        if labels.size and not (labels.min() >= 0 and labels.max() < self.task.classes):
            raise IndexError(f"labels are {labels.min()} to {labels.max()}, must be less than {self.task.classes}")
        jobs = list(_jobs(batch, self.net.order[labels], weights, training, seeds, t))
        models, losses = self.net.own(models), np.zeros(len(models))
        after = models.copy()
        with np.errstate(all="ignore"):  # a run that has broken down is the caller's business
            for job, (loss, move) in zip(jobs, self._trained(jobs, models, training), strict=True):
                losses[job.run] += loss
                if len(move):
                    after[job.run] += move
            losses /= np.diff(batch.offsets[:: weights.shape[1]])  # 0/0 is nan
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
        starts = range(0, len(bytes_), CHUNK)
        with self._rooms(len(starts), CHUNK, models.dtype, learning=False) as (work, rooms):

            def answer(start: int, room: ClientRoom) -> None:
                rows = np.arange(start, min(start + CHUNK, len(bytes_)))
                self.client.answer(room, work.program, bytes_, rows, models, self.net.order, given)

            for _ in _spread(answer, starts, rooms):
                pass
        return torch.from_numpy(given)

    def _trained(self, jobs: list[_Job], models: Floats, training: LocalTraining) -> Iterator[tuple[float, Floats]]:
        """Losses and move of each client, in their order, so that sums do not depend on who is done first."""
        most = max((len(job.labels) for job in jobs), default=0)
        most = min(most, max(training.batch_size or most, SAMPLES))
        with self._rooms(len(jobs), most, models.dtype, learning=True) as (work, rooms):
            for room in rooms:
                room.floats[work.ends.rates :][:3] = training.lr, training.momentum, training.weight_decay

            def train(job: _Job, room: ClientRoom) -> tuple[float, Floats]:
                return self._train(job, models[job.run], training, work, room)

            yield from _spread(train, jobs, rooms, lambda job: len(job.labels))

    @contextmanager
    def _rooms(self, works: int, most: int, dtype: Any, learning: bool) -> Iterator[tuple[AtWork, list[ClientRoom]]]:
        """The net at work on up to `most` samples at a time, and a room for each thread that finds work.

        Both are kept for the next time, as to make them takes a tenth of a round of LeNet.
        """
        work, rooms = self._kept.pop(learning, (None, list[ClientRoom]()))
        if work is None or work.space.most < most:
            work, rooms = self.net.at_work(self.kernels, most, dtype, learning), []
        threads = min(torch.get_num_threads(), works)
        while len(rooms) < threads:
            rooms.append(work.space.room(dtype))
            for start, line in zip((work.ends.scale, work.ends.shift), self.task.line, strict=True):
                rooms[-1].floats[start : start + line.numel()] = line.numpy().reshape(-1)
        yield work, rooms[:threads]
        self._kept[learning] = work, rooms

    def _train(self, job: _Job, start: Floats, training: LocalTraining, work: AtWork, room: ClientRoom) -> tuple[float, Floats]:
        """The sum of a client's losses before its local training, and how far that moves the server; nowhere if it is worth
        nothing."""
        move, share = np.empty(len(start) if job.share else 0, start.dtype), start.dtype.type(job.share)
        loss = self.client.train(room, work.program, job.images, job.labels, _batches(job, training), start, share, move)
        return float(loss), move


def _batches(job: _Job, training: LocalTraining) -> Batches:
    """All that a client looks at: first the samples that its first step does not see."""
    whole, repeats = np.arange(len(job.labels)), 1
    most = max(training.batch_size or len(whole), SAMPLES)
    if job.share == 0:
        steps, others = [], whole
    elif training.batch_size is None:
        steps, others, repeats = [whole], whole[:0], training.steps
    else:
        steps = [whole[rows] for rows in job.batches]
        others = np.delete(whole, steps[0])
    looks = [others[first : first + most] for first in range(0, len(others), most)]
    rows = [*looks, *steps]
    return Batches(np.concatenate(rows), np.cumsum([len(each) for each in rows]), len(looks), repeats)


def _spread(
    do: Callable[[Input, ClientRoom], Made],
    given: Sequence[Input],
    rooms: list[ClientRoom],
    size: Callable[[Input], int] = lambda _: 0,
) -> Iterator[Made]:
    """What `do` makes of each, in their order, by a thread for each room; by this one if there is only one."""
    if len(rooms) < 2:
        yield from (do(each, rooms[0]) for each in given)
        return
    free = list(rooms)

    def work(each: Input) -> Made:
        room = free.pop()
        try:
            return do(each, room)
        finally:
            free.append(room)

    with ThreadPoolExecutor(len(rooms)) as pool:
        largest_first = sorted(range(len(given)), key=lambda i: -size(given[i]))  # so that none is left waiting for
        futures = {i: pool.submit(work, given[i]) for i in largest_first}
        for i in range(len(given)):
            yield futures.pop(i).result()


def _jobs(
    batch: RaggedBatch, labels: Ints, weights: Tensor, training: LocalTraining, seeds: Sequence[int], t: int
) -> Iterator[_Job]:
    images, offsets = batch.images.numpy(), batch.offsets.tolist()
    shares = weights.detach().reshape(-1).tolist()
    for segment, share in enumerate(shares):
        own = slice(offsets[segment], offsets[segment + 1])
        if own.stop > own.start:
            run, client = divmod(segment, weights.shape[1])
            batches = schedule(training, seeds[run], client, t, own.stop - own.start)
            yield _Job(run, share, images[own], labels[own], batches)
