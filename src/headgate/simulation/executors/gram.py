"""The executor `gram` does full-batch descent on a linear model without computing the
models of the clients.

A client's gradient is C·X, where X is its n samples (n x features) and C = (P − Y)/n
the coefficients, with the predicted probabilities P and the true classes Y of its
samples (classes x n). Its update is therefore a combination of its own samples, and
their logits Z follow Z ← Z − lr·C·(XXᵀ): a step needs the n x n Gram matrix, not the
features. With weight decay λ, Z ← (1 − lr·λ)·Z − lr·C·(XXᵀ). The server's update is one
product of the summed and weighted coefficients of all clients with all samples of the
run. No step is an approximation. A round of a logistic run takes 0.98 ms, and 3.62 ms
with `compiled` (benchmarks/results/executors.json at a7da4c6).

Adjacent small clients of a run share a bin: one Gram matrix whose entries between
different clients are zero. This needs fewer and larger products. All arrays are
class-major, (classes, samples), so that softmax is vectorised over samples.

The arrays are so small that starting an operation takes as long as computing it; numpy
starts one in a third of torch's time. One thread is used, because waking another takes
longer, and so that results do not depend on the number of threads, to the bit.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from headgate.learning.datasets import BYTE
from headgate.learning.local import LocalTraining
from headgate.learning.models import Shape
from headgate.simulation.executors.executor import (
    Executor,
    Ints,
    RaggedBatch,
    TrainingTask,
    Work,
    slices,
)

BIN = 48
"""the most rows in a bin of small clients: larger bins have slower products, smaller
bins have more products. Measured
"""
FEW = 32
"""the number of samples up to which computing all their products is faster than
computing half of them. Measured
"""
Floats = NDArray[Any]
"""an array of float32 or float64, depending on the task"""


@dataclass(
    frozen=True,
    eq=False,
)
class LinearTask(TrainingTask):
    """A task whose model is linear in the pixels: a matrix (classes, features) and,
    with `bias`, one number per class.
    """

    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: np.dtype[Any]
    bias: bool = True
    unit: float = BYTE

    @classmethod
    def of(cls, task: Any) -> "LinearTask":
        """Return a torch task whose model is a Flatten and a Linear as one of numpy."""
        bias = task.size > task.classes * math.prod(task.shape)
        dtype = np.dtype(str(task.dtype).removeprefix("torch."))
        return cls(
            task.shape, task.classes, task.mean, task.std, dtype, bias, task.unit
        )

    @property
    def features(self) -> int:
        """The numbers in a sample."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        return self.classes * (self.features + self.bias)

    def normalise(self, images: NDArray[Any], samples: Floats) -> None:
        """Write the normalised images (S, C, H, W) into `samples` (S, features)."""
        scale, shift = self.line
        pixels = math.prod(self.shape[1:])
        channels = samples.reshape(len(images), len(scale), pixels)
        # converted first, because the product with bytes is slower
        channels[:] = images.reshape(channels.shape)
        channels *= scale
        channels += shift

    @cached_property
    def line(self) -> tuple[Floats, Floats]:
        """the normalisation (x/unit − mean)/std as (scale, shift) of scale·x + shift,
        each (C, 1)
        """
        mean = np.array(self.mean)[:, None]
        std = np.array(self.std)[:, None]
        scale, shift = 1 / (self.unit * std), -mean / std
        return scale.astype(self.dtype), shift.astype(self.dtype)

    def of_bytes(self, models: Floats) -> Floats:
        """Return the models (R, P) as weights of unnormalised images, (features + 1,
        R·classes); the last row is the bias.
        """
        weight, bias = self.matrices(models)
        scale, shift = self.line
        channels = weight.reshape(-1, len(scale), math.prod(self.shape[1:]))
        level = channels.sum(axis=2) @ shift
        if bias is not None:
            level += bias.reshape(-1, 1)
        scaled = np.empty((self.features + 1, len(channels)), self.dtype)
        scaled[:-1].T[:] = (channels * scale).reshape(-1, self.features)
        scaled[-1:] = level.T
        return scaled

    def matrices(self, models: Any) -> tuple[Any, Any]:
        """Return views of the weights (R, classes, features) and the biases (R,
        classes, 1), or None if there are no biases.
        """
        size = self.classes * self.features
        weight = models[:, :size].reshape(-1, self.classes, self.features)
        return weight, models[:, size:, None] if self.bias else None


