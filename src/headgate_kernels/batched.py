"""The executor `batched` trains any model, many clients at a time, in groups with about
the same number of samples.

A group of G clients is a rectangle of G x p samples. Padded rows have no share in a
client's loss, so they take time but do not change the result. On CUDA a client step
consists of many short kernels, which take longer to start than to run. A CUDA graph
starts all steps at once, but only for the shapes for which it was recorded, so groups
are padded to few shapes on CUDA.

It is for small models on CUDA that `triton` cannot train. On the CPU forty logistic
runs take 285 ms, and 1,380 ms with `flat` (benchmarks/results/executors.json at
a7da4c6), but `gram` and `compiled` take less.
"""

import copy
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from headgate.escaping import one_line
from headgate.learning.local import LocalTraining
from headgate.learning.networks import descend
from headgate.simulation.executors.executor import Executor, Ints, Work
from headgate.simulation.executors.types import Task, native_kernels, to_device
from headgate_kernels.cuda_graphs import recording, rung

GRAPHS = 64
"""the largest number of recorded graphs that are kept"""
Inputs = tuple[Tensor, ...]
"""the received model of each client (G, P), its images (G, p, C, H, W), its labels (G,
p) and the share of each sample in the average (G, p); if samples have factors, also the
shares times these"""
Outputs = tuple[Tensor, Tensor]
"""the update of each client (G, P) and its loss before the training (G,)"""


class Group(NamedTuple):
    """Segments of nearly the same size, arranged in a rectangle of G segments with p
    rows each.
    """

    members: Ints
    """the numbers of the segments, (G,)"""
    rows: Ints
    """the numbers of the samples, (G, p); a shorter segment is padded with its last
    sample, so padding is valid data
    """
    real: NDArray[np.bool_]
    """whether a row is a sample of the segment and not padding, (G, p)"""


def grouped(
    offsets: Ints,
    chosen: Ints,
    overhead: float,
) -> list[Group]:
    """Divide the chosen segments, none empty, into groups by size, largest first, each
    with at most `overhead` padded rows.

    `overhead` is the number of rows whose computation takes as long as the handling of
    one more group.

    >>> offsets = np.array([0, 1, 2, 4, 9])
    >>> groups = grouped(offsets, np.arange(4), overhead=2)
    >>> [group.rows.tolist() for group in groups]
    [[[4, 5, 6, 7, 8]], [[0, 0], [1, 1], [2, 3]]]
    """
    sizes = offsets[chosen + 1] - offsets[chosen]
    order = np.argsort(sizes, kind="stable")
    chosen, sizes = chosen[order], sizes[order]
    groups, last = [], len(sizes)
    while last:
        filled_up = np.cumsum(sizes[last - 1] - sizes[:last][::-1])
        first = last - int(np.searchsorted(filled_up, overhead, "right"))
        members, length, place = (
            chosen[first:last],
            sizes[first:last, None],
            np.arange(sizes[last - 1]),
        )
        rows = offsets[members, None] + np.minimum(place, length - 1)
        groups.append(Group(members, rows, place < length))
        last = first
    return groups


