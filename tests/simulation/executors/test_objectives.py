"""The reference descends other objectives than cross-entropy as a loop over written losses does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call

from headgate.learning.local import LocalTraining, schedule
from headgate.simulation.executors.reference import Reference

from ...learning import losses_written_out as written
from .worlds import OBJECTIVES, linear, tanh_net, world


def by_written_losses(case, training, loss):
    """Client by client, and loss by loss, differentiated by torch; what the server makes of it."""
    task, packed, after = case.task, case.batch_for(training), case.theta.clone()
    said = {name: value for name, value in vars(training.objective).items() if loss is not written.plain}

    def answers(theta, images):
        return functional_call(task.model.double(), task.flat.views(theta), (task.normalised(images),))

    for r, (start, shares) in enumerate(zip(case.theta, case.weights, strict=True)):
        for m, share in enumerate(shares):
            first, last = packed.offsets[r * len(shares) + m : r * len(shares) + m + 2]
            images, labels = packed.images[first:last], packed.labels[first:last].tolist()
            held = np.bincount(labels, minlength=task.classes).tolist() if labels else []
            received = answers(start, images).detach() if labels else None
            local, velocity = start, torch.zeros_like(start)
            for rows in schedule(training, case.seeds[r], m, 3, len(labels)) if labels else ():
                local = local.detach().requires_grad_()
                some = np.arange(len(labels))[rows]
                with torch.enable_grad():
                    logits = answers(local, images[some])
                    losses = [loss(z, received[i], labels[i], held, **said) for z, i in zip(logits, some, strict=True)]
                    factors = [1.0] * len(some) if packed.factors is None else packed.factors[first:last][some].tolist()
                    mean = sum(f * each for f, each in zip(factors, losses, strict=True)) / len(some)
                (gradient,) = torch.autograd.grad(mean, local)
                gradient = gradient + training.weight_decay * local.detach()
                velocity = training.momentum * velocity + gradient
                local = local.detach() - training.lr * velocity
            after[r] += share * (local.detach() - start)
    return after


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("model", [linear, tanh_net])
def test_the_reference_descends_the_loss_that_the_paper_writes(name, model):
    objective, loss = OBJECTIVES[name]
    case = world(model(), [[3, 0, 4]])
    for training in (LocalTraining(0.3, 3), LocalTraining(0.2, 2, 0.5, 0.01, batch_size=2)):
        training = replace(training, objective=objective)
        after, before = case.advance(Reference(case.task), training)
        expected = by_written_losses(case, training, loss)
        assert (after - expected).abs().max() <= 1e-10 * (expected - case.theta).abs().max()
        _, plain = case.advance(Reference(case.task), LocalTraining(0.3, 1))
        torch.testing.assert_close(before, plain)  # the loss of a round is cross-entropy, whatever is minimised
