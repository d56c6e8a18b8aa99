"""The executor `reference` computes the equations of the paper literally, client by
client in float64.

The other executors are tested against it. A round of LeNet takes 555 ms on one thread,
nine times as long as with `compiled` (benchmarks/results/executors.json at a7da4c6).
"""

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining, schedule
from headgate.learning.networks import ClientSlopes, Flat
from headgate.simulation.executors.executor import Executor, RaggedBatch, Work
from headgate.simulation.executors.types import Task
from headgate.theory.labels import paper


@paper("eq:local-update", "eq:global-aggregation")
class Reference(Executor[Task]):
    """Trains any model with any local training, slowly. It computes in float64 and
    returns models in the dtype of theta.
    """

    name = "reference"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.model = copy.deepcopy(task.model).to(task.device, torch.float64)

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        return 2.0

    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, batch, weights, training, seeds, t = work
        runs, clients = weights.shape
        models, losses = [], []
        for r in range(runs):
            start = theta[r].double()
            update, loss, samples = torch.zeros_like(start), 0.0, 0
            for m in range(clients):
                images, labels = self._buffer(batch, r * clients + m)
                n = len(labels)
                if n == 0:
                    continue
                loss += n * float(empirical_risk(self.model, start, images, labels))
                samples += n
                if weights[r, m] == 0:
                    continue
                local, velocity = start, torch.zeros_like(start)
                slopes = (
                    None
                    if training.plain
                    else self._slopes(work, r * clients + m, start, images, labels)
                )
                for rows in schedule(training, seeds[r], m, t, n):
                    if slopes is None:
                        gradient = local_gradient(
                            self.model, local, images[rows], labels[rows]
                        )
                    else:
                        gradient = gradient_by_slopes(
                            self.model, local, images[rows], partial(slopes, rows=rows)
                        )
                    local, velocity = descend(local, velocity, gradient, training)
                update = update + weights[r, m].double() * (local - start)
            models.append(start + update)
            losses.append(loss / samples if samples else float("nan"))
        return torch.stack(models).to(theta.dtype), torch.tensor(
            losses, dtype=theta.dtype, device=theta.device
        )

    def _buffer(self, batch: RaggedBatch, segment: int) -> tuple[Tensor, Tensor]:
        first, last = batch.offsets[segment], batch.offsets[segment + 1]
        task = self.task
        mean, std = (
            torch.tensor(x, dtype=torch.float64, device=task.device).view(-1, 1, 1)
            for x in (task.mean, task.std)
        )
        images = batch.images[first:last].to(task.device, torch.float64)
        return (images / task.unit - mean) / std, batch.labels[first:last].to(
            task.device
        )

    def _slopes(
        self, work: Work, segment: int, start: Tensor, images: Tensor, labels: Tensor
    ) -> ClientSlopes:
        received, factors = (
            functional_call(self.model, Flat(self.model).views(start), (images,)),
            work.batch.factors,
        )
        if factors is not None:
            factors = factors[
                work.batch.offsets[segment] : work.batch.offsets[segment + 1]
            ].double()
        return ClientSlopes(work.training.objective, received.detach(), labels, factors)


@paper("eq:local-empirical-risk")
def empirical_risk(
    model: nn.Module, theta: Tensor, images: Tensor, labels: Tensor
) -> Tensor:
    """Return the mean cross-entropy of the model with parameters theta over the
    images.
    """
    return cross_entropy(
        functional_call(model, Flat(model).views(theta), (images,)), labels
    )


@paper("eq:local-gradient")
def local_gradient(
    model: nn.Module, theta: Tensor, images: Tensor, labels: Tensor
) -> Tensor:
    theta = theta.detach().requires_grad_()
    with torch.enable_grad():
        risk = empirical_risk(model, theta, images, labels)
    (gradient,) = torch.autograd.grad(risk, theta)
    return gradient


def gradient_by_slopes(
    model: nn.Module, theta: Tensor, images: Tensor, slope: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the gradient of an objective other than cross-entropy; `slope` returns its
    derivative by the logits.
    """
    theta = theta.detach().requires_grad_()
    with torch.enable_grad():
        logits = functional_call(model, Flat(model).views(theta), (images,))
    (gradient,) = torch.autograd.grad(logits, theta, slope(logits))
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