class Gram(Executor[Any]):
    """Trains full-batch on the CPU: a `LinearTask` with numpy arrays, within
    `one_thread`, or a linear task of torch.
    """

    name = "gram"
    weighs_samples = True

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.linear = task if isinstance(task, LinearTask) else LinearTask.of(task)

    @classmethod
    def cost(cls, task: Any, training: LocalTraining) -> float:
        cls.need_full_batch(training)
        if not isinstance(task, LinearTask):
            from headgate.simulation.executors.layers import is_linear

            if not is_linear(task.model):
                raise cls.refused("the model must be exactly a Flatten and a Linear")
            if task.device.type != "cpu":
                raise cls.refused(f"only on the CPU, the device is {task.device.type}")
        return 0.03

    def train(self, work: Work) -> tuple[Any, Any]:
        if not isinstance(work.theta, np.ndarray):
            return self._train_tensors(work)
        labels, offsets = work.batch.labels, work.batch.offsets
        # as uint64, a negative label is very large
        if labels.size and labels.view(np.uint64).max() >= self.linear.classes:
            raise IndexError(
                f"labels are {labels.min()} to {labels.max()}, must be less than"
                f" {self.linear.classes}"
            )

        runs, clients = work.weights.shape
        runs_of = slices(offsets[::clients])
        sizes = offsets[1:] - offsets[:-1]
        held = sizes.reshape(runs, clients).sum(axis=1)
        with np.errstate(all="ignore"):
            samples, logits, bins = self._measured(work, runs_of)
            moves, losses = _descended(work, logits, sizes, bins)
            owner = np.arange(runs).repeat(held)
            means = np.bincount(owner, losses, minlength=runs) / held  # 0/0 is nan
            after = self._averaged(work, runs_of, samples, moves)
            if work.training.weight_decay:
                _shrink(after, work, sizes)
        return after, means.astype(after.dtype)

    def _train_tensors(self, work: Work) -> tuple[Any, Any]:
        import torch

        def plain(tensor: Any) -> Any:
            return None if tensor is None else tensor.detach().numpy()

        images, labels, offsets, factors = work.batch
        batch = RaggedBatch(plain(images), plain(labels), offsets, plain(factors))
        given = work._replace(
            theta=plain(work.theta),
            batch=batch,
            weights=plain(work.weights),
        )
        with one_thread():
            after, losses = self.train(given)
        return torch.from_numpy(after), torch.from_numpy(losses)

    def _measured(
        self, work: Work, runs: list[slice]
    ) -> tuple[Floats, Floats, list["_Bin"]]:
        """Return all samples, normalised; their logits (classes, S) with the model of
        their run; the bins, which only further steps need.

        Runs are processed one by one, so that the samples of a run are in the cache
        when they are multiplied.
        """
        images, offsets = work.batch.images, work.batch.offsets
        weight, bias = self.linear.matrices(work.theta)
        room = np.empty((len(images) + 1, self.linear.features), self.linear.dtype)
        samples = room[:-1]
        room[-1] = 0  # one more row, for `_gram`
        logits = np.empty((self.linear.classes, len(samples)), self.linear.dtype)

        spans = []
        if work.training.steps > 1:
            spans = slices(binned(offsets, work.weights.shape[1]))
        bins: list[_Bin] = []
        clients = iter(slices(offsets))
        for r, run in enumerate(runs):
            self.linear.normalise(images[run], samples[run])
            own = np.matmul(weight[r], samples[run].T, logits[:, run])
            if bias is not None:
                own += bias[r]
            while len(bins) < len(spans) and spans[len(bins)].stop <= run.stop:
                span = spans[len(bins)]
                bins.append((span, self._gram(room, span, clients)))
        return samples, logits, bins

    def _gram(
        self,
        room: Floats,
        span: slice,
        clients: Iterator[slice],
    ) -> Floats:
        """Return the Gram matrix (p, p) of a bin of samples, with zeros between samples
        of different clients.

        A client with few samples is multiplied with one extra row. Without this row,
        numpy detects the product of a matrix with its own transpose and calls a routine
        that computes only half of it, but takes twice as long for a small matrix.
        """
        gram = np.zeros((span.stop - span.start,) * 2, room.dtype)
        # the weight of one more feature, which is always 1
        more = 1 if self.linear.bias else 0
        for client in clients:
            size = client.stop - client.start
            at = slice(client.start - span.start, client.stop - span.start)
            last = client.stop + (size <= FEW)
            products = room[client] @ room[client.start : last].T
            np.add(products[:, :size], more, gram[at, at])
            if client.stop == span.stop:
                break
        return gram

    def _averaged(
        self,
        work: Work,
        runs: list[slice],
        samples: Floats,
        moves: Floats,
    ) -> Floats:
        """Return the models plus the updates of their runs, one product each."""
        after = np.empty(work.theta.shape, work.theta.dtype)
        weight, bias = self.linear.matrices(after)
        for r, run in enumerate(runs):
            np.matmul(moves[:, run], samples[run], weight[r])
            if bias is not None:
                np.add.reduce(
                    moves[:, run],
                    axis=1,
                    out=bias[r, :, 0],
                )
        after += work.theta
        return after


