"""The executor `triton`: trains all clients of all runs at once and without padding, with Triton kernels for residual nets with
GroupNorm and Mish (`triton_kernels`) and for stacks of convolutions and linear layers (`triton_stacks`).

A step of all clients is a few dozen kernels on arrays whose addresses do not change. On CUDA it is recorded once as a graph and
replayed for every step of every round. The number of programs is rounded up to one of a few sizes, so that rounds of different
sizes share a graph; programs without work end at once. On an H200 a round of forty LeNets takes 21.9 ms (5,930 ms with a lean
loop), and one of ResNet-9 17.7 ms (49.0 ms with `streams`; benchmarks/results/gpu.json at f27e21c).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headgate.errors import SettingError
from headgate.kernels.packed_tiles import Room
from headgate.kernels.residual_net import ResidualNet, check_machine, read_blocks
from headgate.kernels.stack_net import StackNet, read_stack
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Executor, Ints, Work
from headgate.simulation.executors.types import LARGE, Task, recording, rung, to_device

WIDEST = 128
"""the most channels of a stack's convolution: one program holds all of them"""


SPARE = 0.8
"""the most of the device's free memory that is taken"""


class TritonKernels(Executor[Task]):
    """An executor for the nets of `residual_net` and `stack_net`, full-batch, in bfloat16 on float32 parameters or in float32.

    The results of a run do not depend on the other runs, to the bit. `memory` is the most bytes that a chunk of runs may take;
    a single run is never divided.
    """

    name, bfloat16 = "triton", True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        stack = None if task.bfloat16 else _stack(task)
        self.net: ResidualNet | StackNet = stack or read_blocks(task).to(task.device)
        from headgate.kernels import triton_steps  # which needs triton

        self.steps: Any = triton_steps
        self.kind: Any = triton_steps.StackSpace if stack else triton_steps.ResidualSpace
        self.workspace: Any = None
        self.judge: Any = None
        self._recorded: dict[tuple[Room, LocalTraining], Callable[[], None]] = {}

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        check_machine(task)
        cls.need_full_batch(training)
        cls.need_plain_loss(training)
        if task.bfloat16:
            read_blocks(task)
            return 0.05
        stack = _stack(task)
        if stack is None:
            read_blocks(task)
        return 0.05 if stack is not None and stack.size < LARGE else 0.25

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        """Launch a round; nothing here waits for the device."""
        theta, batch, weights, training, *_ = work
        runs, clients = weights.shape
        start = self.net.packed(theta.detach())
        after, means = torch.empty_like(start), theta.new_empty(runs)
        for first, last in self._chunks(batch.offsets, clients, training):
            self._train_runs(first, last, work, start, after, means)
        return self.net.flat(after), means

    def _train_runs(self, first: int, last: int, work: Work, start: Tensor, after: Tensor, means: Tensor) -> None:
        """Train the runs from `first` to before `last`. It keeps no array, because the next runs may need all of the memory."""
        _, batch, weights, training, *_ = work
        clients = weights.shape[1]
        segments = np.arange(first * clients, last * clients)
        members = segments[batch.offsets[segments + 1] > batch.offsets[segments]]
        rows = slice(int(batch.offsets[first * clients]), int(batch.offsets[last * clients]))
        sizes, run_of = batch.offsets[members + 1] - batch.offsets[members], members // clients - first
        shares = weights.reshape(-1).index_select(0, to_device(members, self.task.device))
        room = _room(batch.offsets, clients, first, last)
        space = self._make_room(room, training.momentum > 0)
        space.tables.fill(np.concatenate([[0], np.cumsum(sizes)]))
        space.load(self.task.normalised(batch.images[rows]))
        space.labels[: rows.stop - rows.start] = batch.labels[rows]
        step = self._step(space, room, training)
        space.spread(start[first:last], run_of, training.momentum > 0)
        run_offsets = np.searchsorted(run_of, np.arange(last - first + 1))
        for turn in range(training.steps):
            step()
            if turn == 0:
                space.mean_losses(run_offsets, means[first:last])
        space.average(start[first:last], shares, run_offsets, after[first:last])

    def bytes_of_run(self, samples: int, clients: int, training: LocalTraining) -> int:
        return self._bytes(Room(samples, clients), training.momentum > 0)

    def logits(self, theta: Tensor, images: Tensor) -> Tensor:
        """Return the logits (R, n, classes), float32, of the models theta (R, P) for images (n, C, H, W) of bytes."""
        runs, start, pixels = len(theta), self.net.packed(theta.detach()), self.task.normalised(images)
        if isinstance(self.net, StackNet):
            if self.judge is None or self.judge.runs != runs:
                self.judge = self.steps.Answers(self.net, runs, self.task.device)
            logits: Tensor = self.judge.logits(start, pixels)
            return logits
        room = self.workspace.room if self.workspace else Room(64 * runs, runs)
        space = self._make_room(Room(max(room.samples, runs), max(room.clients, runs)), False)
        space.spread(start, np.arange(runs), False)
        return torch.cat([space.answers(part, runs) for part in torch.split(pixels, max(room.samples, runs) // runs)], dim=1)

    # a chunk of runs

    def _step(self, space: Any, room: Room, training: LocalTraining) -> Callable[[], None]:
        """A step of all clients; on CUDA as a graph. Recording takes a step first, which `spread` undoes."""

        def step() -> None:
            space.forward(room, training)
            space.backward(room, training)

        if self.task.device.type != "cuda":
            return step
        if (room, training) not in self._recorded:
            step()  # compiles new kernels
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with recording(graph):
                step()
            self._recorded[room, training] = graph.replay
        return self._recorded[room, training]

    def _make_room(self, room: Room, momentum: bool) -> Any:
        old = self.workspace
        if old and old.holds(room, momentum):
            return old
        if old:
            larger = Room(max(room.samples, old.room.samples), max(room.clients, old.room.clients))
            momentum = momentum or old.momentum
            if self.memory is None or self._bytes(larger, momentum) <= self.memory:
                room = larger
        self.workspace = old = None  # freed before the new one is allocated, because both may not fit
        self._recorded.clear()
        self.workspace = self._space(room, momentum)
        return self.workspace

    def _chunks(self, offsets: Ints, clients: int, training: LocalTraining) -> Iterator[tuple[int, int]]:
        """Yield (first, last) of consecutive runs that fit into the memory."""
        if self.memory is None and self.task.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.task.device)
            own = torch.cuda.memory_reserved(self.task.device) - torch.cuda.memory_allocated(self.task.device)
            self.memory = int(SPARE * (free + own))
        first, runs = 0, (len(offsets) - 1) // clients
        momentum = training.momentum > 0
        if self.memory is not None and self._bytes(_room(offsets, clients, first, runs), momentum) > self.memory:
            for last in range(first + 1, runs):
                if self._bytes(_room(offsets, clients, first, last + 1), momentum) > self.memory:
                    yield first, last
                    first = last
        yield first, runs

    def _space(self, room: Room, momentum: bool) -> Any:
        return self.kind(self.net, room, momentum, self.task.arithmetic, self.task.device)

    def _bytes(self, room: Room, momentum: bool) -> int:
        return int(self.kind.bytes_needed(self.net, room, momentum, self.task.arithmetic))


def _room(offsets: Ints, clients: int, first: int, last: int) -> Room:
    """Return how many samples the runs from `first` to before `last` have, and how many of their clients hold any."""
    own = offsets[first * clients : last * clients + 1]
    return Room(rung(max(1, int(own[-1] - own[0]))), rung(max(1, int((np.diff(own) > 0).sum()))))  # no box is empty


def _stack(task: Task) -> StackNet | None:
    try:
        net = read_stack(task)
    except SettingError:
        return None
    narrow = all(each.linear or max(each.inward, each.outward) <= WIDEST for each in net.layers)
    return net if narrow else None
