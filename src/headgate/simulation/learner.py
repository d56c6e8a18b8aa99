"""Where the models of all runs are trained and judged: what the engine asks of it. `linear` has the one on numpy, `nets`
the one on torch, which is imported only where it is needed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.scores import Scores, scores_of
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError
from headgate.experiment import Experiment
from headgate.learning.datasets import Dataset
from headgate.learning.models import Logistic
from headgate.learning.server import State, newest_share
from headgate.simulation.executors.executor import Array, Executor, RaggedBatch

EVALUATED = 2_000
"""test images at once: bounds memory"""


class Models(NamedTuple):
    """Those of all runs after a round."""

    theta: Array
    """(R, P): what training goes on from"""
    mean: Array
    """of the models so far, where it is asked for, else theta: what is evaluated"""
    server: State
    """what the server update remembers"""


class RoundSamples(NamedTuple):
    """What all runs train on in a round."""

    rows: Ints
    """of the training set, run by run and then client by client"""
    moves: Ints | None
    """by how much each image is moved, (2, samples); None: not at all"""
    offsets: Ints
    """where each client's samples begin"""
    weights: Floats
    """of the updates, (R, clients that train)"""
    new: NDArray[np.bool_] | None = None
    """whether each sample came in this round, where somebody asks"""

    def part(self, own: slice) -> "RoundSamples":
        """Some samples, as those of one client."""
        moves = None if self.moves is None else self.moves[:, own]
        return RoundSamples(self.rows[own], moves, np.array([0, own.stop - own.start]), np.ones((1, 1)))