class Batched(Executor[Task]):
    """Trains any model that torch.func can vmap, full-batch. `note` reports if CUDA
    graphs could not be recorded.

    `memory` is an approximate limit on the bytes of a group; a larger group is divided.
    `few_shapes` pads groups to few shapes, as CUDA graphs require.
    """

    name = "batched"
    weighs_samples = True

    def __init__(
        self,
        task: Task,
        memory: int | None = None,
        few_shapes: bool | None = None,
    ) -> None:
        cuda = task.device.type == "cuda"
        super().__init__(task)
        usual = 1 << 33 if cuda else 1 << 29
        self.memory: int = memory or usual
        self.few_shapes = cuda if few_shapes is None else few_shapes
        self.graphs = cuda
        self.model = copy.deepcopy(task.model).to(task.device, task.dtype)
        self.gradients = vmap(grad_and_value(self._loss))
        self.losses = vmap(self._loss)
        # One pool for all graphs: they never run at the same time, and a result is used
        # before the next one runs.
        self._pool = torch.cuda.graph_pool_handle() if cuda else None
        self._recorded: OrderedDict[tuple[object, ...], _Recorded] = OrderedDict()
        self._seen: Counter[tuple[object, ...]] = Counter()
        self.saved = self._try_out()
        # The rows that can be computed in the time that it takes to start a group's
        # kernels. Measured, in saved numbers.
        self.overhead = (3e6 if cuda else 2.5e5) / self.saved

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        cls.need_full_batch(training)
        return 0.3 if task.device.type == "cuda" else 1.3

    @native_kernels()
    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, batch, device = work.theta, work.batch, self.task.device
        runs, clients = work.weights.shape
        weights = work.weights.reshape(-1)
        sizes = np.diff(batch.offsets)
        images, labels = batch.images.to(device), batch.labels.to(device)
        after = theta.clone()
        losses = theta.new_zeros(runs * clients)
        for group, members in self._groups(batch.offsets, np.flatnonzero(sizes)):
            rows = self._index(group.rows)
            own = self._index(group.members)
            real = self._index(group.real).to(theta.dtype)
            share = real / real.sum(
                dim=1,
                keepdim=True,
            ).clamp(min=1)
            inputs: Inputs = (theta[own // clients], images[rows], labels[rows], share)
            if batch.factors is not None:
                inputs = (*inputs, share * batch.factors[rows])

            moves, before = self._train(inputs, work.training)
            count = len(members)  # what follows is padding
            own, moves = own[:count], moves[:count]
            losses[own] = before[:count]
            self._add(after, moves, members // clients, weights[own])

        samples = self._index(sizes).to(theta.dtype).view(runs, clients)
        total = (losses.view(runs, clients) * samples).sum(dim=1)
        return after, total / samples.sum(dim=1)  # 0/0 is nan

    # one client, and a group of them

    def _loss(
        self,
        parameters: dict[str, Tensor],
        images: Tensor,
        labels: Tensor,
        share: Tensor,
    ) -> Tensor:
        logits = functional_call(self.model, parameters, (images,))
        return (cross_entropy(logits, labels, reduction="none") * share).sum()

    def _descend(self, inputs: Inputs, training: LocalTraining) -> Outputs:
        """Do all steps of the clients in a group."""
        start, pixels, labels, share, *weighted = inputs
        images = self.task.normalised(pixels)
        # separate tensors, not views of one: products and convolutions are faster with
        # contiguous parameters
        parameters = {
            name: view.clone(memory_format=torch.contiguous_format)
            for name, view in self.task.flat.views(start).items()
        }
        places = list(parameters.values())
        velocity = [torch.zeros_like(place) for place in places if training.momentum]
        weight, before = share, None
        if weighted:
            (weight,) = weighted
            before = self.losses(parameters, images, labels, share)
        for _ in range(training.steps):
            gradients, loss = self.gradients(parameters, images, labels, weight)
            if before is None:
                before = loss
            change = [gradients[name] for name in parameters]
            descend(places, velocity, change, training)
        assert before is not None  # there is at least one step
        return torch.cat([place.flatten(1) for place in places], dim=1) - start, before

    def _train(self, inputs: Inputs, training: LocalTraining) -> Outputs:
        """Call `_descend`, and from the second time that a shape occurs use a graph,
        because many shapes occur only once.
        """
        shape = (*inputs[1].shape[:2], len(inputs), training)
        self._seen[shape] += 1
        if not self.graphs or self._seen[shape] < 2:
            return self._descend(inputs, training)
        if shape not in self._recorded:
            try:
                self._recorded[shape] = _Recorded(
                    lambda given: self._descend(given, training), inputs, self._pool
                )
            except RuntimeError as error:
                self.graphs = False
                self.note = f"CUDA graphs given up, slower: {one_line(error)}"
                self._recorded.clear()
                return self._descend(inputs, training)
            if len(self._recorded) > GRAPHS:
                self._recorded.popitem(last=False)
        self._recorded.move_to_end(shape)
        return self._recorded[shape](inputs)

    # which clients together

    def _groups(self, offsets: Ints, chosen: Ints) -> Iterator[tuple[Group, Ints]]:
        """Yield groups that fit into the memory, each with its clients without
        padding.
        """
        padded = rung if self.few_shapes else int
        for group in grouped(offsets, chosen, self.overhead):
            length = padded(group.rows.shape[1])
            numbers = 4 * self.task.flat.size + 3 * length * self.saved
            most = max(1, self.memory // (numbers * self.task.dtype.itemsize))
            pieces = -(-len(group.members) // most)
            parts = [np.array_split(array, pieces) for array in group]
            for members, rows, real in zip(*parts, strict=True):
                count = padded(len(members))
                fill = ((0, count - len(members)), (0, length - rows.shape[1]))
                filled = Group(
                    np.pad(members, fill[0], "edge"),
                    np.pad(rows, fill, "edge"),
                    np.pad(real, fill),
                )
                yield filled, members

    def _add(
        self,
        after: Tensor,
        moves: Tensor,
        runs: Ints,
        shares: Tensor,
    ) -> None:
        """Add the clients' updates to their runs in place, at most one per run at a
        time, so that the order is fixed.
        """
        order = np.argsort(runs, kind="stable")
        turn = np.arange(len(runs)) - np.searchsorted(runs[order], runs[order])
        order = order[np.argsort(turn, kind="stable")]
        counts = np.bincount(turn).tolist()
        places = torch.split_with_sizes(self._index(order), counts)
        targets = torch.split_with_sizes(self._index(runs[order]), counts)
        for place, target in zip(places, targets, strict=True):
            share = shares[place, None]
            # 0 times the update of a diverged client would be NaN
            added = torch.where(
                share == 0, torch.zeros_like(share), share * moves[place]
            )
            after.index_add_(0, target, added)

    def _index(self, values: NDArray[Any]) -> Tensor:
        return to_device(values, self.task.device)

    def _try_out(self) -> int:
        """Try one step of two clients with one image each; return how many numbers are
        saved per sample for the gradient.
        """
        task = self.task
        start = task.flat.vector(dict(self.model.named_parameters())).expand(2, -1)
        given = getattr(torch, task.given)
        images = torch.zeros(
            2,
            1,
            *task.shape,
            dtype=given,
            device=task.device,
        )
        labels = torch.zeros(
            2,
            1,
            dtype=torch.int64,
            device=task.device,
        )
        share = torch.ones_like(labels, dtype=task.dtype)
        own = {each.untyped_storage().data_ptr() for each in self.model.parameters()}
        saved = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal saved
            if tensor.untyped_storage().data_ptr() not in own:
                saved += tensor.numel()
            return tensor

        with (
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor),
        ):
            self.model(task.normalised(images[0]))
        try:
            self._descend((start, images, labels, share), LocalTraining(1.0, 1))
        except RuntimeError as error:
            raise self.refused(
                f"the model does not run under torch.func.vmap ({one_line(error)}):"
                " take flat"
            ) from error
        return max(saved, 1)


class _Recorded:
    """A function of tensors, recorded as a CUDA graph with fixed shapes and fixed
    memory for inputs and outputs.
    """

    def __init__(
        self,
        function: Callable[[Inputs], Outputs],
        inputs: Inputs,
        pool: Any,
    ) -> None:
        # The graph reads and writes the memory of these tensors, and does not keep them
        # alive.
        self.inputs: Inputs = tuple(given.clone() for given in inputs)
        beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            # libraries initialise themselves in the first call, which cannot be
            # recorded
            function(self.inputs)
        torch.cuda.current_stream().wait_stream(beside)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with recording(self.graph, pool=pool):
            self.outputs = function(self.inputs)

    def __call__(self, inputs: Inputs) -> Outputs:
        """Return the outputs for these inputs; the next call overwrites the outputs."""
        for place, given in zip(self.inputs, inputs, strict=True):
            place.copy_(given)
        self.graph.replay()
        return self.outputs
