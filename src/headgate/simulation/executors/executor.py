"""What an executor is given and what it gives back. Arrays are numpy's or torch's, as the executor takes them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SettingError
from headgate.learning.datasets import BYTE
from headgate.learning.local import LocalTraining
from headgate.learning.models import Shape
from headgate.learning.objectives import OBJECTIVE
from headgate.registry import shown_kind

Ints = NDArray[np.int64]
Array = Any
"""numpy's or torch's"""


class RaggedBatch(NamedTuple):
    """All samples of a round, run by run and within a run client by client; client (r, m) is segment r·M + m."""

    images: Array
    """(S, C, H, W) uint8, or float32 where the task takes features"""
    labels: Array
    """(S,) int64"""
    offsets: Ints
    """(R·M + 1,): segment i holds the samples offsets[i] to offsets[i + 1]"""
    factors: Array | None = None
    """(S,) how much each sample counts in its client's loss, 1 on average over a client; None: all alike"""


class Work(NamedTuple):
    """A round of all runs, as an executor is given it."""

    theta: Array
    """(R, P) the global models before"""
    batch: RaggedBatch
    weights: Array
    """(R, M) of the clients' updates"""
    training: LocalTraining
    seeds: Sequence[int]
    """(R,)"""
    t: int


class TrainingTask(ABC):
    """What is learnt: a model of samples of `shape`, normalised to (x/unit − mean)/std in `dtype`.

    Images are given as bytes, of which 255 is the unit, and features as float32, in units of 1.
    """

    shape: Shape
    classes: int
    dtype: Any
    unit: float

    @property
    def given(self) -> str:
        """The type of the samples."""
        return "uint8" if self.unit == BYTE else "float32"

    @property
    @abstractmethod
    def size(self) -> int:
        """How many parameters the model has."""

    def check(self, work: Work) -> None:
        """Refuse what does not belong together before it turns into a wrong number."""
        theta, batch, (runs, clients) = work.theta, work.batch, work.weights.shape
        if tuple(theta.shape) != (runs, self.size) or theta.dtype != self.dtype:
            wanted = f"({runs}, {self.size}) {self.dtype}"
            raise ValueError(f"theta is {tuple(theta.shape)} {theta.dtype}, must be {wanted}")
        samples, offsets = len(batch.labels), batch.offsets
        whole = len(offsets) == runs * clients + 1 and offsets[0] == 0 and offsets[-1] == samples
        if not whole or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"offsets do not divide {samples} samples among {runs} runs of {clients} clients")
        if tuple(batch.images.shape) != (samples, *self.shape) or str(batch.images.dtype).removeprefix("torch.") != self.given:
            given = f"{tuple(batch.images.shape)} {batch.images.dtype}"
            raise ValueError(f"images are {given}, must be {(samples, *self.shape)} {self.given}")


Task = TypeVar("Task", bound=TrainingTask)


class Executor(ABC, Generic[Task]):
    """Does the local training of all clients of all runs for one round, and the server's sum of their updates.

    A subclass has a `name`, a `cost` and a `train`. One that has a faster way to the answers of models (R, P) to images
    (n, C, H, W) also offers `logits(theta, images)`.
    """

    name: str
    bfloat16 = False
    """whether it does products in bfloat16 where the task asks for it"""
    memory: int | None = None
    """bound on the bytes it takes for itself, where it has one"""
    at_first: str | None = None
    """what keeps a user waiting before the first round, and never again"""
    note: str | None = None
    """what it had to give up"""

    def __init__(self, task: Task) -> None:
        self.task = task

    @classmethod
    @abstractmethod
    def cost(cls, task: Any, training: LocalTraining) -> float | None:
        """Return about how long a round takes, as a multiple of that of `flat`; `auto` takes the least.

        None means that the task cannot be trained so. A SettingError means the same and says why.
        """

    def bytes_of_run(self, samples: int, clients: int, training: LocalTraining) -> int | None:
        """Return what a run takes of the memory while it trains, where that is known."""
        return None

    def advance(self, *given: Any) -> tuple[Array, Array]:
        """Check what belongs together, the fields of `Work`, then `train`."""
        work = Work(*given)
        self.task.check(work)
        return self.train(work)

    @abstractmethod
    def train(self, work: Work) -> tuple[Array, Array]:
        """Return the global models after a round, (R, P), and each run's loss before it, (R,).

        theta[r] becomes theta[r] + Σ_m weights[r, m]·(what client m makes of it − theta[r]). A client without
        samples or with weight 0 adds nothing, so a run of only such clients stays as it is, to the bit. The loss
        is the mean cross-entropy over all samples of the run at theta[r], nan where there are none, whatever the clients
        minimise. Arguments are left alone.
        """

    @classmethod
    def refused(cls, why: str) -> SettingError:
        """Return an error that names this executor."""
        return SettingError(f"--executor {cls.name}: {why}")

    @classmethod
    def need_full_batch(cls, training: LocalTraining) -> None:
        """Refuse mini-batches."""
        if training.batch_size is not None:
            raise cls.refused(f"full-batch only, training.batch_size = {training.batch_size}")

    @classmethod
    def need_plain_loss(cls, training: LocalTraining) -> None:
        """Refuse other objectives than cross-entropy."""
        if not training.plain:
            raise cls.refused(f"plain cross-entropy only, objective.kind = {shown_kind(OBJECTIVE, training.objective)}")
