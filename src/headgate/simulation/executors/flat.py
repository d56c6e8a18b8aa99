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

from headgate.learning.local import LocalTraining, schedule
from headgate.learning.networks import ClientSlopes, descend
from headgate.simulation.executors.executor import Executor, Work
from headgate.simulation.executors.types import Task, native_kernels


class FlatLoop(Executor[Task]):
    """Trains all clients with one model, whose parameters are views of one vector that
    is reset for each client.

    The results of a run do not depend on the other runs, to the bit.
    """

    name = "flat"

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
        clients, offsets, shares = (
            weights.shape[1],
            batch.offsets.tolist(),
            weights.tolist(),
        )
        after, losses = theta.clone(), []
        images, labels = (
            self.task.normalised(batch.images),
            batch.labels.to(self.task.device),
        )
        for r, (start, seed) in enumerate(zip(theta, seeds, strict=True)):
            total = theta.new_zeros(())
            for m, share in enumerate(shares[r]):
                own = slice(offsets[r * clients + m], offsets[r * clients + m + 1])
                n = own.stop - own.start
                if n == 0:
                    continue
                self.vector.copy_(start)
                if share == 0:
                    with torch.no_grad():
                        total += n * cross_entropy(self.model(images[own]), labels[own])
                    continue
                factors = None if batch.factors is None else batch.factors[own]
                total += n * self._descend(
                    images[own], labels[own], factors, training, seed, m, t
                )
                after[r].add_(self.vector - start, alpha=share)
            samples = offsets[(r + 1) * clients] - offsets[r * clients]
            losses.append(total / samples)  # 0/0 is nan
        return after, torch.stack(losses)

    def _descend(
        self,
        images: Tensor,
        labels: Tensor,
        factors: Tensor | None,
        training: LocalTraining,
        seed: int,
        client: int,
        t: int,
    ) -> Tensor:
        """Train the vector on the client's samples; return the mean loss of these
        samples before the training.
        """
        before, slopes = None, None
        if not training.plain or training.batch_size is not None:
            with torch.no_grad():
                received = self.model(images)
            before = cross_entropy(received, labels)
            slopes = (
                None
                if training.plain
                else ClientSlopes(training.objective, received, labels, factors)
            )
        velocity = [
            torch.zeros_like(place) for place in self.places if training.momentum
        ]
        for rows in schedule(training, seed, client, t, len(labels)):
            with torch.enable_grad():
                logits = self.model(images[rows])
                loss = cross_entropy(logits, labels[rows]) if slopes is None else logits
            before = loss.detach() if before is None else before
            slope = None if slopes is None else slopes(logits, rows)
            change = torch.autograd.grad(
                loss, self.parameters, slope, materialize_grads=True
            )
            descend(self.places, velocity, change, training)
        assert before is not None  # there is at least one step
        return before
