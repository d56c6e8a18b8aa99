"""Trains and evaluates linear models on the CPU with numpy alone, which is fast to
import.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
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

    def __init__(
        self,
        task: LinearTask,
        images: Pixels,
        labels: Labels,
    ) -> None:
        self.task, self.images, self.labels = task, images, labels
        self.classes: list[tuple[int, Ints]] = []
        """pairs of a class and the rows of some of its images"""
        for label in range(task.classes):
            own = np.flatnonzero(labels == label)
            for at in range(0, len(own), EVALUATED):
                self.classes.append((label, own[at : at + EVALUATED]))

    def __call__(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the accuracy (R,) and mean cross-entropy (R,) of the models theta (R,
        P), multiplied as one matrix.
        """
        runs, images = len(theta), len(self.labels)
        weight = self.task.of_bytes(theta)
        hits = np.zeros(runs, np.int64)
        losses = np.empty((runs, images))
        done = 0
        for label, parts in self._chunks(runs):
            logits = self._logits(weight, parts)
            logits = logits.reshape(runs, self.task.classes, -1)
            own = logits[:, label].copy()
            before = logits[:, :label].max(
                axis=1,
                initial=-np.inf,
            )
            after = logits[:, label + 1 :].max(
                axis=1,
                initial=-np.inf,
            )
            # among equal largest logits, the first class is predicted
            hits += ((own > before) & (own >= after)).sum(axis=1)

            most = np.maximum(np.maximum(before, after), own)
            logits -= most[:, None]
            own -= most
            total = np.exp(logits, logits).sum(axis=1)
            here = slice(done, done + own.shape[1])
            np.subtract(np.log(total), own, losses[:, here], dtype=np.float64)
            done = here.stop
        # one mean: it does not depend on the size of the parts
        return hits / images, losses.mean(axis=1)

    def _chunks(self, runs: int) -> Iterator[Alike]:
        """Yield as many parts of a class as are evaluated at once."""
        step = max(1, TOGETHER // (ALIKE * runs))
        for label, parts in self._kept or self._converted():
            for at in range(0, len(parts), step):
                yield label, parts[at : at + step]

    def _converted(self) -> Iterator[Alike]:
        for label, rows in self.classes:
            yield label, [self._products(rows)]

    @cached_property
    def _kept(self) -> list[Alike]:
        """All images, converted once; empty if they are too large."""
        if self.images.size * self.task.dtype.itemsize > KEPT:
            return []
        return [
            (label, [self._products(part) for part in self._parts(rows)])
            for label, rows in self.classes
        ]

    def _logits(self, weight: Floats, parts: list[list[Product]]) -> Floats:
        """Return the logits of all models for all images of these parts, (R·classes,
        images).
        """
        models = weight.shape[1]
        images = sum(part[0][1].shape[1] for part in parts)
        logits = np.empty((models, images), self.task.dtype)
        alone = models == self.task.classes
        done = 0
        for part in parts:
            products = [(weight.take(places, 0).T, values) for places, values in part]
            (first, values), *others = products
            size = values.shape[1]
            step = ALONE if alone else size
            for at in range(0, size, step):
                own = slice(at, min(at + step, size))
                here = logits[:, done + own.start : done + own.stop]
                np.matmul(first, values[:, own], here)
                for more, more_values in others:
                    here += more @ more_values[:, own]
            done += size
        return logits

    def _parts(self, rows: Ints) -> list[Ints]:
        """Divide images of a class into small parts; images with a nonzero byte that is
        rare in the others come last.
        """
        used = self._bytes(rows) > 0
        count = used.sum(
            axis=0,
            dtype=np.int16,
        )
        rarest = np.where(used, count, np.int16(EVALUATED)).min(axis=1)
        order = np.argsort(-rarest, kind="stable")
        return np.array_split(rows[order], -(-len(rows) // ALIKE))

    def _products(self, rows: Ints) -> list[Product]:
        images = self._bytes(rows)
        places = np.flatnonzero(images.any(axis=0))
        values = np.ones((len(places) + 1, len(rows)), self.task.dtype)
        values[:-1] = images.T[places]
        places = np.append(places, images.shape[1])
        pieces = [slice(at, at + DEEP) for at in range(0, len(places), DEEP)]
        return [(places[own], values[own]) for own in pieces]

    def _bytes(self, rows: Ints) -> Pixels:
        return self.images[rows].reshape(len(rows), self.task.features)


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
        self.task = LinearTask(
            shape=dataset.shape,
            classes=len(dataset.classes),
            mean=dataset.mean,
            std=dataset.std,
            dtype=self.dtype,
            unit=dataset.unit,
        )
        # raises an error for settings that it does not support
        Gram.cost(self.task, self.training)
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
        own = logits[batch.labels, np.arange(len(samples))]
        return np.asarray(np.log(np.exp(logits).sum(axis=0)) - own)

    def _answers(
        self,
        theta: Floats,
        rows: Ints,
        features: bool,
    ) -> tuple[Floats, Floats | None]:
        samples, logits = self._logits(theta, self.dataset.train_images[rows])
        if not features:
            return logits.T, None
        return logits.T, np.insert(samples, samples.shape[1], 1.0, axis=1)

    def _logits(self, theta: Floats, images: Pixels) -> tuple[Floats, Floats]:
        """Return the normalised images, (S, pixels), and the logits of the one model
        theta (1, P) for them, (classes, S).
        """
        samples = np.empty((len(images), self.task.features), self.dtype)
        self.task.normalise(images, samples)
        (weight,), bias = self.task.matrices(theta)
        return samples, weight @ samples.T + bias[0]

    def _put(self, values: NDArray[Any]) -> Floats:
        return values.astype(self.dtype)

    def _between(
        self,
        old: Floats,
        new: Floats,
        share: float,
    ) -> Floats:
        return between(old, new, share)
