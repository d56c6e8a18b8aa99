"""Full-batch descent on a linear model without ever making a client's model.

A client's gradient is C·X with X its n samples (n x features) and C = (P − Y)/n the coefficients, where P is the
predicted and Y the true class of each sample (classes x n). So its model only moves along its own samples, and
its logits Z on them follow Z ← Z − lr·C·(XXᵀ): a step needs the n x n Gram matrix, not the features. The server's
update is one product of all clients' summed coefficients, weighted, with all samples of the run. This is exact.

Two things make it fast. Neighbouring small clients of a run share a bin, one Gram matrix whose entries between
different clients are zero: fewer and larger products. And everything is class-major, (classes, samples), so that
softmax over the classes is vectorised over samples.

On the CPU the arrays are so small that starting an operation takes as long as doing it. Numpy starts one in a third
of torch's time, and its product of a matrix with its own transpose does only half of it. One thread does it all: to
wake another takes longer, on a busy machine much longer, and so bits do not hang on the number of threads. `gram_torch`
has the form for other devices.
"""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.learning.models import Shape
from headgate.simulation.executors.executor import Executor, Ints, Learnt, Task, Work

BIN = 48
"""Rows of a bin of small clients: more make the Gram matrices dearer, fewer make more of them. Measured."""
Floats = NDArray[Any]
"""float32 or float64, as the task says."""


@dataclass(frozen=True, eq=False)
class LinearTask(Learnt):
    """A model that is linear in the pixels: a matrix (classes, features) and, with `bias`, a number for each class."""

    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: np.dtype[Any]
    bias: bool = True

    @property
    def size(self) -> int:
        return self.classes * (math.prod(self.shape) + self.bias)

    def normalised(self, images: NDArray[np.uint8]) -> Floats:
        """Images (S, C, H, W) as the model takes them, (S, features)."""
        scale, shift = self.line
        samples = images.reshape(len(images), len(scale), math.prod(self.shape[1:])).astype(self.dtype)
        samples *= scale
        samples += shift
        return samples.reshape(len(images), math.prod(self.shape))

    @cached_property
    def line(self) -> tuple[Floats, Floats]:
        """(x/255 − mean)/std as scale·x + shift."""
        mean, std = (np.array(values)[:, None] for values in (self.mean, self.std))
        return (1 / (255 * std)).astype(self.dtype), (-mean / std).astype(self.dtype)

    def matrices(self, models: Any) -> tuple[Any, Any]:
        """Weights (R, classes, features) and biases (R, classes, 1) as views of the models; without biases, None."""
        size = self.classes * math.prod(self.shape)
        weight = models[:, :size].reshape(-1, self.classes, math.prod(self.shape))
        return weight, models[:, size:, None] if self.bias else None


class GramForm(Executor[Task]):
    """Full-batch and without weight decay."""

    name, full_batch_only = "gram", True

    def check(self, training: LocalTraining | None) -> None:
        super().check(training)
        if training is not None and training.weight_decay != 0:
            raise SettingError(f"--executor gram: no weight decay, training.weight_decay = {training.weight_decay}")


