"""The base class of executors and its inputs. Arrays are numpy arrays or torch tensors,
as the executor requires.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SettingError
from headgate.learning.datasets import BYTE
from headgate.learning.local import LocalTraining, Rows, schedule
from headgate.learning.models import Shape

Ints = NDArray[np.int64]
Array = Any
"""a numpy array or a torch tensor"""


class RaggedBatch(NamedTuple):
    """All samples of a round, sorted by run and within a run by client; client m of run
    r is segment r·M + m.
    """

    images: Array
    """the images, (S, C, H, W), of type uint8, or float32 if the task takes features"""
    labels: Array
    """the classes of the samples, (S,), of type int64"""
    offsets: Ints
    """the bounds of the segments, (R·M + 1,): segment i contains the samples offsets[i]
    to offsets[i + 1] − 1
    """
    factors: Array | None = None
    """the factor of each sample in the loss of its client, (S,), on average 1 over a
    client; None if all factors are 1
    """


class Work(NamedTuple):
    """The input of an executor for a round of all runs."""

    theta: Array
    """the global models before the round, (R, P)"""
    batch: RaggedBatch
    weights: Array
    """the weights of the clients' updates, (R, M)"""
    training: LocalTraining
    seeds: Sequence[int]
    """the seed of each run, (R,)"""
    t: int

    def clients(self, run: int) -> Iterator["ClientWork"]:
        """Yield the work of each client of a run that has samples."""
        images, labels, offsets, factors = self.batch
        many = self.weights.shape[1]
        first = run * many
        segments = slices(offsets[first : first + many + 1])
        for client, own in enumerate(segments):
            size = own.stop - own.start
            if size:
                seed = self.seeds[run]
                yield ClientWork(
                    client,
                    images[own],
                    labels[own],
                    None if factors is None else factors[own],
                    schedule(self.training, seed, client, self.t, size),
                )


class ClientWork(NamedTuple):
    """The samples of one client in a round, at least one."""

    client: int
    images: Array
    labels: Array
    factors: Array | None
    steps: Iterator[Rows]
    """the rows of the samples that each gradient step uses"""

    @property
    def size(self) -> int:
        """The number of samples."""
        return len(self.labels)


class TrainingTask(ABC):
    """A model to be trained on samples of `shape`, which are normalised to (x/unit −
    mean)/std in `dtype`.

    Images are stored as bytes, with unit 255, and features as float32, with unit 1.
    """

    shape: Shape
    classes: int
    dtype: Any
    unit: float

    @property
    def given(self) -> str:
        """the data type of the samples before they are normalised"""
        return "uint8" if self.unit == BYTE else "float32"

    @property
    @abstractmethod
    def size(self) -> int:
        """the number of parameters of the model, P"""

    def check(self, work: Work) -> None:
        """Raise ValueError if shapes or types do not match, because the results would
        be wrong.
        """
        theta, batch, (runs, clients) = work.theta, work.batch, work.weights.shape
        if tuple(theta.shape) != (runs, self.size) or theta.dtype != self.dtype:
            wanted = f"({runs}, {self.size}) {self.dtype}"
            raise ValueError(
                f"theta is {tuple(theta.shape)} {theta.dtype}, must be {wanted}"
            )

        samples, offsets = len(batch.labels), batch.offsets
        whole = (
            len(offsets) == runs * clients + 1
            and offsets[0] == 0
            and offsets[-1] == samples
        )
        if not whole or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(
                f"offsets do not divide {samples} samples among {runs} runs of"
                f" {clients} clients"
            )

        shape, dtype = tuple(batch.images.shape), batch.images.dtype
        wanted_shape = (samples, *self.shape)
        if shape != wanted_shape or str(dtype).removeprefix("torch.") != self.given:
            raise ValueError(
                f"images are {shape} {dtype}, must be {wanted_shape} {self.given}"
            )
        if batch.factors is not None and len(batch.factors) != samples:
            raise ValueError(
                f"factors are {len(batch.factors)}, must be {samples}, one a sample"
            )


Task = TypeVar("Task", bound=TrainingTask)


class Executor(ABC, Generic[Task]):
    """Base class of executors: does the local training of all clients of all runs for
    one round, and sums their updates.

    A subclass defines `name`, `cost` and `train`. If it can compute the logits of
    models (R, P) for images (n, C, H, W) faster than torch does, it also defines
    `logits(theta, images)`.
    """

    name: str
    bfloat16 = False
    """whether the executor can multiply in bfloat16 if the task requires it"""
    weighs_samples = False
    """whether the executor applies `RaggedBatch.factors`; if not, it refuses them"""
    memory: int | None = None
    """the largest number of bytes that the executor allocates for its own use, None if
    it has no bound
    """
    at_first: str | None = None
    """a message about a wait that occurs only before the very first round, None if
    there is no wait
    """
    note: str | None = None
    """a message about an optimisation that failed and is no longer used, None if all
    work
    """

    def __init__(self, task: Task) -> None:
        self.task = task

    @classmethod
    @abstractmethod
    def cost(cls, task: Any, training: LocalTraining) -> float | None:
        """Return the approximate time of a round relative to `flat`; `auto` takes the
        executor with the lowest cost.

        Return None, or raise a SettingError with the reason, if the executor cannot
        train the task with these settings.
        """

    def bytes_of_run(
        self,
        samples: int,
        clients: int,
        training: LocalTraining,
    ) -> int | None:
        """Return the bytes of memory that a run needs while it trains, or None if this
        is not known.
        """
        return None

    def advance(self, *given: Any) -> tuple[Array, Array]:
        """Check the arguments, which are the fields of `Work`, and call `train`."""
        work = Work(*given)
        self.task.check(work)
        if work.batch.factors is not None and not self.weighs_samples:
            raise self.refused("the samples of a client cannot have different weights")
        return self.train(work)

    @abstractmethod
    def train(self, work: Work) -> tuple[Array, Array]:
        """Return the global models after a round, (R, P), and the loss of each run
        before it, (R,).

        The new model of run r is theta[r] + Σ_m weights[r, m]·(local model of client m
        − theta[r]). A client without samples or with weight 0 adds nothing, so the
        model of a run of only such clients does not change in any bit. The loss is the
        mean cross-entropy over all samples of the run at theta[r], whatever their
        factors; it is NaN if the run has no samples. The arguments are not changed.
        """

    @classmethod
    def refused(cls, why: str) -> SettingError:
        """Return a SettingError that names this executor and states why it cannot be
        used.
        """
        return SettingError(f"--executor {cls.name}: {why}")

    @classmethod
    def need_full_batch(cls, training: LocalTraining) -> None:
        """Raise SettingError if the settings use mini-batches."""
        if training.batch_size is not None:
            raise cls.refused(
                f"full-batch only, training.batch_size = {training.batch_size}"
            )


def slices(offsets: Ints) -> list[slice]:
    """Return the slice of each segment that these offsets bound."""
    return [slice(first, last) for first, last in pairwise(offsets.tolist())]
