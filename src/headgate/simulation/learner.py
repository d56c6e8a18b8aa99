"""The interface through which the engine trains and evaluates the models of all runs.
`linear` implements it with numpy, `nets` with torch, which is imported only if it is
needed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.scores import Scores, scores_of
from headgate.control.types import Floats, Ints
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.learning.server import State, newest_share
from headgate.simulation.executors.executor import (
    Array,
    Executor,
    RaggedBatch,
    slices,
)

EVALUATED = 2_000
"""the number of test images that are evaluated together, which bounds the memory"""


class Models(NamedTuple):
    """The models of all runs after a round."""

    theta: Array
    """the models from which the next round trains, (R, P)"""
    mean: Array
    """the models that are evaluated, (R, P): the average over the rounds if
    `training.average` is set, else theta
    """
    server: State
    """the state of the server update"""


class RoundSamples(NamedTuple):
    """The samples that all runs train on in a round."""

    rows: Ints
    """the row of each sample in the training set, sorted by run and then by client,
    (samples,)
    """
    moves: Ints | None
    """the shift of each image in pixels, (2, samples); None if no image is shifted"""
    offsets: Ints
    """the position of the first sample of each client, followed by the number of
    samples
    """
    weights: Floats
    """the weights of the clients' updates, (R, clients that train)"""

    def part(self, own: slice) -> "RoundSamples":
        """Return a slice of the samples as a batch of one run with one client."""
        moves = None if self.moves is None else self.moves[:, own]
        offsets = np.array([0, own.stop - own.start])
        return RoundSamples(self.rows[own], moves, offsets, np.ones((1, 1)))


