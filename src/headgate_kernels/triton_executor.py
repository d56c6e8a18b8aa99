"""The executor `triton`: trains all clients of all runs at once and without padding,
with Triton kernels for residual nets with GroupNorm and Mish (`triton_kernels`) and for
stacks of convolutions and linear layers (`triton_stacks`).

A step of all clients is a few dozen kernels on arrays whose addresses do not change. On
CUDA it is recorded once as a graph and replayed for every step of every round. The
number of programs is rounded up to one of a few sizes, so that rounds of different
sizes share a graph; programs without work end at once. On an H200 a round of forty
LeNets takes 21.9 ms (5,930 ms with a lean loop), and one of ResNet-9 17.7 ms (49.0 ms
with `streams`; benchmarks/results/gpu.json at f27e21c).
"""

import importlib.util
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors import Executor, Work
from headgate.simulation.executors.types import Task, to_device
from headgate_kernels.cuda_graphs import LARGE, recording, rung
from headgate_kernels.packed_tiles import Room
from headgate_kernels.residual_net import ResidualNet, read_blocks
from headgate_kernels.stack_net import StackNet, read_stack

WIDEST = 128
"""the most channels of a stack's convolution: one program holds all of them"""


JUDGED = 1 << 33
"""bytes for the evaluation of all models of a stack on some images at a time"""


class TritonKernels(Executor[Task]):
    """An executor for the nets of `residual_net` and `stack_net`, full-batch, in
    bfloat16 on float32 parameters or in float32.

    The results of a run do not depend on the other runs, to the bit.
    """

    name, bfloat16 = "triton", True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        net = _net(task)
        from headgate_kernels import triton_steps  # this needs triton

        self.net: StackNet | ResidualNet
        self.kind: Any
        if isinstance(net, StackNet):
            self.net, self.kind = net, triton_steps.StackSpace
        else:
            self.net, self.kind = net.to(task.device), triton_steps.ResidualSpace
        sample = (self.net, Room(1, 0), False, task.arithmetic)
        self.bytes_of_sample: int = self.kind.bytes_needed(*sample)
        self.workspace: Any = None
        self.judge: Any = None
        self._recorded: dict[tuple[Room, LocalTraining], Callable[[], None]] = {}

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        """Return a twentieth, or a quarter where it was not measured."""
        if importlib.util.find_spec("triton") is None:
            raise cls.refused("needs triton, which is not installed (extra gpu)")
        # Triton's interpreter, which runs on the CPU, is slow and meant for tests
        if task.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
            raise cls.refused(f"needs CUDA, the device is {task.device.type}")
        if task.dtype != torch.float32:
            raise cls.refused(
                f"training.dtype must be bfloat16 or float32, not {str(task.dtype)[6:]}"
            )
        cls.need_full_batch(training)
        net = _net(task)
        small = isinstance(net, StackNet) and net.size < LARGE
        return 0.05 if task.bfloat16 or small else 0.25

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        """Launch a round; nothing here waits for the device."""
        theta, batch, weights, training, *_ = work
        runs, clients = weights.shape
        start, momentum = self.net.packed(theta.detach()), training.momentum > 0
        after, means = torch.empty_like(start), theta.new_empty(runs)
        members = np.flatnonzero(np.diff(batch.offsets))
        samples, run_of = len(batch.labels), members // clients
        # no array is empty
        room = Room(rung(max(1, samples)), rung(max(1, len(members))))
        space = self._make_room(room, momentum)
        space.set_clients(np.append(batch.offsets[members], samples))
        space.load(self.task.normalised(batch.images))
        space.labels[:samples] = batch.labels
        step = self._step(space, room, training)
        space.spread(start, run_of, momentum)
        run_offsets = np.searchsorted(run_of, np.arange(runs + 1))
        for turn in range(training.steps):
            step()
            if turn == 0:
                space.mean_losses(run_offsets, means)
        chosen = to_device(members, self.task.device)
        shares = weights.reshape(-1).index_select(0, chosen)
        space.average(start, shares, run_offsets, after)
        return self.net.flat(after), means

    def bytes_of_run(
        self,
        samples: int,
        clients: int,
        training: LocalTraining,
    ) -> int:
        """Return the bytes of the arrays of a round of so many samples and clients."""
        room, momentum = Room(samples, clients), training.momentum > 0
        needed = self.kind.bytes_needed(self.net, room, momentum, self.task.arithmetic)
        return int(needed)

    def logits(self, theta: Tensor, images: Tensor) -> Tensor:
        """Return the logits (R, n, classes), float32, of the models theta (R, P) for
        images (n, C, H, W) of bytes.
        """
        runs, pixels = len(theta), self.task.normalised(images)
        space, few = self._judge(runs, len(images))
        space.spread(self.net.packed(theta.detach()), np.arange(runs), False)
        logits = list[Tensor]()
        for part in torch.split(pixels, few):
            room = Room(runs * len(part), runs)
            space.set_clients(np.arange(runs + 1) * len(part))
            space.load(part, runs)
            space.forward(room, None)
            made = space.logits[: room.samples]
            logits.append(made.view(runs, len(part), -1).clone())
        return torch.cat(logits, dim=1)

    def _judge(self, runs: int, images: int) -> tuple[Any, int]:
        """Return the space in which models are evaluated, of residual nets the one in
        which they are trained, and the number of images at a time.
        """
        if not isinstance(self.net, StackNet):
            room = self.workspace.room if self.workspace else Room(64 * runs, runs)
            room = Room(max(room.samples, runs), max(room.clients, runs))
            return self._make_room(room, False), self.workspace.room.samples // runs
        few = max(1, min(images, JUDGED // (runs * self.bytes_of_sample)))
        room = Room(few * runs, runs)
        if self.judge is None or not self.judge.holds(room, False):
            # freed before the new one is allocated, because both may not fit
            self.judge = None
            self.judge = self._space(room, False)
        return self.judge, few

    def _step(
        self,
        space: Any,
        room: Room,
        training: LocalTraining,
    ) -> Callable[[], None]:
        """Return a function that takes a step of all clients (on CUDA a graph).
        Recording takes one, which `spread` undoes.
        """

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
        """Return a space for so many samples and clients: the one in use if it is large
        enough, otherwise a new one.
        """
        old = self.workspace
        if old is None or not old.holds(room, momentum):
            if old is not None:
                room = Room(*map(max, room, old.room))
                momentum = momentum or old.momentum
            # freed before the new one is allocated, because both may not fit
            self.workspace = old = None
            self._recorded.clear()
            self.workspace = self._space(room, momentum)
        return self.workspace

    def _space(self, room: Room, momentum: bool) -> Any:
        task = self.task
        return self.kind(self.net, room, momentum, task.arithmetic, task.device)


def _net(task: Task) -> StackNet | ResidualNet:
    """Return the task's model as a stack of narrow convolutions or as a residual net;
    refuse any other with a SettingError.
    """
    if not task.bfloat16:
        with suppress(SettingError):
            net = read_stack(task)
            filters = [each for each in net.layers if not each.linear]
            if all(max(each.inward, each.outward) <= WIDEST for each in filters):
                return net
    return read_blocks(task)
