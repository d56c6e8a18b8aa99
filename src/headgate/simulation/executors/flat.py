"""The executor `flat` trains any model, client by client, with little overhead. On the
CPU this loop is faster than vmap.

It is for models that `compiled` does not support, and for mini-batches. A round of
LeNet takes 335 ms on one thread, 424 ms with `batched` and 730 ms with a simple loop
(benchmarks/results/executors.json at a7da4c6).
"""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining, Rows, schedule
from headgate.learning.networks import descend
from headgate.simulation.executors.executor import Executor, Work, slices
from headgate.simulation.executors.types import Task, mean_loss, native_kernels


class FlatLoop(Executor[Task]):
    """Trains all clients with one model, whose parameters are views of one vector that
    is reset for each client.

    The results of a run do not depend on the other runs, to the bit.
    """

    name = "flat"
    weighs_samples = True

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.model = copy.deepcopy(task.model).to(task.device, task.dtype)
        self.vector = torch.empty(task.flat.size, dtype=task.dtype, device=task.device)
        self.parameters = list(self.model.parameters())
        self.places = list(task.flat.views(self.vector).values())
        for parameter, place in zip(self.parameters, self.places, strict=True):
            parameter.data = place

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        return 1.0

    @native_kernels()
    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        theta, batch, weights, training, seeds, t = work
        images = self.task.normalised(batch.images)
        labels = batch.labels.to(self.task.device)
        segments = iter(slices(batch.offsets))
        after, losses = theta.clone(), []
        for r, shares in enumerate(weights.tolist()):
            start, total, samples = theta[r], theta.new_zeros(()), 0
            for m, share in enumerate(shares):
                own = next(segments)
                n = own.stop - own.start
                if n == 0:
                    continue
                samples += n
                self.vector.copy_(start)
                if share == 0:
                    total += n * self._loss(images[own], labels[own])
                    continue
                factors = None if batch.factors is None else batch.factors[own]
                steps = schedule(training, seeds[r], m, t, n)
                total += n * self._descend(
                    images[own], labels[own], factors, training, steps
                )
                after[r].add_(self.vector - start, alpha=share)
            losses.append(total / samples)  # 0/0 is nan
        return after, torch.stack(losses)

    def _descend(
        self,
        images: Tensor,
        labels: Tensor,
        factors: Tensor | None,
        training: LocalTraining,
        steps: Iterable[Rows],
    ) -> Tensor:
        """Train the vector on the client's samples; return the mean loss of these
        samples before the training.
        """
        before = None
        if factors is not None or training.batch_size is not None:
            before = self._loss(images, labels)
        velocity = [
            torch.zeros_like(place) for place in self.places if training.momentum
        ]
        for rows in steps:
            weight = None if factors is None else factors[rows]
            with torch.enable_grad():
                loss = mean_loss(self.model(images[rows]), labels[rows], weight)
            if before is None:
                before = loss.detach()
            change = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
            descend(self.places, velocity, change, training)
        assert before is not None  # there is at least one step
        return before

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            return cross_entropy(self.model(images), labels)
