"""The executor `flat` trains any model, client by client, with little overhead. On the
CPU this loop is faster than vmap.

It is for models that `compiled` does not support, and for mini-batches. A round of
LeNet takes 335 ms on one thread, 424 ms with `batched` and 730 ms with a simple loop
(benchmarks/results/executors.json at a7da4c6).
"""

import copy

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining
from headgate.learning.networks import descend
from headgate.simulation.executors.executor import ClientWork, Executor, Work
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
        self.vector = torch.empty(
            task.flat.size,
            dtype=task.dtype,
            device=task.device,
        )
        self.parameters = list(self.model.parameters())
        self.places = list(task.flat.views(self.vector).values())
        for parameter, place in zip(self.parameters, self.places, strict=True):
            parameter.data = place

    @classmethod
    def cost(cls, task: Task, training: LocalTraining) -> float:
        return 1.0

    @native_kernels()
    def train(self, work: Work) -> tuple[Tensor, Tensor]:
        batch = work.batch._replace(
            images=self.task.normalised(work.batch.images),
            labels=work.batch.labels.to(self.task.device),
        )
        work = work._replace(batch=batch)
        shares = work.weights.tolist()
        after, losses = work.theta.clone(), []
        for r, start in enumerate(work.theta):
            total, samples = start.new_zeros(()), 0
            for own in work.clients(r):
                self.vector.copy_(start)
                share = shares[r][own.client]
                if share == 0:
                    loss = self._loss(own.images, own.labels)
                else:
                    loss = self._descend(own, work.training)
                    after[r].add_(self.vector - start, alpha=share)
                total += own.size * loss
                samples += own.size
            losses.append(total / samples)  # 0/0 is nan
        return after, torch.stack(losses)

    def _descend(self, own: ClientWork, training: LocalTraining) -> Tensor:
        """Train the vector on the client's samples; return the mean loss of these
        samples before the training.
        """
        before = None
        if own.factors is not None or training.batch_size is not None:
            before = self._loss(own.images, own.labels)
        velocity = []
        if training.momentum:
            velocity = [torch.zeros_like(place) for place in self.places]
        for rows in own.steps:
            factors = None if own.factors is None else own.factors[rows]
            with torch.enable_grad():
                logits = self.model(own.images[rows])
                loss = mean_loss(logits, own.labels[rows], factors)
            if before is None:
                before = loss.detach()
            change = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
            descend(self.places, velocity, change, training)
        assert before is not None  # there is at least one step
        return before

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            return cross_entropy(self.model(images), labels)
