"""The executor `streams` trains any model on CUDA with torch alone, several clients in
parallel, each on a CUDA stream.

A gradient step is compiled by torch.compile and recorded as a CUDA graph for every
stream and size; buffers are padded to few sizes. Parameters are stored in the task's
dtype. Arithmetic uses copies of them, in bfloat16 if the task requires it, with the
channels last in memory, which is fastest on tensor cores. `streams` is for large models
that `triton` cannot train: a round of ResNet-9 takes 49.0 ms on an H200, and 453 ms
with a simple loop (benchmarks/results/gpu.json at f27e21c).
"""

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining
from headgate.learning.networks import descend
from headgate.registry import in_one_line
from headgate.simulation.executors.executor import ClientWork, Executor, Work
from headgate.simulation.executors.types import Task, to_device
from headgate_kernels.cuda_graphs import LARGE, recording, rung

STREAMS = 5
"""the number of streams on a GPU: with fewer the GPU is idle between small kernels, and
more are not faster
"""


class CudaStreams(Executor[Task]):
    """Trains clients on parallel streams; `note` reports if a step could not be
    compiled or recorded. Runs are independent.
    """

    name = "streams"
    bfloat16 = True
    weighs_samples = True

    def __init__(
        self,
        task: Task,
        streams: int | None = None,
        compiled: bool | None = None,
    ) -> None:
        cuda = task.device.type == "cuda"
        super().__init__(task)
        self.model = copy.deepcopy(task.model).to(task.device, task.arithmetic)
        self.compiled = cuda if compiled is None else compiled
        self.graphs = cuda
        # cuDNN then always adds in the same order
        torch.backends.cudnn.deterministic |= cuda
        self._fast_loss: Callable[..., Tensor] = self._loss
        if self.compiled:
            # The second size is compiled for all sizes, so any number of sizes needs at
            # most two compilations.
            self._fast_loss = torch.compile(self._loss)
        many = streams or (STREAMS if cuda else 1)
        self.lanes = [_Lane(task, self.model) for _ in range(many)]

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        if task.device.type != "cuda" or task.size < LARGE:
            return 1.5
        return 0.1 if task.bfloat16 else 0.2

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        device = self.task.device
        batch = work.batch._replace(
            images=work.batch.images.to(device),
            labels=work.batch.labels.to(device),
        )
        work = work._replace(batch=batch)
        after = work.theta.clone()
        losses = [self._train_run(work, r, after[r]) for r in range(len(after))]
        return after, torch.stack(losses)

    def _train_run(
        self,
        work: Work,
        r: int,
        after: Tensor,
    ) -> Tensor:
        """Train the clients of run r and add their updates to its model `after`; return
        the loss of the run before.
        """
        clients = list(work.clients(r))
        if not clients:
            return after.new_full((), torch.nan)

        for lane in self.lanes:
            lane.begin()
        longest_first = sorted(clients, key=lambda own: -own.size)
        for turn, own in enumerate(longest_first):
            lane = self.lanes[turn % len(self.lanes)]
            with lane.current():
                lane.start(work.theta[r])
                loss = self._descend(lane, own, work.training)
                weight = work.weights[r, own.client]
                lane.finish(work.theta[r], weight, loss * own.size)
        for lane in self.lanes:
            lane.join()

        # the order of the lanes is fixed, and a client's lane depends only on the
        # sizes, so the sums repeat to the bit
        after += sum(lane.moved for lane in self.lanes)
        total = sum((lane.loss for lane in self.lanes), after.new_zeros(()))
        return total / sum(own.size for own in clients)

    # one client

    def _descend(
        self,
        lane: "_Lane",
        own: ClientWork,
        training: LocalTraining,
    ) -> Tensor:
        """Do all steps of a client in a lane; return the mean loss of all its samples
        before the first step.
        """
        labels, factors = own.labels, own.factors
        pixels = self.task.normalised(own.images).to(
            self.task.arithmetic, memory_format=torch.channels_last
        )
        before = None
        if factors is not None or training.batch_size is not None:
            share = torch.full_like(labels, 1 / own.size, dtype=self.task.dtype)
            with torch.no_grad():
                before = self._loss(lane.parameters, pixels, labels, share)
        inputs = None
        for rows in own.steps:
            if isinstance(rows, slice):
                if inputs is None:
                    inputs = lane.inputs(pixels, labels, factors)
            else:
                chosen = to_device(rows, self.task.device)
                weight = None if factors is None else factors[chosen]
                inputs = lane.inputs(pixels[chosen], labels[chosen], weight)
            loss = self._step(lane, inputs, training)
            if before is None:
                before = loss.clone()
        assert before is not None  # there is at least one step
        return before

    def _step(
        self,
        lane: "_Lane",
        inputs: "_Inputs",
        training: LocalTraining,
    ) -> Tensor:
        """Do a gradient step, from a recorded graph if possible; return the loss before
        the step.
        """
        if not self.graphs:
            return self._plain_step(lane, inputs, training)
        if training not in inputs.recorded:
            # because the recording does steps
            kept = [place.clone() for place in (*lane.places, *lane.velocity)]
            self._plain_step(lane, inputs, training)  # compiles the step for a new size
            self._plain_step(lane, inputs, training)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            try:
                with recording(
                    graph,
                    pool=lane.pool,
                    stream=lane.stream,
                ):
                    loss = self._plain_step(lane, inputs, training)
            except RuntimeError as error:
                self.graphs = False
                self.note = f"CUDA graphs given up, slower: {in_one_line(error)}"
            lane.put_back(kept)
            if not self.graphs:
                return self._plain_step(lane, inputs, training)
            inputs.recorded[training] = (graph, loss)
        graph, loss = inputs.recorded[training]
        graph.replay()
        return loss

    def _plain_step(
        self,
        lane: "_Lane",
        inputs: "_Inputs",
        training: LocalTraining,
    ) -> Tensor:
        with torch.enable_grad():
            loss = self._loss_of(lane, inputs)
        gradients = torch.autograd.grad(loss, lane.low, materialize_grads=True)
        change = [each.to(self.task.dtype) for each in gradients]
        with torch.no_grad():
            descend(lane.places, lane.velocity, change, training)
            torch._foreach_copy_(lane.low, lane.places)
        return loss.detach()

    def _loss_of(self, lane: "_Lane", inputs: "_Inputs") -> Tensor:
        given = (lane.parameters, inputs.images, inputs.labels, inputs.share)
        if self.compiled:
            try:
                with warnings.catch_warnings():
                    # float32 is intended, not the faster TensorFloat32
                    warnings.filterwarnings("ignore", "TensorFloat32")
                    return self._fast_loss(*given)
            except Exception as error:  # a compiler may fail with any error
                self.compiled = False
                self.note = (
                    f"torch.compile given up, slower: {in_one_line(error)[:200]}"
                )
        return self._loss(*given)

    def _loss(
        self,
        parameters: dict[str, Tensor],
        images: Tensor,
        labels: Tensor,
        share: Tensor,
    ) -> Tensor:
        logits = functional_call(self.model, parameters, (images,)).to(share.dtype)
        return (cross_entropy(logits, labels, reduction="none") * share).sum()


