"""The executor `reference` computes the equations of the paper literally, client by
client in float64.

The other executors are tested against it. A round of LeNet takes 555 ms on one thread,
nine times as long as with `compiled` (benchmarks/results/executors.json at a7da4c6).
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from headgate.learning.local import LocalTraining, schedule
from headgate.learning.networks import Flat
from headgate.simulation.executors.executor import Executor, RaggedBatch, Work
from headgate.simulation.executors.types import Task, mean_loss
from headgate.theory.labels import paper


class _Buffer(NamedTuple):
    """The samples that a client holds."""

    images: Tensor
    labels: Tensor
    factors: Tensor | None


@paper("eq:local-update", "eq:global-aggregation")
class Reference(Executor[Task]):
    """Trains any model with any local training, slowly. It computes in float64 and
    returns models in the dtype of theta.
    """

    name = "reference"
    weighs_samples = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.model = copy.deepcopy(task.model).to(task.device, torch.float64)

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        return 2.0

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        dtype, device = work.theta.dtype, work.theta.device
        runs = [self._train_run(work, r) for r in range(len(work.theta))]
        models, losses = zip(*runs, strict=True)
        after = torch.stack(models).to(dtype)
        return after, torch.tensor(losses, dtype=dtype, device=device)

    def _train_run(self, work: Work, r: int) -> tuple[Tensor, float]:
        """Return the model of run r after the round, and its loss before."""
        start, weights = work.theta[r].double(), work.weights[r]
        clients = len(weights)
        update, loss, samples = torch.zeros_like(start), 0.0, 0
        for m in range(clients):
            images, labels, factors = self._buffer(work.batch, r * clients + m)
            n = len(labels)
            if n == 0:
                continue
            loss += n * float(empirical_risk(self.model, start, images, labels))
            samples += n
            if weights[m] == 0:
                continue

            local, velocity = start, torch.zeros_like(start)
            for rows in schedule(work.training, work.seeds[r], m, work.t, n):
                gradient = local_gradient(
                    self.model,
                    local,
                    images[rows],
                    labels[rows],
                    None if factors is None else factors[rows],
                )
                local, velocity = descend(local, velocity, gradient, work.training)
            update = update + weights[m].double() * (local - start)
        return start + update, loss / samples if samples else float("nan")

    def _buffer(self, batch: RaggedBatch, segment: int) -> _Buffer:
        own = slice(batch.offsets[segment], batch.offsets[segment + 1])
        task = self.task
        mean, std = (
            torch.tensor(x, dtype=torch.float64, device=task.device).view(-1, 1, 1)
            for x in (task.mean, task.std)
        )
        images = batch.images[own].to(task.device, torch.float64)
        return _Buffer(
            (images / task.unit - mean) / std,
            batch.labels[own].to(task.device),
            None if batch.factors is None else batch.factors[own].double(),
        )


@paper("eq:local-empirical-risk")
def empirical_risk(
    model: nn.Module,
    theta: Tensor,
    images: Tensor,
    labels: Tensor,
    factors: Tensor | None = None,
) -> Tensor:
    """Return the mean cross-entropy of the model with parameters theta over the
    images, each times its factor.
    """
    logits = functional_call(model, Flat(model).views(theta), (images,))
    return mean_loss(logits, labels, factors)


@paper("eq:local-gradient")
def local_gradient(
    model: nn.Module,
    theta: Tensor,
    images: Tensor,
    labels: Tensor,
    factors: Tensor | None = None,
) -> Tensor:
    """Return the gradient of the empirical risk by the parameters theta."""
    theta = theta.detach().requires_grad_()
    with torch.enable_grad():
        risk = empirical_risk(model, theta, images, labels, factors)
    (gradient,) = torch.autograd.grad(risk, theta)
    return gradient


@paper("eq:local-gd")
def descend(
    theta: Tensor, velocity: Tensor, gradient: Tensor, training: LocalTraining
) -> tuple[Tensor, Tensor]:
    """Return the parameters and the velocity after one step; the step of the paper has
    no momentum and no weight decay.
    """
    velocity = training.momentum * velocity + gradient + training.weight_decay * theta
    return theta - training.lr * velocity, velocity