class Learner(ABC):
    """Base class of learners; combines the data, an executor and an array library
    (`arrays`: numpy or torch).
    """

    arrays: Any
    executor: Executor[Any]
    judges: Sequence[Callable[[Array], tuple[Array, Array]]]
    """a function for each set of `Dataset.judged` that returns accuracy (R,) and mean
    cross-entropy (R,) of models (R, P)
    """
    device = "cpu"

    def __init__(self, experiment: Experiment, dataset: Dataset) -> None:
        self.experiment, self.dataset = experiment, dataset
        self.training = experiment.local

    def launch(
        self,
        t: int,
        models: Models,
        batch: RoundSamples,
        seeds: Sequence[int],
        judge: Sequence[int],
    ) -> tuple[Models, Array]:
        """Start round t; return the models after it and an array of results, for which
        `read` waits.

        The results of each run are: whether it is broken, its training loss before the
        round, and its accuracy and loss on each set in `judge`. If a model is no longer
        finite, its run is broken and keeps the last finite model.
        """
        given, here = self.experiment, self.arrays
        weights = self._put(batch.weights)
        averaged, train_loss = self.executor.advance(
            models.theta, self._ragged(batch), weights, self.training, seeds, t
        )
        theta, server = given.server.step(t, models.theta, averaged, models.server)
        broken = ~here.isfinite(theta).all(1)
        theta = here.where(broken[:, None], models.theta, theta)
        mean, eta = theta, given.training.average
        if eta is not None:
            mean = self._between(models.mean, theta, newest_share(t, eta))

        results = [broken, train_loss]
        for place in judge:
            results += self.judges[place](mean)
        as_numbers = [here.asarray(each, dtype=here.float64) for each in results]
        return Models(theta, mean, server), here.stack(as_numbers)

    def losses(
        self,
        models: Models,
        batch: RoundSamples,
        runs: Ints,
    ) -> Array:
        """Return the loss of each sample of these runs under the models before the
        round, (samples,); `read` waits for it.

        Each run has a forward pass of its own, so its losses do not depend on other
        runs.
        """
        samples = slices(batch.offsets[:: batch.weights.shape[1]])
        parts = []
        for run in runs.tolist():
            own = self._ragged(batch.part(samples[run]))
            parts.append(self._losses(models.theta[run : run + 1], own))
        return self.arrays.concatenate(parts)

    def scores(
        self,
        models: Models,
        asked: tuple[str, ...],
        runs: Ints,
        rows: Ints,
    ) -> Scores:
        """Return the scores of rows of the training set; `runs` states for each row
        which run's model computes its scores.

        Each run has a forward pass of its own, so runs are independent. Images are not
        shifted. The call waits for the result.
        """
        if not len(rows):
            any_one = np.zeros(1, np.int64)
            one = self.scores(models, asked, any_one, any_one)
            return Scores(*(None if values is None else values[:0] for values in one))
        wanted = "features" in asked
        answers = [
            self._answers(models.theta[r : r + 1], rows[runs == r], wanted)
            for r in np.unique(runs).tolist()
        ]
        logits, inputs = zip(*answers, strict=True)
        back = np.argsort(np.argsort(runs, kind="stable"), kind="stable")

        def in_order(parts: Sequence[Array]) -> NDArray[Any]:
            return self.read(self.arrays.concatenate(parts))[back]

        features = in_order(inputs) if wanted else None
        labels = self.dataset.train_labels[rows]
        return scores_of(asked, in_order(logits), labels, features)

    @abstractmethod
    def check_scores(self, asked: tuple[str, ...], whose: str) -> None:
        """Raise SettingError if this model cannot compute the scores `asked`; `whose`
        names the rule that needs them.
        """

    def tensors(self, models: Models) -> dict[str, NDArray[Any]]:
        """Return the models as named numpy arrays, from which `restored` restores
        them.
        """
        named = {"theta": models.theta}
        if models.mean is not models.theta:
            named["mean"] = models.mean
        for name, array in models.server.items():
            named[f"server.{name}"] = array
        return {
            name: np.ascontiguousarray(self.read(array))
            for name, array in named.items()
        }

    def restored(self, tensors: Mapping[str, NDArray[Any]], like: Models) -> Models:
        """Restore models from the arrays of `tensors`; raise ValueError if their shapes
        differ from those of `like`.
        """

        def put(name: str, there: Array) -> Array:
            if tensors[name].shape != tuple(there.shape):
                raise ValueError(
                    f"{name} is {tensors[name].shape}, must be {tuple(there.shape)}"
                )
            return self._put(tensors[name])

        theta = put("theta", like.theta)
        mean = put("mean", like.theta) if "mean" in tensors else theta
        server = {
            name: put(f"server.{name}", array) for name, array in like.server.items()
        }
        return Models(theta, mean, server)

    @abstractmethod
    def read(self, array: Array) -> NDArray[Any]:
        """Wait for an array and return it as a numpy array."""

    @abstractmethod
    def one_thread(self) -> AbstractContextManager[None]:
        """Return a context in which one thread computes, because the order of sums may
        depend on the number of threads.
        """

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the executor, device and dtype, and the version of torch if it is
        used, for environment.json.
        """

    @abstractmethod
    def start(self, seeds: Sequence[int]) -> Array:
        """Return the initial model for each of the seeds, (R, P)."""

    @abstractmethod
    def _ragged(self, batch: RoundSamples) -> RaggedBatch: ...

    @abstractmethod
    def _losses(self, theta: Array, batch: RaggedBatch) -> Array:
        """Return the loss of each sample under the one model theta (1, P),
        (samples,).
        """

    @abstractmethod
    def _answers(
        self,
        theta: Array,
        rows: Ints,
        features: bool,
    ) -> tuple[Array, Array | None]:
        """Return the logits of model theta (1, P) for rows of the training set, (S,
        classes), and its last layer's inputs.
        """

    @abstractmethod
    def _put(self, values: NDArray[Any]) -> Array:
        """Copy numbers to the device, in the dtype of the models."""

    @abstractmethod
    def _between(
        self,
        old: Array,
        new: Array,
        share: float,
    ) -> Array:
        """Return old + share·(new − old)."""
