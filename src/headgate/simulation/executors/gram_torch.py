"""The Gram form for torch modules. On the CPU it is that of `gram`. On CUDA starting a kernel is dear, so there bins of
about the same size go together.

A group of G bins is a rectangle of G x p samples, and a step of it is one batched product. It is here because a round of forty
logistic runs takes 7.7 ms on an H200, and 2,590 by a lean loop (benchmarks/results/gpu.json at f27e21c).
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors.executor import Ints, Packed, Work
from headgate.simulation.executors.gram import Gram, GramForm, LinearTask, binned, one_thread, slices
from headgate.simulation.executors.layers import is_chain, is_plain
from headgate.simulation.executors.types import Group, Task, grouped, native_kernels, to_device


class GramTensors(GramForm[Task]):
    """For a module that is a Flatten and a Linear."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        dtype = np.dtype("float64" if task.dtype == torch.float64 else "float32")
        bias = task.size > task.classes * math.prod(task.shape)
        self.linear = LinearTask(task.shape, task.classes, task.mean, task.std, dtype, bias, task.unit)

    def check(self, training: LocalTraining | None) -> None:
        if training is None and not is_linear(self.task.model):  # looked at once: the task stays what it is
            raise SettingError("--executor gram: the model must be exactly a Flatten and a Linear")
        super().check(training)


class GramHost(GramTensors):
    """On the CPU: numpy's, for tensors."""

    objectives = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.gram = Gram(self.linear)

    def _advance(self, work: Work) -> tuple[Tensor, Tensor]:
        images, labels, offsets, factors = work.packed
        packed = Packed(images.numpy(), labels.numpy(), offsets, None if factors is None else factors.numpy())
        theta, weights = (each.detach().numpy() for each in (work.theta, work.weights))
        tilt = None if work.tilt is None else work.tilt.numpy()
        with one_thread():
            done = self.gram._advance(work._replace(theta=theta, packed=packed, weights=weights, tilt=tilt))
        after, losses = map(torch.from_numpy, done)
        return after, losses


