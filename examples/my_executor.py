"""An executor of one's own: the local steps of every client, one after the other, of
any model.
"""

import torch
from torch.func import functional_call, grad_and_value
from torch.nn.functional import cross_entropy

from headgate.simulation.executors import Executor


class PlainDescent(Executor):
    name = "plain"

    @classmethod
    def cost(cls, task, training):
        more = training.batch_size or training.momentum or training.weight_decay
        return None if more else 3.0

    def train(self, work):
        after, losses, clients = (
            work.theta.clone(),
            torch.zeros(len(work.theta)),
            work.weights.shape[1],
        )
        images, labels = self.task.normalised(work.batch.images), work.batch.labels
        sizes = torch.from_numpy(work.batch.offsets).diff().tolist()
        for segment, (x, y) in enumerate(
            zip(images.split(sizes), labels.split(sizes), strict=True)
        ):
            run, client = divmod(segment, clients)
            local = start = work.theta[run]
            for step in range(work.training.steps if len(y) else 0):
                slope, loss = grad_and_value(self.loss)(local, x, y)
                losses[run] += 0 if step else len(y) * loss
                local = local - work.training.lr * slope
            after[run] += work.weights[run, client] * (local - start)
        return after, losses / torch.tensor(sizes).view(-1, clients).sum(dim=1)

    def loss(self, vector, x, y):
        return cross_entropy(
            functional_call(self.task.model, self.task.flat.views(vector), (x,)), y
        )
