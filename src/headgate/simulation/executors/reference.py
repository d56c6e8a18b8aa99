"""The executor `reference` computes the equations of the paper literally, client by
client in float64.

The other executors are tested against it. A round of LeNet takes 555 ms on one thread,
nine times as long as with `compiled` (benchmarks/results/executors.json at a7da4c6).
"""

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from headgate.learning.local import LocalTraining
from headgate.learning.networks import Flat
from headgate.simulation.executors.executor import ClientWork, Executor, Work
from headgate.simulation.executors.types import Task, mean_loss
from headgate.theory.labels import paper


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
        batch = work.batch._replace(
            images=self._normalised(work.batch.images),
            labels=work.batch.labels.to(self.task.device),
        )
        work = work._replace(batch=batch)
        runs = [self._train_run(work, r) for r in range(len(work.theta))]
        models, losses = zip(*runs, strict=True)
        dtype, device = work.theta.dtype, work.theta.device
        after = torch.stack(models).to(dtype)
        return after, torch.tensor(
            losses,
            dtype=dtype,
            device=device,
        )

    def _train_run(self, work: Work, r: int) -> tuple[Tensor, float]:
        """Return the model of run r after the round, and its loss before."""
        start = work.theta[r].double()
        update = torch.zeros_like(start)
        loss, samples = 0.0, 0
        for own in work.clients(r):
            risk = empirical_risk(self.model, start, own.images, own.labels)
            loss += own.size * float(risk)
            samples += own.size
            weight = work.weights[r, own.client].double()
            if weight != 0:
                local = self._trained(start, own, work.training)
                update = update + weight * (local - start)
        return start + update, loss / samples if samples else float("nan")

    def _trained(
        self,
        start: Tensor,
        own: ClientWork,
        training: LocalTraining,
    ) -> Tensor:
        """Return the local model of a client."""
        local, velocity = start, torch.zeros_like(start)
        for rows in own.steps:
            factors = None if own.factors is None else own.factors[rows]
            gradient = local_gradient(
                self.model, local, own.images[rows], own.labels[rows], factors
            )
            local, velocity = descend(local, velocity, gradient, training)
        return local

    def _normalised(self, images: Tensor) -> Tensor:
        task = self.task
        mean, std = (
            torch.tensor(
                x,
                dtype=torch.float64,
                device=task.device,
            ).view(-1, 1, 1)
            for x in (task.mean, task.std)
        )
        return (images.to(task.device, torch.float64) / task.unit - mean) / std


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
    theta: Tensor,
    velocity: Tensor,
    gradient: Tensor,
    training: LocalTraining,
) -> tuple[Tensor, Tensor]:
    """Return the parameters and the velocity after one step; the step of the paper has
    no momentum and no weight decay.
    """
    velocity = training.momentum * velocity + gradient + training.weight_decay * theta
    return theta - training.lr * velocity, velocity
