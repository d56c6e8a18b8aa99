"""The executor `compiled`: trains small nets on the CPU, one client per thread from its
first step to its last.

The layers of a small client are so small that torch spends most of its time between
them. Here the local training of a client is one call of a function compiled by numba
(`kernels`). It runs without Python's lock, in memory that each thread allocates once. A
round of LeNet takes 62 ms on one thread, and 335 ms with `flat`
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

from headgate.learning.local import LocalTraining, schedule
from headgate.simulation.executors import Executor, Work
from headgate.simulation.executors.executor import Ints
from headgate.simulation.executors.types import Task
from headgate_kernels.compiled_net import (
    Batches,
    ClientRoom,
    Floats,
    Program,
    RoomPlan,
    read_net,
)
from headgate_kernels.compiled_shapes import SAMPLES

CHUNK = 64
"""Images evaluated together; their values stay in the second-level cache."""
TYPES = (torch.float32, torch.float64)
Input = TypeVar("Input")
Made = TypeVar("Made")


class _Job(NamedTuple):
    """The local training of one client that has samples."""

    run: int
    share: float
    images: NDArray[Any]
    labels: Ints
    batches: Batches


class Compiled(Executor[Task]):
    """An executor for the nets of `stack_net` on the CPU.

    The results of a run are the same to the bit, whatever the other runs and the number
    of threads.
    """

    name = "compiled"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.net = read_net(task)
        from headgate_kernels import kernel_calls, kernels  # these need numba

        self._kept: tuple[RoomPlan, Program, list[ClientRoom]] | None = None
        self.kernels = kernels
        self.note = kernel_calls.objection()
        if kernel_calls.is_empty():
            self.at_first = (
                "numba compiles the layers before the first round: that takes a while,"
                " and only this once"
            )

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        """Return a tenth, if the executor can train the task with these settings."""
        if importlib.util.find_spec("numba") is None:
            raise cls.refused("needs numba, which is not installed")
        if task.device.type != "cpu" or task.dtype not in TYPES:
            given = f"{task.dtype} on {task.device}"
            raise cls.refused(f"only for float32 or float64 on the CPU, not {given}")
        read_net(task)
        return 0.1

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        """Return the models after a round and the losses before it."""
        theta, batch, weights, training, *_ = work
        labels, classes = batch.labels.numpy(), self.task.classes
        if labels.size and not (labels.min() >= 0 and labels.max() < classes):
            given = f"{labels.min()} to {labels.max()}"
            raise IndexError(f"labels are {given}, must be less than {classes}")
        jobs = list(_jobs(work))
        sizes = [len(job.labels) for job in jobs]
        most = max(sizes, default=0)
        most = min(most, max(training.batch_size or most, SAMPLES))
        models = self.net.own(theta.detach().numpy())
        after, losses = models.copy(), np.zeros(len(theta))

        def local(job: _Job, room: ClientRoom) -> tuple[float, Floats]:
            """Return a client's sum of losses before training, and its weighted update,
            empty if its weight is 0.
            """
            start, share = models[job.run], job.share
            move = np.empty(len(start) if share else 0, start.dtype)
            given = (job.images, job.labels, job.batches)
            weight = start.dtype.type(share)
            loss = self.kernels.train(room, program, *given, start, weight, move)
            return loss, move

        # the caller handles runs that diverged
        with (
            np.errstate(all="ignore"),
            self._rooms(len(jobs), most, models.dtype) as (plan, program, rooms),
        ):
            rates = (training.lr, training.momentum, training.weight_decay)
            for room in rooms:
                room.floats[plan.rates : plan.rates + len(rates)] = rates
            # in the order of the jobs, so that sums do not depend on which thread
            # finishes first
            results = _spread(local, jobs, rooms, sizes)
            for job, (loss, move) in zip(jobs, results, strict=True):
                losses[job.run] += loss
                if len(move):
                    after[job.run] += move
            # nan where a run has no samples
            losses /= np.diff(batch.offsets[:: weights.shape[1]])
        trained = torch.from_numpy(after[:, self.net.places])
        return trained, torch.from_numpy(losses.astype(after.dtype))

    def logits(self, theta: Tensor, images: Tensor) -> Tensor:
        """Return the logits of the models (R, P) for images (S, C, H, W) of bytes, (R,
        S, classes).

        The logits of a model for an image do not depend on the other models and images,
        to the bit.
        """
        models, pixels = self.net.own(theta.detach().numpy()), images.numpy()
        given = np.empty((len(models), len(pixels), self.task.classes), models.dtype)
        starts = range(0, len(pixels), CHUNK)

        def answer(start: int, room: ClientRoom) -> None:
            rows = np.arange(start, min(start + CHUNK, len(pixels)))
            self.kernels.answer(room, program, pixels, rows, models, given)

        with self._rooms(len(starts), CHUNK, models.dtype) as (_, program, rooms):
            for _ in _spread(answer, starts, rooms, [CHUNK] * len(starts)):
                pass
        return torch.from_numpy(given)

    @contextmanager
    def _rooms(
        self,
        works: int,
        most: int,
        dtype: Any,
    ) -> Iterator[tuple[RoomPlan, Program, list[ClientRoom]]]:
        """Give the plan and the program for up to `most` samples at a time, and a room
        for each thread that has work.

        All are kept for the next call, because making them takes a tenth of a round of
        LeNet.
        """
        kept, self._kept = self._kept, None
        if kept is None or kept[0].most < most:
            kept = *self.net.at_work(self.kernels, max(most, CHUNK), dtype), []
        plan, program, rooms = kept
        threads = min(torch.get_num_threads(), works)
        while len(rooms) < threads:
            room = plan.room(dtype)
            for start, line in zip(
                (plan.scale, plan.shift), self.task.line, strict=True
            ):
                room.floats[start : start + line.numel()] = line.numpy().reshape(-1)
            rooms.append(room)
        yield plan, program, rooms[:threads]
        self._kept = kept


def _jobs(work: Work) -> Iterator[_Job]:
    """Yield a job for each client that has samples."""
    images, labels = work.batch.images.numpy(), work.batch.labels.numpy()
    offsets, training = work.batch.offsets.tolist(), work.training
    shares = work.weights.detach().reshape(-1).tolist()
    for segment, share in enumerate(shares):
        own = slice(offsets[segment], offsets[segment + 1])
        count = own.stop - own.start
        if count == 0:
            continue
        run, client = divmod(segment, work.weights.shape[1])
        steps = schedule(training, work.seeds[run], client, work.t, count)
        batches = _batches(count, share, steps, training)
        yield _Job(run, share, images[own], labels[own], batches)


def _batches(
    samples: int,
    share: float,
    rows_of_steps: Iterator[slice | Ints],
    training: LocalTraining,
) -> Batches:
    """Return the batches of a client: first the samples that are not in its first step,
    for their loss, then the steps.
    """
    whole, repeats = np.arange(samples), 1
    if share == 0:
        steps, others = [], whole
    elif training.batch_size is None:
        steps, others, repeats = [whole], whole[:0], training.steps
    else:
        steps = [whole[rows] for rows in rows_of_steps]
        others = np.delete(whole, steps[0])
    most = max(training.batch_size or samples, SAMPLES)
    firsts = range(0, len(others), most)
    losses_alone = [others[first : first + most] for first in firsts]
    rows = losses_alone + steps
    stops = np.cumsum([len(each) for each in rows])
    return Batches(np.concatenate(rows), stops, len(losses_alone), repeats)


def _spread(
    do: Callable[[Input, ClientRoom], Made],
    given: Sequence[Input],
    rooms: list[ClientRoom],
    sizes: Sequence[int],
) -> Iterator[Made]:
    """Yield the results of `do` in the order of `given`, with one thread for each room;
    with one room, use this thread.
    """
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

    # so that no large one is left for the end
    largest_first = sorted(range(len(given)), key=lambda i: -sizes[i])
    with ThreadPoolExecutor(len(rooms)) as pool:
        futures = {i: pool.submit(work, given[i]) for i in largest_first}
        for i in range(len(given)):
            yield futures.pop(i).result()