class GramTorch(GramTensors):
    """On any device."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        # How many rows cost as much as starting the kernels for one more group.
        self.overhead = 4_000.0 if task.device.type == "cuda" else 50.0

    def _advance(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, packed, weights, training, *_ = work
        run_offsets = packed.offsets[:: weights.shape[1]]
        spans, labels = slices(run_offsets), packed.labels.to(self.task.device)
        with torch.no_grad(), native_kernels():
            samples = self.task.normalised(packed.images).flatten(1)
            logits = self._logits(theta, samples, spans)
            losses = cross_entropy(logits.T, labels, reduction="none")
            moves = self._descend(samples, logits, labels, packed.offsets, weights, training)
            counts = to_device(np.diff(run_offsets), self.task.device)
            means = torch.segment_reduce(losses, "mean", lengths=counts)  # nan for a run without samples
            return self._moved(theta, samples, moves, spans), means

    def _factors(self, values: NDArray[Any]) -> Tensor:
        return to_device(values.astype(np.float64 if self.task.dtype == torch.float64 else np.float32), self.task.device)

    def _logits(self, theta: Tensor, samples: Tensor, spans: list[slice]) -> Tensor:
        """The logits (classes, S) of all samples at the model of their run."""
        weight, bias = self.linear.matrices(theta)
        if bias is None:
            return torch.cat([weight[r] @ samples[span].T for r, span in enumerate(spans)], dim=1)
        return torch.cat([torch.addmm(bias[r], weight[r], samples[span].T) for r, span in enumerate(spans)], dim=1)

    def _descend(
        self, samples: Tensor, logits: Tensor, labels: Tensor, offsets: Ints, weights: Tensor, training: LocalTraining
    ) -> Tensor:
        """What each sample adds to its run's model, as a factor for each class: (classes, S)."""
        sizes = offsets[1:] - offsets[:-1]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        bins = binned(offsets, weights.shape[1])
        groups = grouped(bins, np.arange(len(bins) - 1), self.overhead)
        if not groups:
            return torch.zeros_like(logits)
        grams = [self._gram(samples, group.rows, owner) for group in groups]

        rows = np.concatenate([group.rows.reshape(-1) for group in groups])
        real = np.concatenate([group.real.reshape(-1) for group in groups])
        owners, index = owner[rows], to_device(rows, self.task.device)
        weight = weights.reshape(-1).cpu().numpy()[owners]
        # A client of weight 0 stands still: what it would have become is worth exactly nothing.
        share = self._factors(real * (weight != 0) / sizes[owners])
        here = logits.index_select(1, index)
        less_truth = torch.zeros_like(here).scatter_(0, labels[index][None], -share[None])
        velocities = here.new_empty(training.steps, *here.shape)  # of each step: summed once, at the end
        steps = velocities.unbind()
        rectangles = list(zip(_rectangles(here[None], groups), _rectangles(velocities, groups), grams, strict=True))
        for step in range(training.steps):
            torch.addcmul(less_truth, torch.softmax(here, dim=0), share, out=steps[step])
            if training.momentum and step:
                steps[step].add_(steps[step - 1], alpha=training.momentum)
            if step + 1 < training.steps:
                for (logits_of_group,), changes, gram in rectangles:
                    logits_of_group.baddbmm_(changes[step], gram, alpha=-training.lr)
        moves = velocities.sum(dim=0).mul_(self._factors(-training.lr * weight))
        return moves.index_select(1, to_device(_columns(groups, len(labels)), self.task.device))

    def _gram(self, samples: Tensor, rows: Ints, owner: Ints) -> Tensor:
        """The Gram matrices (G, p, p) of bins of samples, zero between samples of different clients."""
        # index_select, as samples[rows] takes five times as long
        own = samples.index_select(0, to_device(rows.reshape(-1), self.task.device)).view(*rows.shape, -1)
        owners = to_device(owner[rows], self.task.device)
        same = (owners[:, :, None] == owners[:, None, :]).to(samples.dtype)
        # A bias is the weight of one more feature, which is always 1: it adds 1 to each product.
        return torch.baddbmm(same, own, own.mT, beta=float(self.linear.bias)).mul_(same)

    def _moved(self, theta: Tensor, samples: Tensor, moves: Tensor, spans: list[slice]) -> Tensor:
        """The models after their samples' moves: one product for each run."""
        after = theta.clone()
        weight, bias = self.linear.matrices(after)
        for r, span in enumerate(spans):
            weight[r].addmm_(moves[:, span], samples[span])
            if bias is not None:
                bias[r] += moves[:, span].sum(dim=1, keepdim=True)
        return after


def is_linear(model: nn.Module) -> bool:
    """Whether the module is exactly a Flatten and a Linear: the layers are looked at, not a name."""
    if not is_chain(model) or len(model) != 2:
        return False
    flatten, linear = model
    return type(flatten) is nn.Flatten and is_plain(flatten) and type(linear) is nn.Linear


def _rectangles(columns: Tensor, groups: list[Group]) -> list[tuple[Tensor, ...]]:
    """Columns (E, classes, ΣG·p) as E views (G, classes, p) for each group."""
    parts = torch.split_with_sizes(columns, [group.rows.size for group in groups], dim=2)
    return [
        part.view(*columns.shape[:2], *group.rows.shape).transpose(1, 2).unbind()
        for part, group in zip(parts, groups, strict=True)
    ]


def _columns(groups: list[Group], samples: int) -> Ints:
    """The column of each sample where the groups' rectangles stand side by side."""
    columns, start = np.zeros(samples, dtype=np.int64), 0
    for group in groups:
        columns[group.rows[group.real]] = start + np.flatnonzero(group.real)
        start += group.rows.size
    return columns
