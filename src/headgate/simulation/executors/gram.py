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
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from headgate.learning.datasets import BYTE
from headgate.learning.local import LocalTraining
from headgate.learning.models import Shape
from headgate.learning.objectives import LocalAnswers
from headgate.simulation.executors.executor import (
    Executor,
    Ints,
    RaggedBatch,
    TrainingTask,
    Work,
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


@dataclass(frozen=True, eq=False)
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

    @property
    def size(self) -> int:
        return self.classes * (math.prod(self.shape) + self.bias)

    def normalise(self, images: NDArray[Any], samples: Floats) -> None:
        """Write the normalised images (S, C, H, W) into `samples` (S, features)."""
        scale, shift = self.line
        channels = samples.reshape(len(images), len(scale), math.prod(self.shape[1:]))
        channels[:] = images.reshape(
            channels.shape
        )  # converted first, because the product with bytes is slower
        channels *= scale
        channels += shift

    @cached_property
    def line(self) -> tuple[Floats, Floats]:
        """the normalisation (x/unit − mean)/std as (scale, shift) of scale·x + shift,
        each (C, 1)
        """
        mean, std = (np.array(values)[:, None] for values in (self.mean, self.std))
        return (1 / (self.unit * std)).astype(self.dtype), (-mean / std).astype(
            self.dtype
        )

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
        scaled = np.empty((weight.shape[2] + 1, len(channels)), self.dtype)
        scaled[:-1].T[:] = (channels * scale).reshape(-1, weight.shape[2])
        scaled[-1:] = level.T
        return scaled

    def matrices(self, models: Any) -> tuple[Any, Any]:
        """Return views of the weights (R, classes, features) and the biases (R,
        classes, 1), or None if there are no biases.
        """
        size = self.classes * math.prod(self.shape)
        weight = models[:, :size].reshape(-1, self.classes, math.prod(self.shape))
        return weight, models[:, size:, None] if self.bias else None


class Gram(Executor[Any]):
    """Trains full-batch on the CPU: a `LinearTask` with numpy arrays, within
    `one_thread`, or a linear task of torch.
    """

    name = "gram"

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.linear: LinearTask = task
        if not isinstance(
            task, LinearTask
        ):  # a torch task whose model is a Flatten and a Linear
            bias, dtype = (
                task.size > task.classes * math.prod(task.shape),
                np.dtype(str(task.dtype).removeprefix("torch.")),
            )
            self.linear = LinearTask(
                task.shape, task.classes, task.mean, task.std, dtype, bias, task.unit
            )

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

    def _train_tensors(self, work: Work) -> tuple[Any, Any]:
        import torch

        def plain(tensor: Any) -> Any:
            return None if tensor is None else tensor.detach().numpy()

        images, labels, offsets, factors = work.batch
        batch = RaggedBatch(plain(images), plain(labels), offsets, plain(factors))
        given = work._replace(
            theta=plain(work.theta), batch=batch, weights=plain(work.weights)
        )
        with one_thread():
            after, losses = self.train(given)
        return torch.from_numpy(after), torch.from_numpy(losses)

    def train(self, work: Work) -> tuple[Any, Any]:
        if not isinstance(work.theta, np.ndarray):
            return self._train_tensors(work)
        models, (images, labels, offsets, factors), weights, training, *_ = work
        if (
            labels.size and labels.view(np.uint64).max() >= self.linear.classes
        ):  # as uint64, a negative label is very large
            raise IndexError(
                f"labels are {labels.min()} to {labels.max()}, must be less than"
                f" {self.linear.classes}"
            )
        runs, sizes = slices(offsets[:: weights.shape[1]]), offsets[1:] - offsets[:-1]
        bins = slices(binned(offsets, weights.shape[1])) if training.steps > 1 else []
        with np.errstate(all="ignore"):
            samples, logits, grams = self._measured(
                models, images, runs, bins, slices(offsets)
            )
            spans = list(zip(bins, grams, strict=True))
            moves, losses = _descended(
                logits, labels, sizes, weights, training, spans, factors
            )
            held = sizes.reshape(weights.shape).sum(axis=1)
            means = (
                np.bincount(
                    np.arange(len(held)).repeat(held), losses, minlength=len(held)
                )
                / held
            )  # 0/0 is nan
            after = np.empty(
                models.shape, models.dtype
            )  # first the update of each run, which is one product
            weight, bias = self.linear.matrices(after)
            for r, run in enumerate(runs):
                np.matmul(moves[:, run], samples[run], weight[r])
                if bias is not None:
                    np.add.reduce(moves[:, run], axis=1, out=bias[r, :, 0])
            after += models
            if training.weight_decay:
                trained = (weights * (sizes.reshape(weights.shape) > 0)).sum(
                    axis=1, keepdims=True
                )
                after += (
                    np.where(
                        trained == 0, 0, (shares_after(training)[-1] - 1) * trained
                    )
                    * models
                )
        return after, means.astype(after.dtype)

    def _measured(
        self,
        models: Floats,
        images: NDArray[Any],
        runs: list[slice],
        bins: list[slice],
        clients: list[slice],
    ) -> tuple[Floats, Floats, list[Floats]]:
        """Return all samples, normalised; their logits (classes, S) with the model of
        their run; the Gram matrices of the bins.

        Runs are processed one by one, so that the samples of a run are in the cache
        when they are multiplied.
        """
        weight, bias = self.linear.matrices(models)
        room = np.empty((len(images) + 1, weight.shape[2]), self.linear.dtype)
        samples, room[-1] = room[:-1], 0  # one more row, for `_gram`
        logits = np.empty((self.linear.classes, len(samples)), self.linear.dtype)
        grams: list[Floats] = []
        waiting = iter(clients)
        for r, run in enumerate(runs):
            self.linear.normalise(images[run], samples[run])
            own = np.matmul(weight[r], samples[run].T, logits[:, run])
            if bias is not None:
                own += bias[r]
            while len(grams) < len(bins) and bins[len(grams)].stop <= run.stop:
                grams.append(self._gram(room, bins[len(grams)], waiting))
        return samples, logits, grams

    def _gram(self, room: Floats, span: slice, clients: Iterator[slice]) -> Floats:
        """Return the Gram matrix (p, p) of a bin of samples, with zeros between samples
        of different clients.

        A client with few samples is multiplied with one extra row. Without this row,
        numpy detects the product of a matrix with its own transpose and calls a routine
        that computes only half of it, but takes twice as long for a small matrix.
        """
        gram = np.zeros((span.stop - span.start,) * 2, room.dtype)
        more = (
            1 if self.linear.bias else 0
        )  # the weight of one more feature, which is always 1
        for client in clients:
            at, size = (
                slice(client.start - span.start, client.stop - span.start),
                client.stop - client.start,
            )
            products = room[client] @ room[client.start : client.stop + (size <= FEW)].T
            np.add(products[:, :size], more, gram[at, at])
            if client.stop == span.stop:
                break
        return gram


def _descended(
    logits: Floats,
    labels: Ints,
    sizes: Ints,
    weights: Floats,
    training: LocalTraining,
    bins: list[tuple[slice, Floats]],
    factors: Floats | None,
) -> tuple[Floats, Floats]:
    """Return the coefficient of each sample in its run's update, (classes, S), and its
    cross-entropy before, (S,).

    `logits` (classes, S) are those of the received models, `sizes` the numbers of
    samples of the clients, `bins` the Gram matrices of adjacent samples. Plain
    cross-entropy is computed in place and takes three quarters of the time of others.
    """
    weight, plain = weights.reshape(-1), training.plain
    # A client of weight 0 is not trained, because its update would be multiplied by 0.
    share = (-training.lr * (weight != 0) / sizes).astype(logits.dtype).repeat(sizes)
    if factors is not None:
        share *= factors
    here, total, truth, velocity = (
        logits.copy(),
        *np.zeros((3, *logits.shape), logits.dtype),
    )
    own = labels * len(labels) + np.arange(
        len(labels)
    )  # the flat index of each sample's true class
    truth.put(own, share if plain else 1)
    held = (
        None
        if plain
        else _classes_held(labels, sizes, len(logits))
        .astype(logits.dtype)
        .repeat(sizes, axis=1)
    )
    places = [(total[:, span], gram, here[:, span]) for span, gram in bins]
    factor, losses = np.empty_like(share), np.empty_like(share)
    shares = shares_after(training) if training.weight_decay else []
    if not plain:
        np.maximum.reduce(logits, axis=0, out=factor)
        losses = factor + np.log(np.exp(logits - factor).sum(axis=0)) - logits.take(own)
    for step in range(training.steps):
        if step:
            for moved, gram, place in places:
                np.matmul(moved, gram, place)
            here += shares[step] * logits if training.weight_decay else logits
        if plain:
            change = here
            here -= np.maximum.reduce(here, axis=0, out=factor)
            if not step:
                here.take(
                    own, None, losses, "clip"
                )  # all indices are valid; this mode skips the check of their bounds
            np.exp(here, here)
            np.add.reduce(here, axis=0, out=factor)
            if not step:
                np.subtract(np.log(factor), losses, losses)
            here *= np.divide(share, factor, factor)
            here -= truth
        else:
            change = (
                training.objective.slope(LocalAnswers(here, logits, truth, held, np))
                * share
            )
        if training.weight_decay:
            change -= training.lr * training.weight_decay * total
        if training.momentum:
            velocity *= training.momentum
            velocity += change
        total += velocity if training.momentum else change
    total *= weight.repeat(sizes)
    return total, losses


def shares_after(training: LocalTraining) -> list[float]:
    """Return the factor of the received model in a client's model, before and after
    each step.

    Weight decay shrinks a model towards zero, so the model is the received one times
    this factor plus its samples' terms.

    >>> shares_after(LocalTraining(lr=0.5, steps=2, weight_decay=0.5))
    [1.0, 0.75, 0.5625]
    """
    shares, shrinking = [1.0], 0.0
    for _ in range(training.steps):
        shrinking = (
            training.momentum * shrinking
            - training.lr * training.weight_decay * shares[-1]
        )
        shares.append(shares[-1] + shrinking)
    return shares


def _classes_held(labels: Ints, sizes: Ints, classes: int) -> Ints:
    """Return how many samples of each class each client holds, (classes, clients).

    >>> _classes_held(np.array([1, 1, 0]), np.array([2, 0, 1]), 2).tolist()
    [[0, 0, 1], [2, 0, 0]]
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return np.bincount(
        labels * len(sizes) + owner, minlength=classes * len(sizes)
    ).reshape(classes, len(sizes))


@contextmanager
def one_thread() -> Iterator[None]:
    """Make numpy multiply in one thread, so that results do not depend on the number of
    threads, to the bit.
    """
    many = [
        (library, number) for library in _blas() if (number := library.num_threads) != 1
    ]
    for library, _ in many:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, number in many:
            library.set_num_threads(number)


@cache
def _blas() -> list[Any]:
    return list(
        ThreadpoolController().select(user_api="blas").lib_controllers
    )  # cached: the search takes milliseconds


def binned(offsets: Ints, clients: int) -> Ints:
    """Return the offsets of the bins; a bin has adjacent clients of one run with at
    most BIN rows, or one larger client.

    >>> binned(np.array([0, 20, 35, 35, 95, 100, 110, 115]), clients=6)
    array([  0,  35,  95, 110, 115])
    """
    edges = [0]
    for segment, (first, last) in enumerate(
        zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ):
        # a bin ends before a client that exceeds its size, and at the end of a run
        if first > edges[-1] and (segment % clients == 0 or last - edges[-1] > BIN):
            edges.append(first)
    return np.array(
        [*edges, offsets[-1]] if offsets[-1] > edges[-1] else edges, dtype=np.int64
    )


def slices(offsets: Ints) -> list[slice]:
    return [slice(first, last) for first, last in pairwise(offsets.tolist())]