class Learner(ABC):
    """The data, the executor and the arithmetic of one array library, `arrays`, numpy or torch."""

    arrays: Any
    executor: Executor[Any]
    judges: Sequence[Callable[[Array], tuple[Array, Array]]]
    """of each set of `Dataset.judged`: (accuracy (R,), mean cross-entropy (R,)) of models"""
    device = "cpu"

    def __init__(self, experiment: Experiment, dataset: Dataset) -> None:
        self.experiment, self.dataset, self.training = experiment, dataset, experiment.local

    def launch(
        self, t: int, models: Models, batch: RoundSamples, seeds: Sequence[int], judge: Sequence[int]
    ) -> tuple[Models, Array]:
        """Round t: the models after it, and what became of each run, which `read` waits for: whether it is broken, its loss
        before, and accuracy and loss on each of the sets at the places `judge`.

        A model that is no longer finite keeps its last finite state; its run is reported as broken.
        """
        given, here = self.experiment, self.arrays
        work = self._ragged(batch), self._put(batch.weights), self.training, seeds, t
        theta, train_loss = self.executor.advance(models.theta, *work)
        theta, server = given.server.step(t, models.theta, theta, models.server)
        broken = ~here.isfinite(theta).all(1)
        theta = here.where(broken[:, None], models.theta, theta)
        eta = given.training.average
        mean = theta if eta is None else self._between(models.mean, theta, newest_share(t, eta))
        results = [broken, train_loss, *(values for place in judge for values in self.judges[place](mean))]
        return Models(theta, mean, server), here.stack([here.asarray(each, dtype=here.float64) for each in results])

    def losses(self, models: Models, batch: RoundSamples, runs: Ints) -> Array:
        """What the samples of these runs lose under the models before the round, one after the other; `read` waits for it.

        A forward pass of each run by itself, so that its numbers depend on no other.
        """
        ends = batch.offsets[:: batch.weights.shape[1]].tolist()
        own = ((run, self._ragged(batch.part(slice(ends[run], ends[run + 1])))) for run in runs.tolist())
        parts = [self._losses(models.theta[run : run + 1], each) for run, each in own]
        return self.arrays.concatenate(parts)

    def scores(self, models: Models, asked: tuple[str, ...], runs: Ints, rows: Ints) -> Scores:
        """What models say of rows of the training set, `runs` being whose model judges each, one after the other.

        A forward pass of each run by itself, so that its numbers depend on no other. Images are not moved. Waits.
        """
        if not len(rows):
            one = self.scores(models, asked, np.zeros(1, np.int64), np.zeros(1, np.int64))
            return Scores(*(None if values is None else values[:0] for values in one))
        wanted = "features" in asked
        said = [self._answers(models.theta[r : r + 1], rows[runs == r], wanted) for r in np.unique(runs).tolist()]
        back = np.argsort(np.argsort(runs, kind="stable"), kind="stable")
        logits = self.read(self.arrays.concatenate([answer for answer, _ in said]))[back]
        features = self.read(self.arrays.concatenate([inputs for _, inputs in said]))[back] if wanted else None
        return scores_of(asked, logits, self.dataset.train_labels[rows], features)

    @abstractmethod
    def check_scores(self, asked: tuple[str, ...], whose: str) -> None:
        """Refuse what cannot be asked of this model; `whose` is the rule that asks."""

    def tensors(self, models: Models) -> dict[str, NDArray[Any]]:
        """All that `restored` needs."""
        mean = {} if models.mean is models.theta else {"mean": models.mean}
        named = {"theta": models.theta, **mean, **{f"server.{name}": array for name, array in models.server.items()}}
        return {name: np.ascontiguousarray(self.read(array)) for name, array in named.items()}

    def restored(self, tensors: Mapping[str, NDArray[Any]], like: Models) -> Models:
        """Refused where they are not shaped like those that are here."""

        def put(name: str, there: Array) -> Array:
            if tensors[name].shape != tuple(there.shape):
                raise ValueError(f"{name} is {tensors[name].shape}, must be {tuple(there.shape)}")
            return self._put(tensors[name])

        theta = put("theta", like.theta)
        mean = put("mean", like.theta) if "mean" in tensors else theta
        return Models(theta, mean, {name: put(f"server.{name}", array) for name, array in like.server.items()})

    @abstractmethod
    def read(self, array: Array) -> NDArray[Any]:
        """As numpy's, when it is known."""

    @abstractmethod
    def one_thread(self) -> AbstractContextManager[None]:
        """For a while: the order of sums may depend on how many there are."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the record says of the machinery."""

    @abstractmethod
    def start(self, seeds: Sequence[int]) -> Array:
        """One model for each seed before round 1, (R, P)."""

    @abstractmethod
    def _ragged(self, batch: RoundSamples) -> RaggedBatch: ...

    @abstractmethod
    def _losses(self, theta: Array, batch: RaggedBatch) -> Array:
        """Of each sample under the one model theta (1, P)."""

    @abstractmethod
    def _answers(self, theta: Array, rows: Ints, features: bool) -> tuple[Array, Array | None]:
        """What the one model theta (1, P) says to rows of the training set, (S, classes), and what goes into its last layer."""

    @abstractmethod
    def _put(self, values: NDArray[Any]) -> Array:
        """Numbers of models where they are computed with, in their precision."""

    @abstractmethod
    def _between(self, old: Array, new: Array, share: float) -> Array:
        """old + share·(new − old)."""


def learner_of(experiment: Experiment, dataset: Dataset, device: str, executor: str) -> Learner:
    """Logistic regression is learnt by numpy where the Gram form fits and there is no other device; all else by torch."""
    linear = type(experiment.model) is Logistic and experiment.training.dtype != "bfloat16"
    fits = executor == "gram" or (executor == "auto" and experiment.local.batch_size is None)
    if linear and device == "cpu" and fits:
        from headgate.simulation.linear import LinearLearner

        return LinearLearner(experiment, dataset)
    try:
        from headgate.simulation.nets import NetLearner
    except ModuleNotFoundError as error:
        raise SettingError(f"this needs {error.name}: pip install 'headgate[sim]'") from None
    return NetLearner(experiment, dataset, device, executor)