class _Inputs:
    """The input tensors of a lane's step for one size, and the graphs that were
    recorded with them.
    """

    def __init__(self, task: Task, size: int) -> None:
        images = torch.zeros(
            size,
            *task.shape,
            dtype=task.arithmetic,
            device=task.device,
        )
        self.images = images.to(memory_format=torch.channels_last)
        self.labels = torch.zeros(
            size,
            dtype=torch.int64,
            device=task.device,
        )
        self.share = torch.zeros(
            size,
            dtype=task.dtype,
            device=task.device,
        )
        """the share of each sample in the loss, (size,); 0 for padding"""
        self.recorded: dict[LocalTraining, tuple[Any, Tensor]] = {}


class _Lane:
    """A stream on which clients are trained one after the other."""

    def __init__(self, task: Task, model: torch.nn.Module) -> None:
        self.task = task
        self.stream: Any = None
        if task.device.type == "cuda":
            self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle() if self.stream else None
        self.parameters = {
            name: _channels_last(each.detach().clone())
            for name, each in model.named_parameters()
        }
        """the parameters by name, in the dtype of the arithmetic"""
        self.low = [each.requires_grad_() for each in self.parameters.values()]
        self.places = [
            torch.empty_like(
                each,
                dtype=task.dtype,
                requires_grad=False,
            )
            for each in self.low
        ]
        """the parameters in the task's dtype"""
        self.velocity = [torch.empty_like(place) for place in self.places]
        self.sizes: dict[int, _Inputs] = {}

    def current(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self.stream) if self.stream else nullcontext()

    def begin(self) -> None:
        """Begin a run: set the lane's sum of updates and its loss to zero."""
        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
        task = self.task
        with self.current():
            self.moved = torch.zeros(
                task.flat.size,
                dtype=task.dtype,
                device=task.device,
            )
            self.loss = self.moved.new_zeros(())

    def join(self) -> None:
        """Let what follows on the current stream wait for this lane."""
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)
            self.moved.record_stream(torch.cuda.current_stream())
            self.loss.record_stream(torch.cuda.current_stream())

    def start(self, theta: Tensor) -> None:
        """Begin a client: set the parameters to this model and the velocity to zero."""
        views = list(self.task.flat.views(theta).values())
        with torch.no_grad():
            torch._foreach_copy_(self.places, views)
            torch._foreach_copy_(self.low, self.places)
            torch._foreach_zero_(self.velocity)

    def put_back(self, kept: list[Tensor]) -> None:
        """Restore the parameters and velocities from these copies."""
        with torch.no_grad():
            torch._foreach_copy_([*self.places, *self.velocity], kept)
            torch._foreach_copy_(self.low, self.places)

    def inputs(
        self,
        pixels: Tensor,
        labels: Tensor,
        factors: Tensor | None,
    ) -> _Inputs:
        """Return the input tensors of a step, filled with these samples."""
        n = len(labels)
        size = rung(n) if self.stream else n
        if size not in self.sizes:
            self.sizes[size] = _Inputs(self.task, size)
        inputs = self.sizes[size]
        inputs.images[:n], inputs.labels[:n] = pixels, labels
        inputs.share.zero_()
        inputs.share[:n] = 1 / n if factors is None else factors / n
        return inputs

    def finish(
        self,
        theta: Tensor,
        share: Tensor,
        loss: Tensor,
    ) -> None:
        """Add the client's weighted update and its loss to the sums; with share 0 even
        an update of NaN adds nothing.
        """
        move = torch.cat([place.reshape(-1) for place in self.places]) - theta
        self.moved += torch.where(share == 0, torch.zeros_like(move), share * move)
        self.loss += loss


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
