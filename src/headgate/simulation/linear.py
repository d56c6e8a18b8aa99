"""Linear models on the CPU, learnt and judged by numpy alone: nothing here is slow to import."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.types import Floats
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.learning.formats import Labels, Pixels
from headgate.learning.shift import shifted
from headgate.simulation.executors.executor import Packed
from headgate.simulation.executors.gram import Gram, LinearTask, one_thread
from headgate.simulation.learner import EVALUATED, Learner, Models, RoundSamples

KEPT = 128 << 20
"""bytes of a test set that is normalised once; a larger one is normalised each time, chunk by chunk"""


@dataclass(frozen=True, eq=False)
class Judged:
    """Images that models are judged by."""

    images: Pixels
    labels: Labels
    chunks: list[Floats] = field(default_factory=list)
    """normalised, as far as they have been"""


class LinearLearner(Learner):
    """Logistic regression from zero by the Gram form; one thread does it all."""

    arrays = np
    executor: Gram

    def __init__(self, experiment: Experiment, dataset: Dataset) -> None:
        super().__init__(experiment, dataset)
        self.dtype = np.dtype(experiment.training.dtype)
        self.task = LinearTask(dataset.shape, len(dataset.classes), dataset.mean, dataset.std, self.dtype)
        self.executor = Gram(self.task)
        self.executor.check(self.training)
        self._judged = [Judged(*own) for own in dataset.judged]

    def launch(self, t: int, models: Models, batch: RoundSamples, seeds: Sequence[int], judge: bool) -> tuple[Models, Any]:
        with np.errstate(all="ignore"), one_thread():  # a run that has broken down is said to be
            return super().launch(t, models, batch, seeds, judge)

    def judge(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        (accuracy, loss), *held = (self._score(theta, own) for own in self._judged)
        return accuracy, loss, held[0][0] if held else np.full_like(accuracy, np.nan)

    def _score(self, theta: Floats, judged: "Judged") -> tuple[Floats, Floats]:
        """Accuracy and loss; all models together are one matrix product."""
        labels, classes = judged.labels, self.task.classes
        weight, bias = self.task.matrices(theta)
        hits, loss = np.zeros(len(theta), np.int64), np.zeros(len(theta))
        for start, samples in self._samples(judged):
            y = labels[start : start + EVALUATED]
            logits = (weight.reshape(-1, weight.shape[2]) @ samples.T).reshape(len(theta), classes, len(y))
            logits += bias
            hits += (logits.argmax(axis=1) == y).sum(axis=1)
            logits -= logits.max(axis=1, keepdims=True)
            chosen = logits[:, y, np.arange(len(y))]
            loss += (np.log(np.exp(logits).sum(axis=1)) - chosen).sum(axis=1, dtype=np.float64)
        return hits / len(labels), loss / len(labels)

    def _samples(self, judged: "Judged") -> Iterator[tuple[int, Floats]]:
        images, keep = judged.images, judged.images.size * self.dtype.itemsize <= KEPT
        for number, start in enumerate(range(0, len(images), EVALUATED)):
            if number < len(judged.chunks):
                yield start, judged.chunks[number]
                continue
            samples = self.task.normalised(images[start : start + EVALUATED])
            if keep:
                judged.chunks.append(samples)
            yield start, samples

    def read(self, array: NDArray[Any]) -> NDArray[Any]:
        return array

    def threads(self, number: int) -> AbstractContextManager[None]:
        return nullcontext()

    def facts(self) -> dict[str, Any]:
        return {"executor": self.executor.name, "device": "cpu"}

    def _beginning(self, seeds: Sequence[int]) -> Floats:
        return np.zeros((len(seeds), self.task.size), self.dtype)

    def _packed(self, batch: RoundSamples) -> Packed:
        images = self.dataset.train_images[batch.rows]
        if batch.moves is not None:
            images = shifted(images, batch.moves, self.experiment.training.shift)
        return Packed(images, self.dataset.train_labels[batch.rows], batch.offsets)

    def _put(self, values: NDArray[Any]) -> Floats:
        return values.astype(self.dtype)

    def _between(self, old: Floats, new: Floats, share: float) -> Floats:
        """As torch.lerp, which multiplies and adds in one: so does float64, for float32."""
        part = self.dtype.type(share)
        base, part = (old, part) if part < 0.5 else (new, part - 1)
        return np.asarray(base + np.float64(part) * (new - old)).astype(self.dtype)

    def _together(self, *values: NDArray[Any]) -> Floats:
        return np.stack(values).astype(np.float64)