_Bin = tuple[slice, Floats]
"""adjacent samples, and their Gram matrix"""


def _descended(
    work: Work,
    logits: Floats,
    sizes: Ints,
    bins: list[_Bin],
) -> tuple[Floats, Floats]:
    """Return the coefficient of each sample in its run's update, (classes, S), and its
    cross-entropy before, (S,).

    `logits` (classes, S) are those of the received models, `sizes` the numbers of
    samples of the clients.
    """
    labels, training = work.batch.labels, work.training
    weight = work.weights.reshape(-1)
    # A client of weight 0 is not trained, because its update would be multiplied by 0.
    of_client = -training.lr * (weight != 0) / sizes
    share = of_client.astype(logits.dtype).repeat(sizes)
    if work.batch.factors is not None:
        share *= work.batch.factors

    here = logits.copy()
    total, truth, velocity = np.zeros((3, *logits.shape), logits.dtype)
    # the flat index of each sample's true class
    own = labels * len(labels) + np.arange(len(labels))
    truth.put(own, share)
    places = [(total[:, span], gram, here[:, span]) for span, gram in bins]
    factor, losses = np.empty_like(share), np.empty_like(share)
    shares = shares_after(training) if training.weight_decay else []

    for step in range(training.steps):
        if step:
            for moved, gram, place in places:
                np.matmul(moved, gram, place)
            here += shares[step] * logits if shares else logits

        # the slope of each sample's loss, by its share; in place, which is fastest
        here -= np.maximum.reduce(
            here,
            axis=0,
            out=factor,
        )
        if not step:
            # all indices are valid; this mode skips the check of their bounds
            here.take(own, None, losses, "clip")
        np.exp(here, here)
        np.add.reduce(
            here,
            axis=0,
            out=factor,
        )
        if not step:
            np.subtract(np.log(factor), losses, losses)
        here *= np.divide(share, factor, factor)
        here -= truth

        if shares:
            here -= training.lr * training.weight_decay * total
        if training.momentum:
            velocity *= training.momentum
            velocity += here
        total += velocity if training.momentum else here
    total *= weight.repeat(sizes)
    return total, losses


def _shrink(
    after: Floats,
    work: Work,
    sizes: Ints,
) -> None:
    """Add what weight decay takes from the received models, in place."""
    weights = work.weights
    trains = sizes.reshape(weights.shape) > 0
    trained = (weights * trains).sum(
        axis=1,
        keepdims=True,
    )
    change = (shares_after(work.training)[-1] - 1) * trained
    # 0 times a factor that is not finite would be NaN
    after += np.where(trained == 0, 0, change) * work.theta


def shares_after(training: LocalTraining) -> list[float]:
    """Return the factor of the received model in a client's model, before and after
    each step.

    Weight decay shrinks a model towards zero, so the model is the received one times
    this factor plus its samples' terms.

    >>> shares_after(LocalTraining(lr=0.5, steps=2, weight_decay=0.5))
    [1.0, 0.75, 0.5625]
    """
    decay = training.lr * training.weight_decay
    shares, shrinking = [1.0], 0.0
    for _ in range(training.steps):
        shrinking = training.momentum * shrinking - decay * shares[-1]
        shares.append(shares[-1] + shrinking)
    return shares


@contextmanager
def one_thread() -> Iterator[None]:
    """Make numpy multiply in one thread, so that results do not depend on the number of
    threads, to the bit.
    """
    libraries = [library for library in _blas() if library.num_threads != 1]
    before = [library.num_threads for library in libraries]
    for library in libraries:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, number in zip(libraries, before, strict=True):
            library.set_num_threads(number)


@cache
def _blas() -> list[Any]:
    """Return the BLAS libraries of this process; the search takes milliseconds."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def binned(offsets: Ints, clients: int) -> Ints:
    """Return the offsets of the bins; a bin has adjacent clients of one run with at
    most BIN rows, or one larger client.

    >>> binned(np.array([0, 20, 35, 35, 95, 100, 110, 115]), clients=6)
    array([  0,  35,  95, 110, 115])
    """
    edges = [0]
    for segment, client in enumerate(slices(offsets)):
        # a bin ends before a client that exceeds its size, and at the end of a run
        ends = segment % clients == 0 or client.stop - edges[-1] > BIN
        if ends and client.start > edges[-1]:
            edges.append(client.start)
    if offsets[-1] > edges[-1]:
        edges.append(offsets[-1])
    return np.array(edges, dtype=np.int64)
