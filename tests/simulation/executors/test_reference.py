"""The reference against torch.optim.SGD, and against numbers worked out by hand."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from headgate.learning.local import LocalTraining, batch_order
from headgate.simulation.executors.reference import (
    Reference,
    descend,
    empirical_risk,
    local_gradient,
)

from .worlds import (
    MEAN,
    ONE_RUN,
    STD,
    THREE_RUNS,
    assert_same,
    linear,
    tanh_net,
    task_of,
    tiny_convolution,
    world,
)


def by_sgd(given, training, r):
    """Run r as one would write it with torch alone."""
    clients, task, packed = given.weights.shape[1], given.task, given.packed
    update, losses = torch.zeros_like(given.theta[r]), []
    for m in range(clients):
        first, last = (
            packed.offsets[r * clients + m],
            packed.offsets[r * clients + m + 1],
        )
        if first == last:
            continue
        mean, std = (
            torch.tensor(values, dtype=torch.float64).view(-1, 1, 1)
            for values in (MEAN[:2], STD[:2])
        )
        images = (packed.images[first:last].double() / 255 - mean) / std
        labels = packed.labels[first:last]
        factors = (
            torch.ones(len(labels))
            if packed.factors is None
            else packed.factors[first:last]
        )
        model = copy.deepcopy(task.model).double()
        nn.utils.vector_to_parameters(given.theta[r].clone(), model.parameters())
        losses.append(cross_entropy(model(images), labels, reduction="none").detach())
        optimizer = torch.optim.SGD(
            model.parameters(),
            lr=training.lr,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
        )
        for epoch in range(training.steps):
            order = np.arange(len(labels))
            if training.batch_size:
                order = batch_order(given.seeds[r], m, 3, epoch, len(labels))
            for rows in torch.from_numpy(order).split(
                training.batch_size or len(labels)
            ):
                optimizer.zero_grad()
                each = cross_entropy(
                    model(images[rows]), labels[rows], reduction="none"
                )
                (factors[rows] * each).mean().backward()
                optimizer.step()
        local = nn.utils.parameters_to_vector(model.parameters()).detach()
        update += given.weights[r, m] * (local - given.theta[r])
    return given.theta[r] + update, (
        torch.cat(losses).mean() if losses else torch.tensor(float("nan")).double()
    )


@pytest.mark.paper("eq:local-update", "eq:global-aggregation", "eq:local-gd")
@pytest.mark.parametrize(
    ("weighed", "momentum", "weight_decay", "batch_size"),
    [
        *(
            (False, momentum, decay, size)
            for momentum in (0.0, 0.9)
            for decay in (0.0, 0.03)
            for size in (None, 4)
        ),
        (True, 0.0, 0.0, None),
        (True, 0.5, 0.01, 4),
    ],
)
@pytest.mark.parametrize("model", [linear, tiny_convolution])
def test_the_reference_is_sgd_on_each_client_and_a_weighted_sum(
    model, weighed, momentum, weight_decay, batch_size
):
    training = LocalTraining(0.05, 4, momentum, weight_decay, batch_size)
    case = world(model(), THREE_RUNS).weighed(weighed)
    # the loss before is the mean cross-entropy, whatever weight samples have
    after, before = case.advance(Reference(case.task), training)
    for r in range(3):
        assert_same((after[r], before[r]), by_sgd(case, training, r), case.theta[r])


@pytest.mark.paper("eq:local-empirical-risk", "eq:local-gradient", "eq:local-gd")
def test_risk_gradient_and_step_of_a_model_worked_out_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False)).double()
    images, labels = (
        torch.tensor([1.0, -2.0], dtype=torch.float64).view(2, 1, 1, 1),
        torch.tensor([0, 1]),
    )
    theta = torch.tensor([0.5, -0.5], dtype=torch.float64)
    # the logits are ±x/2, so the right class is ahead by 1 for the first sample and by
    # 2 for the second
    wrong = 1 / (1 + np.exp([1.0, 2.0]))
    assert float(empirical_risk(model, theta, images, labels)) == pytest.approx(
        -np.log(1 - wrong).mean(), rel=1e-14
    )
    slope = -(wrong[0] * 1 + wrong[1] * 2) / 2
    gradient = local_gradient(model, theta, images, labels)
    assert gradient.tolist() == pytest.approx([slope, -slope], rel=1e-13)
    training = LocalTraining(lr=0.1, steps=1)
    moved, velocity = descend(
        theta, torch.zeros(2, dtype=torch.float64), gradient, training
    )
    assert torch.equal(moved, theta - 0.1 * gradient)
    assert torch.equal(velocity, gradient)


def test_the_reference_computes_in_float64_whatever_it_is_given():
    case = world(tanh_net(), ONE_RUN, dtype=torch.float32)
    after, loss = case.advance(Reference(case.task), LocalTraining(0.1, 5))
    exact = case._replace(theta=case.theta.double(), weights=case.weights.double())
    exact = exact._replace(task=task_of(case.task.model, dtype=torch.float64))
    expected, expected_loss = exact.advance(
        Reference(exact.task), LocalTraining(0.1, 5)
    )
    assert torch.equal(after, expected.float())
    assert torch.equal(loss, expected_loss.float())
