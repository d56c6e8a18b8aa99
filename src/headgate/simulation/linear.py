"""Trains and evaluates linear models on the CPU with numpy alone, which is fast to
import.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Floats, Ints
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.learning.formats import Labels, Pixels
from headgate.learning.local import shifted
from headgate.learning.server import between
from headgate.simulation.executors.executor import RaggedBatch
from headgate.simulation.executors.gram import Gram, LinearTask, one_thread
from headgate.simulation.learner import EVALUATED, Learner, RoundSamples

KEPT = 128 << 20
"""the largest set of images, in bytes as floats, that is converted once; a larger one
is converted in each evaluation
"""
ALIKE = 400
"""the number of images that are multiplied together: fewer images share more zeros,
more need fewer products. Measured
"""
ALONE = 200
"""the same number if there is one model: OpenBLAS with AVX-512 is faster for small
products. Measured
"""
DEEP = 384
"""the number of bytes of an image that are multiplied at once: OpenBLAS adds up more of
them in an order that depends on the number of models"""
TOGETHER = 16_000
"""the number of pairs of model and image that are evaluated at once: fewer need more
steps, more exceed the cache. Measured
"""


Product = tuple[Ints, Floats]
"""The positions of bytes in an image, and their values in some images as floats,
(bytes, images). Bytes that are 0 in all these images are left out. The last position
stands for the constant term, with the value 1."""
Alike = tuple[int, list[list[Product]]]
"""A class and its images, divided into parts; the products of a part contain all bytes
of its images.
"""


class Judged:
    """A set of images for evaluation, grouped by class, so that all images of a group
    have the same true class.
    """

    def __init__(self, task: LinearTask, images: Pixels, labels: Labels) -> None:
        self.task, self.images, self.labels = task, images, labels
        rows = (
            (label, np.flatnonzero(labels == label)) for label in range(task.classes)
        )
        self.classes = [
            (label, own[at : at + EVALUATED])
            for label, own in rows
            for at in range(0, len(own), EVALUATED)
        ]
        """pairs of a class and the rows of some of its images"""
        self._kept: list[Alike] = []

    def __call__(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the accuracy (R,) and mean cross-entropy (R,) of the models theta (R,
        P), multiplied as one matrix.
        """
        weight = self.task.of_bytes(theta)
        hits, losses, done = (
            np.zeros(len(theta), np.int64),
            np.empty((len(theta), len(self.labels))),
            0,
        )
        step = max(1, TOGETHER // (ALIKE * len(theta)))
        some = (
            (label, parts[at : at + step])
            for label, parts in self._chunks()
            for at in range(0, len(parts), step)
        )
        for label, parts in some:
            logits = self._answers(weight, parts).reshape(
                len(theta), self.task.classes, -1
            )
            own = logits[:, label].copy()
            before, after = (
                each.max(axis=1, initial=-np.inf)
                for each in (logits[:, :label], logits[:, label + 1 :])
            )
            hits += ((own > before) & (own >= after)).sum(
                axis=1
            )  # among equal largest logits, the first class is predicted
            most = np.maximum(np.maximum(before, after), own)
            logits -= most[:, None]
            here = losses[:, done : done + own.shape[1]]
            np.subtract(
                np.log(np.exp(logits, logits).sum(axis=1)),
                own - most,
                here,
                dtype=np.float64,
            )
            done += own.shape[1]
        return hits / len(self.labels), losses.mean(
            axis=1
        )  # one mean: it does not depend on the size of the parts

    def _answers(self, weight: Floats, parts: list[list[Product]]) -> Floats:
        """Return the logits of all models for all images of these parts, (R·classes,
        images).
        """
        answers, done = (
            np.empty(
                (weight.shape[1], sum(part[0][1].shape[1] for part in parts)),
                self.task.dtype,
            ),
            0,
        )
        for part in parts:
            (first, images), *others = (
                (weight.take(places, 0).T, samples) for places, samples in part
            )
            wide = ALONE if len(first) == self.task.classes else images.shape[1]
            for at in range(0, images.shape[1], wide):
                own = slice(at, min(at + wide, images.shape[1]))
                here = np.matmul(
                    first,
                    images[:, own],
                    answers[:, done + own.start : done + own.stop],
                )
                for left, samples in others:
                    here += left @ samples[:, own]
            done += images.shape[1]
        return answers

    def _chunks(self) -> Iterable[Alike]:
        if self.images.size * self.task.dtype.itemsize > KEPT:
            return ((label, [self._products(rows)]) for label, rows in self.classes)
        if not self._kept:
            for (
                label,
                rows,
            ) in (
                self.classes
            ):  # images with a nonzero byte that is rare in the others come last
                used = (
                    self.images[rows].reshape(len(rows), math.prod(self.task.shape)) > 0
                )
                rarest = np.where(
                    used, used.sum(axis=0, dtype=np.int16), np.int16(EVALUATED)
                ).min(axis=1)
                parts = np.array_split(
                    rows[np.argsort(-rarest, kind="stable")], -(-len(rows) // ALIKE)
                )
                self._kept.append((label, [*map(self._products, parts)]))
        return self._kept

    def _products(self, rows: Ints) -> list[Product]:
        images = self.images[rows].reshape(len(rows), math.prod(self.task.shape))
        places = np.flatnonzero(images.any(axis=0))
        samples = np.ones((len(places) + 1, len(rows)), self.task.dtype)
        samples[:-1] = images.T[places]
        places = np.append(places, images.shape[1])
        return [
            (places[at : at + DEEP], samples[at : at + DEEP])
            for at in range(0, len(places), DEEP)
        ]


class LinearLearner(Learner):
    """Trains logistic regression, initialised with zeros, by the executor `gram` in one
    thread.
    """

    arrays = np
    executor: Gram
    one_thread = staticmethod(one_thread)

    def __init__(self, experiment: Experiment, dataset: Dataset) -> None:
        super().__init__(experiment, dataset)
        dtype = experiment.training.dtype
        self.dtype = np.dtype("float32" if dtype == "auto" else dtype)
        scale = (dataset.mean, dataset.std)
        self.task = LinearTask(
            dataset.shape, len(dataset.classes), *scale, self.dtype, unit=dataset.unit
        )
        Gram.cost(
            self.task, self.training
        )  # raises an error for settings that it does not support
        self.executor = Gram(self.task)
        self.judges = [Judged(self.task, *own) for own in dataset.judged]

    # numpy does not need to warn about a run that has diverged, because the results
    # report it
    launch = np.errstate(all="ignore")(one_thread()(Learner.launch))
    losses = np.errstate(all="ignore")(one_thread()(Learner.losses))
    scores = np.errstate(all="ignore")(one_thread()(Learner.scores))

    def check_scores(self, asked: tuple[str, ...], whose: str) -> None:
        """Accept all scores, because the only layer is the last layer."""

    def read(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    def facts(self) -> dict[str, Any]:
        return {
            "executor": self.executor.name,
            "device": "cpu",
            "dtype": self.dtype.name,
        }

    def start(self, seeds: Sequence[int]) -> Floats:
        return np.zeros((len(seeds), self.task.size), self.dtype)

    def _ragged(self, batch: RoundSamples) -> RaggedBatch:
        images = self.dataset.train_images[batch.rows]
        if batch.moves is not None:
            images = shifted(images, batch.moves, self.experiment.training.shift)
        labels = self.dataset.train_labels[batch.rows]
        return RaggedBatch(images, labels, batch.offsets)

    def _losses(self, theta: Floats, batch: RaggedBatch) -> Floats:
        samples, logits = self._logits(theta, batch.images)
        logits -= logits.max(axis=0)
        return np.asarray(
            np.log(np.exp(logits).sum(axis=0))
            - logits[batch.labels, np.arange(len(samples))]
        )

    def _answers(
        self, theta: Floats, rows: Ints, features: bool
    ) -> tuple[Floats, Floats | None]:
        samples, logits = self._logits(theta, self.dataset.train_images[rows])
        return logits.T, (
            np.insert(samples, samples.shape[1], 1.0, axis=1) if features else None
        )

    def _logits(self, theta: Floats, images: Pixels) -> tuple[Floats, Floats]:
        """Return the normalised images, (S, pixels), and the logits of the one model
        theta (1, P) for them, (classes, S).
        """
        samples = np.empty((len(images), math.prod(self.task.shape)), self.dtype)
        self.task.normalise(images, samples)
        (weight,), bias = self.task.matrices(theta)
        return samples, weight @ samples.T + bias[0]

    def _put(self, values: NDArray[Any]) -> Floats:
        return values.astype(self.dtype)

    def _between(self, old: Floats, new: Floats, share: float) -> Floats:
        return between(old, new, share)