class Gram(GramForm[LinearTask]):
    """On the CPU, on numpy's arrays; to be called within `one_thread`."""

    def _advance(self, work: Work) -> tuple[Floats, Floats]:
        models, (images, labels, offsets), weights, training, *_ = work
        if labels.size and labels.view(np.uint64).max() >= self.task.classes:  # a negative one is huge there
            raise IndexError(f"labels are {labels.min()} to {labels.max()}, must be less than {self.task.classes}")
        run_offsets = offsets[:: weights.shape[1]]
        # A run that has broken down is the caller's business.
        with np.errstate(all="ignore"):
            samples = self.task.normalised(images)
            logits = self._logits(models, samples, run_offsets)
            losses = _cross_entropy(logits, labels)
            moves = self._descend(samples, logits, labels, offsets, weights, training)
            after = self._moved(models, samples, moves, run_offsets)
            sizes = np.diff(run_offsets)
            runs = np.repeat(np.arange(len(sizes)), sizes)
            means = np.bincount(runs, losses, minlength=len(sizes)) / sizes  # 0/0 is nan
        return after, means.astype(after.dtype)

    def _logits(self, models: Floats, samples: Floats, run_offsets: Ints) -> Floats:
        """The logits (classes, S) of all samples at the model of their run."""
        weight, bias = self.task.matrices(models)
        logits = np.empty((self.task.classes, len(samples)), samples.dtype)
        for r, span in enumerate(slices(run_offsets)):
            own = np.matmul(weight[r], samples[span].T, out=logits[:, span])
            if bias is not None:
                own += bias[r]
        return logits

    def _descend(
        self, samples: Floats, logits: Floats, labels: Ints, offsets: Ints, weights: Floats, training: LocalTraining
    ) -> Floats:
        """What each sample adds to its run's model, as a factor for each class: (classes, S)."""
        sizes = offsets[1:] - offsets[:-1]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        weight = weights.reshape(-1)[owner]
        # A client of weight 0 stands still: what it would have become is worth exactly nothing.
        share = ((weight != 0) / sizes[owner]).astype(samples.dtype)
        truth = np.zeros_like(logits)
        truth[labels, np.arange(len(labels))] = share
        here, velocity, total = logits.copy(), np.zeros_like(logits), np.zeros_like(logits)
        bins = [
            (total[:, span], self._gram(samples[span], owner[span], -training.lr), here[:, span])
            for span in slices(binned(offsets, weights.shape[1]))
            if training.steps > 1
        ]
        for step in range(training.steps):
            if step:
                for moved, gram, place in bins:
                    np.matmul(moved, gram, out=place)
                here += logits
            _softmax(here)
            here *= share
            here -= truth
            if training.momentum:
                velocity *= training.momentum
                velocity += here
                total += velocity
            else:
                total += here
        total *= (-training.lr * weight).astype(samples.dtype)
        return total

    def _gram(self, own: Floats, owner: Ints, factor: float) -> Floats:
        """The Gram matrix (p, p) of a bin of samples times a factor, zero between samples of different clients."""
        gram: Floats = own @ own.T
        if self.task.bias:  # the weight of one more feature, which is always 1
            gram += 1
        gram *= factor
        gram *= owner[:, None] == owner
        return gram

    def _moved(self, models: Floats, samples: Floats, moves: Floats, run_offsets: Ints) -> Floats:
        """The models after their samples' moves: one product for each run."""
        after = np.empty(models.shape, models.dtype)
        weight, bias = self.task.matrices(after)
        for r, span in enumerate(slices(run_offsets)):
            np.matmul(moves[:, span], samples[span], out=weight[r])
            if bias is not None:
                np.sum(moves[:, span], axis=1, keepdims=True, out=bias[r])
        after += models
        return after


def one_thread() -> AbstractContextManager[Any]:
    """For numpy's products, so that bits do not hang on how many there are."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limited


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")  # looks for libraries, which takes milliseconds


def binned(offsets: Ints, clients: int) -> Ints:
    """Offsets of the bins: neighbouring clients of one run together, up to BIN rows, or one larger client; none empty.

    >>> binned(np.array([0, 20, 35, 35, 95, 100, 110, 115]), clients=6)
    array([  0,  35,  95, 110, 115])
    """
    edges = [0]
    for segment, (first, last) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        # a bin ends before a client that would overfill it, and where a run ends
        if first > edges[-1] and (segment % clients == 0 or last - edges[-1] > BIN):
            edges.append(first)
    return np.array([*edges, offsets[-1]] if offsets[-1] > edges[-1] else edges, dtype=np.int64)


def slices(offsets: Ints) -> list[slice]:
    return [slice(first, last) for first, last in pairwise(offsets.tolist())]


def _softmax(logits: Floats) -> None:
    """Over the classes, in place."""
    logits -= np.maximum.reduce(logits, axis=0)
    np.exp(logits, out=logits)
    logits /= np.add.reduce(logits, axis=0)


def _cross_entropy(logits: Floats, labels: Ints) -> Floats:
    """The loss of each sample, (S,)."""
    less = logits - np.maximum.reduce(logits, axis=0)
    losses: Floats = np.log(np.add.reduce(np.exp(less), axis=0)) - less[labels, np.arange(len(labels))]
    return losses
